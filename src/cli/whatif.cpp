// orrery whatif: a baseline against changed scenarios. Each alternative is the scenario as written with its own --set in order; what
// stands before the first --alternative is one without a name.
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "command.hpp"
#include "common.hpp"

namespace orrery::cli {

namespace {

struct Change {
  std::string name;
  std::vector<document::Override> sets;
};

/// [{"name": "…", "set": {"/parallelism/tp": 4, …}}, …]
Result<std::vector<Change>> read_alternatives(const std::string& path) {
  const auto text = document::read_file(path);
  if (!text) return fail(text.error());
  const auto value = document::parse(*text, path);
  if (!value) return fail(value.error());
  if (!value->is_array()) return fail(path, "", "expected an array of {\"name\", \"set\"}");
  std::vector<Change> changes;
  for (std::size_t i = 0; i < value->items().size(); ++i) {
    const document::Value& item = value->items()[i];
    const std::string here = fmt::format("/{}", i);
    if (!item.is_object() || !item.at("set").is_object()) return fail(path, here, "expected {\"name\": NAME, \"set\": {PATH: VALUE, ...}}");
    if (!item.at("name").is_string()) return fail(path, here + "/name", "expected a name");
    for (const auto& [member, unused] : item.members())
      if (member != "name" && member != "set") return fail(path, fmt::format("{}/{}", here, member), "unknown member; known are name, set");
    Change change{item.at("name").as_string(), {}};
    for (const auto& [set, to] : item.at("set").members()) change.sets.push_back({set, document::dump(to, -1)});
    changes.push_back(std::move(change));
  }
  return changes;
}

class Whatif : public Verb {
 public:
  void define(Arguments arguments) override {
    scenario_.define(arguments);
    output_.define(arguments);
    arguments.repeated("--alternative", names_, "name of an alternative that the --set after it make", "NAME");
    arguments.text("--alternatives", file_, "JSON file of alternatives: [{\"name\", \"set\": {PATH: VALUE}}]", "FILE");
    arguments_ = arguments;
  }

  int run(Streams& s) override {
    const auto changes = read_changes();
    if (!changes) return refused(s, changes.error());
    if (changes->empty()) return usage_error(s, "whatif: nothing is changed; give --set, --alternative or --alternatives");
    const auto text = document::read_file(scenario_.scenario);
    if (!text) return refused(s, text.error());
    const std::string base_dir = scenario_.scenario == "-" ? std::string() : std::filesystem::path(scenario_.scenario).parent_path().string();

    ScenarioOptions plain = scenario_;
    plain.sets.clear();
    const auto common = plain.overrides();
    if (!common) return refused(s, common.error());
    std::vector<Result<document::Document>> documents;
    documents.push_back(document::load_scenario_text(*text, scenario_.scenario, base_dir, *common));
    if (!documents[0]) return refused(s, documents[0].error());
    for (const Change& c : *changes) {
      std::vector<document::Override> sets = c.sets;
      sets.insert(sets.end(), common->begin(), common->end());
      documents.push_back(document::load_scenario_text(*text, scenario_.scenario, base_dir, sets));
    }
    return compare(s, *changes, documents);
  }

 private:
  /// The command line's alternatives in its own order, then the file's.
  Result<std::vector<Change>> read_changes() const {
    std::vector<Change> changes;
    std::size_t set = 0, name = 0;
    for (const std::string& option : arguments_->order()) {
      if (option == "--alternative") {
        changes.push_back({names_[name++], {}});
      } else if (option == "--set") {
        auto one = read_set(scenario_.sets[set++]);
        if (!one) return fail(one.error());
        if (changes.empty()) changes.push_back({"", {}});
        changes.back().sets.push_back(std::move(*one));
      }
    }
    if (!changes.empty() && changes[0].name.empty()) {
      std::vector<std::string> words;
      for (const document::Override& o : changes[0].sets) words.push_back(fmt::format("{}={}", o.path, o.value));
      changes[0].name = fmt::format("{}", fmt::join(words, " "));
    }
    if (!file_.empty()) {
      auto more = read_alternatives(file_);
      if (!more) return more;
      changes.insert(changes.end(), more->begin(), more->end());
    }
    return changes;
  }

  int compare(Streams& s, const std::vector<Change>& changes, const std::vector<Result<document::Document>>& documents) const {
    std::vector<document::Document> sound;
    for (const auto& d : documents)
      if (d) sound.push_back(*d);
    std::vector<Result<search::Prediction>> answers = search::predict_all(sound, scenario_.options(), static_cast<int>(output_.threads));
    if (!answers[0]) return refused(s, answers[0].error());

    std::vector<report::Subject> subjects;
    subjects.reserve(answers.size());
    std::vector<report::Alternative> alternatives;
    std::size_t next = 1;
    const report::Subject baseline = subject(*answers[0]);
    for (std::size_t i = 0; i < changes.size(); ++i) {
      report::Alternative a{changes[i].name, nullptr, {}};
      if (!documents[i + 1]) {
        a.problems = documents[i + 1].error();
      } else if (const auto& answer = answers[next++]; answer) {
        subjects.push_back(subject(*answer));
        a.subject = &subjects.back();
      } else {
        a.problems = answer.error();
      }
      alternatives.push_back(std::move(a));
    }
    print_warnings(s, output_, answers[0]->summary.warnings, documents[0]->file);
    if (const int code = deliver(s, output_, report::whatif_json(baseline, alternatives), report::whatif_table(baseline, alternatives)); code != kSuccess) return code;
    return scenario_.strict ? strict_verdict(s, answers[0]->summary) : kSuccess;
  }

  ScenarioOptions scenario_;
  OutputOptions output_;
  std::vector<std::string> names_;
  std::string file_;
  std::optional<Arguments> arguments_;
};

}  // namespace

std::unique_ptr<Verb> make_whatif() { return std::make_unique<Whatif>(); }

}  // namespace orrery::cli
