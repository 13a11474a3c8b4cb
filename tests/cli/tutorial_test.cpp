// The tutorial is run as it stands: every command line of docs/tutorial.md, in order, in a folder of its own.
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "catch.h"
#include "orrery/document/document.hpp"

namespace {

std::vector<std::string> commands(const std::string& page) {
  std::vector<std::string> out;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("    orrery ")) out.push_back(line.substr(4));
  }
  return out;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
  return text;
}

}  // namespace

TEST_CASE("every command of the tutorial runs and has an answer") {
  const std::string source = ORRERY_SOURCE_DIR;
  const auto page = orrery::document::read_file(source + "/docs/tutorial.md");
  REQUIRE(page.has_value());
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "orrery-tutorial-test";
  std::filesystem::create_directories(folder);
  const std::vector<std::string> list = commands(*page);
  REQUIRE(list.size() >= 5);
  for (const std::string& line : list) {
    std::string command = replaced(line, "configs/", source + "/configs/");
    command = std::string(ORRERY_BINARY) + command.substr(std::string("orrery").size());
    INFO(line);
    const int status = std::system(("cd '" + folder.string() + "' && " + command + " >out.txt 2>err.txt").c_str());
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) <= 1);
    CHECK(std::filesystem::file_size(folder / "out.txt") > 0);
  }
  CHECK(std::filesystem::file_size(folder / "trace.json") > 0);
  CHECK(std::filesystem::file_size(folder / "report.json") > 0);
  std::filesystem::remove_all(folder);
}
