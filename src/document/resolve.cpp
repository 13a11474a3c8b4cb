#include "resolve.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hugging_face/convert.hpp"
#include "orrery/base/text.hpp"
#include "orrery/document/document.hpp"

namespace orrery::document {
namespace {

namespace fs = std::filesystem;

struct Link {
  std::string label;  ///< as the user wrote it
  std::string file;   ///< what it stands for
};
using Chain = std::vector<Link>;

struct Loaded {
  Value value;
  std::string file;
};

class Resolver {
 public:
  explicit Resolver(Problems& problems) : problems_(problems) {}

  std::optional<Value> reference(const DocumentKind& kind, const Value& reference, const Place& place, const std::string& base_dir, const Chain& chain) {
    if (reference.is_object()) return object(kind, reference, place, base_dir, chain);
    if (!reference.is_string()) return refuse(place, fmt::format("expected a catalogue name, a path or an object, found {}", found(reference)));
    std::optional<std::string> file = file_of(kind, reference.as_string(), place, base_dir);
    if (!file) return std::nullopt;
    Chain longer = chain;
    longer.push_back({reference.as_string(), *file});
    const auto same = [&](const Link& link) { return link.file == *file; };
    if (std::any_of(chain.begin(), chain.end(), same)) {
      std::vector<std::string> labels;
      for (const Link& link : longer) labels.push_back(link.label);
      return refuse(place, fmt::format("extends itself: {}", fmt::join(labels, " -> ")));
    }
    std::optional<Value> value = read(kind, *file, reference.as_string(), place);
    if (!value) return std::nullopt;
    return object(kind, *value, {*file, ""}, fs::path(*file).parent_path().string(), longer);
  }

  void references_inside(Value& value, const Type& type, const Place& place, const std::string& base_dir) {
    if (type.kind == Type::Kind::kEither) {
      for (const Type& part : type.parts) references_inside(value, part, place, base_dir);
    }
    if (type.kind != Type::Kind::kObject || !value.is_object()) return;
    for (auto& [name, inner] : value.members()) {
      const Member* member = find_member(type.members, name);
      if (member == nullptr || inner.is_null()) continue;
      if (member->type.kind == Type::Kind::kReference) {
        if (!inner.is_string() && !inner.is_object()) continue;  // check() has said so
        if (auto whole = reference(document_kind(member->type.reference), inner, place.member(name), base_dir, {})) inner = std::move(*whole);
      } else {
        references_inside(inner, member->type, place.member(name), base_dir);
      }
    }
  }

 private:
  std::nullopt_t refuse(const Place& place, std::string text) {
    problems_.add(place.file, place.pointer, std::move(text));
    return std::nullopt;
  }

  std::optional<std::string> file_of(const DocumentKind& kind, const std::string& name, const Place& place, const std::string& base_dir) {
    if (is_path(name)) {
      const fs::path path(name);
      return (path.is_absolute() || base_dir.empty() ? path : fs::path(base_dir) / path).lexically_normal().string();
    }
    const auto directory = config_dir();
    const auto names = catalogue(kind.name);
    if (!directory || !names) {
      problems_.add(directory ? names.error() : directory.error());
      return std::nullopt;
    }
    if (!std::binary_search(names->begin(), names->end(), name)) {
      std::string hint = did_you_mean(name, *names);
      if (names->empty()) hint = fmt::format("; the catalogue {} holds none, set ORRERY_CONFIG_DIR to the folder configs of the source tree", *directory);
      if (hint.empty()) hint = fmt::format("; \"orrery catalog list\" shows the {} known", names->size());
      return refuse(place, fmt::format("unknown {} {}{}", kind.name, found(Value(name)), hint));
    }
    return (fs::path(*directory) / kind.folder / (name + ".json")).string();
  }

