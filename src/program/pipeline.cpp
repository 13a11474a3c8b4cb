#include "pipeline.hpp"

#include <algorithm>
#include <utility>

#include "orrery/base/assert.hpp"

namespace orrery::program {

using plan::ScheduleEntry;

Pipeline::Pipeline(RoleBuilder& builder, DataParallel& data_parallel, const Job& job, const std::vector<ChunkLayers>& chunks, std::int64_t stage)
    : b_(builder), dp_(data_parallel), job_(job), chunks_(chunks), stage_(stage) {
  const workload::Shard shard = shard_of(job);
  for (std::int64_t c = 0; c < job.parallelism.vp; ++c) {
    const plan::Chunk chunk = plan::chunk_of(job.parallelism, stage, c);
    const auto entering = [&](std::int64_t layer) { return workload::input_bytes(job.model, job.training, shard, layer); };
    boundaries_.push_back({entering(chunk.first_layer), entering(chunk.first_layer + chunk.layers)});
  }
}

Pipeline::Traffic Pipeline::traffic(const ScheduleEntry& entry) const {
  const auto last_chunk = static_cast<std::int32_t>(job_.parallelism.vp - 1);
  const bool first = stage_ == 0 && entry.chunk == 0;
  const bool last = stage_ == job_.parallelism.pp - 1 && entry.chunk == last_chunk;
  if (job_.parallelism.pp == 1) return {};
  const Boundaries& bytes = boundaries_[static_cast<std::size_t>(entry.chunk)];
  if (entry.pass == plan::Pass::kForward) return {!first, !last, {Slot::kForwardIn, bytes.before}, {Slot::kForwardOut, bytes.after}};
  return {!last, !first, {Slot::kBackwardIn, bytes.after}, {Slot::kBackwardOut, bytes.before}};
}

void Pipeline::forward(const ScheduleEntry& entry) {
  const ChunkLayers& layers = chunks_[static_cast<std::size_t>(entry.chunk)];
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerSlot& layer = layers[i];
    dp_.before_forward(entry.microbatch, entry.chunk, i);
    if (entry.microbatch == 0) b_.lone_pass(layer.passes->once_per_step, 0);
    if (layer.full_recompute) {
      // The input of a recomputed group is what stays of it; the pass itself drops everything it makes.
      if (layer.opens_group) b_.host_work(job_.stack.checkpoint_region_us);
      b_.lone_pass(layer.passes->forward_discarding, layer.passes->slots);
      if (layer.opens_group) b_.allocate(MemoryKind::kActivations, layer.passes->input_bytes);
    } else {
      b_.opening_pass(layer.passes->forward, i, layer.passes->slots);
    }
    dp_.after_forward(entry.microbatch, entry.chunk, i);
  }
}

void Pipeline::backward(const ScheduleEntry& entry) {
  const ChunkLayers& layers = chunks_[static_cast<std::size_t>(entry.chunk)];
  for (std::size_t end = layers.size(); end > 0;) {
    std::size_t begin = end - 1;
    if (layers[begin].full_recompute) {
      while (!layers[begin].opens_group) --begin;
      b_.host_work(job_.stack.checkpoint_region_us);
      dp_.fetch_activations(entry.microbatch, entry.chunk, begin);
      b_.free(MemoryKind::kActivations, layers[begin].passes->input_bytes);  // from here on the pass' own input stands for it
      for (std::size_t i = begin; i < end; ++i) {
        dp_.before_backward(entry.microbatch, entry.chunk, i);
        b_.opening_pass(layers[i].passes->forward, i, layers[i].passes->slots);
      }
    }
    for (std::size_t i = end; i-- > begin;) {
      const LayerSlot& layer = layers[i];
      if (!layer.full_recompute) {
        dp_.before_backward(entry.microbatch, entry.chunk, i);
        if (layer.passes->recomputes) {
          b_.host_work(job_.stack.checkpoint_region_us);
          b_.inner_pass(layer.passes->recompute, i);
        }
      }
      b_.closing_pass(layer.passes->backward, i, layer.passes->slots);
      dp_.after_backward(entry.microbatch, entry.chunk, i);
    }
    end = begin;
  }
}

void Pipeline::compute(const ScheduleEntry& entry) {
  b_.set_position(entry.microbatch, entry.chunk);
  b_.blocks().mark();
  if (entry.pass == plan::Pass::kForward) {
    forward(entry);
  } else {
    backward(entry);
  }
}

void Pipeline::run(const std::vector<ScheduleEntry>& order) {
  if (job_.parallelism.p2p_overlapped) {
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
    compute(order[k]);
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
    warmup = std::min(forwards, static_cast<std::size_t>(2 * (p.pp - stage_ - 1) + (p.vp - 1) * p.pp));
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
    compute(order[k]);
    if (traffic(order[k]).sends) exchange.push_back(traffic(order[k]).out);
    if (opens_pair(k)) continue;
    receive_next(k + 1);
    b_.batch(Stream::kCompute, std::exchange(exchange, {}));
  }
}

void Pipeline::run_overlapped(const std::vector<ScheduleEntry>& order) {
  // A receive is posted when the compute before it in its own direction has been issued, and runs beside the other direction's compute.
  const auto next_of = [&](std::size_t from, plan::Pass pass) {
    while (from < order.size() && order[from].pass != pass) ++from;
    return from;
  };
  std::vector<std::uint32_t> arrived(order.size(), kNoEvent);
  const auto post = [&](std::size_t k, std::uint32_t after) {
    if (k >= order.size()) return;
    const Traffic t = traffic(order[k]);
    if (!t.receives) return;
    const Stream stream = t.in.slot == Slot::kForwardIn ? Stream::kForwardReceive : Stream::kBackwardReceive;
    b_.set_position(order[k].microbatch, order[k].chunk);
    arrived[k] = b_.batch(stream, {t.in}, after);
  };
  post(next_of(0, plan::Pass::kForward), kNoEvent);
  post(next_of(0, plan::Pass::kBackward), kNoEvent);
  for (std::size_t k = 0; k < order.size(); ++k) {
    b_.wait(arrived[k]);
    compute(order[k]);
    const std::uint32_t done = b_.compute_done();
    const Traffic t = traffic(order[k]);
    if (t.sends) b_.batch(t.out.slot == Slot::kForwardOut ? Stream::kForwardSend : Stream::kBackwardSend, {t.out}, done);
    post(next_of(k + 1, order[k].pass), done);
  }
}

}  // namespace orrery::program
