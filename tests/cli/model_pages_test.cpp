// Every family of models has a page with a picture of a step, and the page's commands run: among them the one that draws the picture.
#include <set>

#include "pages.hpp"

using namespace orrery;
using namespace orrery::test;
namespace fs = std::filesystem;

namespace {

const fs::path kPages = fs::path(ORRERY_SOURCE_DIR) / "docs" / "models";

std::string text(const fs::path& path) {
  const auto read = document::read_file(path.string());
  return read ? *read : std::string();
}

/// Families of the catalogue, and experts as one more.
std::set<std::string> families() {
  std::set<std::string> out;
  const auto names = document::catalogue("model");
  REQUIRE(names);
  for (const std::string& name : *names) {
    const auto model = document::load("model", name, "", "", "");
    REQUIRE(model);
    out.insert(model->value.at("family").as_string());
    if (!model->value.at("moe").is_null()) out.insert("moe");
  }
  return out;
}

}  // namespace

TEST_CASE("every family of models has a page that the index names, with a picture of at most 60 kB") {
  const std::string index = text(kPages / "index.md");
  const std::set<std::string> all = families();
  CHECK(all.size() >= 10);
  for (const std::string& family : all) {
    CAPTURE(family);
    CHECK(index.find("](" + family + ".md)") != std::string::npos);
    const std::string page = text(kPages / (family + ".md")), picture = text(kPages / (family + ".svg"));
    CHECK(page.find("](" + family + ".svg)") != std::string::npos);
    CHECK(page.find("--timeline " + family + ".svg\n") != std::string::npos);
    CHECK(page.find("ource") != std::string::npos);
    CHECK(picture.starts_with("<svg "));
    CHECK(picture.size() <= 60'000);
  }
}

TEST_CASE("every command of the models' pages runs, fits, and draws the picture that it says", "[slow]") {
  const fs::path folder = fs::temp_directory_path() / "orrery-model-pages-test";
  fs::create_directories(folder);
  int pages = 0;
  for (const auto& entry : fs::directory_iterator(kPages)) {
    if (entry.path().extension() != ".md" || entry.path().stem() == "index") continue;
    const std::vector<std::string> list = commands(text(entry.path()));
    CAPTURE(entry.path().string());
    CHECK(list.size() >= 2);
    for (const std::string& line : list) CHECK(run_command(line, folder) == 0);
    const fs::path drawn = folder / (entry.path().stem().string() + ".svg");
    REQUIRE(fs::exists(drawn));
    CHECK(text(drawn).starts_with("<svg "));
    ++pages;
  }
  CHECK(pages >= 10);
  fs::remove_all(folder);
}
