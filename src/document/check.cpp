#include "check.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "orrery/base/text.hpp"

namespace orrery::document {
namespace {

using Kind = Type::Kind;

std::string number_text(double d) {
  return std::floor(d) == d && std::abs(d) < 1e16 ? fmt::format("{:.0f}", d) : fmt::format("{}", d);
}

std::vector<std::string> words(const Type& type, bool only_built) {
  std::vector<std::string> names;
  for (const Choice& c : type.choices) {
    if (c.built || !only_built) names.push_back(c.name);
  }
  for (const Type& part : type.parts) {
    if (type.kind != Kind::kEither) break;
    if (part.kind == Kind::kBool && part.just_false) names.emplace_back("false");
    for (std::string& name : words(part, only_built)) names.push_back(std::move(name));
  }
  return names;
}

std::string expected(const Type& type) {
  switch (type.kind) {
    case Kind::kBool: return type.just_false ? "false" : "true or false";
    case Kind::kInteger: return "an integer";
    case Kind::kNumber: return "a number";
    case Kind::kString: return "a string";
    case Kind::kChoice: return type.choices.size() == 1 ? fmt::format("\"{}\"", type.choices[0].name) : fmt::format("one of {}", fmt::join(words(type, false), ", "));
    case Kind::kArray: return "an array";
    case Kind::kObject:
    case Kind::kTagged:
    case Kind::kMap: return "an object";
    case Kind::kReference: return "a catalogue name, a path or an object";
    case Kind::kAny: return "a value";
    case Kind::kEither: break;
  }
  std::vector<std::string> parts;
  for (const Type& part : type.parts) parts.push_back(expected(part));
  return fmt::format("{}", fmt::join(parts, ", or "));
}

bool same_json_kind(const Value& value, const Type& type) {
  switch (type.kind) {
    case Kind::kBool: return value.is_bool();
    case Kind::kInteger:
    case Kind::kNumber: return value.is_number();
    case Kind::kString:
    case Kind::kChoice: return value.is_string();
    case Kind::kArray: return value.is_array();
    case Kind::kObject:
    case Kind::kTagged:
    case Kind::kMap: return value.is_object();
    case Kind::kReference: return value.is_string() || value.is_object();
    case Kind::kEither: return std::any_of(type.parts.begin(), type.parts.end(), [&](const Type& part) { return same_json_kind(value, part); });
    case Kind::kAny: return true;
  }
  return false;
}

/// Two values that mean the same number, or are equal.
bool means(const Value& a, const Value& b) {
  return a.is_number() && b.is_number() ? a.as_double() == b.as_double() : a == b;
}

class Checker {
 public:
  Checker(Completeness completeness, Problems& problems) : completeness_(completeness), problems_(problems) {}

  void value(Value& v, const Type& type, const Place& place, const Member* member) {
    if (!type.built) return not_built(v, type, place, member);
    if (!same_json_kind(v, type)) return add(place, fmt::format("expected {}, found {}", expected(type), found(v)));
    switch (type.kind) {
      case Kind::kBool:
        if (type.just_false && v.as_bool()) add(place, fmt::format("expected {}, found true", member != nullptr ? expected(member->type) : expected(type)));
        return;
      case Kind::kInteger: return integer(v, type, place);
      case Kind::kNumber: return number(v, type, place);
      case Kind::kChoice: return word(v, type, place, member);
      case Kind::kArray: return array(v, type, place, member);
      case Kind::kMap:
        for (auto& [name, inner] : v.members()) value(inner, type.parts[0], place.member(name), nullptr);
        return;
      case Kind::kObject: return object(v, type, place);
      case Kind::kTagged: return tagged(v, type, place);
      case Kind::kEither: {
        const auto part = std::find_if(type.parts.begin(), type.parts.end(), [&](const Type& t) { return same_json_kind(v, t); });
        return value(v, *part, place, member);
      }
      case Kind::kString:
      case Kind::kReference:
      case Kind::kAny: return;
    }
  }

