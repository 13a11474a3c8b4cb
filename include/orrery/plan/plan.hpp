#pragma once
// Parallelism: the rank grid, its groups, what each stage holds, and the order lists of the pipeline schedule.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/ids.hpp"
#include "orrery/base/result.hpp"
#include "orrery/document/value.hpp"
#include "orrery/workload/model.hpp"

namespace orrery::plan {

enum class GridAxis : std::uint8_t { kTp, kCp, kEp, kDp, kPp };
enum class Schedule : std::uint8_t { kGpipe, k1F1B, kInterleaved1F1B, kBfs, kZbH1, kZbH2, kZbV, kVHalf, kVMin, kDualPipe, kDualPipeV, kFile };

std::string_view to_string(GridAxis a);
/// The axes that parallelism.order names, as a list or as "tp-cp-ep-dp-pp"; nothing unless it names all five, once each.
std::optional<std::array<GridAxis, 5>> read_order(const document::Value& order);
std::string_view to_string(Schedule s);
/// Names of all schedules that parallelism.schedule may give, in the order of the enumeration (a file has none).
std::vector<std::string_view> schedule_names();

/// Where the chunks of a stage lie on a microbatch's way through the model.
enum class Placement : std::uint8_t {
  kLooped,  ///< chunk c of stage s is place c*pp + s: from the last stage back to the first
  kV,       ///< two chunks: down the stages and back up, so the last stage hands to itself and the first one ends what it began
  kTwoWay,  ///< pp places, each on two ranks: half of the microbatches enter at the first stage, half at the last (DualPipe)
};
std::string_view to_string(Placement p);

/// kBackward: the whole backward pass. kInput and kWeight are its halves where a schedule splits it: gradients of the activations, which
/// the stage before waits for, and gradients of the weights, which nobody does before the step's end.
enum class Pass : std::uint8_t { kForward, kBackward, kInput, kWeight };
std::string_view to_string(Pass p);
struct ScheduleEntry {
  Pass pass = Pass::kForward;
  std::int32_t microbatch = 0, chunk = 0;
  bool with_next = false;  ///< one pair with the next entry: both wait for both inputs, and what they send leaves when both have ended
  bool operator==(const ScheduleEntry&) const = default;
};

/// parallelism of design 5.1, resolved: nothing null, dp computed.
struct Parallelism {
  std::int64_t tp = 1, cp = 1, pp = 1, vp = 1, ep = 1, etp = 1, dp = 1, zero = 0, replicas = 1;
  workload::CpMethod cp_method = workload::CpMethod::kRing;
  bool sp = false, p2p_overlapped = false, reshard_after_forward = true;
  bool account_for_embedding = false, account_for_loss = false;
  workload::TpOverlap overlap_tp = workload::TpOverlap::kNone;
  bool overlap_grad_reduce = false, overlap_param_gather = false;
  bool overlap_ep = false;  ///< exchanges of one microbatch's tokens run under another's compute
  bool overlap_shared_experts = false;  ///< shared experts run under the exchanges of the routed ones
  Schedule schedule = Schedule::k1F1B;
  workload::ExpertDispatch ep_dispatch = workload::ExpertDispatch::kAllToAll;
  Placement placement = Placement::kLooped;    ///< the schedule's
  std::int64_t interleave_group = 0;           ///< interleaved_1f1b: microbatches that pass a chunk in a row; 0: pp
  std::vector<std::vector<ScheduleEntry>> orders;  ///< kFile: the order list of every stage
  std::vector<std::int64_t> layers_per_stage;  ///< entry c*pp + s: decoder layers of chunk c on stage s; always filled. Two-way: pp entries
  std::array<GridAxis, 5> order{GridAxis::kTp, GridAxis::kCp, GridAxis::kEp, GridAxis::kDp, GridAxis::kPp};
  /// Ranks that share gradients; ranks that share one copy of what is sharded.
  [[nodiscard]] std::int64_t dp_group() const { return dp * cp; }
  [[nodiscard]] std::int64_t shard_group() const { return dp * cp / replicas; }
  /// Data-parallel ranks of one expert: etp x ep x expert_dp are the ranks of a stage, tp x cp x dp.
  [[nodiscard]] std::int64_t expert_dp() const { return tp * cp * dp / (etp * ep); }
};

struct Coordinates {
  std::int64_t tp = 0, cp = 0, dp = 0, pp = 0;
  bool operator==(const Coordinates&) const = default;
};

/// Where a rank stands among the experts.
struct ExpertCoordinates {
  std::int64_t etp = 0, ep = 0, expert_dp = 0, pp = 0;
  bool operator==(const ExpertCoordinates&) const = default;
};

/// The rank grid. Ranks 0 … tp*cp*dp*pp - 1; the order's first axis varies fastest. Experts use a second grid over the same ranks, in
/// the same order with etp in the place of tp and expert_dp in that of dp, and without cp (Megatron-LM core/parallel_state.py,
/// expert_decoder_rank_generator). Both agree on a rank's stage: read_parallelism sees to it.
class Grid {
 public:
  explicit Grid(const Parallelism& p);
  [[nodiscard]] std::int64_t ranks() const;
  [[nodiscard]] Coordinates coordinates(std::int64_t rank) const;
  [[nodiscard]] std::int64_t rank(const Coordinates& c) const;
  [[nodiscard]] ExpertCoordinates expert_coordinates(std::int64_t rank) const;
  [[nodiscard]] std::int64_t rank(const ExpertCoordinates& c) const;

