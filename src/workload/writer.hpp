#pragma once
// Writes the parts of a layer on a tape: sizes on this rank, and the kernels that every block is made of. Bytes per element are those of
// modelling 2.2, from reading what each framework's kernel loads and stores; the eager sequences count autograd's own kernels.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "orrery/workload/layers.hpp"
#include "tape.hpp"

namespace orrery::workload {

/// How a matmul operand is stored. Two orientations are written where the scales follow the reduction axis, which the weight gradient
/// turns, and where the device multiplies 8-bit operands in one layout only.
struct QuantisedFormat {
  bool on = false;
  double bytes = 0;         ///< per element and orientation, scales included
  bool amax_pass = false;   ///< the tensor's maximum is read first
  bool fuses = false;       ///< norms and activations write the quantised copies themselves
  bool by_block = false;    ///< scales belong to blocks along the reduction axis: one orientation is no transpose of the other
  int copies = 2;           ///< orientations written

  /// Kernels that read the tensor to write all orientations of it.
  [[nodiscard]] int casts() const { return by_block ? copies : 1; }
  /// Of one orientation.
  [[nodiscard]] std::int64_t one(std::int64_t elements) const { return static_cast<std::int64_t>(static_cast<double>(elements) * bytes + 0.5); }
  [[nodiscard]] std::int64_t all(std::int64_t elements) const { return copies * one(elements); }
};
QuantisedFormat quantised_format(const Training& training);

/// Sizes on this rank.
struct Sizes {
  std::int64_t batch = 1, queries = 0, keys = 0;      ///< sequences; query and key positions that one attention call sees
  std::int64_t tokens = 0, shard_tokens = 0;          ///< of this rank's context shard; of its sequence-parallel shard
  std::int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, q = 0, kv = 0, ffn = 0;  ///< local widths
  std::int64_t value_dim = 0, v = 0, o = 0;           ///< of values; local widths of values and of what attention returns
  std::int64_t tp = 1, cp = 1;
  bool sp = false;                                    ///< sequence parallel, and tp > 1
};

/// A normalised or activated tensor as linear layers read it: `row` feeds the product, `column` the weight gradient, `plain` carries the
/// gradient (and is no memory of its own where the maker writes the quantised copies only).
struct LinearInput {
  TensorId plain = kNoTensor, row = kNoTensor, column = kNoTensor;
};
/// One GEMM of a column-parallel layer. Its output may be cut into several tensors.
struct Product {
  std::string name;
  std::int64_t width = 0;  ///< local output features
  bool bias = false;
  std::vector<TensorId> outs;
  /// Low-rank adapters of it: a name, the tensor of `outs` that it adds to, and that one's width.
  struct Adapted {
    std::string name;
    TensorId out = kNoTensor;
    std::int64_t width = 0;
  };
  std::vector<Adapted> adapters = {};
};

class Writer {
 public:
  /// `onto`: another writer's tape, for a layer whose parts differ in sizes; null: one of its own.
  Writer(const Model& model, const Training& training, const Shard& shard, const StackKernels& kernels, Tape* onto = nullptr);
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Norms and residuals (norms.cpp). Tokens are those of the sequence-parallel shard.
  /// width: of a row; 0: the model's hidden size.
  LinearInput norm(const std::string& name, TensorId x, bool for_quantised_linear, std::int64_t width = 0, Regions regions = kNormRegion);
  TensorId residual(const std::string& name, TensorId x, TensorId y, bool bias);
  /// x + y, and its norm; one kernel where compiled.
  std::pair<TensorId, LinearInput> residual_norm(const std::string& name, TensorId x, TensorId y, bool bias, const std::string& norm_name, bool for_quantised_linear = true);
  TensorId dropout(const std::string& name, TensorId x, std::int64_t elements, Regions regions);
  TensorId scale(const std::string& name, TensorId x, std::int64_t elements);
  /// c tanh(x / c) in so many kernels (attention.cpp).
  TensorId softcap(const std::string& name, TensorId x, std::int64_t elements, int launches, Regions regions);

  // Linear layers (linear.cpp).
  void column_parallel(const std::string& name, const LinearInput& in, std::int64_t in_width, const std::vector<Product>& products, bool quantised, Regions regions);
  /// A layer whose weights are on every tp rank: each works on its own shard of tokens (latent.cpp).
  void replicated(const std::string& name, const LinearInput& in, std::int64_t in_width, const Product& product, bool quantised, Regions regions);
  /// adapted: it has a low-rank adapter.
  TensorId row_parallel(const std::string& name, const LinearInput& in, std::int64_t in_width, Regions regions, bool adapted = false);
  /// The input of a linear layer from a plain tensor: quantised copies by kernels of their own where the recipe wants them.
  LinearInput linear_input(const std::string& name, TensorId plain, std::int64_t elements, Regions regions);

