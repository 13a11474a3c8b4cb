#pragma once
// Simulated time: int64 picoseconds, +-106 days.
#include <cstdint>
#include <limits>

#include "orrery/base/units.hpp"

namespace orrery {

using SimTime = std::int64_t;  ///< picoseconds since the start of the step
inline constexpr SimTime kNever = std::numeric_limits<SimTime>::max();
inline constexpr double kPicosecondsPerSecond = 1e12;

/// Seconds to picoseconds, rounded up once. Requires 0 <= s < 2^62 ps (53 days); what the user can drive past it is refused before.
SimTime to_sim_time(Seconds s);
constexpr Seconds to_seconds(SimTime t) { return Seconds(static_cast<double>(t) / kPicosecondsPerSecond); }

}  // namespace orrery
