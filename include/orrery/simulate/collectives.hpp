#pragma once
// One collective after the other on an idle cluster, played by the same lowering and engine as a training step: what nccl-tests would print.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "orrery/base/origin.hpp"
#include "orrery/collective/collective.hpp"
#include "orrery/cost/nearest.hpp"
#include "orrery/document/document.hpp"

namespace orrery::simulate {

struct CollectiveQuery {
  collective::Kind kind = collective::Kind::kAllReduce;
  std::int64_t ranks = 2;                ///< packed: GPUs 0 … ranks-1
  std::vector<std::int64_t> bytes;       ///< as nccl-tests counts them, ascending, > 0
  std::int64_t gpus_per_thread = 1;      ///< whose kernels one thread of the host launches (nccl-tests -g)
};

/// One size.
struct CollectiveRow {
  std::int64_t ranks = 0, nodes = 0;     ///< nodes: machines that the ranks stand on
  std::int64_t bytes = 0;
  Seconds time{};
  BytesPerSecond algbw{}, busbw{};       ///< bytes / time, and nccl-tests' bus bandwidth
  collective::Choice choice;
  std::string limited_by;                ///< kind of link that sets the time, or "latency"
  Origin origin = Origin::kDefault;
  std::optional<cost::NearestMeasured> nearest;  ///< of the same kind, ranks and domains in the profile
};

/// Of the scenario only cluster, stack, calibration, events and seed are read. Diagnostics: what the cluster cannot be, more ranks than
/// GPUs, fewer than 2 ranks.
Result<std::vector<CollectiveRow>> collectives(const document::Document& scenario, const CollectiveQuery& query);

}  // namespace orrery::simulate
