// The description as JSON Schema. Draft 2020-12, kept to keywords that draft 7 reads alike: no keyword stands beside a $ref, arrays have
// one item schema, and definitions are reached by plain pointers.
//
// A document of a kind comes in two forms: whole, and laid over another ("extends"). The second asks for no member and lets any be null,
// all the way down but not inside arrays, which replace. So each kind has two definitions, KIND and KIND_patch.
#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "check.hpp"
#include "orrery/base/text.hpp"
#include "orrery/document/document.hpp"

namespace orrery::document {
namespace {

using Kind = Type::Kind;

Value object_of(Value::Object members) { return Value(std::move(members)); }

Value schema_number(double d) {
  const bool whole = d >= -static_cast<double>(kLargestInteger) && d <= static_cast<double>(kLargestInteger) && d == static_cast<double>(static_cast<std::int64_t>(d));
  return whole ? Value(static_cast<std::int64_t>(d)) : Value(d);
}

/// Accepts null too: in input it means "not stated".
Value or_null(Value schema) {
  if (const Value* type = schema.find("type"); type != nullptr && type->is_string()) {
    schema.set("type", Value::Array{*type, "null"});
    if (Value* words = schema.find("enum")) words->items().emplace_back();
    return schema;
  }
  if (Value* any_of = schema.find("anyOf")) any_of->items().push_back(object_of({{"type", "null"}}));
  return schema;  // {} accepts it already
}

class Writer {
 public:
  Value type(const Type& t, Completeness completeness) {
    switch (t.kind) {
      case Kind::kBool: return t.just_false ? object_of({{"type", "boolean"}, {"enum", Value::Array{false}}}) : object_of({{"type", "boolean"}});
      case Kind::kInteger: return object_of({{"type", "integer"}, {"minimum", schema_number(t.low)}, {"maximum", schema_number(t.high)}});
      case Kind::kNumber: return object_of({{"type", "number"}, {t.above_low ? "exclusiveMinimum" : "minimum", schema_number(t.low)}, {"maximum", schema_number(t.high)}});
      case Kind::kString: return object_of({{"type", "string"}});
      case Kind::kChoice: {
        Value::Array words;
        for (const Choice& c : t.choices) words.emplace_back(c.name);
        return object_of({{"type", "string"}, {"enum", std::move(words)}});
      }
      case Kind::kArray: return array(t);
      case Kind::kMap: return object_of({{"type", "object"}, {"additionalProperties", type(t.parts[0], Completeness::kWhole)}});
      case Kind::kObject: return object(t, completeness);
      case Kind::kTagged: return tagged(t, completeness);
      case Kind::kEither: {
        Value::Array alternatives;
        for (const Type& part : t.parts) alternatives.push_back(type(part, completeness));
        return object_of({{"anyOf", std::move(alternatives)}});
      }
      case Kind::kReference: return reference(t.reference, completeness);
      case Kind::kAny: return object_of({});
    }
    return object_of({});
  }

  /// What a name, a path or an object of a kind may be.
  Value reference(const std::string& kind, Completeness completeness) {
    Value::Array alternatives{object_of({{"type", "string"}})};
    if (completeness == Completeness::kPatch) {
      alternatives.push_back(definition(kind, Completeness::kPatch));
    } else {
      for (Value& form : forms(kind)) alternatives.push_back(std::move(form));
    }
    return object_of({{"anyOf", std::move(alternatives)}});
  }

  /// The object forms of a kind: whole, laid over another, and what we read of other projects.
  Value::Array forms(const std::string& kind) {
    const Value extends = object_of({{"type", "object"}, {"required", Value::Array{"extends"}}, {"properties", object_of({{"extends", object_of({{"type", "string"}})}})}});
    Value::Array all{definition(kind, Completeness::kWhole), object_of({{"allOf", Value::Array{definition(kind, Completeness::kPatch), extends}}})};
    if (kind == "model") {
      all.push_back(object_of({{"type", "object"}, {"description", "a Hugging Face config.json"}, {"required", Value::Array{"architectures"}}, {"not", object_of({{"required", Value::Array{"schema"}}})}}));
    }
    return all;
  }

  [[nodiscard]] Value definitions() {
    Value::Object all;
    for (const std::string& kind : {std::string("model"), std::string("gpu"), std::string("node"), std::string("fabric"), std::string("stack"), std::string("profile"), std::string("schedule")}) {
      if (!used_.contains(kind)) continue;
      const Type& t = document_kind(kind).type();
      all.emplace_back(kind, type(t, Completeness::kWhole));
      all.emplace_back(kind + "_patch", type(t, Completeness::kPatch));
    }
    return Value(std::move(all));
  }
  /// Uses of one kind can bring in another: a node holds a GPU.
  void use(const std::string& kind) {
    if (!used_.insert(kind).second) return;
    for (const Member& m : document_kind(kind).type().members) {
      if (m.type.kind == Kind::kReference) use(m.type.reference);
    }
  }

 private:
  Value definition(const std::string& kind, Completeness completeness) {
    use(kind);
    return object_of({{"$ref", fmt::format("#/$defs/{}{}", kind, completeness == Completeness::kPatch ? "_patch" : "")}});
  }

