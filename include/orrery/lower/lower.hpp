#pragma once
// Program, placement and cost to engine input: durations by mode, usage vectors, transfers. The last place where doubles live.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "orrery/cluster/cluster.hpp"
#include "orrery/collective/collective.hpp"
#include "orrery/cost/cost.hpp"
#include "orrery/engine/input.hpp"
#include "orrery/engine/run.hpp"
#include "orrery/program/program.hpp"

namespace orrery::lower {

/// Whose time an account is.
struct Account {
  enum class Kind : std::uint8_t { kPeer, kHost, kCompute, kOptimizer, kCommunication } kind = Kind::kPeer;
  workload::Axis axis = workload::Axis::kTp;  ///< of kCommunication
};

/// What a transfer of the engine is, for reports. Transfers with the same row are one line of `collectives`.
struct TransferRow {
  workload::CommKind kind = workload::CommKind::kAllReduce;
  workload::Axis axis = workload::Axis::kTp;
  std::int64_t ranks = 0, bytes = 0;
  collective::Choice choice;
  std::string limited_by;   ///< kind of the link that sets the time: "nvlink", "nic", …; "latency" where it is most of it
  Origin origin = Origin::kDefault;
  std::uint32_t account = 0;
  bool operator==(const TransferRow&) const = default;
};

/// Time of a segment with nothing else on the GPU, by origin and by class of operation (GEMM, attention, memory-bound).
struct SegmentCost {
  std::array<double, kOriginCount> seconds_by_origin{};
  std::array<double, 3> seconds_by_class{};
  Seconds total{};
  Seconds wave{};
};

/// How one rank's hardware differs (slow_gpu, speed_spread).
struct RankSpeed {
  std::int64_t rank = 0;
  double speed = 1;
};

struct Lowered {
  engine::Input input;
  std::vector<Account> accounts;             ///< by engine account
  std::vector<TransferRow> rows;             ///< distinct
  std::vector<std::uint32_t> transfer_row;   ///< by engine transfer
  std::vector<LinkId> resource_link;         ///< by engine resource
  std::vector<std::vector<SegmentCost>> segments;  ///< [role][segment], full speed
  std::vector<std::int64_t> nccl_bytes;      ///< [role] staging buffers of the communicators a rank uses (modelling 5.5)
  std::unique_ptr<engine::SegmentTimes> times;     ///< refers to what it was made from: keep program and costs alive
};

/// Everything lower reads. References must outlive the result.
struct World {
  const program::Program& program;
  const plan::Parallelism& parallelism;
  const plan::Grid& grid;
  const cluster::Cluster& cluster;
  const calibration::Profile& profile;
  collective::Nccl nccl;
  std::string attention_kernel;
  std::vector<RankSpeed> speeds;             ///< ranks that differ from 1
  std::uint64_t seed = 1;
};

/// The collective module's name of a kind: it knows no workload.
collective::Kind to_kind(workload::CommKind kind);

/// Refuses (as diagnostics of `file`) what the engine's integer bounds cannot hold.
Result<Lowered> lower(const World& world, const std::string& file);

}  // namespace orrery::lower
