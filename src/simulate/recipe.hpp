#pragma once
// What a recipe asks of hardware, layout and stack: matrix units for its number formats, whole matrices for its optimizer, host memory.
#include <string>

#include "orrery/base/result.hpp"
#include "orrery/cluster/parts.hpp"
#include "orrery/program/build.hpp"

namespace orrery::simulate {

/// Refuses what cannot be run, all problems at once: a precision that the GPU has no matrix units for (naming the nearest that it has), an
/// optimizer that the sharding cuts apart, offload without host memory. Fills in what the recipe takes from the GPU.
Result<bool> fit_recipe(program::Job& job, const cluster::Node& node, const std::string& file);

}  // namespace orrery::simulate
