#pragma once
// What the engine's numbers mean: plain data beside an engine::Input, filled by whoever built that input. Indices are the engine's, so a
// folded and a full input of one job are described by the same tables, but for the resources.
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "orrery/base/origin.hpp"
#include "orrery/base/sim_time.hpp"
#include "orrery/cluster/cluster.hpp"
#include "orrery/collective/collective.hpp"
#include "orrery/plan/plan.hpp"
#include "orrery/workload/model.hpp"
#include "orrery/workload/operation.hpp"

namespace orrery::metrics {

/// Whose time an engine account is (design 5.4, breakdown). 0 and 1 are the engine's: kWaitsForPeer, kWaitsForHost.
struct Account {
  enum class Kind : std::uint8_t { kWaitsForPeer, kWaitsForHost, kCompute, kOptimizer, kComm };
  Kind kind = Kind::kCompute;
  workload::Axis axis = workload::Axis::kTp;  ///< of kComm
};

/// One engine transfer. A row of the report is all transfers of one (kind, axis, ranks, bytes, algorithm); give each such row an account
/// of its own, else the exposed time of a shared account is split by time in flight.
struct TransferInfo {
  collective::Kind kind = collective::Kind::kAllReduce;
  workload::Axis axis = workload::Axis::kTp;
  std::int64_t ranks = 2;        ///< of one group; 2 for a send and its receive
  std::int64_t bytes = 0;        ///< as nccl-tests counts them
  collective::Algorithm algorithm = collective::Algorithm::kRing;
  collective::Protocol protocol = collective::Protocol::kSimple;
  int channels = 1;
  std::string limited_by;        ///< what sets its time: "latency", "nvlink", "nic", …
  Origin origin = Origin::kDefault;
  std::uint32_t account = 0;     ///< Transfer::account
};

enum class OperationClass : std::uint8_t { kGemm, kAttention, kMemoryBound };
inline constexpr std::size_t kOperationClasses = 3;
inline constexpr std::array<const char*, kOperationClasses> kOperationClassNames = {"gemm", "attention", "memory_bound"};

/// One segment: how its time alone (no communication beside it) divides by origin and by class. Both lists sum to the same.
struct SegmentInfo {
  std::array<SimTime, kOriginCount> origin_ps{};
  std::array<SimTime, kOperationClasses> class_ps{};
  std::uint32_t account = 0;     ///< Segment::account
};

/// One engine program: what a rank that runs it is.
struct ProgramInfo {
  std::int64_t stage = 0;
  std::vector<SegmentInfo> segments;
  std::int64_t framework_bytes = 0;  ///< device memory beside the program's own allocations: context, NCCL
  std::int64_t allocated_bytes = 0;  ///< peak of what its tensors take of the allocator
  std::int64_t reserved_bytes = 0;   ///< peak of what the allocator takes of the device
  std::vector<std::int64_t> kind_bytes;  ///< of allocated_bytes, by memory kind
};

/// One engine resource; of a class, its lowest member.
struct LinkInfo {
  cluster::LinkKind kind = cluster::LinkKind::kScaleUp;
  BytesPerSecond capacity{};     ///< what is left after degradation and background
  std::uint32_t link = 0;        ///< argument of Inputs::link_name
};

/// What the numbers stand on, in words for the reader of a report.
struct Basis {
  std::string model, gpu, stack, nccl_version;
  double clock_mhz = 0;          ///< of the dense peak
  bool causal = true;            ///< which half of the attention square counts
};

struct CalibrationInfo {
  std::string name, provenance;
  std::optional<double> expected_error_median, expected_error_p90;
};
struct Warning {
  std::string code, pointer, text;
};

struct Inputs {
  Basis basis;
  workload::ModelCounts counts;
  workload::Training training;
  plan::Parallelism parallelism;
  cluster::Gpu gpu;
  std::int64_t gpus = 1;                          ///< of the job
  double hardware_flops = 0;                      ///< of a step over all ranks, recompute included
  std::vector<Account> accounts;                  ///< by engine account
  std::vector<TransferInfo> transfers;            ///< by engine transfer
  std::vector<ProgramInfo> programs;              ///< by engine program
  std::vector<LinkInfo> links;                    ///< by engine resource
  std::function<std::string(std::uint32_t)> link_name;
  std::vector<std::string> memory_kinds;          ///< by engine memory kind, names of memory.by_kind_gib
  std::optional<std::int64_t> host_bytes;         ///< offloaded state, per rank
  std::int64_t host_node_bytes = 0, host_capacity_bytes = 0;  ///< offloaded state of the fullest node; what a node's host holds
  std::optional<std::int64_t> drive_bytes;        ///< on drives, per rank
  std::int64_t drive_node_bytes = 0;              ///< of the fullest node
  double drive_capacity_bytes = 0;                ///< what a node's drives hold; 0: not known
  double skipped_steps = 0;                       ///< share of steps whose gradients overflow (fp16)
  Origin host_origin = Origin::kDefault;          ///< of launch and host times
  std::optional<std::string> currency;            ///< of price_per_gpu_hour
  std::optional<double> price_per_gpu_hour;
  std::vector<CalibrationInfo> calibration;
  std::vector<Warning> warnings;
  std::int64_t full_ranks = 1, full_links = 0;    ///< before folding
};

}  // namespace orrery::metrics
