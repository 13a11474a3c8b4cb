#pragma once
// One pass of one layer as host-order pieces: merged segments, collectives and the memory they allocate and free. Built once per kind of
// layer and repeated for every layer and microbatch.
#include <string>
#include <vector>

#include "orrery/program/program.hpp"
#include "orrery/workload/layers.hpp"

namespace orrery::program {

/// A piece: allocate, then a segment, a collective or the wait for one, then free.
struct Piece {
  bool collective = false;
  bool awaits = false;           ///< the collective with this ticket
  int ticket = -1;               ///< of a collective that runs beside what follows; -1: none does
  std::uint32_t index = 0;  ///< PassList::segments or Program::requests
  std::int64_t allocate = 0, free = 0;
};
struct Pass {
  std::vector<Piece> pieces;
  std::uint32_t blocks = 0;  ///< Role::blocks.lists: the pass' tensors one by one
};

/// An allocation (bytes > 0) before, or a free (bytes < 0) after, an operation of a pass. `slot` names the tensor.
struct MemoryEvent {
  int operation = 0;
  std::int64_t bytes = 0;
  std::uint32_t slot = 0;
};

/// Equal requests share an entry.
std::uint32_t request_index(std::vector<Request>& requests, const Request& request);

/// Cuts operations into pieces: consecutive kernels merge into one segment, since nothing of the rank's own program can start inside.
Pass make_pass(const std::string& name, Phase phase, double host_op_us, const std::vector<workload::Operation>& operations,
               const std::vector<MemoryEvent>& memory, Role& role, std::vector<Request>& requests);

/// The passes of one kind of layer under one recompute policy.
struct LayerPasses {
  workload::LayerKind kind = workload::LayerKind::kDecoder;
  Pass forward;             ///< keeps what backward needs
  Pass forward_discarding;  ///< full recompute: keeps the input alone
  Pass recompute, backward;
  std::uint32_t slots = 0;  ///< tensors of one microbatch, over all passes
  Pass input_gradients, weight_gradients;  ///< backward in two halves, where asked for
  Pass once_per_step;       ///< before the first microbatch: quantised copies of weights
  bool recomputes = false;  ///< `recompute` is not empty (selective) and opens a checkpointed region
  std::int64_t input_bytes = 0, output_bytes = 0;
  std::int64_t saved_bytes = 0;    ///< kept from forward to backward
  std::int64_t leaving_bytes = 0;  ///< those among them that stand in host memory meanwhile
  std::uint32_t leave = 0, come_back = 0;  ///< Role::blocks.lists: the same bytes' tensors given back, and made again by the copy in
  std::int64_t weight_copies = 0;  ///< bytes of quantised weights that stay through the step
  workload::LayerParameters parameters;
  std::vector<std::int64_t> parameter_tensors, expert_tensors;  ///< elements of each; routed experts apart
  std::int64_t word_embedding = 0;  ///< parameters of the matrix that embedding and head share where tied
};

/// split: the halves of the backward pass too. offloaded: share of the saved bytes that stand in host memory between the passes.
LayerPasses make_layer_passes(workload::Layer layer, double forward_op_us, double backward_op_us, Role& role,
                              std::vector<Request>& requests, bool split = false, double offloaded = 0);

}  // namespace orrery::program
