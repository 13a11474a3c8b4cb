#pragma once
// The filling level of progressive filling, an exact fraction of rate units: residual (rate x weight units) over weight units.
#include <cstdint>

#include "orrery/base/checked.hpp"

namespace orrery::engine {

struct Level {
  int128 residual = 0;     ///< 0 … 2^74: capacity <= 2^50 rate units, shifted by the 24 bits of a weight unit
  std::int64_t weight = 1; ///< 1 … 2^52, so that a cross product stays under 2^126
};
inline bool operator<(const Level& a, const Level& b) { return a.residual * b.weight < b.residual * a.weight; }
inline bool operator==(const Level& a, const Level& b) { return a.residual * b.weight == b.residual * a.weight; }
inline std::int64_t whole(const Level& level) { return static_cast<std::int64_t>(level.residual / level.weight); }

}  // namespace orrery::engine
