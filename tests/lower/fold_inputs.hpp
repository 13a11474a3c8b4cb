#pragma once
// Engine inputs shaped like training jobs, for the tests of folding: TP inside, DP rings across nodes, a GPipe pipeline over channels.
#include <cstdint>
#include <utility>
#include <vector>

#include "orrery/engine/input.hpp"

namespace orrery::test {

/// Rank t + tp * (d + dp * p) is tensor rank t, replica d, stage p. Nodes hold consecutive ranks, leaves consecutive nodes.
struct Job {
  std::uint32_t tp = 2, dp = 2, pp = 2;
  std::uint32_t ranks_per_node = 4, ranks_per_nic = 1, nodes_per_leaf = 2;
  std::uint32_t microbatches = 2;
  std::uint32_t buckets = 1;                 ///< DP reduce-scatters, each after one of the last backward passes; all-gathers alike in front
  bool batched_p2p = false;                  ///< in inner stages a receive and the send before it are one batch
  std::int64_t leaf_share = 4;               ///< capacity of a leaf's uplink, in NIC capacities
  std::uint32_t run_ahead = 1000;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> variants;       ///< rank, variant
  std::vector<std::pair<std::uint32_t, std::uint32_t>> degraded_nics;  ///< NIC, eighths of the capacity left
  std::vector<std::pair<std::uint32_t, std::uint32_t>> degraded_leaves;
  [[nodiscard]] std::uint32_t ranks() const { return tp * dp * pp; }
};

engine::Input make_input(const Job& job);

/// A pure function of its arguments that grows with variant, sms and hbm, with no two segments alike.
class MadeUpTimes final : public engine::SegmentTimes {
 public:
  SimTime duration(std::uint32_t program, std::uint32_t segment, std::uint32_t variant, std::int32_t sms, std::int64_t hbm) const override;
};

}  // namespace orrery::test
