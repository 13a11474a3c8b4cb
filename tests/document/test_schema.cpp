// The parser, the schema and the reference page come from one description; here they are held against each other, with two validators
// that we did not write.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <nlohmann/json.hpp>
#include <rapidcheck.h>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "catch.h"
#include "document/description.hpp"
#include "orrery/document/document.hpp"
#include "scenarios.hpp"
#include "temporary.hpp"

using namespace orrery;
using document::Value;

namespace {

class Schema {
 public:
  explicit Schema(std::string_view name) : text_(nlohmann::json::parse(document::schema(name).value())) {
    valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
    const valijson::adapters::NlohmannJsonAdapter adapter(text_);
    parser.populateSchema(adapter, schema_);
  }
  [[nodiscard]] bool accepts(const std::string& text) const {
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, true, true);
    const valijson::adapters::NlohmannJsonAdapter adapter(json);
    valijson::Validator validator;
    return validator.validate(schema_, adapter, nullptr);
  }

 private:
  nlohmann::json text_;
  valijson::Schema schema_;
};

struct Shipped {
  std::string kind, name, path;
};

std::vector<Shipped> shipped() {
  std::vector<Shipped> all;
  const std::string root = document::config_dir().value();
  for (const document::DocumentKind& kind : document::document_kinds()) {
    if (kind.folder.empty()) continue;
    const auto names = document::catalogue(kind.name);
    for (const std::string& name : *names) all.push_back({std::string(kind.name), name, root + "/" + std::string(kind.folder) + "/" + name + ".json"});
  }
  return all;
}

/// Scenarios that the project ships.
std::vector<std::string> shipped_scenarios() {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(document::config_dir().value() + "/scenarios")) all.push_back(entry.path().string());
  std::sort(all.begin(), all.end());
  return all;
}

const char* const kVariedJob = R"(, "name": "varied", "seed": 7, "calibration": ["a", "b.json"], "parallelism": {"tp": 2, "pp": 2, "vp": 2, "zero": 1, "dp": 4,
  "order": ["tp", "cp", "ep", "pp", "dp"], "overlap": {"tp": false, "grad_reduce": false}, "layers_per_stage": [1, 1, 1, 1], "p2p": null},
  "events": [{"kind": "slow_gpu", "rank": 1, "speed": 0.5}, {"kind": "background", "link": "leaf0/up1", "gb_per_s": 3}])";

}  // namespace

TEST_CASE("valijson accepts every shipped file under the printed schema") {
  std::map<std::string, Schema> schemas;
  for (const Shipped& file : shipped()) {
    CAPTURE(file.path);
    const auto schema = schemas.try_emplace(file.kind, file.kind).first;
    CHECK(schema->second.accepts(document::read_file(file.path).value()));
  }
  const Schema scenario("scenario");
  CHECK(shipped_scenarios().size() >= 5);
  for (const std::string& path : shipped_scenarios()) {
    CAPTURE(path);
    CHECK(scenario.accepts(document::read_file(path).value()));
    CHECK(document::load_scenario(path, {}).has_value());
  }
  CHECK(scenario.accepts(test::scenario()));
  CHECK(scenario.accepts(test::scenario(kVariedJob)));
  CHECK_FALSE(scenario.accepts("{}"));
}

TEST_CASE("python3-jsonschema accepts every shipped file under the printed schema", "[slow]") {
  if (std::system("/usr/bin/python3 -c 'import jsonschema' 2>/dev/null") != 0) {
    WARN("python3-jsonschema is not installed: this check is skipped (apt-get install python3-jsonschema)");
    return;
  }
  const test::TemporaryFolder folder;
  std::map<std::string, std::string> instances;
  for (const Shipped& file : shipped()) instances[file.kind] += " -i '" + file.path + "'";
  for (const std::string& path : shipped_scenarios()) {  // Python's reader knows no comments
    const std::string plain = document::dump(document::parse(document::read_file(path).value(), path).value());
    instances["scenario"] += " -i '" + folder.write(std::filesystem::path(path).filename().string(), plain) + "'";
  }
  instances["scenario"] += " -i '" + folder.write("a.json", test::scenario()) + "' -i '" + folder.write("b.json", test::scenario(kVariedJob)) + "'";
  for (const auto& [kind, files] : instances) {
    CAPTURE(kind);
    const std::string schema = folder.write(kind + ".schema", document::schema(kind).value());
    CHECK(std::system(("/usr/bin/python3 -W ignore -m jsonschema" + files + " '" + schema + "'").c_str()) == 0);
    CHECK(std::system(("/usr/bin/python3 -W ignore -m jsonschema -V Draft7Validator" + files + " '" + schema + "'").c_str()) == 0);
  }
  const std::string bad = folder.write("bad.json", "{}");
  CHECK(std::system(("/usr/bin/python3 -W ignore -m jsonschema -i '" + bad + "' '" + folder.path("scenario.schema") + "' 2>/dev/null").c_str()) != 0);
}

TEST_CASE("every schema name prints a schema, and other names are refused") {
  for (const std::string& name : document::schema_names()) {
    CAPTURE(name);
    const auto text = document::schema(name);
    REQUIRE(text.has_value());
    const auto value = document::parse(*text, name);
    REQUIRE(value.has_value());
    CHECK(value->at("title") == Value("orrery/" + name + "/1"));
  }
  CHECK(document::schema("scenaro").error().front().text == "unknown schema \"scenaro\"; did you mean \"scenario\"?");
  CHECK(document::schema("nonsense").error().front().text ==
        "unknown schema \"nonsense\"; known are scenario, model, gpu, node, fabric, stack, profile, schedule, measurements, report, collective-table, score, run");
}

