// docs/network.md is run as it stands; what it says of a failed uplink and of others' traffic is checked against its own reports.
#include "pages.hpp"

using namespace orrery::test;

TEST_CASE("every command of the page on networks runs, and a failed or shared uplink costs step time") {
  const auto page = orrery::document::read_file(std::string(ORRERY_SOURCE_DIR) + "/docs/network.md");
  REQUIRE(page.has_value());
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "orrery-network-page-test";
  std::filesystem::create_directories(folder);
  // The files at the end of the page: from "# NAME" to the next blank line.
  std::istringstream lines(*page);
  std::string name, text;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("    # ")) name = line.substr(6);
    else if (!name.empty() && line.starts_with("    ")) text += line.substr(4) + "\n";
    else if (!name.empty()) {
      REQUIRE(orrery::document::write_file((folder / name).string(), text).has_value());
      name = text = "";
    }
  }
  if (!name.empty()) REQUIRE(orrery::document::write_file((folder / name).string(), text).has_value());
  const std::vector<std::string> list = commands(*page);
  REQUIRE(list.size() >= 8);
  for (const std::string& line : list) CHECK(run_command(line, folder) == 0);
  const auto step = [&](const char* report) {
    const auto json = orrery::document::parse(*orrery::document::read_file((folder / report).string()), report);
    REQUIRE(json);
    return json->at("step").at("time_s").as_double();
  };
  CHECK(step("failed.json") > step("healthy.json"));
  CHECK(step("shared.json") > step("healthy.json"));
  std::filesystem::remove_all(folder);
}
