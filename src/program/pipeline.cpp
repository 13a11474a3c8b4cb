#include "pipeline.hpp"

#include <algorithm>
#include <utility>

#include "orrery/base/assert.hpp"

namespace orrery::program {

using plan::ScheduleEntry;

Pipeline::Pipeline(RoleBuilder& builder, DataParallel& data_parallel, const Job& job, const std::vector<ChunkLayers>& chunks, std::int64_t stage)
    : b_(builder), dp_(data_parallel), job_(job), chunks_(chunks), stage_(stage) {
  const workload::Shard shard = shard_of(job);
  for (std::int64_t c = 0; c < plan::chunks_per_rank(job.parallelism); ++c) {
    const plan::Chunk chunk = plan::chunk_of(job.parallelism, stage, c);
    const auto entering = [&](std::int64_t layer) { return workload::input_bytes(job.model, job.training, shard, layer); };
    boundaries_.push_back({entering(chunk.first_layer), entering(chunk.first_layer + chunk.layers)});
  }
}

Pipeline::Traffic Pipeline::traffic(const ScheduleEntry& entry) const {
  const plan::Parallelism& p = job_.parallelism;
  if (p.pp == 1 || entry.pass == plan::Pass::kWeight) return {};
  const std::int64_t place = plan::place_of(p, stage_, entry.chunk), last = plan::places(p) - 1;
  // Where the V turns, a stage hands to itself.
  const bool turns = p.placement == plan::Placement::kV && stage_ == p.pp - 1;
  const bool before = place > 0 && !(turns && entry.chunk == 1), after = place < last && !(turns && entry.chunk == 0);
  const Boundaries& bytes = boundaries_[static_cast<std::size_t>(entry.chunk)];
  const bool up = plan::upward(p.placement, entry.chunk);
  if (entry.pass == plan::Pass::kForward) {
    return {before, after, {up ? Slot::kUpForwardIn : Slot::kForwardIn, bytes.before}, {up ? Slot::kUpForwardOut : Slot::kForwardOut, bytes.after}};
  }
  return {after, before, {up ? Slot::kUpBackwardIn : Slot::kBackwardIn, bytes.after}, {up ? Slot::kUpBackwardOut : Slot::kBackwardOut, bytes.before}};
}

std::vector<Pipeline::Turn> Pipeline::turns(const std::vector<ScheduleEntry>& order) const {
  std::vector<Turn> turns;
  turns.reserve(order.size());
  std::vector<std::size_t> last(chunks_.size(), SIZE_MAX);
  std::vector<bool> used(chunks_.size(), false);
  for (const ScheduleEntry& entry : order) {
    const auto chunk = static_cast<std::size_t>(entry.chunk);
    const bool is_forward = entry.pass == plan::Pass::kForward, makes_weights = entry.pass == plan::Pass::kBackward || entry.pass == plan::Pass::kWeight;
    turns.push_back({entry, (is_forward && !used[chunk]) || (makes_weights && last[chunk] == SIZE_MAX), false});
    if (makes_weights) last[chunk] = turns.size() - 1;
    if (is_forward) used[chunk] = true;
  }
  for (const std::size_t k : last) {
    if (k != SIZE_MAX) turns[k].last = true;
  }
  for (std::size_t k = 0; k + 1 < order.size(); ++k) {
    turns[k].returns = order[k].pass == plan::Pass::kForward && order[k + 1].pass != plan::Pass::kForward && order[k + 1].microbatch == order[k].microbatch &&
                       order[k + 1].chunk == order[k].chunk;
  }
  return turns;
}

void Pipeline::begin(const Turn& turn) {
  b_.set_position(turn.entry.microbatch, turn.entry.chunk);
  b_.role().order.push_back({turn.entry, b_.compute_issued()});
}

/// The input of a recomputed group, in the parts that leave for host memory and stay.
void Pipeline::keep_input(const LayerSlot& layer, bool keep) {
  const std::int64_t leaves = workload::host_share(layer.passes->input_bytes, job_.training.offload.activations);
  for (const std::int64_t bytes : {leaves, layer.passes->input_bytes - leaves}) {
    keep ? b_.allocate(MemoryKind::kActivations, bytes) : b_.free(MemoryKind::kActivations, bytes);
  }
}

void Pipeline::forward(const Turn& turn, std::size_t i) {
  const std::int32_t chunk = turn.entry.chunk;
  const LayerSlot& layer = chunks_[static_cast<std::size_t>(chunk)][i];
  dp_.before_forward(turn.first, chunk, i);
  if (turn.first) b_.lone_pass(layer.passes->once_per_step, 0);
  if (layer.full_recompute) {
    // The input of a recomputed group is what stays of it; the pass itself drops everything it makes.
    if (layer.opens_group) b_.host_work(job_.stack.checkpoint_region_us);
    b_.lone_pass(layer.passes->forward_discarding, layer.passes->slots);
    if (layer.opens_group) keep_input(layer, true);
  } else {
    b_.opening_pass(layer.passes->forward, i, layer.passes->slots);
  }
  dp_.after_forward(turn.returns, turn.entry.microbatch, chunk, i);
}

std::size_t Pipeline::backward(const Turn& turn, std::size_t end) {
  const std::int32_t microbatch = turn.entry.microbatch, chunk = turn.entry.chunk;
  const ChunkLayers& layers = chunks_[static_cast<std::size_t>(chunk)];
  const bool whole = turn.entry.pass == plan::Pass::kBackward;
  std::size_t begin = end - 1;
  if (layers[begin].full_recompute) {
    while (!layers[begin].opens_group) --begin;
    b_.host_work(job_.stack.checkpoint_region_us);
    dp_.fetch_activations(microbatch, chunk, begin);
    keep_input(layers[begin], false);  // from here on the pass' own input stands for it
    for (std::size_t i = begin; i < end; ++i) {
      dp_.before_backward(whole, microbatch, chunk, i);
      b_.opening_pass(layers[i].passes->forward, i, layers[i].passes->slots);
    }
  }
  for (std::size_t i = end; i-- > begin;) {
    const LayerSlot& layer = layers[i];
    if (!layer.full_recompute) {
      dp_.before_backward(whole, microbatch, chunk, i);
      if (layer.passes->recomputes) {
        b_.host_work(job_.stack.checkpoint_region_us);
        b_.inner_pass(layer.passes->recompute, i);
      }
    }
    if (whole) {
      b_.closing_pass(layer.passes->backward, i, layer.passes->slots);
      dp_.after_weights(turn.first, turn.last, chunk, i);
    } else {
      b_.inner_pass(layer.passes->input_gradients, i);
      dp_.after_inputs(chunk, i);
    }
  }
  return begin;
}

void Pipeline::weights(const Turn& turn) {
  const std::int32_t chunk = turn.entry.chunk;
  const ChunkLayers& layers = chunks_[static_cast<std::size_t>(chunk)];
  for (std::size_t i = layers.size(); i-- > 0;) {
    dp_.before_weights(chunk, i);
    b_.closing_pass(layers[i].passes->weight_gradients, i, layers[i].passes->slots);
    dp_.after_weights(turn.first, turn.last, chunk, i);
  }
}

void Pipeline::compute(const Turn& turn) {
  begin(turn);
  b_.blocks().mark();
  const std::size_t layers = chunks_[static_cast<std::size_t>(turn.entry.chunk)].size();
  if (turn.entry.pass == plan::Pass::kForward) {
    for (std::size_t i = 0; i < layers; ++i) forward(turn, i);
  } else if (turn.entry.pass == plan::Pass::kWeight) {
    weights(turn);
  } else {
    for (std::size_t end = layers; end > 0;) end = backward(turn, end);
  }
}

void Pipeline::pair(const Turn& forward_turn, const Turn& backward_turn) {
  if (job_.parallelism.overlap_ep) return pair_under_exchanges(forward_turn, backward_turn);
  // Layer by layer in turn, as DualPipe's overlapped pair does: what one of the two communicates may pass under the other.
  begin(forward_turn);
  begin(backward_turn);
  b_.blocks().mark();
  const std::size_t layers = chunks_[static_cast<std::size_t>(forward_turn.entry.chunk)].size();
  std::size_t end = chunks_[static_cast<std::size_t>(backward_turn.entry.chunk)].size();
  for (std::size_t i = 0; i < layers || end > 0; ++i) {
    if (i < layers) {
      b_.set_position(forward_turn.entry.microbatch, forward_turn.entry.chunk);
      forward(forward_turn, i);
    }
    if (end > 0) {
      b_.set_position(backward_turn.entry.microbatch, backward_turn.entry.chunk);
      end = backward(backward_turn, end);
    }
  }
}

void Pipeline::run(const std::vector<ScheduleEntry>& order) {
  turns_ = turns(order);
  if (job_.parallelism.p2p_overlapped || job_.parallelism.overlap_ep) {
    run_overlapped(order);
  } else if (job_.parallelism.vp > 1) {
    run_blocking_chunks(order);
  } else {
    run_blocking(order);
  }
}

void Pipeline::run_blocking(const std::vector<ScheduleEntry>& order) {
  // Where the next entry goes the other way, its receive and this entry's send are one batch (send_forward_recv_backward): both
  // neighbours would wait for each other otherwise.
  bool received = false;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const Traffic now = traffic(order[k]);
    b_.set_position(order[k].microbatch, order[k].chunk);
    if (now.receives && !received) b_.batch(Stream::kCompute, {now.in});
    received = false;
    compute(turns_[k]);
    std::vector<PointToPoint> exchange;
    if (now.sends) exchange.push_back(now.out);
    if (k + 1 < order.size() && order[k + 1].pass != order[k].pass) {
      const Traffic next = traffic(order[k + 1]);
      if (next.receives) {
        exchange.push_back(next.in);
        received = true;
      }
    }
    b_.batch(Stream::kCompute, std::move(exchange));
  }
}

