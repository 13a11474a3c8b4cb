#pragma once
// Pure functions from what the engine played to the numbers of the report (design 5.4). Integers are summed, divided once; nothing here
// depends on how ranks were folded.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orrery/engine/run.hpp"
#include "orrery/metrics/inputs.hpp"

namespace orrery::metrics {

/// The columns of exposed_comm_s.
enum class ExposedAxis : std::uint8_t { kTp, kCp, kEp, kPp, kDp, kHost };
inline constexpr std::size_t kExposedAxes = 6;
inline constexpr std::array<const char*, kExposedAxes> kExposedAxisNames = {"tp", "cp", "ep", "pp", "dp", "host"};
/// A leaf's kind is its group's axis; dp covers ZeRO, FSDP, replicas and the world; pp the tied embedding, and the model group of more
/// than one stage (tp where there is one).
ExposedAxis exposed_axis(workload::Axis axis, std::int64_t stages);

/// Mean over ranks of a partition of [0, step].
struct Breakdown {
  double compute_s = 0, optimizer_s = 0, bubble_s = 0, other_s = 0;
  std::array<double, kExposedAxes> exposed_comm_s{};
};

struct Throughput {
  double tokens_per_s = 0, tokens_per_s_per_gpu = 0, samples_per_s = 0;
  double model_tflops_per_gpu = 0, hardware_tflops_per_gpu = 0;
  std::optional<double> mfu, hfu, peak_tflops;  ///< null where the datasheet has no dense peak for the precision
  std::string peak_dtype;
  double skipped_steps = 0, useful_tokens_per_s = 0;  ///< share of steps that change nothing; tokens of the others
  double pipeline_efficiency = 1;               ///< w / (w + bubble), w: compute and exposed tp, cp, ep, pp
  double closed_form_efficiency = 1;            ///< of the schedule on equal stages with free transfers
  std::vector<std::pair<std::string, double>> tflops_per_gpu;  ///< by FLOP convention, in the order of model.flops_per_token
};

struct Memory {
  bool fits = true;
  std::int64_t capacity_bytes = 0;
  std::int64_t peak_bytes = 0;       ///< what nvidia-smi shows: reserved + framework
  std::int64_t allocated_bytes = 0, reserved_bytes = 0;
  std::int64_t worst_rank = 0;       ///< lowest rank with the highest peak
  std::optional<std::int64_t> host_bytes, drive_bytes;  ///< offloaded, most of any rank
  std::vector<std::pair<std::string, std::int64_t>> by_kind;  ///< sums to peak_bytes at the worst rank's peak
  std::vector<std::string> advice;   ///< where it does not fit: what would help, and by how much; largest first
};

struct Stage {
  std::int64_t stage = 0, chunks = 0, layers = 0, ranks = 0;
  std::int64_t peak_bytes = 0, allocated_bytes = 0, reserved_bytes = 0;  ///< as in Memory, of its worst rank
  double compute_s = 0, bubble_s = 0;  ///< mean over its ranks; compute without the optimizer
};

/// All transfers of one kind, axis, group size, size and algorithm. time_s and exposed_s are means over the ranks of the job, so the
/// exposed_s of all rows sum to the breakdown's; algbw is bytes over the mean time of one.
struct CollectiveRow {
  collective::Kind kind{};
  workload::Axis axis{};
  std::int64_t ranks = 0, bytes = 0, count = 0;  ///< count: in the whole job
  double time_s = 0, exposed_s = 0, algbw_gb_per_s = 0, busbw_gb_per_s = 0;
  collective::Algorithm algorithm{};
  collective::Protocol protocol{};
  int channels = 0;
  std::string limited_by;
  Origin origin{};
};

/// Links of one kind, capacity, load and peak, named by the lowest.
struct LinkRow {
  std::string link;
  cluster::LinkKind kind{};
  std::int64_t count = 0;
  double capacity_gb_per_s = 0, mean_utilisation = 0, peak_utilisation = 0;
};

struct Energy {
  double step_j = 0, gpu_mean_w = 0, j_per_token = 0;  ///< GPUs alone
};

struct Summary {
  Basis basis;
  std::int64_t step_ps = 0;
  double step_s = 0, low_s = 0, high_s = 0, coverage = 0.8;
  std::string band_basis;
  Breakdown breakdown;
  std::array<double, kOperationClasses> compute_by_class_s{};  ///< of breakdown.compute_s
  Throughput throughput;
  Memory memory;
  std::array<double, kOriginCount> origins{};                  ///< shares of step time; bubbles follow the rest
  std::int64_t events = 0, rank_classes = 0, ranks = 0;
  std::int64_t resource_classes = 0;
  std::vector<Stage> stages;
  std::vector<CollectiveRow> collectives;
  std::vector<LinkRow> links;
  std::optional<Energy> energy;                                ///< null where the GPU's power limit is unknown
  std::optional<std::string> currency;
  std::optional<double> per_gpu_hour, per_million_tokens;
  workload::ModelCounts counts;
  std::vector<CalibrationInfo> calibration;
  std::vector<Warning> warnings;
};

/// `input` is what was played (folded or not), `result` what came out, `inputs` what it means.
Summary summarise(const engine::Input& input, const engine::Result& result, const Inputs& inputs);

/// FLOP conventions with their names, in the report's order.
std::vector<std::pair<std::string, double>> flops_per_token(const workload::ModelCounts& counts);

/// The dense peak of a precision, if the GPU has one.
std::optional<FlopsPerSecond> dense_peak(const cluster::Gpu& gpu, workload::DType precision);

}  // namespace orrery::metrics
