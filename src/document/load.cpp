#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "check.hpp"
#include "defaults.hpp"
#include "orrery/base/text.hpp"
#include "orrery/document/document.hpp"
#include "overrides.hpp"
#include "resolve.hpp"

namespace orrery::document {
namespace {

/// One warning per part that has members which no source confirms.
void warn_unconfirmed(const Value& part, const std::string& file, const std::string& pointer, Diagnostics& warnings) {
  const Value& unconfirmed = part.at("unconfirmed");
  if (!unconfirmed.is_array() || unconfirmed.items().empty()) return;
  std::vector<std::string> names;
  for (const Value& name : unconfirmed.items()) names.push_back(name.as_string());
  warnings.push_back({file, pointer, fmt::format("no source confirms {}", fmt::join(names, ", "))});
}

Document finish(Value value, const Type& type, const std::string& pointer, const std::string& file) {
  Document document;
  document.file = file;
  document.value = std::move(value);
  fill_defaults(document.value, type, pointer, Value(), document.defaults_from);
  return document;
}

std::optional<Diagnostics> refuse_kind(std::string_view kind) {
  std::vector<std::string> known;
  for (const DocumentKind& k : document_kinds()) {
    if (!k.folder.empty()) known.emplace_back(k.name);
  }
  if (std::find(known.begin(), known.end(), kind) != known.end()) return std::nullopt;
  std::string hint = did_you_mean(kind, known);
  if (hint.empty()) hint = fmt::format("; known are {}", fmt::join(known, ", "));
  return Diagnostics{{"", "", fmt::format("unknown kind {}{}", found(Value(kind)), hint)}};
}

}  // namespace

Result<std::vector<std::string>> catalogue(std::string_view kind) {
  namespace fs = std::filesystem;
  if (auto refused = refuse_kind(kind)) return fail(std::move(*refused));
  const auto directory = config_dir();
  if (!directory) return fail(directory.error());
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(*directory) / document_kind(kind).folder, error)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<Document> load(std::string_view kind, const Value& name_path_or_object, const std::string& file, const std::string& pointer, const std::string& base_dir) {
  if (auto refused = refuse_kind(kind)) return fail(std::move(*refused));
  Problems problems;
  auto value = resolve_reference(kind, name_path_or_object, {file, pointer}, base_dir, problems);
  if (!value) return fail(problems.list());
  Document document = finish(std::move(*value), document_kind(kind).type(), pointer, file);
  if (kind == "model") derive_model(document.value, pointer, document.defaults_from);
  document.warnings = problems.warnings();
  warn_unconfirmed(document.value, file, pointer, document.warnings);
  if (kind == "node") warn_unconfirmed(document.value.at("gpu"), file, pointer + "/gpu", document.warnings);
  std::sort(document.defaults_from.begin(), document.defaults_from.end());
  return document;
}

Result<Document> load_scenario_text(std::string_view text, const std::string& file, const std::string& base_dir, std::span<const Override> overrides) {
  auto value = parse(text, file);
  if (!value) return fail(value.error());
  Problems problems;
  const Type& type = scenario_type();
  if (!value->is_object()) return fail(file, "", fmt::format("expected a scenario as an object, found {}", found(*value)));
  apply_overrides(*value, type, overrides, problems);
  check(*value, type, {file, ""}, Completeness::kWhole, problems);
  const Member& stack = *find_member(type.members, "stack");
  const bool stack_stated = !value->at("stack").is_null();
  if (!stack_stated) value->set("stack", stack.fallback);
  resolve_references(*value, type, {file, ""}, base_dir, problems);
  if (!problems.empty()) return fail(problems.list());

  Document document;
  document.file = file;
  document.warnings = problems.warnings();
  document.value = std::move(*value);
  const Value stack_defaults = document.value.at("stack").at("defaults");  // as stated: what the stack's own schema adds counts as schema
  if (!stack_stated) document.defaults_from.emplace_back("/stack", "schema");
  fill_defaults(document.value, type, "", stack_defaults, document.defaults_from);
  derive_scenario(document.value, document.defaults_from);
  for (const char* part : {"/model", "/cluster/node", "/cluster/node/gpu", "/cluster/fabric", "/stack"}) {
    if (const Value* inner = document.value.resolve(part)) warn_unconfirmed(*inner, file, part, document.warnings);
  }
  std::sort(document.defaults_from.begin(), document.defaults_from.end());
  return document;
}

Result<Document> load_scenario(const std::string& path, std::span<const Override> overrides) {
  const auto text = read_file(path);
  if (!text) return fail(text.error());
  const std::string base_dir = path == "-" ? std::string() : std::filesystem::path(path).parent_path().string();
  return load_scenario_text(*text, path, base_dir, overrides);
}

}  // namespace orrery::document
