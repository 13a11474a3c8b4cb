#pragma once
// The filling level of progressive filling, an exact fraction of rate units: residual (rate x weight units) over weight units.
#include <cstdint>
#include <limits>

#include "orrery/base/checked.hpp"

namespace orrery::engine {

struct Level {
  int128 residual = 0;     ///< 0 … 2^74: capacity <= 2^50 rate units, shifted by the 24 bits of a weight unit
  std::int64_t weight = 1; ///< 1 … 2^52, so that a cross product stays under 2^126
};
inline bool operator<(const Level& a, const Level& b) { return a.residual * b.weight < b.residual * a.weight; }
inline bool operator==(const Level& a, const Level& b) { return a.residual * b.weight == b.residual * a.weight; }
inline std::int64_t whole(const Level& level) {
  if (level.residual <= std::numeric_limits<std::int64_t>::max()) return static_cast<std::int64_t>(level.residual) / level.weight;
  return static_cast<std::int64_t>(level.residual / level.weight);
}

/// A level that is often compared: its value rounded to a double decides unless the two are nearly equal. Never full: 1/0.
struct Share {
  Level level{1, 0};
  double value = std::numeric_limits<double>::infinity();

  Share() = default;
  Share(int128 residual, std::int64_t weight) : level{residual, weight}, value(static_cast<double>(residual) / static_cast<double>(weight)) {}
};
/// The value errs by less than 2^-51 of itself (three roundings), so 2^-40 is on the safe side.
inline constexpr double kSurely = 1.0 - 1.0 / static_cast<double>(std::int64_t{1} << 40);
inline bool operator<(const Share& a, const Share& b) {
  if (a.value < b.value * kSurely) return true;
  if (b.value < a.value * kSurely) return false;
  return a.level < b.level;
}
inline bool operator==(const Share& a, const Share& b) {
  if (a.value < b.value * kSurely || b.value < a.value * kSurely) return false;
  return a.level == b.level;
}

}  // namespace orrery::engine
