#include "plain.hpp"

namespace orrery::workload {

DType matmul_dtype(const Training& t) { return t.precision == DType::kTf32 ? DType::kTf32 : t.activation_dtype; }

TensorId plain_linear(Writer& w, const std::string& name, TensorId x, std::int64_t rows, std::int64_t in, std::int64_t out, bool bias, bool first) {
  const DType dtype = matmul_dtype(w.training);
  w.parameters.replicated += out * (in + (bias ? 1 : 0));
  w.parameters.matrices.push_back({out, in});
  w.parameters.vectors += bias ? 1 : 0;
  const TensorId y = w.activation(name + "_output", rows * out);
  w.tape.forward({name, Gemm{.m = rows, .n = out, .k = in, .in = dtype, .out = w.act, .layout = GemmLayout::kTN}}, {x}, {y});
  if (bias && !w.kernels.fused_bias_activation) w.stream(name + "_bias", StreamKind::kElementwise, w.bytes(rows * out), w.bytes(rows * out), 1, {y}, {y});
  w.tape.on_backward([=, &w] {
    const TensorId dy = w.tape.gradient(y);
    if (bias) w.bias_gradient(name, rows, out, {dy});
    if (!first) {
      const TensorId dx = w.activation(name + "_input_gradient", rows * in);
      w.tape.backward({name + "_input_gradient", Gemm{.m = rows, .n = in, .k = out, .in = dtype, .out = w.act, .layout = GemmLayout::kNN}}, {dy}, {dx});
      w.tape.add_gradient(x, dx, w.bytes(rows * in));
    }
    w.weight_gradient({name, out, false, {}}, in, {dy}, x, dtype, rows);
  });
  return y;
}

TensorId plain_activation(Writer& w, const std::string& name, TensorId x, std::int64_t n, bool from_output) {
  const TensorId y = w.activation(name + "_output", n);
  w.stream(name, StreamKind::kElementwise, w.bytes(n), w.bytes(n), 1, {x}, {y});
  w.tape.on_backward([=, &w] {
    const TensorId dx = w.activation(name + "_gradient", n);
    w.backward_stream(name + "_backward", StreamKind::kElementwise, 2 * w.bytes(n), w.bytes(n), 1, {w.tape.gradient(y), from_output ? y : x}, {dx});
    w.tape.add_gradient(x, dx, w.bytes(n));
  });
  return y;
}

void plain_loss(Writer& w, const std::string& name, TensorId x, std::int64_t n) {
  w.stream(name, StreamKind::kReduce, w.bytes(n), 0, 1, {x}, {});
  w.tape.on_backward([=, &w] {
    const TensorId dx = w.activation(name + "_gradient", n);
    w.backward_stream(name + "_backward", StreamKind::kElementwise, w.bytes(n), w.bytes(n), 1, {x}, {dx});
    w.tape.add_gradient(x, dx, w.bytes(n));
  });
}

// log_softmax and nll_loss, and their two backward kernels (PyTorch torch.nn.functional.cross_entropy).
void plain_cross_entropy(Writer& w, TensorId logits, std::int64_t rows, std::int64_t classes) {
  const std::int64_t size = w.bytes(rows * classes);
  const TensorId log_probabilities = w.activation("log_probabilities", rows * classes);
  w.stream("log_softmax", StreamKind::kCrossEntropy, size, size, 1, {logits}, {log_probabilities});
  w.stream("loss", StreamKind::kCrossEntropy, w.bytes(rows), 0, 1, {log_probabilities}, {});
  w.tape.on_backward([=, &w] {
    const TensorId dense = w.activation("log_probabilities_gradient", rows * classes), dx = w.activation("logits_gradient", rows * classes);
    w.backward_stream("nll_loss_backward", StreamKind::kCrossEntropy, 0, size, 2, {}, {dense});
    w.backward_stream("cross_entropy_backward", StreamKind::kCrossEntropy, 2 * size, size, 1, {dense, log_probabilities}, {dx});
    w.tape.add_gradient(logits, dx, size);
  });
}

TensorId pick_rows(Writer& w, const std::string& name, TensorId x, std::int64_t rows, std::int64_t of, std::int64_t width) {
  const TensorId y = w.activation(name + "_rows", rows * width);
  w.stream(name, StreamKind::kCopy, w.bytes(rows * width), w.bytes(rows * width), 1, {x}, {y});
  w.tape.on_backward([=, &w] {
    const TensorId dx = w.activation(name + "_gradient", of * width);
    w.backward_stream(name + "_backward", StreamKind::kCopy, w.bytes(rows * width), w.bytes((of + rows) * width), 2, {w.tape.gradient(y)}, {dx});
    w.tape.add_gradient(x, dx, w.bytes(of * width));
  });
  return y;
}

TensorId whole_sequence(Writer& w, TensorId shard) {
  if (!w.s.sp) return shard;
  const std::int64_t all = w.bytes(w.s.tokens * w.s.hidden);
  const TensorId whole = w.tape.tensor("hidden_gathered", all);
  w.tape.forward({"all_gather_hidden", Comm{CommKind::kAllGather, Axis::kTp, all}}, {shard}, {whole});
  w.tape.on_backward([=, &w] {
    const TensorId part = w.activation("hidden_gradient_shard", w.s.shard_tokens * w.s.hidden);
    w.tape.backward({"reduce_scatter_hidden", Comm{CommKind::kReduceScatter, Axis::kTp, all}}, {w.tape.gradient(whole)}, {part});
    w.tape.add_gradient(shard, part, w.bytes(w.s.shard_tokens * w.s.hidden));
  });
  return whole;
}

TensorId pre_norm_block(Writer& w, TensorId x) {
  const bool bias = w.model.linear_bias;
  const auto [z, normed] = w.residual_norm("residual1", x, w.attention(w.norm("norm1", x, true), {}), bias, "norm2");
  return w.residual("residual2", z, w.mlp(normed), bias);
}

LayerParameters words_of(const Model& m, const Shard& shard, bool head) {
  LayerParameters p{.sharded = word_embedding_parameters(m, shard)};
  p.matrices.push_back({padded_vocab(m, shard) / shard.tp, m.hidden});
  if (head) p.replicated = norm_parameters(m), p.vectors = norm_vectors(m);
  return p;
}

Training both_ways(Training t) {
  t.causal = false;
  return t;
}

}  // namespace orrery::workload