TEST_CASE("the committed reference page is what the description prints") {
  const std::string page = document::reference_page();
  const auto committed = document::read_file(std::string(ORRERY_SOURCE_DIR) + "/docs/file-formats.md");
  REQUIRE(committed.has_value());
  const bool same = page == *committed;
  if (!same) {  // what to commit instead
    const std::string fresh = "file-formats.md";
    REQUIRE(document::write_file(fresh, page).has_value());
    UNSCOPED_INFO("the page is out of date; " + fresh + " in the current folder is the new one");
  }
  CHECK(same);
}

namespace {

/// Pointers to every value inside.
void places(const Value& v, const std::string& pointer, std::vector<std::string>& out) {
  if (!pointer.empty()) out.push_back(pointer);
  if (v.is_object()) {
    for (const auto& [name, inner] : v.members()) places(inner, pointer + "/" + name, out);
  } else if (v.is_array()) {
    for (std::size_t i = 0; i < v.items().size(); ++i) places(v.items()[i], pointer + "/" + std::to_string(i), out);
  }
}

/// One random change: another value, another name, or gone.
std::string mutate(Value& document) {
  std::vector<std::string> all;
  places(document, "", all);
  const std::string pointer = *rc::gen::elementOf(all);
  const std::size_t slash = pointer.rfind('/');
  Value& parent = *document.resolve(pointer.substr(0, slash));
  const std::string name = pointer.substr(slash + 1);
  const int action = *rc::gen::inRange(0, 4);
  if (action == 0 && parent.is_object()) {
    parent.erase(name);
    return pointer + " is gone";
  }
  if (action == 1 && parent.is_object()) {
    const Value inner = parent.at(name);
    parent.erase(name);
    parent.set(name + "x", inner);
    return pointer + " is renamed";
  }
  const std::vector<Value> others = {Value(), Value(true), Value(false), Value(0), Value(1), Value(-1), Value(3), Value(1.5), Value(-0.25), Value(std::int64_t{1} << 60), Value(1e30), Value(""),
                                     Value("none"), Value("fp16"), Value("full"), Value("zz"), Value(Value::Array()), Value(Value::Array{1, "a"}), Value(Value::Object()),
                                     Value(Value::Object{{"mode", "full"}}), Value(Value::Object{{"ecmp", Value::Object()}}), Value(Value::Object{{"kind", "speed_spread"}, {"cv", 0.1}})};
  *document.resolve(pointer) = *rc::gen::elementOf(others);
  return pointer + " is " + document::dump(*document.resolve(pointer), -1);
}

/// What a schema cannot know: what is built, what the catalogue and the disk hold, and what `extends` makes of two documents.
bool beyond_schema(const Diagnostics& problems) {
  for (const Diagnostic& d : problems) {
    const bool look_up = d.text.starts_with("unknown model ") || d.text.starts_with("unknown gpu ") || d.text.starts_with("unknown node ") || d.text.starts_with("unknown fabric ") ||
                         d.text.starts_with("unknown stack ") || d.text.find("cannot be read") != std::string::npos;
    if (!look_up && d.text.find("not built yet") == std::string::npos) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("the parser accepts a changed scenario exactly where the schema does") {
  const Schema schema("scenario");
  CHECK(rc::check("scenario", [&] {
    Value document = document::parse(test::scenario(*rc::gen::arbitrary<bool>() ? kVariedJob : ""), "t").value();
    const int changes = *rc::gen::inRange(1, 4);
    std::string what;
    for (int i = 0; i < changes; ++i) what += mutate(document) + "; ";
    const std::string text = document::dump(document);
    const auto loaded = document::load_scenario_text(text, "job.json", "", {});
    const bool accepted = loaded.has_value() || beyond_schema(loaded.error());
    if (accepted != schema.accepts(text)) RC_FAIL(what + (loaded ? "accepted by the parser only" : accepted ? "accepted by the parser only" : to_string(loaded.error().front())));
  }));
}

TEST_CASE("the parser accepts a changed catalogue file exactly where the schema does", "[slow]") {
  std::map<std::string, Schema> schemas;
  std::vector<Shipped> files = shipped();
  std::erase_if(files, [](const Shipped& f) { return document::parse(document::read_file(f.path).value(), f.path).value().find("extends") != nullptr; });
  for (const Shipped& file : files) schemas.try_emplace(file.kind, file.kind);
  const test::TemporaryFolder folder;
  CHECK(rc::check("catalogue", [&] {
    const Shipped file = *rc::gen::elementOf(files);
    Value document = document::parse(document::read_file(file.path).value(), "t").value();
    std::string what = file.path + ": ";
    const int changes = *rc::gen::inRange(1, 3);
    for (int i = 0; i < changes; ++i) what += mutate(document) + "; ";
    const std::string text = document::dump(document);
    const auto loaded = document::load(file.kind, Value(folder.write("changed.json", text)), "job.json", "", "");
    const bool accepted = loaded.has_value() || beyond_schema(loaded.error());
    if (accepted != schemas.at(file.kind).accepts(text)) RC_FAIL(what + (loaded || accepted ? "accepted by the parser only" : to_string(loaded.error().front())));
  }));
}
