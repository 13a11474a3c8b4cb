// Norms, residual adds and dropout.
//
// RMSNorm written out in PyTorch (Hugging Face LlamaRMSNorm) runs eight kernels over the tensor: cast up, square, mean, (epsilon, rsqrt on
// one value a token), scale, cast down, weight. Bytes per element with 16-bit activations: 2+4, 4+4, 4, 4+4, 4+2, 2+2. Its autograd runs
// fifteen and adds up to 46 read and 30 written; fp32 activations save the casts. LayerNorm is one kernel in PyTorch itself.
#include "writer.hpp"

namespace orrery::workload {
namespace {

struct Cost {
  std::int64_t read, write;
  int kernels;
};

Cost eager_rms_forward(std::int64_t n, std::int64_t e) {
  if (e == 4) return {16 * n, 12 * n, 6};
  return {(16 + 2 * e) * n, (12 + 2 * e) * n, 8};
}
Cost eager_rms_backward(std::int64_t n, std::int64_t e) {
  if (e == 4) return {48 * n, 32 * n, 13};
  return {(36 + 5 * e) * n, (24 + 3 * e) * n, 15};
}

}  // namespace

LinearInput Writer::norm_output(const std::string& name, bool for_quantised_linear, std::int64_t n, bool& fused_quantise) {
  fused_quantise = for_quantised_linear && format.fuses && kernels.fused_norm;
  LinearInput out;
  if (!fused_quantise) {
    out.plain = out.row = out.column = activation(name + "_output", n);
    return out;
  }
  out.plain = tape.tensor(name + "_output", 0);
  quantised_copies(name + "_output", n, out);
  return out;
}

LinearInput Writer::norm(const std::string& name, TensorId x, bool for_quantised_linear, std::int64_t width, Regions regions) {
  const std::int64_t n = s.shard_tokens * (width > 0 ? width : s.hidden);
  const std::int64_t e = bytes(1);
  const bool eager = model.norm == Norm::kRms && !kernels.fused_norm;
  bool fused_quantise = false;
  own_vectors(norm_parameters(model), norm_vectors(model));
  LinearInput out = norm_output(name, for_quantised_linear, n, fused_quantise);
  std::vector<TensorId> saved = {x};
  if (eager) {
    // Squaring keeps the fp32 input and the weight keeps what it multiplies, both for autograd.
    const TensorId scaled = activation(name + "_scaled", n);
    const TensorId wide = e == 4 ? x : tape.tensor(name + "_fp32", 4 * n);
    saved = {wide, scaled};
    std::vector<TensorId> makes = {out.plain, scaled};
    if (wide != x) makes.push_back(wide);
    const Cost c = eager_rms_forward(n, e);
    stream(name, StreamKind::kNorm, c.read, c.write, c.kernels, {x}, makes, regions);
  } else if (fused_quantise) {
    stream(name, StreamKind::kNorm, e * n, format.all(n), 1, {x}, {out.row, out.column}, regions);
  } else {
    stream(name, StreamKind::kNorm, e * n, e * n, 1, {x}, {out.plain}, regions);
  }
  const TensorId plain = out.plain;
  if (for_quantised_linear && format.on && !fused_quantise) {
    out = linear_input(name + "_output", plain, n, regions);
  }
  tape.on_backward([this, name, x, saved, out, n, eager] { norm_backward(name, x, saved, out, n, eager); });
  return out;
}

/// dx from dy and x; a second small kernel reduces the weight's gradient over tokens. A compiler reads the residual's gradient on the way.
void Writer::norm_backward(const std::string& name, TensorId x, const std::vector<TensorId>& saved, const LinearInput& out, std::int64_t n, bool eager) {
  const std::int64_t e = bytes(1);
  const TensorId dx = activation(name + "_gradient", n);
  std::vector<TensorId> reads = saved;
  reads.push_back(tape.gradient(out.plain));
  if (eager) {
    const Cost c = eager_rms_backward(n, e);
    backward_stream(name + "_backward", StreamKind::kNorm, c.read, c.write, c.kernels, reads, {dx});
    tape.add_gradient(x, dx, e * n);
    return;
  }
  const TensorId residual_gradient = tape.gradient(x);
  const bool adds = fuse_residual && residual_gradient != kNoTensor;
  if (adds) reads.push_back(residual_gradient);
  backward_stream(name + "_backward", StreamKind::kNorm, (adds ? 3 : 2) * e * n, e * n, training.adapter.on() ? 1 : 2, reads, {dx});
  if (adds) {
    tape.set_gradient(x, dx);
  } else {
    tape.add_gradient(x, dx, e * n);
  }
}

TensorId Writer::dropout(const std::string& name, TensorId x, std::int64_t n, Regions regions) {
  const std::int64_t e = bytes(1);
  const TensorId out = activation(name + "_output", n);
  const TensorId mask = tape.tensor(name + "_mask", n);
  stream(name, StreamKind::kElementwise, e * n, e * n + n, 1, {x}, {out, mask}, regions);
  tape.on_backward([=, this] {
    const TensorId dx = activation(name + "_gradient", n);
    backward_stream(name + "_backward", StreamKind::kElementwise, e * n + n, e * n, 1, {tape.gradient(out), mask}, {dx});
    tape.set_gradient(x, dx);
  });
  return out;
}

/// x times a constant, one kernel each way.
TensorId Writer::scale(const std::string& name, TensorId x, std::int64_t n) {
  const TensorId out = activation(name + "_output", n);
  stream(name, StreamKind::kElementwise, bytes(n), bytes(n), 1, {x}, {out});
  tape.on_backward([=, this] {
    const TensorId dx = activation(name + "_gradient", n);
    backward_stream(name + "_backward", StreamKind::kElementwise, bytes(n), bytes(n), 1, {tape.gradient(out)}, {dx});
    tape.set_gradient(x, dx);
  });
  return out;
}

/// x + dropout(y + bias). Fused it is one kernel (Megatron bias_dropout_add_fusion); else each part is one.
TensorId Writer::residual(const std::string& name, TensorId x, TensorId y, bool bias) {
  const std::int64_t n = s.shard_tokens * s.hidden;
  const std::int64_t e = bytes(1);
  const bool drops = kernels.dropout;
  const bool fused = kernels.fused_bias_activation;
  if (bias) own_vectors(s.hidden, 1);
  const TensorId out = activation(name + "_output", n);
  const TensorId mask = drops ? tape.tensor(name + "_dropout_mask", n) : kNoTensor;
  std::vector<TensorId> makes = {out};
  if (drops) makes.push_back(mask);
  int launches = 1;
  std::int64_t read = 2 * e * n;
  std::int64_t write = e * n + (drops ? n : 0);
  if (!fused && bias) launches += 1, read += e * n, write += e * n;
  if (!fused && drops) launches += 1, read += e * n, write += e * n;
  stream(name, StreamKind::kElementwise, read, write, launches, {x, y}, makes);
  tape.on_backward([=, this] {
    const TensorId dout = tape.gradient(out);
    TensorId dy = dout;
    if (drops) {
      dy = activation(name + "_dropout_gradient", n);
      backward_stream(name + "_dropout_backward", StreamKind::kElementwise, e * n + n, e * n, 1, {dout, mask}, {dy});
    }
    if (bias) bias_gradient(name, s.shard_tokens, s.hidden, {dy});
    tape.set_gradient(x, dout);
    tape.set_gradient(y, dy);
  });
  return out;
}

std::pair<TensorId, LinearInput> Writer::residual_norm(const std::string& name, TensorId x, TensorId y, bool bias, const std::string& norm_name, bool for_quantised_linear) {
  if (!fuse_residual) {
    const TensorId z = residual(name, x, y, bias);
    return {z, norm(norm_name, z, for_quantised_linear)};
  }
  const std::int64_t n = s.shard_tokens * s.hidden;
  const std::int64_t e = bytes(1);
  const bool drops = kernels.dropout;
  const TensorId z = activation(name + "_output", n);
  const TensorId mask = drops ? tape.tensor(name + "_dropout_mask", n) : kNoTensor;
  bool fused_quantise = false;
  own_vectors(norm_parameters(model), norm_vectors(model));
  if (bias) own_vectors(s.hidden, 1);
  LinearInput out = norm_output(norm_name, for_quantised_linear, n, fused_quantise);
  std::vector<TensorId> makes = {z};
  std::int64_t write = e * n + (drops ? n : 0);
  if (drops) makes.push_back(mask);
  if (fused_quantise) {
    makes.insert(makes.end(), {out.row, out.column});
    write += format.all(n);
  } else {
    makes.push_back(out.plain);
    write += e * n;
  }
  stream(name + "_" + norm_name, StreamKind::kNorm, 2 * e * n, write, 1, {x, y}, makes);
  tape.on_backward([=, this] {
    const TensorId dz = tape.gradient(z);
    TensorId dy = dz;
    if (drops) {
      dy = activation(name + "_dropout_gradient", n);
      backward_stream(name + "_dropout_backward", StreamKind::kElementwise, e * n + n, e * n, 1, {dz, mask}, {dy});
    }
    if (bias) bias_gradient(name, s.shard_tokens, s.hidden, {dy});
    tape.set_gradient(x, dz);
    tape.set_gradient(y, dy);
  });
  if (for_quantised_linear && format.on && !fused_quantise) out = linear_input(norm_name + "_output", out.plain, n, kNoRegion);
  tape.on_backward([this, norm_name, z = z, out, n] { norm_backward(norm_name, z, {z}, out, n, false); });
  return {z, out};
}

}  // namespace orrery::workload
