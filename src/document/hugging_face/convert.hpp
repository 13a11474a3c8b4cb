#pragma once
// Hugging Face config.json as orrery/model/1.
#include <optional>

#include "document/problems.hpp"
#include "orrery/document/value.hpp"

namespace orrery::document {

/// Whether an object is a config.json: it names its architectures and no schema.
bool is_hugging_face(const Value& value);

/// The model that the config describes, still to be checked against the description of models; nothing where a problem was added.
/// Unknown architectures are refused by name; members that nothing reads are warnings.
std::optional<Value> from_hugging_face(const Value& config, const Place& place, Problems& problems);

}  // namespace orrery::document
