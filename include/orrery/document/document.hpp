#pragma once
// Documents: read, checked against their one description, overridden, completed with defaults. The same description prints the JSON
// Schema (schema.hpp) and the reference page, so the three cannot disagree.
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "orrery/document/value.hpp"

namespace orrery::document {

/// One `--set PATH=VALUE`: path "/a/b" or "a.b", value JSON text if it parses, else a string; null unsets.
struct Override {
  std::string path;
  std::string value;
};

/// Where catalogue files are sought: $ORRERY_CONFIG_DIR, share/orrery/configs beside the binary, the source tree; first that exists.
Result<std::string> config_dir();

/// A document that passed its description: every member present (null where "not stated" stays unknown).
struct Document {
  Value value;                                                     ///< catalogue names replaced by the objects they name
  std::vector<std::pair<std::string, std::string>> defaults_from;  ///< pointer -> "stack" | "schema" | "derived", sorted by pointer
  Diagnostics warnings;                                            ///< for example a field that ships with origin default
  std::string file;                                                ///< as in diagnostics; "-" for standard input
};

/// Reads orrery/scenario/1: parse, overrides, `extends`, catalogue look-ups (model, node with its gpu, fabric, stack), types, enums,
/// ranges, unknown members, defaults in the order scenario, stack, schema. All problems at once, at most 20. Rules over several members
/// (layout, divisibility) are the plan's. path "-" reads standard input.
Result<Document> load_scenario(const std::string& path, std::span<const Override> overrides);
/// The same from text; file names it in diagnostics, relative paths inside are relative to base_dir.
Result<Document> load_scenario_text(std::string_view text, const std::string& file, const std::string& base_dir, std::span<const Override> overrides);
/// Reads another kind ("model", "gpu", "node", "fabric", "stack", "profile") by catalogue name, path or object.
Result<Document> load(std::string_view kind, const Value& name_path_or_object, const std::string& file, const std::string& pointer, const std::string& base_dir);

/// Catalogue names of a kind, sorted.
Result<std::vector<std::string>> catalogue(std::string_view kind);

/// Names that `orrery schema NAME` knows, and a schema (draft 2020-12, keywords that draft 7 reads alike).
std::vector<std::string> schema_names();
Result<std::string> schema(std::string_view name);
/// The generated reference page docs/file-formats.md.
std::string reference_page();

/// Writes beside the name and renames; a target that exists and is no regular file is opened and written to.
Result<bool> write_file(const std::string& path, std::string_view content);
Result<std::string> read_file(const std::string& path);

}  // namespace orrery::document