  // Blocks (attention.cpp, latent.cpp, mlp.cpp, experts.cpp): from a norm's output to what is added to the residual, all on shard tokens.
  TensorId attention(const LinearInput& in, const Block& block);
  TensorId latent_attention(const LinearInput& in);
  TensorId mlp(const LinearInput& in) { return mlp(in, "", s.ffn); }
  /// ffn: local width. name: in front of the operations' names.
  TensorId mlp(const LinearInput& in, const std::string& name, std::int64_t ffn) { return mlp_down(mlp_up(in, name, ffn), name, ffn); }
  LinearInput mlp_up(const LinearInput& in, const std::string& name, std::int64_t ffn);
  TensorId mlp_down(const LinearInput& activated, const std::string& name, std::int64_t ffn) { return row_parallel(name + "down", activated, ffn, kMlp, training.adapter.down); }
  TensorId experts(const LinearInput& in);

  /// A forward attention kernel on this rank's heads.
  [[nodiscard]] Attention flash(std::int64_t queries, std::int64_t keys, bool causal) const;
  [[nodiscard]] std::int64_t bytes(std::int64_t elements) const;  ///< of activations
  [[nodiscard]] TensorId activation(const std::string& name, std::int64_t elements) { return tape.tensor(name, bytes(elements)); }
  void stream(const std::string& name, StreamKind kind, std::int64_t read, std::int64_t write, int launches, const std::vector<TensorId>& reads,
              const std::vector<TensorId>& makes, Regions regions = kNoRegion) {
    tape.forward({name, Stream{kind, read, write, launches}}, reads, makes, regions);
  }
  void backward_stream(const std::string& name, StreamKind kind, std::int64_t read, std::int64_t write, int launches, const std::vector<TensorId>& reads,
                       const std::vector<TensorId>& makes, bool weight_gradient = false) {
    tape.backward({name, Stream{kind, read, write, launches}}, reads, makes, weight_gradient);
  }
  /// The weight gradient of one product and, where no GEMM epilogue adds it to the main gradient, the kernel that does. tokens: rows that
  /// it sums over.
  void weight_gradient(const Product& p, std::int64_t in_width, const std::vector<TensorId>& gradients, TensorId in, DType dtype, std::int64_t tokens);
  /// Gradient of a bias over `tokens` rows: a reduction that reads the output's gradient once.
  void bias_gradient(const std::string& name, std::int64_t tokens, std::int64_t width, const std::vector<TensorId>& gradients);

  /// Parameters that go with what has been written, on this rank.
  LayerParameters parameters;
  /// A matrix split over tp, with a bias of as many entries as it has rows.
  void own_matrix(std::int64_t rows, std::int64_t columns, bool bias) {
    parameters.sharded += rows * (columns + (bias ? 1 : 0));
    parameters.matrices.push_back({rows, columns});
    parameters.vectors += bias ? 1 : 0;
  }
  /// Norms and biases that every tp rank has: `elements` in `count` tensors.
  void own_vectors(std::int64_t elements, std::int64_t count) {
    parameters.replicated += elements;
    parameters.vectors += count;
  }

 private:
  Tape own_tape_;

 public:
  Tape& tape;
  const Model& model;
  const Training& training;
  const Shard& shard;
  const StackKernels kernels;
  const Sizes s;
  const QuantisedFormat format;
  const DType act;
  const bool fuse_residual;  ///< a compiler merges the residual add with the norm beside it
  std::int64_t window = 0;   ///< of the attention being written; 0: none

