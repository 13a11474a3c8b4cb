#pragma once
// What a document does not say: from the stack, else from the description, else derived from other members.
#include <string>
#include <utility>
#include <vector>

#include "description.hpp"

namespace orrery::document {

using DefaultsFrom = std::vector<std::pair<std::string, std::string>>;

/// Brings members into the description's order and adds those that are absent: from stack_defaults (null: none) where the member has a
/// stack default, else the description's, else null. Appends (pointer, "stack" | "schema") for each.
void fill_defaults(Value& value, const Type& type, const std::string& pointer, const Value& stack_defaults, DefaultsFrom& from);

/// Members of a scenario that follow from others: schedule, sp, dtypes, GPUs, dp, kv_heads, head_dim. Appends (pointer, "derived").
void derive_scenario(Value& scenario, DefaultsFrom& from);
/// The same for a model by itself; pointer is its place.
void derive_model(Value& model, const std::string& pointer, DefaultsFrom& from);

}  // namespace orrery::document