 private:
  std::array<std::int64_t, 4> size_{}, stride_{};                // tp, cp, dp, pp
  std::array<std::int64_t, 4> expert_size_{}, expert_stride_{};  // etp, ep, expert_dp, pp
};

/// What one chunk of one stage holds, in order of execution.
struct Chunk {
  bool embedding = false, head = false;
  std::int64_t layers = 0;
  std::int64_t first_layer = 0;  ///< of the model
};
/// Chunk c of stage s.
Chunk chunk_of(const Parallelism& p, std::int64_t stage, std::int64_t chunk);
/// Chunks that a rank holds: vp, or two in a two-way pipeline, where the second is the mirror stage's.
std::int64_t chunks_per_rank(const Parallelism& p);
/// Places that a microbatch passes, and which of them chunk c of stage s is.
std::int64_t places(const Parallelism& p);
std::int64_t place_of(const Parallelism& p, std::int64_t stage, std::int64_t chunk);
/// Whether microbatches pass this chunk from the last stage to the first.
bool upward(Placement placement, std::int64_t chunk);

/// The order list of a stage (modelling 8.1): every (pass, microbatch, chunk) once. In a two-way pipeline chunk c has the microbatches
/// c*m/2 … (c+1)*m/2 - 1.
std::vector<ScheduleEntry> schedule_order(const Parallelism& p, std::int64_t stage, std::int64_t microbatches);
/// Of all stages at once.
std::vector<std::vector<ScheduleEntry>> schedule_orders(const Parallelism& p, std::int64_t microbatches);

/// A pipeline as its order lists see it. chunks: of a rank.
struct PipelineShape {
  std::int64_t stages = 1, chunks = 1, microbatches = 1;
  Placement placement = Placement::kLooped;
};
PipelineShape shape_of(const Parallelism& p, std::int64_t microbatches);
struct OrderProblem {
  std::int64_t stage = 0, entry = 0;  ///< entry: index in the stage's list, its size where something is missing
  std::string text;
};
/// What is wrong with order lists, at most 20: passes that are missing, twice, out of range or before what they need; messages that two
/// stages expect in different orders; lists that wait for one another. Empty where they can run.
std::vector<OrderProblem> check_orders(const PipelineShape& shape, const std::vector<std::vector<ScheduleEntry>>& orders);
/// Length of the step where forward, input and weight gradients of a chunk take 1 each on every stage and messages take nothing.
/// Requires orders that check_orders passes.
std::int64_t unit_makespan(const PipelineShape& shape, const std::vector<std::vector<ScheduleEntry>>& orders);

/// Share of a step's pipeline time in which a stage computes, by the schedule's closed form (modelling 8.1): equal stages, free transfers,
/// nothing but the pipeline, and where a schedule splits the backward pass equal forward, input and weight gradients. For order lists from a
/// file, which have no closed form, those lists played under the same terms. A yardstick to print beside the simulated one; the simulation never uses it.
double closed_form_efficiency(const Parallelism& p, std::int64_t microbatches);

/// Layers of each chunk in the order a microbatch passes them (chunk c of stage s is number c*stages + s): an even split of the layers,
/// where the embedding and the head may each take the place of one; a remainder as `uneven` says: "refuse", "front", "back", "full" (every chunk
/// but the last has the rounded-up share).
/// Empty where that is refused. Requires 1 <= chunks <= layers and what else takes a place.
std::vector<std::int64_t> split_layers(std::int64_t layers, std::int64_t chunks, bool account_for_embedding, bool account_for_loss,
                                       std::string_view uneven);

/// Layers of each stage where a stage is full once the cost so far passes its share of the whole, the head (last) counted: how nanotron cuts
/// a model (nanotron src/nanotron/models/base.py, build_model). Stages may be left without layers.
std::vector<std::int64_t> split_layers_by_cost(std::int64_t layers, std::int64_t stages, double layer_cost, double head_cost);

/// Reads and checks the whole layout: sizes multiply to the GPUs, batch divides, heads and kv_heads and ffn divide by tp, layers fit
/// the stages, the schedule admits pp, vp and microbatches. `gpus` is how many GPUs the job uses. All problems at once.
/// `scenario` is resolved; of its stack only layout.uneven_layers is read ("refuse" where the stack does not say).
Result<Parallelism> read_parallelism(const document::Value& scenario, const std::string& file, const workload::Model& model,
                                     const workload::Training& training, std::int64_t gpus);
/// Microbatches per step and data-parallel replica.
std::int64_t microbatches(const Parallelism& p, const workload::Training& t);

}  // namespace orrery::plan