 private:
  void norm_backward(const std::string& name, TensorId x, const std::vector<TensorId>& saved, const LinearInput& out, std::int64_t elements, bool eager);
  LinearInput norm_output(const std::string& name, bool for_quantised_linear, std::int64_t elements, bool& fused_quantise);
  /// A product per local expert over rows that lie expert by expert (experts.cpp).
  void grouped(const LinearInput& in, std::int64_t in_width, const Product& product, const std::vector<std::int64_t>& rows);
  Comm token_comm(std::int64_t copies, double element_bytes, bool combine) const;
  /// What stands between an exchange's issue and its wait; none: the compute stream does nothing else.
  using Between = std::function<void()>;
  TensorId exchange(const std::string& name, TensorId x, std::int64_t sent, std::int64_t received, std::int64_t busiest, bool combine, const Between& between);
  TensorId gather_tokens(const std::string& name, TensorId x, bool before);
  TensorId reorder(const std::string& name, TensorId x, std::int64_t rows_in, std::int64_t rows_out, int launches);
  TensorId route(const LinearInput& in, std::int64_t copies);
  TensorId gate_shared(const LinearInput& in, TensorId shared);
  TensorId share_rows(TensorId x, std::int64_t received, std::int64_t busiest, bool before);
  TensorId add_weighted(TensorId copies, TensorId weights, std::int64_t from, std::int64_t to, int launches);
  /// Adds a low-rank adapter's output to `out`; the gradient of its input is added to that of `sink` (adapters.cpp).
  void adapt(const std::string& name, TensorId x, TensorId sink, std::int64_t in_width, std::int64_t width, TensorId out, Regions regions);
  TensorId dequantised(const std::string& name, std::int64_t elements, bool backward, Regions regions);
  TensorId gather(const std::string& name, TensorId shard_tensor, std::int64_t bytes, Regions regions);
  /// Two tensors for the two orientations, or one for both.
  void quantised_copies(const std::string& name, std::int64_t elements, LinearInput& out);
  /// Quantised copies of a weight of `elements`: made once a step and kept, or in every pass that reads them. The tensor that a pass reads
  /// beside its GEMM's other operand; kNoTensor where nothing is made.
  TensorId weight_copy(const std::string& name, std::int64_t elements, bool backward, Regions regions);
  // Tensor-parallel collectives that run under their products (tp_overlap.cpp).
  using Step = std::function<void(const Operation&, const std::vector<TensorId>& reads, const std::vector<TensorId>& makes, Regions more)>;
  using Piece = std::function<void(std::int64_t rows)>;
  /// Pieces that a product and its collective are cut into; 1: they follow each other.
  [[nodiscard]] std::int64_t tp_pieces() const;
  [[nodiscard]] Comm overlapped(CommKind kind, std::int64_t bytes);
  void gather_under(const std::string& name, TensorId part, TensorId whole, std::int64_t bytes, const Step& step, const Piece& compute);
  void scatter_under(const std::string& name, TensorId partial, TensorId out, std::int64_t bytes, const Step& step, const Piece& compute);
  void column_backward(const std::string& name, const LinearInput& in, std::int64_t in_width, const std::vector<Product>& products, bool quantised, TensorId whole, TensorId sink);
  TensorId quantise_gradients(const std::string& name, const std::vector<TensorId>& gradients, std::int64_t elements);
  struct KeysValues {
    TensorId keys, values;
  };
  /// Norms of queries and keys, in place of the tensors named.
  void norm_queries(TensorId& q, TensorId& k);
  void rotate(TensorId& q, TensorId& k);
  TensorId core_attention(TensorId q, TensorId k, TensorId v);
  TensorId flash_attention(TensorId q, const KeysValues& kv);
  // Over context-parallel ranks (ring.cpp, context.cpp).
  TensorId ring_attention(TensorId q, TensorId k, TensorId v);
  TensorId gathered_attention(TensorId q, TensorId k, TensorId v);
  TensorId ulysses_attention(TensorId q, TensorId k, TensorId v);
  TensorId math_attention(TensorId q, const KeysValues& kv);
  TensorId scores(TensorId q, const KeysValues& kv);
  TensorId append_sinks(TensorId scores, std::int64_t elements);
  /// n: elements of the result. weights: probabilities that the result is multiplied by, one a row, in the same kernel; or none.
  LinearInput activate(const std::string& name, const std::vector<TensorId>& ins, std::int64_t n, TensorId weights, Regions regions);
  TensorId attention_projection(TensorId o);
  TensorId flash_output = kNoTensor;  ///< of the attention written last
  std::vector<std::pair<TensorId, TensorId>> narrowed;  ///< attention outputs, and what is kept in their place
  TensorId widened(TensorId o);
  TensorId gather_position_key(TensorId own, std::int64_t rope);
};

/// Of one norm over the hidden width: elements, and tensors.
std::int64_t norm_parameters(const Model& model);
std::int64_t norm_vectors(const Model& model);

/// Which regions this training recomputes in a decoder layer.
RecomputePolicy recompute_policy(const Training& training, const StackKernels& kernels);

}  // namespace orrery::workload
