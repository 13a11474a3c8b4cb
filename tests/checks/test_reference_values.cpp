// The table of reference values tells the truth: it is complete, a file that is named checks what it is named for, and nothing is called
// "later" that is tested already.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "catch.h"
#include "reference_values.hpp"

using namespace orrery::test;

namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// All test sources but this table, by path under tests/.
std::map<std::string, std::string> sources() {
  const std::filesystem::path tests = std::filesystem::path(ORRERY_SOURCE_DIR) / "tests";
  std::map<std::string, std::string> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(tests)) {
    if (entry.path().extension() == ".cpp" && entry.path().filename() != "reference_values.cpp") all[std::filesystem::relative(entry.path(), tests).string()] = text_of(entry.path());
  }
  return all;
}

}  // namespace

TEST_CASE("each of the 174 reference values is tested by the file that the table names, or waits for something with a name") {
  const auto files = sources();
  std::set<std::string> ids;
  int tested = 0;
  for (const ReferenceValue& v : reference_values()) {
    INFO(v.id);
    CHECK(ids.insert(v.id).second);
    CHECK(v.file.empty() != v.later.empty());
    const std::string quoted = '"' + v.id + '"';
    if (v.file.empty()) {
      for (const auto& [path, text] : files) {
        INFO(path);
        CHECK(text.find(quoted) == std::string::npos);
      }
    } else {
      ++tested;
      const auto file = files.find(v.file);
      REQUIRE(file != files.end());
      const bool named = file->second.find(quoted) != std::string::npos || file->second.find('"' + v.id + ':') != std::string::npos;
      CHECK(named);
    }
  }
  CHECK(ids.size() == 174);
  CHECK(tested == 152);
}

TEST_CASE("every reference value of matrix products and of launching is tested") {
  for (const ReferenceValue& v : reference_values()) {
    if (v.id.starts_with("gemm.") || v.id.starts_with("sw.")) {
      INFO(v.id);
      CHECK_FALSE(v.file.empty());
    }
  }
}
