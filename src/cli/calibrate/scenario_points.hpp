#pragma once
#include <string>
#include <vector>

#include "orrery/base/result.hpp"
#include "orrery/calibration/measurements.hpp"

namespace orrery::cli {

/// What a scenario's step runs, once each, as points to time: products, attention, memory-bound kernels, collectives over its groups.
Result<std::vector<calibration::Point>> points_of_scenario(const std::string& path);

}  // namespace orrery::cli
