// The tutorial is run as it stands: every command line of docs/tutorial.md, in order, in a folder of its own.
#include "pages.hpp"

using namespace orrery::test;

TEST_CASE("every command of the tutorial runs and has an answer") {
  const auto page = orrery::document::read_file(std::string(ORRERY_SOURCE_DIR) + "/docs/tutorial.md");
  REQUIRE(page.has_value());
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "orrery-tutorial-test";
  std::filesystem::create_directories(folder);
  const std::vector<std::string> list = commands(*page);
  REQUIRE(list.size() >= 5);
  for (const std::string& line : list) CHECK(run_command(line, folder) <= 1);
  CHECK(std::filesystem::file_size(folder / "trace.json") > 0);
  CHECK(std::filesystem::file_size(folder / "report.json") > 0);
  std::filesystem::remove_all(folder);
}
