#pragma once
// Sets of flows that all start at once, for playing in two simulators side by side.
#include <cstdint>
#include <vector>

#include "orrery/engine/input.hpp"
#include "orrery/engine/run.hpp"

namespace orrery::test {

struct FlowSet {
  struct Flow {
    std::vector<std::uint32_t> links;  ///< at least two, all different
    std::int64_t cap = 0;              ///< rate units
    std::int64_t bytes = 0;
  };
  std::vector<std::int64_t> capacities;  ///< rate units
  std::vector<Flow> flows;
};

/// Flows over 2 … 6 random links out of few, of random capacity; every third flow is capped below its links.
FlowSet random_flows(std::uint64_t seed, std::uint32_t links, std::uint32_t flows);

/// A 3-tier fat tree of 4,096 hosts at 50 GB/s: 16 pods of 16 leaves of 16 hosts, 16 aggregation switches in a pod, 16 core planes of 16.
/// Up-links are drawn per flow, as ECMP does; sizes are 1 … 64 MB.
FlowSet fat_tree_random(std::uint64_t seed, std::uint32_t flows);  ///< sources and destinations drawn
FlowSet fat_tree_permutation(std::uint64_t seed);                  ///< every host sends to one and receives from one

/// The same flows for the engine: one sending rank and one receiving rank, each with all flows in one batch. Transfer f is flow f.
engine::Input flow_input(const FlowSet& set);
/// Seconds until each flow ended, in the engine.
std::vector<double> finish_times(const engine::Result& result);

/// There is nothing to compute in a flow input.
class NoSegments final : public engine::SegmentTimes {
 public:
  SimTime duration(std::uint32_t, std::uint32_t, std::uint32_t, std::int32_t, std::int64_t) const override { return 0; }
};

}  // namespace orrery::test
