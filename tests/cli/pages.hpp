#pragma once
// Pages whose commands are run as they stand.
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "catch.h"
#include "orrery/document/document.hpp"

namespace orrery::test {

/// Command lines of a page, in order.
inline std::vector<std::string> commands(const std::string& page) {
  std::vector<std::string> out;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("    orrery ")) out.push_back(line.substr(4));
  }
  return out;
}

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
  return text;
}

/// Runs it in `folder`, configs/ being this project's; checks that it ends with an answer, and gives its exit code.
inline int run_command(const std::string& line, const std::filesystem::path& folder) {
  INFO(line);
  std::string command = replaced(line, "configs/", std::string(ORRERY_SOURCE_DIR) + "/configs/");
  command = std::string(ORRERY_BINARY) + command.substr(std::string("orrery").size());
  const int status = std::system(("cd '" + folder.string() + "' && " + command + " >out.txt 2>err.txt").c_str());
  CHECK(WIFEXITED(status));
  CHECK(std::filesystem::file_size(folder / "out.txt") > 0);
  return WEXITSTATUS(status);
}

}  // namespace orrery::test
