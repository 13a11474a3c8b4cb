#pragma once
// Layers whose weights every tensor-parallel rank holds whole, over any number of rows: what networks are made of that no framework
// splits, and the small heads of those that it does.
#include <string>

#include "workload/writer.hpp"

namespace orrery::workload {

/// What products outside the quantised recipes multiply in.
DType matmul_dtype(const Training& training);

/// x [rows, in] W [in, out] (+ b). `first`: nothing wants the gradient of x, which is data.
TensorId plain_linear(Writer& w, const std::string& name, TensorId x, std::int64_t rows, std::int64_t in, std::int64_t out, bool bias, bool first = false);
/// One elementwise kernel over n elements. `from_output`: its derivative is read off the result (ReLU, tanh), and the argument is not kept.
TensorId plain_activation(Writer& w, const std::string& name, TensorId x, std::int64_t n, bool from_output);
/// A mean over `rows` of something that n elements make: read once, and the gradient written by one kernel. Nothing leaves the layer.
void plain_loss(Writer& w, const std::string& name, TensorId x, std::int64_t n);
/// Softmax cross-entropy over `rows` rows of `classes` logits.
void plain_cross_entropy(Writer& w, TensorId logits, std::int64_t rows, std::int64_t classes);
/// The first `rows` x `width` of a tensor, or any choice of rows: copied out, and its gradient scattered into zeros of the whole.
TensorId pick_rows(Writer& w, const std::string& name, TensorId x, std::int64_t rows, std::int64_t of, std::int64_t width);

/// Images to a sequence of hidden states: projected patches, a class token and positions, a norm, where the model has them.
TensorId embed_patches(Writer& w, const VisionTransformer& vit);
/// Every rank's shard of the sequence on all of them (Megatron-LM gather_from_sequence_parallel_region).
TensorId whole_sequence(Writer& w, TensorId shard);
/// x + attention(norm(x)), and so with the MLP.
TensorId pre_norm_block(Writer& w, TensorId x);
/// Parameters of a word table, and of the norm in front of it where it is a head's projection.
LayerParameters words_of(const Model& model, const Shard& shard, bool head);
/// The recipe for what attends both ways.
Training both_ways(Training training);

}  // namespace orrery::workload
