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
  CpMethod cp_method = CpMethod::kRing;
  std::int64_t dp = 1;                   ///< what look-up tables are split over
  std::int64_t ep = 1, etp = 1;          ///< expert grid
  ExpertDispatch dispatch = ExpertDispatch::kAllToAll;
  std::int64_t cp_rank = 0, ep_rank = 0; ///< which rank, where ranks of one group differ (see varies)
  bool sequence_parallel = false;
  TpOverlap tp_overlap = TpOverlap::kNone;
  bool overlap_shared_experts = false;  ///< the shared experts run under the exchanges of the routed ones
  std::int64_t vocab_multiple = 1;  ///< the stack pads the vocabulary to a multiple of this times tp (layout.vocab_multiple)
  bool keeps_quantised_weights = true;  ///< quantised copies of weights are made once a step (false: in every pass; so with gathered parameters)
  bool frozen_weights = false;      ///< the layer passes gradients through and has none of its own
  bool gradient_buffer = true;      ///< weight gradients add to a buffer of the whole layer; false (FSDP): they are handed on as made
};

/// One tensor of a layer pass. Indices are positions in the pass' operation list; the block is allocated before operation `alloc_at`
/// and freed after operation `free_at`.
struct Tensor {
  std::string name;
  std::int64_t bytes = 0;
  int alloc_at = 0;
  int free_at = 0;
  int weight_use = -1;  ///< of those in backward: its last weight-gradient operation, -1 where none reads or makes it
  bool arrives = false; ///< the incoming gradient: no operation here makes it
};

/// A tensor made in the forward pass and kept for the backward pass: freed after backward operation `backward_free_at`.
struct SavedTensor {
  std::string name;
  std::int64_t bytes = 0;
  int forward_alloc_at = 0;
  int backward_free_at = 0;
  int weight_use = -1;  ///< as of a Tensor
};

/// Alike matrices of parameters on this rank. Muon orthogonalises the updates of those between layers; embedding and head are not.
struct Matrix {
  std::int64_t rows = 0, columns = 0, count = 1;
  bool between_layers = true;
  bool experts = false;  ///< of routed experts: another data-parallel group updates them
  [[nodiscard]] std::int64_t elements() const { return rows * columns * count; }
};

/// Parameters of a layer on this rank.
struct LayerParameters {
  std::int64_t sharded = 0;     ///< split over tp: this rank's share
  std::int64_t replicated = 0;  ///< on every tp rank (norms, row-parallel biases); with SP their gradients need an all-reduce over tp
  std::int64_t experts = 0;     ///< of routed experts, split over ep and etp; their data-parallel group is expert_dp
  std::vector<Matrix> matrices = {};  ///< what of them are matrices; the rest are vectors
  std::int64_t vectors = 0;      ///< how many
  std::int64_t frozen = 0;       ///< not trained: neither gradient nor optimizer state; on every data-parallel rank
  std::int64_t frozen_bytes = 0; ///< as they are stored
  std::int64_t tables = 0;       ///< of look-up tables split over the data-parallel ranks: no other rank has them, and their rows are updated as they are used
  std::int64_t table_bytes = 0;  ///< with the optimizer's states
  [[nodiscard]] std::int64_t total() const { return sharded + replicated + experts; }           ///< trained by data parallelism
  [[nodiscard]] std::int64_t stored() const { return total() + frozen + tables; }
  LayerParameters& operator+=(const LayerParameters& o) {
    sharded += o.sharded, replicated += o.replicated, experts += o.experts;
    matrices.insert(matrices.end(), o.matrices.begin(), o.matrices.end()), vectors += o.vectors;
    frozen += o.frozen, frozen_bytes += o.frozen_bytes, tables += o.tables, table_bytes += o.table_bytes;
    return *this;
  }
};

/// kHead: final norm, output projection, loss. kPrediction: the multi-token prediction modules, which stand before it.
enum class LayerKind : std::uint8_t { kEmbedding, kDecoder, kHead, kPrediction };

/// One layer of one microbatch on one rank.
///
/// Memory. The layer's input belongs to the layer: it stands in `saved`, or in `forward_tensors` where backward does not need it. Its
/// output is a temporary of the last forward operation only, for it is the next layer's input (or a stage boundary's buffer). In the
/// same way the incoming gradient is a temporary from backward operation 0, and the outgoing one ends with the last operation.
/// Statistics of norms (4 to 8 bytes per token) are left out, as in modelling 5.3. Parameters and gradient buffers are the program's.
///
/// `once_per_step` runs with the first microbatch: quantised copies of weights, which take `weight_copies` bytes until the step ends.
///
/// Backward is in execution order; weight-gradient operations are those with index in `weight_gradient`. No other operation needs what
/// they make, so a zero-bubble schedule can run them later: what they use then lives until the last of them that uses it (`weight_use`). Where recompute is on, `recompute` runs before backward and re-makes what
/// `saved` does not hold. Every list is empty where the layer has nothing to do.
struct Layer {
  LayerKind kind = LayerKind::kDecoder;
  Block block;
  std::string name;  ///< for traces: "decoder", "decoder moe"
  LayerParameters parameters;
  std::vector<Operation> forward, recompute, backward, once_per_step;
  std::vector<int> weight_gradient;
  std::vector<SavedTensor> saved;
  std::vector<Tensor> forward_tensors, backward_tensors;  ///< temporaries
  std::vector<Tensor> recompute_tensors;       ///< re-made for backward: alloc_at is a position in recompute, free_at one in backward
  std::vector<Tensor> recompute_temporaries;   ///< made and freed inside recompute
  std::int64_t weight_copies = 0;
  std::int64_t input_bytes = 0, output_bytes = 0;  ///< the activation that enters and leaves (what a stage boundary sends)
};

