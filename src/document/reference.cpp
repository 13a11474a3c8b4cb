// The description as a page for people: docs/file-formats.md.
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "check.hpp"
#include "orrery/document/document.hpp"

namespace orrery::document {
namespace {

using Kind = Type::Kind;

std::string plain_number(double d) {
  if (d == static_cast<double>(kLargestInteger)) return "2^53";
  return found(d == static_cast<double>(static_cast<std::int64_t>(d)) && d < 1e15 && d > -1e15 ? Value(static_cast<std::int64_t>(d)) : Value(d));
}

std::string kind_text(const Type& t);

std::string words_text(const Type& t) {
  std::vector<std::string> built, other;
  for (const Choice& c : t.choices) (c.built ? built : other).push_back(fmt::format("`{}`", c.name));
  std::string text = fmt::format("{}", fmt::join(built, ", "));
  if (!other.empty()) text += fmt::format("{}not built yet: {}", text.empty() ? "" : "; ", fmt::join(other, ", "));
  return text;
}

std::string either_text(const Type& t) {
  std::vector<std::string> parts;
  for (const Type& part : t.parts) parts.push_back(kind_text(part));
  return fmt::format("{}", fmt::join(parts, "; or "));
}

std::string kind_text(const Type& t) {
  std::string text;
  switch (t.kind) {
    case Kind::kBool: text = t.just_false ? "`false`" : "boolean"; break;
    case Kind::kInteger: text = fmt::format("integer, {} to {}", plain_number(t.low), plain_number(t.high)); break;
    case Kind::kNumber: text = t.low == -kLargestNumber && t.high == kLargestNumber ? "number" : fmt::format("number, {} {} to {}", t.above_low ? "above" : "from", plain_number(t.low), plain_number(t.high)); break;
    case Kind::kString: text = "string"; break;
    case Kind::kChoice: text = words_text(t); break;
    case Kind::kObject: text = t.shared_name.empty() ? "object" : fmt::format("[{0}](#{0})", t.shared_name); break;
    case Kind::kTagged: text = "object"; break;
    case Kind::kArray: text = fmt::format("array of: {}", kind_text(t.parts[0])); break;
    case Kind::kMap: text = fmt::format("object, each member: {}", kind_text(t.parts[0])); break;
    case Kind::kEither: text = either_text(t); break;
    case Kind::kReference: text = fmt::format("name, path or object of [{0}](#orrery{0}1)", t.reference); break;
    case Kind::kAny: text = "any"; break;
  }
  return t.built ? text : text + " (not built yet)";
}

void rows(std::string& out, const std::vector<Member>& members, const std::string& prefix);

/// The members of whatever objects a type holds.
void inner_rows(std::string& out, const Type& t, const std::string& prefix) {
  if (!t.shared_name.empty()) return;  // told once, at the end
  if (t.kind == Kind::kObject) rows(out, t.members, prefix + ".");
  if (t.kind == Kind::kArray) inner_rows(out, t.parts[0], prefix + "[]");
  if (t.kind == Kind::kMap) inner_rows(out, t.parts[0], prefix + ".*");
  if (t.kind == Kind::kEither) {
    for (const Type& part : t.parts) inner_rows(out, part, prefix);
  }
  if (t.kind == Kind::kTagged) {
    for (const Variant& v : t.variants) {
      out += fmt::format("| `{}.{}` = `\"{}\"` | | required | {}{} |\n", prefix, t.tag, v.name, v.doc, v.built ? "" : " (not built yet)");
      rows(out, v.members, prefix + ".");
    }
  }
}

std::string default_text(const Member& m) {
  if (m.is_required) return "required";
  std::string text = !m.fallback.is_null() ? fmt::format("`{}`", dump(m.fallback, -1)) : m.fallback_text;
  if (!m.stack_default.empty()) text = fmt::format("the stack's, else {}", text);
  return text;
}

void rows(std::string& out, const std::vector<Member>& members, const std::string& prefix) {
  for (const Member& m : members) {
    std::string doc = m.doc;
    if (!m.built_values.empty()) {
      std::vector<std::string> built;
      for (const Value& v : m.built_values) built.push_back(fmt::format("`{}`", found(v)));
      doc += fmt::format("; built so far: {}", fmt::join(built, ", "));
    }
    out += fmt::format("| `{}{}` | {} | {} | {} |\n", prefix, m.name, kind_text(m.type), default_text(m), doc);
    inner_rows(out, m.type, prefix + m.name);
  }
}

constexpr const char* kHead = "| member | value | default | meaning |\n|---|---|---|---|\n";

/// A kind of document whose members depend on a tag: a table for each variant. What all of them have is told with the first alone.
void variants(std::string& out, const Type& t) {
  const auto everywhere = [&](const Member& m) {
    return std::all_of(t.variants.begin(), t.variants.end(), [&](const Variant& v) {
      const Member* same = find_member(v.members, m.name);
      return same != nullptr && same->doc == m.doc;
    });
  };
  for (const Variant& v : t.variants) {
    const bool first = &v == &t.variants.front();
    std::vector<Member> own = v.members;
    if (!first) std::erase_if(own, everywhere);
    out += fmt::format("{}### {} `{}`\n\n{}{}\n\n{}", first ? "" : "\n", t.tag, v.name, v.doc,
                       v.name == t.tag_default ? fmt::format("; also where no {} is stated.", t.tag) : fmt::format("; beside the members that `{}` has from the first.", t.variants.front().name), kHead);
    rows(out, own, "");
  }
}

/// The shared objects inside a type, by name.
void collect_shared(const Type& t, std::map<std::string, const Type*>& out) {
  if (!t.shared_name.empty()) out.emplace(t.shared_name, &t);
  for (const Member& m : t.members) collect_shared(m.type, out);
  for (const Type& part : t.parts) collect_shared(part, out);
  for (const Variant& v : t.variants) {
    for (const Member& m : v.members) collect_shared(m.type, out);
  }
}

}  // namespace

std::string reference_page() {
  std::string out =
      "# File formats\n\n"
      "<!-- Written by the program from the same tables that its parser and its JSON Schemas are made of; a test compares. -->\n\n"
      "JSON with a `\"schema\"` member; `//` comments are allowed in input. An unknown member is an error. `null` means \"not stated\".\n"
      "What a scenario does not state comes from the stack, else from the default below; the report says which in `defaults_from`.\n"
      "Where a document of another kind is expected, give its catalogue name, a path (it contains `/` or ends in `.json`; relative to the\n"
      "file that holds it) or an object. An object may start from another with `\"extends\"`: objects merge deeply, arrays replace, `null` deletes.\n"
      "`--set PATH=VALUE` changes one member (`a.b` or `/a/b`, numbers index arrays) and leads through catalogue names:\n"
      "`--set cluster.node.gpu.memory_capacity_gib=64`.\n"
      "GB is 1e9 bytes, GiB is 2^30 bytes; bandwidths are per direction; peaks are dense.\n"
      "`orrery schema NAME` prints the JSON Schema of a format.\n";
  for (const DocumentKind& kind : document_kinds()) {
    out += fmt::format("\n## orrery/{}/1\n\n", kind.name);
    if (!kind.folder.empty()) out += fmt::format("Files in `configs/{}/`.\n\n", kind.folder);
    if (!kind.input) out += "Written by the program. What cannot be known is `null`, never absent; readers ignore members they do not know.\n\n";
    if (kind.type().kind == Kind::kTagged) {
      variants(out, kind.type());
      continue;
    }
    out += kHead;
    rows(out, kind.type().members, "");
  }
  std::map<std::string, const Type*> shared;
  for (const DocumentKind& kind : document_kinds()) collect_shared(kind.type(), shared);
  for (const auto& [name, type] : shared) {
    out += fmt::format("\n## {}\n\n{}", name, kHead);
    rows(out, type->members, "");
  }
  return out;
}

}  // namespace orrery::document
