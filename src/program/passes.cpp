#include "passes.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "orrery/base/assert.hpp"

namespace orrery::program {
namespace {

using workload::Comm;
using workload::Operation;

/// Runs the memory events of one operation against the level inside a piece.
struct Level {
  std::int64_t now = 0, peak = 0;
  void change(std::int64_t bytes) {
    now += bytes;
    peak = std::max(peak, now);
  }
  void close(Piece& piece) const {
    piece.allocate = peak;
    piece.free = peak - now;
  }
};

std::vector<std::vector<MemoryEvent>> by_operation(std::size_t operations, const std::vector<MemoryEvent>& memory) {
  std::vector<std::vector<MemoryEvent>> at(std::max<std::size_t>(operations, 1));
  for (const MemoryEvent& event : memory) {
    if (event.bytes == 0) continue;
    ORRERY_ASSERT(event.operation >= 0 && static_cast<std::size_t>(event.operation) < at.size(), "a tensor lives inside its pass");
    at[static_cast<std::size_t>(event.operation)].push_back(event);
  }
  return at;
}

/// The backward pass in two halves. What a weight-gradient operation uses lives until the last of them that uses it has run, in the
/// second half, however much later that is (modelling 5.4).
struct Halves {
  std::vector<Operation> input, weight;
  std::vector<MemoryEvent> input_memory, weight_memory;

  /// slot: of the first backward temporary; saved tensors, recompute's temporaries and what it re-makes have the slots after them.
  Halves(const workload::Layer& layer, std::uint32_t slot) : in_weight(layer.backward.size(), false) {
    for (const int i : layer.weight_gradient) in_weight[static_cast<std::size_t>(i)] = true;
    for (std::size_t i = 0; i < layer.backward.size(); ++i) {
      (in_weight[i] ? weight : input).push_back(layer.backward[i]);
      last_input.push_back(std::max(0, static_cast<int>(input.size()) - 1));
      last_weight.push_back(std::max(0, static_cast<int>(weight.size()) - 1));
    }
    if (layer.backward.empty()) last_input = {0};
    for (const workload::Tensor& t : layer.backward_tensors) {
      if (!t.arrives && in_weight[static_cast<std::size_t>(t.alloc_at)]) {
        ORRERY_ASSERT(t.weight_use == t.free_at, "what a weight-gradient operation makes, only others of them use");
        weight_memory.push_back({last_weight[static_cast<std::size_t>(t.alloc_at)], t.bytes, slot});
      } else {
        input_memory.push_back({last_input[static_cast<std::size_t>(t.alloc_at)], t.bytes, slot});
      }
      release(t.bytes, t.free_at, t.weight_use, slot++);
    }
    for (const workload::SavedTensor& t : layer.saved) release(t.bytes, t.backward_free_at, t.weight_use, slot++);
    slot += static_cast<std::uint32_t>(layer.recompute_temporaries.size());
    for (const workload::Tensor& t : layer.recompute_tensors) release(t.bytes, t.free_at, t.weight_use, slot++);
  }

 private:
  std::vector<bool> in_weight;               // by operation of the whole pass
  std::vector<int> last_input, last_weight;  // position in its half of the last operation up to this one

  void release(std::int64_t bytes, int free_at, int weight_use, std::uint32_t slot) {
    if (weight_use >= 0) {
      weight_memory.push_back({last_weight[static_cast<std::size_t>(weight_use)], -bytes, slot});
    } else {
      input_memory.push_back({last_input[static_cast<std::size_t>(free_at)], -bytes, slot});
    }
  }
};

/// How many saved tensors, from the first made on, leave for host memory: whole ones, but for the last, which is cut in two where it
/// exceeds the share.
std::size_t cut_at_share(std::vector<workload::SavedTensor>& saved, double share) {
  std::int64_t left = 0;
  for (const workload::SavedTensor& t : saved) left += t.bytes;
  left = workload::host_share(left, share);
  std::size_t leaving = 0;
  for (; leaving < saved.size() && left > 0; ++leaving) {
    workload::SavedTensor& t = saved[leaving];
    if (t.bytes > left) {
      workload::SavedTensor stays = t;
      stays.bytes -= left;
      t.bytes = left;
      saved.insert(saved.begin() + static_cast<std::ptrdiff_t>(leaving) + 1, stays);
    }
    left -= saved[leaving].bytes;
  }
  return leaving;
}

}  // namespace

std::uint32_t request_index(std::vector<Request>& requests, const Request& request) {
  const auto found = std::find(requests.begin(), requests.end(), request);
  if (found != requests.end()) return static_cast<std::uint32_t>(found - requests.begin());
  requests.push_back(request);
  return static_cast<std::uint32_t>(requests.size() - 1);
}

Pass make_pass(const std::string& name, Phase phase, double host_op_us, const std::vector<Operation>& operations,
               const std::vector<MemoryEvent>& memory, Role& role, std::vector<Request>& requests) {
  std::vector<Segment>& segments = role.segments;
  Pass pass;
  pass.blocks = static_cast<std::uint32_t>(role.blocks.lists.size());
  std::vector<BlockEvent>& blocks = role.blocks.lists.emplace_back().events;
  const auto events = by_operation(operations.size(), memory);
  std::vector<Operation> run;
  Level level;
  const auto flush = [&] {
    if (run.empty() && level.peak == 0 && level.now == 0) return;
    Piece piece;
    level.close(piece);
    piece.index = static_cast<std::uint32_t>(segments.size());
    segments.push_back(Segment{fmt::format("{} {}", name, pass.pieces.size()), phase, std::move(run), host_op_us});
    run.clear();
    level = Level{};
    pass.pieces.push_back(piece);
  };
  if (operations.empty()) {  // a half of a backward pass may have nothing to run and still hold what the other half reads
    for (const MemoryEvent& e : events.front()) {
      level.change(e.bytes);
      blocks.push_back({e.slot, MemoryKind::kActivations, 0, std::max<std::int64_t>(0, e.bytes)});
    }
  }
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const auto* comm = std::get_if<Comm>(&operations[i].work);
    const auto* await = std::get_if<workload::Await>(&operations[i].work);
    const bool kernel = comm == nullptr && await == nullptr;
    if (!kernel) flush();
    for (const MemoryEvent& e : events[i]) {
      if (e.bytes <= 0) continue;
      level.change(e.bytes);
      blocks.push_back({e.slot, MemoryKind::kActivations, 0, e.bytes});
    }
    if (kernel) run.push_back(operations[i]);
    for (const MemoryEvent& e : events[i]) {
      if (e.bytes >= 0) continue;
      level.change(e.bytes);
      blocks.push_back({e.slot, MemoryKind::kActivations, 0, 0});
    }
    if (!kernel) {
      Piece piece;
      if (comm != nullptr) {
        piece.collective = true;
        piece.ticket = comm->ticket;
        piece.index = request_index(requests, Request{comm->axis, comm->kind, comm->bytes, comm->sms, comm->route});
      } else {
        piece.awaits = true;
        piece.ticket = await->ticket;
      }
      level.close(piece);
      level = Level{};
      pass.pieces.push_back(piece);
    }
  }
  flush();
  return pass;
}

