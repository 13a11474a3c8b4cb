// Every member that a scenario may have does something: changed, it changes the resolved scenario, and something reads it. The list of
// members is the schema's own, so a new one without a case here fails.
#include <algorithm>
#include <map>
#include <set>

#include "members.hpp"
#include "road.hpp"

using namespace orrery;
using namespace orrery::test;
using document::Value;

namespace {

/// The leaves of a JSON Schema as the description writes it. What is not built at all says so in its description and is left out.
class Leaves {
 public:
  explicit Leaves(const Value& schema) : definitions_(schema.at("$defs")) { walk(schema, ""); }
  [[nodiscard]] const std::set<std::string>& all() const { return all_; }

 private:
  static bool unbuilt(const Value& node) {
    return node.at("description").is_string() && node.at("description").as_string().find("(not built yet)") != std::string::npos;
  }
  static bool one_word(const Value& property) { return property.at("enum").is_array() && property.at("enum").items().size() == 1 && property.at("enum").items()[0].is_string(); }

  void walk(const Value& node, const std::string& at) {
    if (unbuilt(node)) return;
    if (const Value* ref = node.find("$ref")) {
      const std::string& name = ref->as_string();
      walk(definitions_.at(name.substr(name.rfind('/') + 1)), at);
    } else if (const Value* any_of = node.find("anyOf")) {
      for (const Value& form : any_of->items()) walk(form, at);
    } else if (const Value* all_of = node.find("allOf")) {
      // One of several members, or a document laid over another: the same members as the whole document, which is walked beside it.
      if (all_of->items()[0].find("$ref") == nullptr) walk(all_of->items()[0], at);
    } else if (node.find("properties") != nullptr) {
      members(node, at);
    } else if (const Value* items = node.find("items")) {
      const std::size_t before = all_.size();
      if (items->find("anyOf") != nullptr && !at.ends_with("/sources")) walk(*items, at + "/-");
      if (all_.size() == before) all_.insert(at);
    } else if (node.at("type") != Value("null") && node.at("type") != Value("object")) {
      all_.insert(at);
    }
  }

  void members(const Value& node, const std::string& at) {
    std::string variant, tag;
    for (const auto& [name, property] : node.at("properties").members()) {
      const bool required = node.at("required").is_array() && std::count(node.at("required").items().begin(), node.at("required").items().end(), Value(name)) > 0;
      if (required && one_word(property) && name != "schema" && name != "family") {
        tag = name;
        variant = "/" + property.at("enum").items()[0].as_string();
      }
    }
    for (const auto& [name, property] : node.at("properties").members()) {
      if (name == "schema" || name == "extends") continue;
      if (name == tag) {
        all_.insert(at + "/" + tag);
        continue;
      }
      walk(property, at + variant + "/" + name);
    }
  }

  const Value& definitions_;
  std::set<std::string> all_;
};

/// The pointer to set for a leaf: variants are no members, and of an array the first item is set.
std::string path_of(const std::string& leaf) {
  static const std::set<std::string> variants = {"full", "selective", "slow_gpu", "speed_spread", "degraded_link", "background"};
  std::string path;
  for (std::size_t begin = 1; begin <= leaf.size();) {
    const std::size_t end = std::min(leaf.find('/', begin), leaf.size());
    const std::string word = leaf.substr(begin, end - begin);
    if (!variants.contains(word)) path += "/" + (word == "-" ? "0" : word);
    begin = end + 1;
  }
  return path;
}

Overrides split(const std::string& text) {
  Overrides all;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    all.push_back({one.substr(0, one.find('=')), one.substr(one.find('=') + 1)});
    begin = end + 1;
  }
  return all;
}

/// What was read: the report without the scenario it repeats and without how it was computed, and the table that prints it.
struct Answer {
  Value scenario;
  std::string numbers;
};
Answer answer(const search::Prediction& p) {
  Value report = report_of(p);
  for (const char* member : {"scenario", "defaults_from", "engine"}) report.erase(member);
  return {p.scenario.value, document::dump(report) + report::table({p.summary, p.scenario.value, p.scenario.defaults_from})};
}

const Answer& base_answer(const std::string& base) {
  static std::map<std::string, Answer> known;
  const auto found = known.find(base);
  return found != known.end() ? found->second : known.emplace(base, answer(predict(kSmallJob, split(base)))).first->second;
}

Result<search::Prediction> changed(const std::string& base, const std::string& leaf, const std::string& value) {
  Overrides all = split(base);
  all.push_back({path_of(leaf), value});
  return try_predict(kSmallJob, all);
}

}  // namespace

TEST_CASE("every member of the scenario's schema has a case here, and every case is a member") {
  const Value schema = *document::parse(*document::schema("scenario"), "schema");
  const Leaves leaves(schema);
  CHECK(leaves.all().size() > 220);
  std::multiset<std::string> listed;
  for (const MemberCase& c : member_cases()) listed.insert(c.leaf);
  for (const InformationOnly& c : information_only()) listed.insert(c.leaf);
  for (const OneValue& c : one_value_so_far()) listed.insert(c.leaf);
  for (const std::string& leaf : leaves.all()) {
    INFO(leaf);
    CHECK(listed.count(leaf) == 1);
  }
  for (const std::string& leaf : listed) {
    INFO(leaf);
    CHECK(leaves.all().contains(leaf));
  }
}

TEST_CASE("every member of a scenario, changed, changes the resolved scenario and is read by something") {
  for (const MemberCase& c : member_cases()) {
    INFO(c.leaf << "=" << c.value << " on top of " << c.base);
    const Answer& base = base_answer(c.base);
    const auto other = changed(c.base, c.leaf, c.value);
    if (!c.refusal.empty()) {
      REQUIRE_FALSE(other.has_value());
      CHECK(problems(other.error()).find(c.refusal) != std::string::npos);
      continue;
    }
    INFO((other ? std::string() : problems(other.error())));
    REQUIRE(other.has_value());
    const Answer now = answer(*other);
    const bool resolved = now.scenario != base.scenario, read = now.numbers != base.numbers;  // both are pages long
    CHECK(resolved);
    CHECK(read);
  }
}

TEST_CASE("members for people change the resolved scenario and no number") {
  for (const InformationOnly& c : information_only()) {
    INFO(c.leaf << ": " << c.why);
    const auto other = changed(c.base, c.leaf, c.value);
    INFO((other ? std::string() : problems(other.error())));
    REQUIRE(other.has_value());
    const Answer now = answer(*other);
    const bool resolved = now.scenario != base_answer(c.base).scenario, read = now.numbers != base_answer(c.base).numbers;
    CHECK(resolved);
    CHECK_FALSE(read);
  }
}

TEST_CASE("a member with one built value refuses every other") {
  for (const OneValue& c : one_value_so_far()) {
    INFO(c.leaf << "=" << c.other);
    const auto other = changed("", c.leaf, c.other);
    REQUIRE_FALSE(other.has_value());
    INFO(problems(other.error()));
    CHECK(problems(other.error()).find(c.refusal) != std::string::npos);
  }
}