void Pipeline::run_blocking_chunks(const std::vector<ScheduleEntry>& order) {
  // Warm-up and drain exchange after every entry; in between a forward and a backward entry are a pair, and one batch after both carries
  // what they send and what the next pair needs (send_forward_backward_recv_forward_backward).
  const plan::Parallelism& p = job_.parallelism;
  const std::size_t forwards = order.size() / 2;
  std::size_t warmup = forwards;
  if (forwards != static_cast<std::size_t>(p.pp * p.vp)) {
    warmup = std::min(forwards, static_cast<std::size_t>(2 * (p.pp - stage_ - 1) + (p.vp - 1) * (p.interleave_group > 0 ? p.interleave_group : p.pp)));
  }
  const std::size_t drain = warmup + 2 * (forwards - warmup);
  const auto opens_pair = [&](std::size_t k) { return k >= warmup && k < drain && (k - warmup) % 2 == 0; };
  std::vector<PointToPoint> exchange;
  const auto receive = [&](std::size_t k) {
    if (k < order.size() && traffic(order[k]).receives) exchange.push_back(traffic(order[k]).in);
  };
  const auto receive_next = [&](std::size_t k) {
    receive(k);
    if (opens_pair(k)) receive(k + 1);
  };
  receive_next(0);
  b_.batch(Stream::kCompute, std::exchange(exchange, {}));
  for (std::size_t k = 0; k < order.size(); ++k) {
    compute(turns_[k]);
    if (traffic(order[k]).sends) exchange.push_back(traffic(order[k]).out);
    if (opens_pair(k)) continue;
    receive_next(k + 1);
    b_.batch(Stream::kCompute, std::exchange(exchange, {}));
  }
}