  Value array(const Type& t) {
    Value schema = object_of({{"type", "array"}, {"items", type(t.parts[0], Completeness::kWhole)}});
    if (t.shortest > 0) schema.set("minItems", static_cast<std::int64_t>(t.shortest));
    if (t.longest != SIZE_MAX) schema.set("maxItems", static_cast<std::int64_t>(t.longest));
    if (t.all_distinct) schema.set("uniqueItems", true);
    return schema;
  }

  Value object(const Type& t, Completeness completeness) {
    Value schema = members(t.members, {}, t.open, completeness);
    if (!t.just_one || completeness == Completeness::kPatch) return schema;
    Value::Array alternatives;
    for (const Member& chosen : t.members) {
      Value::Object properties;
      for (const Member& m : t.members) properties.emplace_back(m.name, m.name == chosen.name ? object_of({{"not", object_of({{"type", "null"}})}}) : object_of({{"type", "null"}}));
      alternatives.push_back(object_of({{"type", "object"}, {"required", Value::Array{chosen.name}}, {"properties", std::move(properties)}}));
    }
    Value::Array all{std::move(schema), object_of({{"anyOf", std::move(alternatives)}})};
    return object_of({{"anyOf", Value::Array{object_of({{"allOf", std::move(all)}})}}});
  }

  Value tagged(const Type& t, Completeness completeness) {
    Value::Array alternatives;
    for (const Variant& variant : t.variants) {
      Value schema = members(variant.members, t.tag, false, completeness);
      schema.set("description", variant.built ? variant.doc : variant.doc + " (not built yet)");
      schema.find("properties")->set(t.tag, object_of({{"type", "string"}, {"enum", Value::Array{variant.name}}}));
      if (!t.tag_default.empty() && (completeness == Completeness::kPatch || variant.name == t.tag_default)) {
        schema.find("properties")->set(t.tag, or_null(*schema.find("properties")->find(t.tag)));
        alternatives.push_back(std::move(schema));
        continue;
      }
      if (schema.find("required") == nullptr) schema.set("required", Value::Array{});
      Value::Array& required = schema.find("required")->items();
      if (std::find(required.begin(), required.end(), Value(t.tag)) == required.end()) required.emplace_back(t.tag);
      alternatives.push_back(std::move(schema));
    }
    return object_of({{"anyOf", std::move(alternatives)}});
  }

  Value members(const std::vector<Member>& members, const std::string& tag, bool open, Completeness completeness) {
    Value::Object properties;
    Value::Array required;
    for (const Member& m : members) {
      const bool must = m.is_required && completeness == Completeness::kWhole;
      if (must) required.emplace_back(m.name);
      if (m.name == tag) continue;
      Value schema = type(m.type, completeness);
      if (m.name == "extends" && completeness == Completeness::kWhole) schema = object_of({{"type", "null"}});
      else if (!must) schema = or_null(std::move(schema));
      std::string doc = m.doc;
      if (!m.type.built) doc += " (not built yet)";
      schema.set("description", std::move(doc));
      if (!m.fallback.is_null()) schema.set("default", m.fallback);
      properties.emplace_back(m.name, std::move(schema));
    }
    Value schema = object_of({{"type", "object"}, {"properties", std::move(properties)}});
    if (!required.empty()) schema.set("required", std::move(required));
    if (!open) schema.set("additionalProperties", false);
    return schema;
  }

  std::set<std::string> used_;
};

bool can_extend(const DocumentKind& kind) { return find_member(kind.type().variants.empty() ? kind.type().members : kind.type().variants.front().members, "extends") != nullptr; }

}  // namespace

std::vector<std::string> schema_names() {
  std::vector<std::string> names;
  for (const DocumentKind& kind : document_kinds()) names.emplace_back(kind.name);
  return names;
}

Result<std::string> schema(std::string_view name) {
  const std::vector<std::string> known = schema_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    std::string hint = did_you_mean(name, known);
    if (hint.empty()) hint = fmt::format("; known are {}", fmt::join(known, ", "));
    return fail("", "", fmt::format("unknown schema {}{}", found(Value(name)), hint));
  }
  const DocumentKind& kind = document_kind(name);
  Writer writer;
  Value root = object_of({{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", fmt::format("orrery/{}/1", name)}});
  if (can_extend(kind)) {  // a file names its format; the same object inside a scenario need not
    root.set("type", "object");
    root.set("anyOf", writer.forms(std::string(name)));
    if (name != "model") {
      root.set("required", Value::Array{"schema"});
      root.set("properties", object_of({{"schema", object_of({{"type", "string"}})}}));
    } else {
      root.set("not", object_of({{"properties", object_of({{"schema", object_of({{"type", "null"}})}, {"architectures", object_of({{"type", "null"}})}})}}));
    }
  } else {
    const Value body = writer.type(kind.type(), Completeness::kWhole);
    for (const auto& [key, value] : body.members()) root.set(key, value);
  }
  if (Value definitions = writer.definitions(); !definitions.members().empty()) root.set("$defs", std::move(definitions));
  return dump(root, 1) + "\n";
}

}  // namespace orrery::document
