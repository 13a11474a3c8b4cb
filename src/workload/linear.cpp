// Linear layers split over tensor-parallel ranks, with the collectives around them and the quantised copies that they read.
//
// Column-parallel: every rank has all tokens and some output features. With sequence parallelism the input is gathered before (forward)
// and its gradient reduce-scattered after (backward), and the input is gathered a second time for the weight gradient, since only the
// shard was saved (Korthikanti et al., arXiv:2205.05198, section 4.2.2); a stack may keep the gathered input instead. Without it the input's gradient is all-reduced.
// Row-parallel is the mirror image. Order of backward as Megatron-LM launches it: gather, input gradient, its reduction, weight gradient.
#include <utility>

#include "writer.hpp"

namespace orrery::workload {
namespace {

std::int64_t scaled(std::int64_t n, double per_element) { return static_cast<std::int64_t>(static_cast<double>(n) * per_element + 0.5); }

}  // namespace

/// One cast that writes both orientations; recipes with a scale of the present tensor read its maximum first.
LinearInput Writer::linear_input(const std::string& name, TensorId plain, std::int64_t n, Regions regions) {
  LinearInput out{plain, plain, plain};
  if (!format.on) return out;
  out.row = tape.tensor(name + "_row", scaled(n, format.bytes));
  out.column = tape.tensor(name + "_column", scaled(n, format.bytes));
  if (format.amax_pass) stream(name + "_amax", StreamKind::kReduce, bytes(n), 0, 1, {plain}, {}, regions);
  stream("quantise_" + name, StreamKind::kCast, bytes(n), 2 * scaled(n, format.bytes), 1, {plain}, {out.row, out.column}, regions);
  return out;
}

/// The same for gradients; one tensor holds both orientations, since both are read at once.
TensorId Writer::quantise_gradients(const std::string& name, const std::vector<TensorId>& gradients, std::int64_t n) {
  const TensorId out = tape.tensor(name + "_gradient_quantised", 2 * scaled(n, format.bytes));
  if (format.amax_pass) backward_stream(name + "_gradient_amax", StreamKind::kReduce, bytes(n), 0, 1, gradients, {});
  backward_stream("quantise_" + name + "_gradient", StreamKind::kCast, bytes(n), 2 * scaled(n, format.bytes), 1, gradients, {out});
  return out;
}

TensorId Writer::gather(const std::string& name, TensorId part, std::int64_t whole_bytes, Regions regions) {
  if (!s.sp) return part;
  const TensorId whole = tape.tensor(name + "_gathered", whole_bytes);
  tape.forward({"all_gather_" + name, Comm{CommKind::kAllGather, Axis::kTp, whole_bytes}}, {part}, {whole}, regions);
  return whole;
}

/// The weight gradient of one product and, where no GEMM epilogue adds it to the main gradient, the kernel that does.
void Writer::weight_gradient(const Product& p, std::int64_t in_width, const std::vector<TensorId>& gradients, TensorId in, DType dtype) {
  const std::int64_t n = p.width * in_width;
  const bool fused = shard.gradient_buffer && kernels.gradient_accumulation_fusion && training.grad_dtype == DType::kFp32;
  Gemm gemm{.m = p.width, .n = in_width, .k = s.tokens, .in = dtype, .out = fused ? DType::kFp32 : act, .layout = GemmLayout::kNT, .accumulate = fused};
  std::vector<TensorId> reads = gradients;
  reads.push_back(in);
  if (fused || !shard.gradient_buffer) {
    tape.backward({p.name + "_weight_gradient", gemm}, reads, {}, true);
    return;
  }
  const TensorId fresh = activation(p.name + "_weight_gradient", n);
  tape.backward({p.name + "_weight_gradient", gemm}, reads, {fresh}, true);
  const std::int64_t main = static_cast<std::int64_t>(element_bytes(training.grad_dtype)) * n;
  backward_stream("accumulate_" + p.name, StreamKind::kElementwise, bytes(n) + main, main, 1, {fresh}, {}, true);
}

void Writer::column_parallel(const std::string& name, const LinearInput& in, std::int64_t in_width, const std::vector<Product>& products, bool quantised,
                             Regions regions) {
  const bool q = quantised && format.on;
  const DType dtype = q ? training.precision : act;
  const std::int64_t n_in = s.tokens * in_width;
  const std::int64_t gathered_bytes = q ? scaled(n_in, format.bytes) : bytes(n_in);
  const TensorId whole = gather(name, in.row, gathered_bytes, regions);
  for (const Product& p : products) {
    tape.forward({p.name, Gemm{.m = s.tokens, .n = p.width, .k = in_width, .in = dtype, .out = act, .layout = GemmLayout::kTN}}, {whole}, p.outs, regions);
    if (q) {
      const std::int64_t w = p.width * in_width;
      tape.once_per_step({"quantise_" + p.name + "_weight", Stream{StreamKind::kCast, bytes(w) * (format.amax_pass ? 2 : 1), 2 * scaled(w, format.bytes), format.amax_pass ? 2 : 1}});
    }
    if (p.bias && !kernels.fused_bias_activation) {
      const std::int64_t size = bytes(s.tokens * p.width);
      stream(p.name + "_bias", StreamKind::kElementwise, size, size, 1, p.outs, p.outs, regions);
    }
  }
  tape.on_backward([=, this] {
    std::vector<std::vector<TensorId>> dys;
    for (const Product& p : products) {
      std::vector<TensorId> gradients;
      for (const TensorId out : p.outs) gradients.push_back(tape.gradient(out));
      if (p.bias) bias_gradient(p.name, s.tokens, p.width, gradients);
      if (q) gradients = {quantise_gradients(p.name, gradients, s.tokens * p.width)};
      dys.push_back(std::move(gradients));
    }
    TensorId again = in.column;
    if (s.sp && !kernels.gathers_inputs_again && !q) {
      again = whole;
    } else if (s.sp) {
      again = tape.tensor(name + "_gathered_again", gathered_bytes);
      tape.backward({"all_gather_" + name, Comm{CommKind::kAllGather, Axis::kTp, gathered_bytes}}, {in.column}, {again}, true);
    }
    TensorId dx = kNoTensor;
    for (std::size_t i = 0; i < products.size(); ++i) {
      const Product& p = products[i];
      const TensorId part = activation(p.name + "_input_gradient", n_in);
      tape.backward({p.name + "_input_gradient", Gemm{.m = s.tokens, .n = in_width, .k = p.width, .in = dtype, .out = act, .layout = GemmLayout::kNN}}, dys[i], {part});
      if (dx != kNoTensor) backward_stream("add_gradients", StreamKind::kElementwise, 2 * bytes(n_in), bytes(n_in), 1, {dx, part}, {});
      dx = part;
    }
    if (s.sp) {
      const TensorId part = activation(name + "_gradient_shard", s.shard_tokens * in_width);
      tape.backward({"reduce_scatter_" + name, Comm{CommKind::kReduceScatter, Axis::kTp, bytes(n_in)}}, {dx}, {part});
      dx = part;
    } else if (s.tp > 1) {
      tape.backward({"all_reduce_" + name, Comm{CommKind::kAllReduce, Axis::kTp, bytes(n_in)}}, {dx}, {});
    }
    for (std::size_t i = 0; i < products.size(); ++i) weight_gradient(products[i], in_width, dys[i], again, dtype);
    tape.add_gradient(in.plain, dx, bytes(s.shard_tokens * in_width));
  });
}

TensorId Writer::row_parallel(const std::string& name, const LinearInput& in, std::int64_t in_width, Regions regions) {
  const DType dtype = format.on ? training.precision : act;
  const std::int64_t n_out = s.tokens * s.hidden;
  const Product product{name, s.hidden, false, {}};
  const TensorId partial = activation(name + "_output", n_out);
  tape.forward({name, Gemm{.m = s.tokens, .n = s.hidden, .k = in_width, .in = dtype, .out = act, .layout = GemmLayout::kTN}}, {in.row}, {partial}, regions);
  if (format.on) {
    const std::int64_t w = s.hidden * in_width;
    tape.once_per_step({"quantise_" + name + "_weight", Stream{StreamKind::kCast, bytes(w) * (format.amax_pass ? 2 : 1), 2 * scaled(w, format.bytes), format.amax_pass ? 2 : 1}});
  }
  TensorId out = partial;
  if (s.sp) {
    out = activation(name + "_output_shard", s.shard_tokens * s.hidden);
    tape.forward({"reduce_scatter_" + name, Comm{CommKind::kReduceScatter, Axis::kTp, bytes(n_out)}}, {partial}, {out}, regions);
  } else if (s.tp > 1) {
    tape.forward({"all_reduce_" + name, Comm{CommKind::kAllReduce, Axis::kTp, bytes(n_out)}}, {partial}, {partial}, regions);
  }
  tape.on_backward([=, this] {
    TensorId dy = tape.gradient(out);
    if (format.on) dy = quantise_gradients(name, {dy}, s.shard_tokens * s.hidden);
    if (s.sp) {
      // Both orientations travel as one: the second is a transpose of what was gathered.
      const std::int64_t whole_bytes = format.on ? scaled(n_out, format.bytes) : bytes(n_out);
      const TensorId whole = tape.tensor(name + "_output_gradient", whole_bytes);
      tape.backward({"all_gather_" + name, Comm{CommKind::kAllGather, Axis::kTp, whole_bytes}}, {dy}, {whole});
      dy = whole;
    }
    const TensorId dx = activation(name + "_input_gradient", s.tokens * in_width);
    tape.backward({name + "_input_gradient", Gemm{.m = s.tokens, .n = in_width, .k = s.hidden, .in = dtype, .out = act, .layout = GemmLayout::kNN}}, {dy}, {dx});
    weight_gradient(product, in_width, {dy}, in.column, dtype);
    tape.add_gradient(in.plain, dx, bytes(s.tokens * in_width));
  });
  return out;
}

}  // namespace orrery::workload
