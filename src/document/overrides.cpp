#include "overrides.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "check.hpp"
#include "orrery/base/text.hpp"

namespace orrery::document {
namespace {

using Kind = Type::Kind;
constexpr const char* kFile = "--set";

/// "/a/b" (RFC 6901) or "a.b".
std::vector<std::string> tokens(std::string_view path) {
  const bool pointer = path.starts_with('/');
  const char separator = pointer ? '/' : '.';
  if (pointer) path.remove_prefix(1);
  std::vector<std::string> all(1);
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == separator) {
      all.emplace_back();
    } else if (pointer && path[i] == '~' && i + 1 < path.size() && (path[i + 1] == '0' || path[i + 1] == '1')) {
      all.back() += path[++i] == '0' ? '~' : '/';
    } else {
      all.back() += path[i];
    }
  }
  return all;
}

/// Every member that an object of this type may have: of all variants and alternatives.
std::vector<const Member*> all_members(const Type& type) {
  std::vector<const Member*> all;
  for (const Member& m : type.members) all.push_back(&m);
  for (const Variant& v : type.variants) {
    for (const Member& m : v.members) all.push_back(&m);
  }
  if (type.kind == Kind::kEither) {
    for (const Type& part : type.parts) {
      for (const Member* m : all_members(part)) all.push_back(m);
    }
  }
  return all;
}

const Type* array_part(const Type& type) {
  if (type.kind == Kind::kArray) return &type.parts[0];
  if (type.kind != Kind::kEither) return nullptr;
  const auto it = std::find_if(type.parts.begin(), type.parts.end(), [](const Type& part) { return part.kind == Kind::kArray; });
  return it == type.parts.end() ? nullptr : &it->parts[0];
}

class Setter {
 public:
  explicit Setter(Problems& problems) : problems_(problems) {}

  void set(Value& target, const Type& type, const std::vector<std::string>& path, std::size_t at, const Place& place, const Value& value, const Member* member) {
    if (at == path.size()) {
      target = value;
      return;
    }
    const std::string& token = path[at];
    const Place here = place.member(token);
    if (type.kind == Kind::kReference) {
      become_object(target, member);
      return set(target, document_kind(type.reference).type(), path, at, place, value, nullptr);
    }
    if (const Type* item = array_part(type); item != nullptr && (target.is_array() || all_members(type).empty())) {
      return set_item(target, *item, path, at, here, value, member);
    }
    if (type.kind == Kind::kMap) {
      if (!target.is_object()) target = Value(Value::Object());
      return set_member(target, type.parts[0], path, at, here, value, nullptr);
    }
    if (type.kind == Kind::kAny) return add(here, "unknown member; what is below it is not built yet");
    const std::vector<const Member*> known = all_members(type);
    const auto found_member = std::find_if(known.begin(), known.end(), [&](const Member* m) { return m->name == token; });
    const bool is_tag = has_tag(type, token);
    if (found_member == known.end() && !is_tag) return unknown(type, known, token, here);
    if (!target.is_object()) target = Value(Value::Object());
    if (is_tag) {
      if (at + 1 != path.size()) return add(here, "has no members");
      target.set(token, value);
      return;
    }
    set_member(target, (*found_member)->type, path, at, here, value, *found_member);
  }

 private:
  void add(const Place& place, std::string text) { problems_.add(place.file, place.pointer, std::move(text)); }

  static bool has_tag(const Type& type, const std::string& token) {
    if (type.kind == Kind::kTagged) return type.tag == token;
    return type.kind == Kind::kEither && std::any_of(type.parts.begin(), type.parts.end(), [&](const Type& part) { return has_tag(part, token); });
  }

  /// A name becomes {"extends": name}; what is not stated becomes the default's.
  static void become_object(Value& target, const Member* member) {
    if (target.is_object()) return;
    Value name = target;
    if (!name.is_string() && member != nullptr) name = member->fallback;
    target = Value(Value::Object());
    if (name.is_string()) target.set("extends", std::move(name));
  }

  void set_member(Value& target, const Type& type, const std::vector<std::string>& path, std::size_t at, const Place& here, const Value& value, const Member* member) {
    Value* inner = target.find(path[at]);
    if (inner == nullptr) inner = &target.set(path[at], Value());
    set(*inner, type, path, at + 1, here, value, member);
  }

  void set_item(Value& target, const Type& item, const std::vector<std::string>& path, std::size_t at, const Place& here, const Value& value, const Member* member) {
    const std::string& token = path[at];
    std::size_t index = 0;
    const auto [stop, error] = std::from_chars(token.data(), token.data() + token.size(), index);
    const std::size_t size = target.is_array() ? target.items().size() : 0;
    if (error != std::errc() || stop != token.data() + token.size()) return add(here, fmt::format("expected an index into the array, found {}", found(Value(token))));
    if (index >= size) return add(here, fmt::format("the array has {} items; to add one, set the whole array", size));
    if (at + 1 == path.size() && value.is_null()) {
      target.items().erase(target.items().begin() + static_cast<std::ptrdiff_t>(index));
      return;
    }
    set(target.items()[index], item, path, at + 1, here, value, member);
  }

  void unknown(const Type& type, const std::vector<const Member*>& known, const std::string& token, const Place& here) {
    if (known.empty() && type.kind != Kind::kObject) return add(here, "unknown member; the value above it has none");
    std::vector<std::string> names;
    for (const Member* m : known) names.push_back(m->name);
    std::string hint = did_you_mean(token, names);
    if (hint.empty()) hint = fmt::format("; known are {}", fmt::join(names, ", "));
    add(here, "unknown member" + hint);
  }

  Problems& problems_;
};

}  // namespace

void apply_overrides(Value& document, const Type& type, std::span<const Override> overrides, Problems& problems) {
  for (const Override& o : overrides) {
    if (o.path.empty() || o.path == "/") {
      problems.add(kFile, "", "a path is empty; give PATH=VALUE, as in training.micro_batch=2");
      continue;
    }
    const auto json = parse(o.value, kFile);
    Setter(problems).set(document, type, tokens(o.path), 0, {kFile, ""}, json ? *json : Value(o.value), nullptr);
  }
}

}  // namespace orrery::document
