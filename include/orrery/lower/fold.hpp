#pragma once
// Folding: ranks, groups, channels and resources that cannot be told apart become one class with a multiplicity.
#include <cstdint>
#include <vector>

#include "orrery/engine/input.hpp"

namespace orrery::lower {

struct Folded {
  engine::Input input;                        ///< programs and transfers are the same, indices kept
  std::vector<std::uint32_t> rank_class;      ///< of every rank of the full input
  std::vector<std::uint32_t> resource_class;  ///< of every resource of the full input
};

/// Marks (passive = true) every resource that can never bind for any possible set of activities: a stream has at most one in flight,
/// so the sum over (rank, stream) of the largest weight x cap that can cross it is within its capacity (design section 2, Folding).
void drop_free_resources(engine::Input& input);

/// Colour refinement to an equitable partition, and the quotient input. Running the quotient gives the full run's result, to the bit.
/// Classes are numbered by their lowest member. Requires drop_free_resources first.
Folded fold(const engine::Input& full);

}  // namespace orrery::lower
