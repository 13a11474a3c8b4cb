#pragma once
// What a rank's memory holds over a step as text: a letter per kind, stacked, for terminals that show no picture.
#include <string>

#include "orrery/report/memory_svg.hpp"

namespace orrery::report {

/// `memory`: that has listened to a step which ends at `end`. capacity: of the device, a dashed line; 0: none. With a legend, the moment at
/// which most is held and what is held then.
std::string memory_chart(const MemorySvg& memory, SimTime end, std::int64_t capacity);

}  // namespace orrery::report
