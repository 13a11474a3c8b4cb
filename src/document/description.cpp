#include "description.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "orrery/base/assert.hpp"

namespace orrery::document {
namespace {

Type of(Type::Kind kind) {
  Type t;
  t.kind = kind;
  return t;
}

}  // namespace

Type boolean() { return of(Type::Kind::kBool); }
Type text() { return of(Type::Kind::kString); }
Type any() { return of(Type::Kind::kAny); }

Type just_false() {
  Type t = boolean();
  t.just_false = true;
  return t;
}

Type integer(std::int64_t low, std::int64_t high) {
  Type t = of(Type::Kind::kInteger);
  t.low = static_cast<double>(low);
  t.high = static_cast<double>(high);
  return t;
}

Type number(double low, double high) {
  Type t = of(Type::Kind::kNumber);
  t.low = low;
  t.high = high;
  return t;
}

Type positive(double high) {
  Type t = number(0, high);
  t.above_low = true;
  return t;
}

Type fraction() { return number(0, 1); }

Type choice(std::vector<Choice> choices) {
  Type t = of(Type::Kind::kChoice);
  t.choices = std::move(choices);
  return t;
}

Type object(std::vector<Member> members) {
  Type t = of(Type::Kind::kObject);
  t.members = std::move(members);
  return t;
}

Type open_object(std::vector<Member> members) {
  Type t = object(std::move(members));
  t.open = true;
  return t;
}

Type just_one_of(std::vector<Member> members) {
  Type t = object(std::move(members));
  t.just_one = true;
  return t;
}

Type tagged(std::string tag, std::vector<Variant> variants) {
  Type t = of(Type::Kind::kTagged);
  t.tag = std::move(tag);
  t.variants = std::move(variants);
  return t;
}

Type array(Type item, std::size_t shortest, std::size_t longest) {
  Type t = of(Type::Kind::kArray);
  t.parts.push_back(std::move(item));
  t.shortest = shortest;
  t.longest = longest;
  return t;
}

Type map(Type value) {
  Type t = of(Type::Kind::kMap);
  t.parts.push_back(std::move(value));
  return t;
}

Type either(std::vector<Type> parts) {
  Type t = of(Type::Kind::kEither);
  t.parts = std::move(parts);
  return t;
}

Type reference(std::string kind) {
  Type t = of(Type::Kind::kReference);
  t.reference = std::move(kind);
  return t;
}

Type Type::distinct() const {
  Type t = *this;
  t.all_distinct = true;
  return t;
}

Type not_built(Type type) {
  type.built = false;
  return type;
}

Member member(std::string name, Type type, std::string doc) {
  Member m;
  m.name = std::move(name);
  m.type = std::move(type);
  m.doc = std::move(doc);
  return m;
}

const Member* find_member(const std::vector<Member>& members, std::string_view name) {
  const auto it = std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.name == name; });
  return it == members.end() ? nullptr : &*it;
}

std::vector<Member> members_of_all(const std::vector<Variant>& variants) {
  std::vector<Member> all;
  for (const Variant& v : variants) {
    for (const Member& m : v.members) {
      if (find_member(all, m.name) == nullptr) all.push_back(m);
    }
  }
  return all;
}

std::vector<Member> document_members(std::string_view kind, bool can_extend, std::vector<Member> rest) {
  std::vector<Member> all;
  all.push_back(member("schema", choice({{fmt::format("orrery/{}/1", kind)}}), "the format and its version").otherwise(fmt::format("orrery/{}/1", kind)));
  if (can_extend) {
    all.push_back(member("extends", text(), fmt::format("catalogue name or path of {} that this one starts from: objects merge deeply, arrays replace, null deletes", document_kind(kind).title)));
  }
  std::move(rest.begin(), rest.end(), std::back_inserter(all));
  return all;
}

std::vector<Member> with_sources(std::vector<Member> members) {
  Type entry = object({
      member("what", text(), "which numbers it confirms"),
      member("title", text(), "publication, data sheet or file of a project").required(),
      member("url", text(), "where it stands"),
      member("as_of", text(), "date of what was read"),
  });
  entry.shared_name = "source";
  const Type source = either({text(), entry});
  members.push_back(member("sources", array(source), "where the numbers come from").otherwise(Value::Array()));
  members.push_back(member("unconfirmed", array(text()), "members whose value no source confirms; they count as origin \"default\"").otherwise(Value::Array()));
  members.push_back(member("notes", array(text()), "what a reader of the numbers should know").otherwise(Value::Array()));
  return members;
}

const std::vector<DocumentKind>& document_kinds() {
  static const std::vector<DocumentKind> kinds = {
      {"scenario", "", "a scenario", scenario_type, true},
      {"model", "models", "a model", model_type, true},
      {"gpu", "gpus", "a GPU", gpu_type, true},
      {"node", "nodes", "a node", node_type, true},
      {"fabric", "fabrics", "a fabric", fabric_type, true},
      {"stack", "stacks", "a software stack", stack_type, true},
      {"profile", "calibration", "a calibration profile", profile_type, true},
      {"schedule", "schedules", "a pipeline schedule", schedule_type, true},
      {"measurements", "measurements", "a set of measurements", measurements_type, true},
      {"report", "", "a report", report_type, false},
      {"collective-table", "", "a table of collectives", collective_table_type, false},
      {"score", "", "a score", score_type, false},
      {"run", "", "a training run", run_type, false},
  };
  return kinds;
}

const DocumentKind& document_kind(std::string_view name) {
  const auto& kinds = document_kinds();
  const auto it = std::find_if(kinds.begin(), kinds.end(), [&](const DocumentKind& k) { return k.name == name; });
  ORRERY_ASSERT(it != kinds.end(), "callers name kinds of the table");
  return *it;
}

}  // namespace orrery::document