void Pipeline::run_overlapped(const std::vector<ScheduleEntry>& order) {
  // A receive is posted when the compute before it in its own direction has been issued, and runs beside the other direction's compute
  // (Megatron). Posted sooner it would stand in its stream behind the one in flight, and what waits there counts against the host's
  // run-ahead. Breadth-first, where the loop closes, the sender is a whole round ahead: there the receive follows the same microbatch's
  // pass through the chunk before, else its messages would wait for every microbatch and hold up their sender.
  const plan::Parallelism& p = job_.parallelism;
  enum Direction : std::size_t { kForwards, kBackwards, kDirections };
  std::array<std::vector<std::size_t>, kDirections> of;  // entries of each direction, in order
  std::vector<std::size_t> number(order.size(), 0);      // place of an entry in its direction's list
  const auto direction = [&](std::size_t k) { return order[k].pass == plan::Pass::kForward ? kForwards : kBackwards; };
  for (std::size_t k = 0; k < order.size(); ++k) {
    if (order[k].pass == plan::Pass::kWeight) continue;
    number[k] = of[direction(k)].size();
    of[direction(k)].push_back(k);
  }
  std::vector<std::uint32_t> arrived(order.size(), kNoEvent);
  const auto post = [&](Direction d, std::size_t n, std::uint32_t after) {
    if (n >= of[d].size()) return;
    const std::size_t k = of[d][n];
    const Traffic t = traffic(order[k]);
    if (!t.receives) return;
    b_.set_position(order[k].microbatch, order[k].chunk);
    arrived[k] = b_.batch(stream_of(t.in.slot), {t.in}, after);
  };
  const auto ahead = [&](Direction d) {
    const bool closes = p.schedule == plan::Schedule::kBfs && stage_ == (d == kForwards ? 0 : p.pp - 1);
    return closes ? static_cast<std::size_t>(plan::microbatches(p, job_.training)) : std::size_t{1};
  };
  post(kForwards, 0, kNoEvent);
  post(kBackwards, 0, kNoEvent);
  for (std::size_t k = 0; k < order.size();) {
    const std::size_t end = order[k].with_next ? k + 2 : k + 1;
    for (std::size_t i = k; i < end; ++i) b_.wait(arrived[i]);
    if (end == k + 2) {
      const bool ordered = direction(k) == kForwards;
      pair(turns_[ordered ? k : k + 1], turns_[ordered ? k + 1 : k]);
    } else {
      compute(turns_[k]);
    }
    if (order[k].pass == plan::Pass::kWeight) {
      ++k;
      continue;
    }
    const std::uint32_t done = b_.compute_done();
    for (; k < end; ++k) {
      b_.set_position(order[k].microbatch, order[k].chunk);
      const Traffic t = traffic(order[k]);
      if (t.sends) b_.batch(stream_of(t.out.slot), {t.out}, done);
      post(direction(k), number[k] + ahead(direction(k)), done);
    }
  }
}

}  // namespace orrery::program
