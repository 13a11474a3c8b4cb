// The MLP block: from the second norm's output to the down projection's.
#include <cmath>

#include "writer.hpp"

namespace orrery::workload {

/// Gated: act(gate) * up in one kernel, or two. Not gated: bias and activation in one kernel, or two. ReLU's derivative is read off its
/// result, so its argument is not kept.
LinearInput Writer::activate(const std::string& name, const std::vector<TensorId>& ins, std::int64_t n, TensorId weights, Regions regions) {
  const std::int64_t size = bytes(n);
  const bool fused = kernels.fused_bias_activation;
  LinearInput out;
  const bool writes_quantised = format.fuses && fused;
  std::int64_t write = size;
  std::vector<TensorId> makes;
  if (writes_quantised) {
    out.plain = tape.tensor(name + "activation_output", 0);
    quantised_copies(name + "activation_output", n, out);
    write = format.all(n);
    makes = {out.row, out.column};
  } else {
    out.plain = out.row = out.column = activation(name + "activation_output", n);
    makes = {out.plain};
  }
  const bool gated = model.gated_mlp;
  const TensorId plain = out.plain;
  // What a gated activation read may be kept in 8 bits, and its output, made again, comes from that too: a cast behind it, and one back
  // in the backward pass (Megatron-LM core/fusions/fused_bias_swiglu.py, fp8_input_store; with a scale per 128 DeepSeek-V3,
  // arXiv:2412.19437, section 3.3.3).
  const bool narrow = format.on && kernels.fp8_activation_input && gated && fused;
  const double kept_element = format.by_block ? 1 + 4.0 / 128 : 1;
  const auto kept_bytes = static_cast<std::int64_t>(std::ceil(kept_element * static_cast<double>(n) * static_cast<double>(ins.size())));
  const auto in_bytes = size * static_cast<std::int64_t>(ins.size());
  TensorId kept = kNoTensor;
  const bool relu_alone = model.activation == Activation::kRelu && !gated;
  std::vector<TensorId> saved = ins;
  std::vector<TensorId> read_last = ins;  // of the kernel that makes the result
  if (narrow) {
    kept = tape.tensor(name + "activation_input_kept", kept_bytes);
    stream("store_" + name + "activation_input", StreamKind::kCast, in_bytes, kept_bytes, 1, ins, {kept}, regions & kMlp);
    saved = read_last = {kept};
  }
  if (relu_alone) saved = {writes_quantised ? out.column : plain};
  if (weights != kNoTensor) saved.push_back(weights), read_last.push_back(weights);
  if (fused) {
    stream(name + "activation", StreamKind::kElementwise, (gated ? 2 : 1) * size, write, 1, read_last, makes, regions);
  } else if (gated) {
    const TensorId opened = activation(name + "gate_activated", n);
    saved.push_back(opened);
    stream(name + "activation", StreamKind::kElementwise, size, size, 1, {ins[0]}, {opened}, regions);
    stream(name + "gate", StreamKind::kElementwise, 2 * size, size, 1, weights != kNoTensor ? std::vector{opened, ins[1], weights} : std::vector{opened, ins[1]}, makes, regions);
  } else {
    // A squared ReLU is two kernels; the bias, where there is one, has had its own.
    const int launches = model.activation == Activation::kRelu2 ? 2 : 1;
    stream(name + "activation", StreamKind::kElementwise, launches * size, launches * size, launches, read_last, makes, regions);
  }
  if (format.on && !writes_quantised) out = linear_input(name + "activation_output", plain, n, regions);
  tape.on_backward([=, this] {
    std::vector<TensorId> gradients;
    for (std::size_t i = 0; i < ins.size(); ++i) gradients.push_back(activation(name + "activation_input_gradient", n));
    std::vector<TensorId> reads = saved;
    if (narrow) {
      const TensorId wide = activation(name + "activation_input", n * static_cast<std::int64_t>(ins.size()));
      backward_stream("widen_" + name + "activation_input", StreamKind::kCast, kept_bytes, in_bytes, 1, {kept}, {wide});
      reads = {wide};
      if (weights != kNoTensor) reads.push_back(weights);
    }
    reads.push_back(tape.gradient(plain));
    // Gated: dy, g, u read and dg, du written, or three kernels of three passes each. Not gated: dy and x read, dx written.
    const std::int64_t read = gated ? (fused ? 3 : 6) * size : 2 * size;
    const std::int64_t made = gated ? (fused ? 2 : 3) * size : size;
    backward_stream(name + "activation_backward", StreamKind::kElementwise, read, made, gated && !fused ? 3 : 1, reads, gradients);
    for (std::size_t i = 0; i < ins.size(); ++i) tape.set_gradient(ins[i], gradients[i]);
    // The probabilities' gradient is a dot product a row that the same kernel takes; it weighs nothing beside the rows.
    if (weights != kNoTensor) tape.set_gradient(weights, gradients.front());
  });
  return out;
}

LinearInput Writer::mlp_up(const LinearInput& in, const std::string& name, std::int64_t ffn) {
  const std::int64_t n = s.tokens * ffn;
  std::vector<TensorId> ups;
  std::vector<Product> products;
  if (model.gated_mlp) {
    ups = {activation(name + "gate", n), activation(name + "up", n)};
    if (kernels.fused_projections) {
      products = {{name + "gate_up", 2 * ffn, model.mlp_bias, ups}};
    } else {
      products = {{name + "gate", ffn, model.mlp_bias, {ups[0]}}, {name + "up", ffn, model.mlp_bias, {ups[1]}}};
    }
  } else {
    ups = {activation(name + "up", n)};
    products = {{name + "up", ffn, model.mlp_bias, ups}};
  }
  // The model's own MLP: experts have none (adapter_limits).
  const Adapter& a = training.adapter;
  if (a.gate) products.back().adapters.push_back({name + "gate_adapter", ups.front(), ffn});
  if (a.up) products.back().adapters.push_back({name + "up_adapter", ups.back(), ffn});
  column_parallel(name + "mlp", in, s.hidden, products, true, kMlp);
  return activate(name, ups, n, kNoTensor, kMlp | kMlpActivation);
}

}  // namespace orrery::workload