/// Rows of the embedding and of the output projection, all tp ranks together, as the stack pads them.
std::int64_t padded_vocab(const Model& model, const Shard& shard);
/// This rank's share of the word embedding (or of the output projection, or of the one matrix that both are where tied).
std::int64_t word_embedding_parameters(const Model& model, const Shard& shard);

/// Parameters alone, as in make_layer. A tied head counts its matrix too: it is a copy where the embedding is on another stage, and the
/// same memory (to be taken off once) where it is on the same.
LayerParameters layer_parameters(LayerKind kind, const Model& model, const Shard& shard, const Block& block = {});

/// Elements of the parameter tensors but those of routed experts, matrices first and what is small as one; with expert_tensors() they sum to
/// layer_parameters().total().
std::vector<std::int64_t> parameter_tensors(LayerKind kind, const Model& model, const Shard& shard, bool fused_projections, const Block& block = {});
/// Of the routed experts of a rank: each expert's matrices are tensors of their own.
std::vector<std::int64_t> expert_tensors(const Model& model, const Shard& shard, bool fused_projections, const Block& block);

/// The layer on this rank, under this training recipe and software stack.
/// Full recompute is every decoder layer's here; a stage that keeps some layers asks for those with recompute "none".
/// Requires values that the plan has checked (heads, kv_heads, ffn and vocab divisible by tp as the stack pads them).
Layer make_layer(LayerKind kind, const Model& model, const Training& training, const Shard& shard, const StackKernels& kernels, const Block& block = {});

/// Bytes of the activation that enters layer `layer` on this rank, 0 … layers (the head): what a stage boundary there sends.
std::int64_t input_bytes(const Model& model, const Training& training, const Shard& shard, std::int64_t layer);

/// Whether ranks of one context-parallel or one expert-parallel group have different work, so that each needs a program of its own.
struct Variation {
  bool by_cp = false, by_ep = false;
};
Variation varies(const Model& model, const Training& training, const Shard& shard);

/// Tokens of a sample, where the model fixes them or has room for no more; else `otherwise`.
std::int64_t tokens_of_sample(const Model& model, std::int64_t otherwise);

/// What the parallelism of a job asks of a model's family.
struct Split {
  std::int64_t tp = 1, cp = 1, pp = 1, vp = 1;
  bool sp = false;
};
/// A member of the scenario that the model's family cannot do, and why.
struct Limit {
  std::string pointer, why;
};
/// All that stands against training this model so; empty for a decoder transformer.
std::vector<Limit> family_limits(const Model& model, const Training& training, const Split& split);

/// Refuses sizes that 64 bits do not hold: activations, attention scores, gradients of one rank before any sharding. make_layer requires
/// that this has passed.
Result<bool> check_sizes(const Model& model, const Training& training, const std::string& file);

/// Optimizer, gradient norm, zeroing and scaling kernels for `parameters` local parameters of which this rank updates `updated`, in order.
/// "zero_grad" comes first: it runs at the start of a step. The scalar all-reduces (norm, inf check) are the program's: it knows the groups.
std::vector<Operation> optimizer_operations(const Training& training, const StackKernels& kernels, std::int64_t parameters, std::int64_t updated);

/// What one rank's update works on, where the optimizer tells matrices and tensors apart.
struct UpdateShapes {
  std::int64_t parameters = 0;   ///< of the rank, before ZeRO
  std::vector<Matrix> matrices = {};  ///< among them
  std::int64_t tensors = 1;      ///< parameter tensors
  std::int64_t shards = 1;       ///< ranks that share the update
};
std::vector<Operation> optimizer_operations(const Training& training, const StackKernels& kernels, std::int64_t parameters, std::int64_t updated,
                                            const UpdateShapes& shapes);
/// Of n, how many stand in host memory at this share.
std::int64_t host_share(std::int64_t n, double fraction);
/// Bytes of host memory that the host's update of n parameters reads and writes: each state once, as CPU kernels have it (DeepSpeed
/// csrc/adam/cpu_adam_impl.cpp).
std::int64_t host_update_bytes(const Training& training, std::int64_t n);
/// Bytes of moments on this rank.
std::int64_t optimizer_bytes(const Training& training, const UpdateShapes& shapes);
/// Bytes that the update holds for itself while it runs.
std::int64_t update_buffer_bytes(const Training& training, const UpdateShapes& shapes);
/// Matrices that this rank orthogonalises under Muon: dealt out whole over the shards, the rank with the most.
std::vector<Matrix> orthogonalised(const UpdateShapes& shapes);

}  // namespace orrery::workload
