#pragma once
// References between documents: catalogue names, paths, inline objects, and `extends`.
#include <optional>

#include "check.hpp"

namespace orrery::document {

/// Replaces every reference inside the value by the document it names. base_dir: what relative paths start from.
void resolve_references(Value& value, const Type& type, const Place& place, const std::string& base_dir, Problems& problems);

/// The document that a name, a path or an object stands for, checked and with its own references replaced; nothing where it has problems.
std::optional<Value> resolve_reference(std::string_view kind, const Value& reference, const Place& place, const std::string& base_dir, Problems& problems);

/// Objects merge deeply, arrays and everything else replace, null deletes.
void merge(Value& base, const Value& patch);

/// Whether a reference is a path (else a catalogue name).
bool is_path(std::string_view reference);

}  // namespace orrery::document