 private:
  void add(const Place& place, std::string text) { problems_.add(place.file, place.pointer, std::move(text)); }

  /// `"zb_h1" is not built yet; built are gpipe, 1f1b, interleaved_1f1b`, with as much as the description knows.
  void not_built(const Value& v, const Type& type, const Place& place, const Member* member) {
    std::vector<std::string> built;
    if (member != nullptr && !member->built_values.empty()) {
      for (const Value& b : member->built_values) built.push_back(found(b));
    } else {
      built = words(type, true);
      if (member != nullptr && built.empty()) built = words(member->type, true);
    }
    const std::string what = v.is_object() || v.is_array() ? std::string() : found(v) + " ";
    std::string text = fmt::format("{}is not built yet", what);
    if (built.size() == 1) text += "; built is " + built[0];
    if (built.size() > 1) text += fmt::format("; built are {}", fmt::join(built, ", "));
    add(place, std::move(text));
  }

  void integer(Value& v, const Type& type, const Place& place) {
    if (!v.is_int()) {
      const double d = v.as_double();
      if (std::floor(d) != d) return add(place, fmt::format("expected an integer, found {}", found(v)));
      if (d < type.low || d > type.high) return add(place, out_of_range(v, type, "integers"));
      v = Value(static_cast<std::int64_t>(d));
    }
    const std::int64_t i = v.as_int();
    if (i < static_cast<std::int64_t>(type.low) || i > static_cast<std::int64_t>(type.high)) add(place, out_of_range(v, type, "integers"));
  }

  void number(const Value& v, const Type& type, const Place& place) {
    const double d = v.as_double();
    if (d < type.low || d > type.high || (type.above_low && d == type.low)) add(place, out_of_range(v, type, "numbers"));
  }

  static std::string out_of_range(const Value& v, const Type& type, const char* kind) {
    return fmt::format("{} is out of range; accepted are {} {} {} to {}", found(v), kind, type.above_low ? "above" : "from", number_text(type.low), number_text(type.high));
  }

  void word(const Value& v, const Type& type, const Place& place, const Member* member) {
    const std::string& name = v.as_string();
    const auto it = std::find_if(type.choices.begin(), type.choices.end(), [&](const Choice& c) { return c.name == name; });
    if (it == type.choices.end()) {
      if (type.choices.size() == 1) return add(place, fmt::format("expected {}, found {}", expected(type), found(v)));
      const std::vector<std::string> known = words(type, false);
      std::string hint = did_you_mean(name, known);
      if (hint.empty()) hint = fmt::format("; known are {}", fmt::join(known, ", "));
      return add(place, fmt::format("unknown value {}{}", found(v), hint));
    }
    if (!it->built) not_built(v, type, place, member);
  }

  void array(Value& v, const Type& type, const Place& place, const Member* member) {
    auto& items = v.items();
    if (items.size() < type.shortest || items.size() > type.longest) {
      const std::string accepted = type.shortest == type.longest ? fmt::format("{}", type.shortest)
                                   : type.longest == SIZE_MAX    ? fmt::format("at least {}", type.shortest)
                                                                 : fmt::format("{} to {}", type.shortest, type.longest);
      return add(place, fmt::format("{} items; accepted are {}", items.size(), accepted));
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      value(items[i], type.parts[0], place.item(i), member);
      if (type.all_distinct && std::find(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(i), items[i]) != items.begin() + static_cast<std::ptrdiff_t>(i)) {
        add(place.item(i), fmt::format("{} appears twice", found(items[i])));
      }
    }
  }

  void object(Value& v, const Type& type, const Place& place) {
    if (type.just_one && completeness_ == Completeness::kWhole) {
      const auto stated = std::count_if(v.members().begin(), v.members().end(), [](const auto& m) { return !m.second.is_null(); });
      if (stated != 1) add(place, fmt::format("{} members; exactly one of {} is accepted", stated, fmt::join(names(type.members), ", ")));
    }
    members(v, type.members, {}, type.open, place);
  }

