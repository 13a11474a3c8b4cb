// A forward and a backward pass of two microbatches whose exchanges of tokens run under each other's compute.
//
// Both passes are lists of steps. One goes on until it has an exchange to make, which it leaves running on the experts' stream; then the
// other goes on until it has one, and the first takes up again behind its own. So the exchanges of either pass lie under what the other
// computes meanwhile: the backward combine under the forward attention, the forward dispatch under the experts' backward, the backward
// dispatch under the experts' forward, the forward combine under the attention's backward. That is the order in which Megatron-LM issues
// a pair of layers (core/pipeline_parallel/combined_1f1b.py, core/models/common/model_chunk_schedule_plan.py) and DualPipe's overlapped
// pair (DeepSeek-V3, arXiv:2412.19437, figure 4), the backward pass first. How much is hidden is what the engine finds.
#include <memory>
#include <utility>

#include "pipeline.hpp"

namespace orrery::program {

namespace {

/// One of the two passes: where it is, and which exchanges of it are under way.
template <class Step>
struct Side {
  std::vector<Step> steps;
  std::size_t next = 0;
  std::vector<const Piece*> running = {};
  std::uint32_t ended = kNoEvent;  ///< the last of them: they follow each other on one stream
  [[nodiscard]] bool done() const { return next == steps.size() && running.empty(); }
};

}  // namespace

void Pipeline::add_pass(std::vector<Step>& steps, const Pass& pass, std::function<std::uint32_t()> base, const plan::ScheduleEntry& entry) const {
  const auto at = [this, entry](auto&& act) {
    return [this, entry, act] {
      b_.set_position(entry.microbatch, entry.chunk);
      act();
    };
  };
  steps.push_back({at([this, &pass, base = std::move(base)] { b_.start(pass, base()); })});
  const auto ended = std::make_shared<std::vector<std::uint32_t>>();
  for (const Piece& piece : pass.pieces) {
    const bool exchange = piece.collective && piece.ticket < 0 && b_.requests()[piece.index].axis == workload::Axis::kEp && b_.requests()[piece.index].kind == workload::CommKind::kAllToAll;
    steps.push_back({at([this, &piece, ended] { b_.issue(piece, *ended); }), exchange ? &piece : nullptr});
  }
}

std::vector<Pipeline::Step> Pipeline::forward_steps(const Turn& turn) {
  std::vector<Step> steps;
  const std::int32_t chunk = turn.entry.chunk;
  const ChunkLayers& layers = chunks_[static_cast<std::size_t>(chunk)];
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerPasses& passes = *layers[i].passes;
    steps.push_back({[this, &turn, &passes, chunk, i] {
      b_.set_position(turn.entry.microbatch, chunk);
      dp_.before_forward(turn.first, chunk, i);
      if (turn.first) b_.lone_pass(passes.once_per_step, 0);
    }});
    add_pass(steps, passes.forward, [this, &passes, i] { return b_.open(i, passes.slots); }, turn.entry);
    steps.push_back({[this, &turn, chunk, i] {
      b_.set_position(turn.entry.microbatch, chunk);
      dp_.after_forward(turn.returns, turn.entry.microbatch, chunk, i);
    }});
  }
  return steps;
}

std::vector<Pipeline::Step> Pipeline::backward_steps(const Turn& turn) {
  std::vector<Step> steps;
  const std::int32_t chunk = turn.entry.chunk;
  const ChunkLayers& layers = chunks_[static_cast<std::size_t>(chunk)];
  const bool whole = turn.entry.pass == plan::Pass::kBackward;
  for (std::size_t i = layers.size(); i-- > 0;) {
    const LayerPasses& passes = *layers[i].passes;
    const auto handles = [this, i] { return b_.handles(i); };
    steps.push_back({[this, &turn, &passes, whole, chunk, i] {
      b_.set_position(turn.entry.microbatch, chunk);
      dp_.before_backward(whole, turn.entry.microbatch, chunk, i);
      if (passes.recomputes) b_.host_work(job_.stack.checkpoint_region_us);
    }});
    if (passes.recomputes) add_pass(steps, passes.recompute, handles, turn.entry);
    add_pass(steps, whole ? passes.backward : passes.input_gradients, handles, turn.entry);
    steps.push_back({[this, &turn, &passes, whole, chunk, i] {
      b_.set_position(turn.entry.microbatch, chunk);
      if (whole) {
        b_.close(i, passes.slots);
        dp_.after_weights(turn.first, turn.last, chunk, i);
      } else {
        dp_.after_inputs(chunk, i);
      }
    }});
  }
  return steps;
}

void Pipeline::pair_under_exchanges(const Turn& forward_turn, const Turn& backward_turn) {
  begin(forward_turn);
  begin(backward_turn);
  b_.blocks().mark();
  Side<Step> back{backward_steps(backward_turn)}, forth{forward_steps(forward_turn)};
  const auto advance = [this](Side<Step>& side, const plan::ScheduleEntry& entry, const Side<Step>& other) {
    b_.set_position(entry.microbatch, entry.chunk);
    for (const Piece* piece : std::exchange(side.running, {})) b_.settle(*piece, std::exchange(side.ended, kNoEvent));
    for (; side.next < side.steps.size(); ++side.next) {
      const Step& step = side.steps[side.next];
      if (step.exchange == nullptr || other.done()) {
        if (!side.running.empty()) return;  // exchanges in a row are under way together
        step.run();
        continue;
      }
      b_.set_position(entry.microbatch, entry.chunk);
      side.ended = b_.issue_beside(*step.exchange);
      side.running.push_back(step.exchange);
    }
  };
  while (!back.done() || !forth.done()) {
    advance(back, backward_turn.entry, forth);
    advance(forth, forward_turn.entry, back);
  }
}

}  // namespace orrery::program
