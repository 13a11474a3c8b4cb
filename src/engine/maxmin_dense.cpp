// The reference: progressive filling as it is told, every round looking at every resource and every flow.
//   while a flow is unfrozen:
//     level = least of residual/Σ(weights of unfrozen flows) over resources and of cap over unfrozen flows
//     every flow with that cap, and every unfrozen flow on a resource at exactly that level, freezes at ⌊level⌋
//     (no flow's cap is below the level, so ⌊level⌋ is also min(cap, ⌊level⌋)); residuals lose weight x that rounded rate
// Rounded rates leave less than one unit per flow behind; it is not handed out again.
#include <optional>

#include "engine/level.hpp"
#include "orrery/base/assert.hpp"
#include "orrery/engine/maxmin.hpp"

namespace orrery::engine {

std::vector<std::int64_t> solve_dense(std::span<const std::int64_t> capacities, std::span<const Flow> flows) {
  std::vector<int128> residual(capacities.size());
  for (std::size_t r = 0; r < capacities.size(); ++r) residual[r] = int128{capacities[r]} << kWeightBits;
  std::vector<std::int64_t> rates(flows.size(), 0);
  std::vector<bool> frozen(flows.size(), false);
  for (std::size_t left = flows.size(); left > 0;) {
    std::vector<std::int64_t> weight(capacities.size(), 0);
    std::optional<Level> level;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (frozen[f]) continue;
      for (const Usage& u : flows[f].usages) weight[u.resource] += u.weight;
      const Level cap{flows[f].cap, 1};
      if (!level || cap < *level) level = cap;
    }
    for (std::size_t r = 0; r < capacities.size(); ++r) {
      const Level share{residual[r], weight[r]};
      if (weight[r] > 0 && share < *level) level = share;
    }
    std::vector<bool> full(capacities.size());
    for (std::size_t r = 0; r < capacities.size(); ++r) full[r] = weight[r] > 0 && Level{residual[r], weight[r]} == *level;
    const std::size_t before = left;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (frozen[f]) continue;
      bool freezes = Level{flows[f].cap, 1} == *level;
      for (const Usage& u : flows[f].usages) freezes = freezes || full[u.resource];
      if (!freezes) continue;
      frozen[f] = true;
      rates[f] = whole(*level);
      for (const Usage& u : flows[f].usages) residual[u.resource] -= int128{u.weight} * rates[f];
      --left;
    }
    ORRERY_ASSERT(left < before, "somebody stands at the lowest level");
  }
  return rates;
}

}  // namespace orrery::engine