LayerPasses make_layer_passes(workload::Layer layer, double forward_op_us, double backward_op_us, Role& role,
                              std::vector<Request>& requests, bool split, double offloaded) {
  const std::string& name = layer.name;
  LayerPasses out;
  out.kind = layer.kind;
  out.input_bytes = layer.input_bytes;
  out.output_bytes = layer.output_bytes;
  out.parameters = layer.parameters;
  out.weight_copies = layer.weight_copies;

  const auto temporaries = [&out](const std::vector<workload::Tensor>& tensors, std::vector<MemoryEvent>& into) {
    for (const auto& t : tensors) {
      into.push_back({t.alloc_at, t.bytes, out.slots});
      into.push_back({t.free_at, -t.bytes, out.slots++});
    }
  };
  std::vector<MemoryEvent> forward, discarding, recompute, backward;
  temporaries(layer.forward_tensors, forward);
  discarding = forward;
  temporaries(layer.backward_tensors, backward);
  const int last = std::max(0, static_cast<int>(layer.forward.size()) - 1);
  std::size_t leaving = cut_at_share(layer.saved, offloaded);
  if (leaving > 0) {
    out.leave = static_cast<std::uint32_t>(role.blocks.lists.size());
    out.come_back = out.leave + 1;
    role.blocks.lists.resize(role.blocks.lists.size() + 2);
  }
  for (const auto& t : layer.saved) {
    out.saved_bytes += t.bytes;
    if (leaving > 0) {
      --leaving;
      out.leaving_bytes += t.bytes;
      role.blocks.lists[out.leave].events.push_back({out.slots, MemoryKind::kActivations, 0, 0});
      role.blocks.lists[out.come_back].events.push_back({out.slots, MemoryKind::kActivations, static_cast<std::uint8_t>(Stream::kCopyIn), t.bytes});
    }
    forward.push_back({t.forward_alloc_at, t.bytes, out.slots});
    discarding.push_back({t.forward_alloc_at, t.bytes, out.slots});
    discarding.push_back({last, -t.bytes, out.slots});
    backward.push_back({t.backward_free_at, -t.bytes, out.slots++});
  }
  temporaries(layer.recompute_temporaries, recompute);
  // What recompute re-makes lives until the backward operation that uses it last.
  for (const auto& t : layer.recompute_tensors) {
    recompute.push_back({t.alloc_at, t.bytes, out.slots});
    backward.push_back({t.free_at, -t.bytes, out.slots++});
  }
  out.forward = make_pass(name + " forward", Phase::kForward, forward_op_us, layer.forward, forward, role, requests);
  out.forward_discarding = make_pass(name + " forward", Phase::kForward, forward_op_us, layer.forward, discarding, role, requests);
  out.recompute = make_pass(name + " recompute", Phase::kRecompute, forward_op_us, layer.recompute, recompute, role, requests);
  out.backward = make_pass(name + " backward", Phase::kBackward, backward_op_us, layer.backward, backward, role, requests);
  if (split) {
    const Halves halves(layer, static_cast<std::uint32_t>(layer.forward_tensors.size()));
    out.input_gradients = make_pass(name + " input gradients", Phase::kBackward, backward_op_us, halves.input, halves.input_memory, role, requests);
    out.weight_gradients = make_pass(name + " weight gradients", Phase::kBackward, backward_op_us, halves.weight, halves.weight_memory, role, requests);
  }
  out.once_per_step = make_pass(name + " weights", Phase::kForward, forward_op_us, layer.once_per_step, {}, role, requests);
  out.recomputes = !layer.recompute.empty();
  return out;
}

}  // namespace orrery::program
