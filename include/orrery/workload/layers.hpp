#pragma once
// A model as a list of layers; a layer as operations forward and backward with the tensors they make, keep and free.
#include <cstdint>
#include <string>
#include <vector>

#include "orrery/base/result.hpp"
#include "orrery/document/value.hpp"
#include "orrery/workload/model.hpp"
#include "orrery/workload/operation.hpp"

namespace orrery::workload {

/// What a layer list is cut into on one rank. All counts are of this rank.
struct Shard {
  std::int64_t micro_batch = 1, sequence = 0;  ///< sequences per microbatch; tokens per sequence (whole)
  std::int64_t tp = 1, cp = 1;
  bool sequence_parallel = false;
};

/// One tensor of a layer pass. Indices are positions in the pass' operation list; the block is allocated before operation `alloc_at`
/// and freed after operation `free_at`.
struct Tensor {
  std::string name;
  std::int64_t bytes = 0;
  int alloc_at = 0;
  int free_at = 0;
};

/// A tensor made in the forward pass and kept for the backward pass: freed after backward operation `backward_free_at`.
struct SavedTensor {
  std::string name;
  std::int64_t bytes = 0;
  int forward_alloc_at = 0;
  int backward_free_at = 0;
};

/// Parameters of a layer on this rank.
struct LayerParameters {
  std::int64_t sharded = 0;     ///< split over tp: this rank's share
  std::int64_t replicated = 0;  ///< on every tp rank (norms, row-parallel biases); with SP their gradients need an all-reduce over tp
  [[nodiscard]] std::int64_t total() const { return sharded + replicated; }
};

enum class LayerKind : std::uint8_t { kEmbedding, kDecoder, kHead };  ///< kHead: final norm, output projection, loss

/// One layer of one microbatch on one rank. Backward is in execution order; weight-gradient operations are those with index in
/// `weight_gradient` (the zero-bubble schedules move them). Where recompute is on, `recompute` runs before backward and re-makes what
/// `saved` does not hold. Every list is empty where the layer has nothing to do.
struct Layer {
  LayerKind kind = LayerKind::kDecoder;
  LayerParameters parameters;
  std::vector<Operation> forward, recompute, backward;
  std::vector<int> weight_gradient;
  std::vector<SavedTensor> saved;
  std::vector<Tensor> forward_tensors, recompute_tensors, backward_tensors;  ///< temporaries
  std::int64_t input_bytes = 0, output_bytes = 0;  ///< the activation that enters and leaves (what a stage boundary sends)
};

/// The layer on this rank, under this training recipe and software stack.
/// Requires values that the plan has checked (heads, kv_heads, ffn and vocab divisible by tp as the stack pads them).
Layer make_layer(LayerKind kind, const Model& model, const Training& training, const Shard& shard, const StackKernels& kernels);

/// Optimizer, gradient norm, zeroing and scaling kernels for `parameters` local parameters of which this rank updates `updated`.
std::vector<Operation> optimizer_operations(const Training& training, const StackKernels& kernels, std::int64_t parameters, std::int64_t updated);

}  // namespace orrery::workload