  std::optional<Value> read(const DocumentKind& kind, const std::string& file, const std::string& label, const Place& place) {
    const auto text = read_file(file);
    if (!text) return refuse(place, fmt::format("{}: {}", label, text.error().front().text));
    auto value = parse(*text, file);
    if (!value) {
      problems_.add(value.error());
      return std::nullopt;
    }
    if (!value->is_object()) return refuse({file, ""}, fmt::format("expected {} as an object, found {}", kind.title, found(*value)));
    if (value->at("schema").is_null() && value->find("architectures") == nullptr) {
      return refuse({file, "/schema"}, fmt::format("missing; \"orrery/{}/1\" is required", kind.name));
    }
    return std::move(*value);
  }

  std::optional<Value> object(const DocumentKind& kind, Value own, const Place& place, const std::string& base_dir, const Chain& chain) {
    if (kind.name == "model" && is_hugging_face(own)) {
      std::optional<Value> converted = from_hugging_face(own, place, problems_);
      if (!converted) return std::nullopt;
      own = std::move(*converted);
    }
    const std::size_t before = problems_.count();
    const Value extends = own.at("extends");
    const bool extended = !extends.is_null();
    check(own, kind.type(), place, extended ? Completeness::kPatch : Completeness::kWhole, problems_);
    if (!extended) {
      own.erase("extends");
      references_inside(own, kind.type(), place, base_dir);
      return problems_.count() == before ? std::optional(std::move(own)) : std::nullopt;
    }
    std::optional<Value> base;
    if (extends.is_string()) base = reference(kind, extends, place.member("extends"), base_dir, chain);
    own.erase("extends");
    std::vector<std::pair<std::string, Value>> nested = take_references(own, kind.type(), place, base_dir);
    if (!base || problems_.count() != before) return std::nullopt;
    merge(*base, own);
    for (auto& [name, document] : nested) base->set(name, std::move(document));
    finish_patches(*base, kind.type(), place);
    check(*base, kind.type(), place, Completeness::kWhole, problems_);
    return problems_.count() == before ? std::move(base) : std::nullopt;
  }

  /// Members that name another document replace the base's, unless they are an object without `extends`: that one is laid over it, and stays in `own`.
  std::vector<std::pair<std::string, Value>> take_references(Value& own, const Type& type, const Place& place, const std::string& base_dir) {
    std::vector<std::pair<std::string, Value>> taken;
    for (const Member& member : type.members) {
      if (member.type.kind != Type::Kind::kReference) continue;
      Value* stated = own.find(member.name);
      if (stated == nullptr || stated->is_null()) continue;
      const DocumentKind& kind = document_kind(member.type.reference);
      const Place here = place.member(member.name);
      if (stated->is_object() && stated->at("extends").is_null()) {
        stated->erase("extends");
        check(*stated, kind.type(), here, Completeness::kPatch, problems_);
        continue;
      }
      if (auto whole = reference(kind, *stated, here, base_dir, {})) taken.emplace_back(member.name, std::move(*whole));
      own.erase(member.name);
    }
    return taken;
  }

  void finish_patches(Value& merged, const Type& type, const Place& place) {
    for (const Member& member : type.members) {
      if (member.type.kind != Type::Kind::kReference) continue;
      Value* inner = merged.find(member.name);
      if (inner != nullptr && inner->is_object()) check(*inner, document_kind(member.type.reference).type(), place.member(member.name), Completeness::kWhole, problems_);
    }
  }

  Problems& problems_;
};

}  // namespace

bool is_path(std::string_view reference) { return reference.find('/') != std::string_view::npos || reference.ends_with(".json"); }

void merge(Value& base, const Value& patch) {
  if (!base.is_object() || !patch.is_object()) {
    base = patch;
    return;
  }
  for (const auto& [name, value] : patch.members()) {
    if (value.is_null()) {
      base.erase(name);
    } else if (Value* mine = base.find(name)) {
      merge(*mine, value);
    } else {
      base.set(name, value);
    }
  }
}

void resolve_references(Value& value, const Type& type, const Place& place, const std::string& base_dir, Problems& problems) {
  Resolver(problems).references_inside(value, type, place, base_dir);
}

std::optional<Value> resolve_reference(std::string_view kind, const Value& reference, const Place& place, const std::string& base_dir, Problems& problems) {
  return Resolver(problems).reference(document_kind(kind), reference, place, base_dir, {});
}

}  // namespace orrery::document