  void tagged(Value& v, const Type& type, const Place& place) {
    const Value& tag = v.at(type.tag);
    std::vector<std::string> known;
    for (const Variant& variant : type.variants) known.push_back(variant.name);
    if (tag.is_null() && type.tag_default.empty()) return add(place.member(type.tag), fmt::format("missing; one of {} is required", fmt::join(known, ", ")));
    // Which variant it is, the document underneath says: the merged whole is checked again.
    if (tag.is_null() && completeness_ == Completeness::kPatch) return members(v, members_of_all(type.variants), type.tag, false, place);
    if (!tag.is_null() && !tag.is_string()) return add(place.member(type.tag), fmt::format("expected one of {}, found {}", fmt::join(known, ", "), found(tag)));
    const auto variant = std::find_if(type.variants.begin(), type.variants.end(), [&](const Variant& x) { return x.name == (tag.is_null() ? type.tag_default : tag.as_string()); });
    if (variant == type.variants.end()) {
      std::string hint = did_you_mean(tag.as_string(), known);
      if (hint.empty()) hint = fmt::format("; known are {}", fmt::join(known, ", "));
      return add(place.member(type.tag), fmt::format("unknown value {}{}", found(tag), hint));
    }
    if (!variant->built) {
      std::erase_if(known, [&](const std::string& name) {
        return std::any_of(type.variants.begin(), type.variants.end(), [&](const Variant& x) { return x.name == name && !x.built; });
      });
      return add(place.member(type.tag), fmt::format("{} is not built yet; built are {}", found(tag), fmt::join(known, ", ")));
    }
    members(v, variant->members, type.tag, false, place);
  }

  void members(Value& v, const std::vector<Member>& known, const std::string& tag, bool open, const Place& place) {
    for (auto& [name, inner] : v.members()) {
      if (!tag.empty() && name == tag) continue;
      const Member* member = find_member(known, name);
      const Place here = place.member(name);
      if (member == nullptr) {
        if (!open) unknown_member(name, known, here);
      } else if (!inner.is_null()) {
        const std::size_t before = problems_.count();
        value(inner, member->type, here, member);
        const auto& built = member->built_values;
        if (problems_.count() == before && !built.empty() && std::none_of(built.begin(), built.end(), [&, &given = inner](const Value& b) { return means(b, given); })) {
          not_built(inner, member->type, here, member);
        }
      }
    }
    if (completeness_ == Completeness::kPatch) return;
    for (const Member& member : known) {
      if (member.is_required && v.at(member.name).is_null()) add(place.member(member.name), fmt::format("missing; {} is required", expected(member.type)));
    }
  }

  void unknown_member(const std::string& name, const std::vector<Member>& known, const Place& place) {
    const std::vector<std::string> all = names(known);
    std::string hint = did_you_mean(name, all);
    if (hint.empty()) hint = fmt::format("; known are {}", fmt::join(all, ", "));
    add(place, "unknown member" + hint);
  }

  static std::vector<std::string> names(const std::vector<Member>& members) {
    std::vector<std::string> all;
    for (const Member& m : members) all.push_back(m.name);
    return all;
  }

  Completeness completeness_;
  Problems& problems_;
};

}  // namespace

std::string found(const Value& value) {
  constexpr std::size_t kLongestQuote = 60;
  if (value.is_null()) return "null";
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  if (value.is_number() && !value.is_int()) return fmt::format("{}", value.as_double());
  std::string text = dump(value, -1);
  if (text.size() > kLongestQuote) text = text.substr(0, kLongestQuote) + "…";
  return text;
}

void check(Value& value, const Type& type, const Place& place, Completeness completeness, Problems& problems) {
  Checker(completeness, problems).value(value, type, place, nullptr);
}

}  // namespace orrery::document
