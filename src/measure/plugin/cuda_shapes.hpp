#pragma once
#include <string>
#include <vector>

#include "orrery/calibration/measurements.hpp"

namespace orrery::measure {

/// What a set of shapes means on a GPU. l2: bytes. ranks: devices that collectives run over; 1: none.
std::vector<calibration::Point> cuda_shapes(const std::string& set, std::size_t l2, int ranks, int nodes);

}  // namespace orrery::measure
