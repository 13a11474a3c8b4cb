// The architecture as a test: data moves one way, so an #include that points down the table of modules in CMakeLists.txt fails here.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "catch.h"

namespace fs = std::filesystem;

namespace {

const fs::path kRoot = ORRERY_SOURCE_DIR;

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<fs::path> sources(const fs::path& folder) {
  std::vector<fs::path> all;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
    const auto extension = entry.path().extension();
    if (extension == ".cpp" || extension == ".hpp" || extension == ".cu") all.push_back(entry.path());
  }
  std::sort(all.begin(), all.end());
  return all;
}

struct Module {
  std::string name;
  std::vector<std::string> uses;
};

/// The lines "orrery_module(name uses...)", in order.
std::vector<Module> modules() {
  std::vector<Module> all;
  const std::string text = read(kRoot / "CMakeLists.txt");
  const std::regex line(R"(\norrery_module\(([a-z]+)([a-z ]*)\))");
  for (std::sregex_iterator it(text.begin(), text.end(), line), end; it != end; ++it) {
    Module m{(*it)[1], {}};
    std::istringstream uses((*it)[2]);
    for (std::string use; uses >> use;) m.uses.push_back(use);
    all.push_back(std::move(m));
  }
  return all;
}

/// What each module may include: itself, what its line names, and what those may.
std::map<std::string, std::set<std::string>> allowed() {
  std::map<std::string, std::set<std::string>> all;
  for (const Module& m : modules()) {
    std::set<std::string>& mine = all[m.name];
    mine.insert(m.name);
    for (const std::string& use : m.uses) mine.insert(all[use].begin(), all[use].end());
  }
  return all;
}

/// src/cost/gemm.cpp and include/orrery/cost/cost.hpp belong to cost.
std::string module_of(const fs::path& file) {
  const fs::path relative = fs::relative(file, kRoot);
  auto part = relative.begin();
  std::advance(part, *relative.begin() == "src" ? 1 : 2);
  return part->string();
}

std::vector<std::string> includes(const fs::path& file) {
  std::vector<std::string> all;
  const std::string text = read(file);
  const std::regex line("(?:^|\n)[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]+)[>\"]");
  for (std::sregex_iterator it(text.begin(), text.end(), line), end; it != end; ++it) all.push_back((*it)[1]);
  return all;
}

/// The module that an include names ("orrery/cost/cost.hpp" or, among sources, "cost/rows.hpp"), or "".
std::string target_of(const std::string& include, const std::map<std::string, std::set<std::string>>& known) {
  const std::string path = include.starts_with("orrery/") ? include.substr(7) : include;
  const std::string first = path.substr(0, path.find('/'));
  return path.find('/') != std::string::npos && known.contains(first) ? first : "";
}

std::vector<fs::path> own_sources() {
  std::vector<fs::path> all = sources("src");
  for (fs::path& header : sources("include")) all.push_back(std::move(header));
  return all;
}

}  // namespace

TEST_CASE("every module uses only modules above its own line") {
  std::set<std::string> above;
  for (const Module& m : modules()) {
    for (const std::string& use : m.uses) {
      CAPTURE(m.name, use);
      CHECK(above.contains(use));
    }
    CHECK(above.insert(m.name).second);
  }
  CHECK(above.size() >= 16);
}

TEST_CASE("no #include points down the table of modules") {
  const auto may = allowed();
  std::size_t checked = 0;
  for (const fs::path& file : own_sources()) {
    const std::string module = module_of(file);
    CAPTURE(file.string(), module);
    REQUIRE(may.contains(module));
    for (const std::string& include : includes(file)) {
      CAPTURE(include);
      CHECK(include.find("..") == std::string::npos);
      const std::string target = target_of(include, may);
      if (include.starts_with("orrery/")) CHECK_FALSE(target.empty());
      if (target.empty()) continue;
      CHECK(may.at(module).contains(target));
      ++checked;
    }
  }
  CHECK(checked > 100);
}

TEST_CASE("the rule that an include is held against can fail") {
  const auto may = allowed();
  CHECK_FALSE(may.at("engine").contains("plan"));
  CHECK_FALSE(may.at("engine").contains("document"));
  CHECK_FALSE(may.at("document").contains("cluster"));
  CHECK_FALSE(may.at("collective").contains("document"));
  CHECK(may.at("simulate").contains("document"));
  CHECK(target_of("orrery/plan/plan.hpp", may) == "plan");
  CHECK(target_of("plan/schedules/schedules.hpp", may) == "plan");
  CHECK(target_of("fmt/format.h", may).empty());
}

TEST_CASE("only sources of document and report see the JSON library, and only cli prints, exits or parses options") {
  for (const fs::path& file : own_sources()) {
    const std::string module = module_of(file);
    CAPTURE(file.string());
    for (const std::string& include : includes(file)) {
      CAPTURE(include);
      if (include.starts_with("nlohmann/")) {
        CHECK((module == "document" || module == "report"));
        CHECK(file.extension() == ".cpp");
      }
      if (include.starts_with("CLI/") || include == "iostream") CHECK(module == "cli");
      if (include.starts_with("cuda") || include == "nccl.h") CHECK(module == "measure");
    }
  }
}

TEST_CASE("every header has its guard on the first line") {
  for (const fs::path& file : own_sources()) {
    if (file.extension() != ".hpp") continue;
    CAPTURE(file.string());
    CHECK(read(file).starts_with("#pragma once\n"));
  }
}

TEST_CASE("every header compiles alone, and twice", "[slow]") {
  std::vector<fs::path> headers = own_sources();
  // Those of the back ends that are libraries of their own need a CUDA toolkit or MPI, which may not stand here.
  std::erase_if(headers, [](const fs::path& file) { return file.extension() != ".hpp" || file.string().find("src/measure/plugin/") != std::string::npos; });
  const auto compiles = [](const fs::path& file) {
    const std::string line = "#include \"" + file.string() + "\"";
    const std::string command = "printf '%s\\n' '" + line + "' '" + line + "' | " + ORRERY_CXX + " -std=c++20 -fsyntax-only -x c++ -I'" + (kRoot / "include").string() + "' -I'" +
                                (kRoot / "src").string() + "' - 2>&1";
    return std::system(command.c_str()) == 0;
  };
  for (std::size_t i = 0; i < headers.size(); i += 2) {  // two compilers at a time
    std::future<bool> other;
    if (i + 1 < headers.size()) other = std::async(std::launch::async, compiles, headers[i + 1]);
    CAPTURE(headers[i].string());
    CHECK(compiles(headers[i]));
    if (other.valid()) {
      CAPTURE(headers[i + 1].string());
      CHECK(other.get());
    }
  }
}

TEST_CASE("the files that the reading order lists exist") {
  const fs::path page = kRoot / "docs/reading-order.md";
  if (!fs::exists(page)) {
    WARN("docs/reading-order.md does not exist: nothing to check");
    return;
  }
  const std::string text = read(page);
  const std::regex path(R"(`((?:src|include|configs|docs|tests|benchmarks|scripts|cmake)/[A-Za-z0-9_./+-]+)`)");
  std::size_t listed = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), path), end; it != end; ++it, ++listed) {
    CAPTURE((*it)[1].str());
    CHECK(fs::exists(kRoot / (*it)[1].str()));
  }
  CHECK(listed >= 5);
}
