// Linear layers split over tensor-parallel ranks, with the collectives around them and the quantised copies that they read.
//
// Column-parallel: every rank has all tokens and some output features. With sequence parallelism the input is gathered before (forward)
// and its gradient reduce-scattered after (backward), and the input is gathered a second time for the weight gradient, since only the
// shard was saved (Korthikanti et al., arXiv:2205.05198, section 4.2.2); a stack may keep the gathered input instead. Without it the input's gradient is all-reduced.
// Row-parallel is the mirror image. Order of backward as Megatron-LM launches it: gather, input gradient, its reduction, weight gradient.
#include <algorithm>
#include <utility>

#include "writer.hpp"

namespace orrery::workload {
void Writer::quantised_copies(const std::string& name, std::int64_t n, LinearInput& out) {
  out.row = tape.tensor(name + "_row", format.one(n));
  out.column = format.copies > 1 ? tape.tensor(name + "_column", format.one(n)) : out.row;
}

/// A cast per orientation where the scales belong to one, else one cast that writes them all; recipes with a scale of the present tensor
/// read its maximum first. Transformer Engine's own timings stand for the second read: quantisers take 0.20 of a layer in MXFP8
/// (modelling 1.7), which one read would make 0.12.
LinearInput Writer::linear_input(const std::string& name, TensorId plain, std::int64_t n, Regions regions) {
  LinearInput out{plain, plain, plain};
  if (!format.on) return out;
  quantised_copies(name, n, out);
  if (format.amax_pass) stream(name + "_amax", StreamKind::kReduce, bytes(n), 0, 1, {plain}, {}, regions);
  stream("quantise_" + name, StreamKind::kCast, format.casts() * bytes(n), format.all(n), format.casts(), {plain}, {out.row, out.column}, regions);
  return out;
}

/// The same for gradients; one tensor holds both orientations, since both are read at once.
TensorId Writer::quantise_gradients(const std::string& name, const std::vector<TensorId>& gradients, std::int64_t n) {
  const TensorId out = tape.tensor(name + "_gradient_quantised", format.all(n));
  if (format.amax_pass) backward_stream(name + "_gradient_amax", StreamKind::kReduce, bytes(n), 0, 1, gradients, {});
  backward_stream("quantise_" + name + "_gradient", StreamKind::kCast, format.casts() * bytes(n), format.all(n), format.casts(), gradients, {out});
  return out;
}

// Kept copies are cast with the first microbatch (Transformer Engine's weight workspaces). Without them each pass casts what it reads:
// the forward product the one orientation, the input gradient the other (torchao float8_linear.py, which saves the weight itself).
// 2:4 weights are pruned and compressed by the same kernel, for each product's reduction axis: half of the elements and two bits of
// position for each (Mishra et al., arXiv:2104.08378; torchao sparsity/training prunes in every forward pass).
TensorId Writer::weight_copy(const std::string& name, std::int64_t w, bool in_backward, Regions regions) {
  if (training.adapter.on() && training.adapter.store == FrozenStore::kNf4) return dequantised(name, w, in_backward, regions);
  if (!format.on && !training.sparse) return kNoTensor;
  const double element = format.on ? format.bytes : element_bytes(act);
  const std::int64_t one = training.sparse ? static_cast<std::int64_t>((element / 2 + 0.125) * static_cast<double>(w) + 0.5) : format.one(w);
  const std::int64_t all = training.sparse ? 2 * one : format.all(w);
  const int amax = format.amax_pass ? 1 : 0, passes = amax + 1, kept_passes = amax + (training.sparse ? 1 : format.casts());
  const std::string verb = training.sparse ? "prune_" : "quantise_";
  if (shard.keeps_quantised_weights) {
    if (in_backward) return kNoTensor;
    tape.once_per_step({verb + name + "_weight", Stream{StreamKind::kCast, kept_passes * bytes(w), all, kept_passes}}, all);
    return kNoTensor;
  }
  const std::string weight = name + (in_backward ? "_weight_turned" : "_weight");
  const TensorId out = tape.tensor(weight + "_copy", one);
  const Stream cast{StreamKind::kCast, passes * bytes(w), one, passes};
  if (in_backward) {
    tape.backward({verb + weight, cast}, {}, {out});
  } else {
    tape.forward({verb + weight, cast}, {}, {out}, regions);
  }
  return out;
}

TensorId Writer::gather(const std::string& name, TensorId part, std::int64_t whole_bytes, Regions regions) {
  if (!s.sp) return part;
  const TensorId whole = tape.tensor(name + "_gathered", whole_bytes);
  tape.forward({"all_gather_" + name, Comm{CommKind::kAllGather, Axis::kTp, whole_bytes}}, {part}, {whole}, regions);
  return whole;
}

void Writer::weight_gradient(const Product& p, std::int64_t in_width, const std::vector<TensorId>& gradients, TensorId in, DType dtype, std::int64_t tokens) {
  const std::int64_t n = p.width * in_width;
  const bool fused = shard.gradient_buffer && kernels.gradient_accumulation_fusion && training.grad_dtype == DType::kFp32;
  Gemm gemm{.m = p.width, .n = in_width, .k = tokens, .in = dtype, .out = fused ? DType::kFp32 : act, .layout = GemmLayout::kNT, .accumulate = fused};
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
  const bool q = quantised && format.on, sparse = quantised && training.sparse;
  const DType dtype = q ? training.precision : act;
  const std::int64_t n_in = s.tokens * in_width;
  const std::int64_t gathered_bytes = q ? format.one(n_in) : bytes(n_in);
  std::vector<TensorId> weights;
  for (const Product& p : products) weights.push_back(quantised ? weight_copy(p.name, p.width * in_width, false, regions) : kNoTensor);
  const auto multiply = [&](TensorId from, std::int64_t rows) {
    for (std::size_t i = 0; i < products.size(); ++i) {
      const Product& p = products[i];
      std::vector<TensorId> operands = {from};
      if (weights[i] != kNoTensor) operands.push_back(weights[i]);
      tape.forward({p.name, Gemm{.m = rows, .n = p.width, .k = in_width, .in = dtype, .out = act, .layout = GemmLayout::kTN, .sparse = sparse}}, operands, p.outs, regions);
    }
  };
  TensorId whole = in.row;
  if (tp_pieces() > 1) {
    whole = tape.tensor(name + "_gathered", gathered_bytes);
    const Step step = [&](const Operation& op, const std::vector<TensorId>& reads, const std::vector<TensorId>& makes, Regions more) { tape.forward(op, reads, makes, regions | more); };
    gather_under(name, in.row, whole, gathered_bytes, step, [&](std::int64_t rows) { multiply(whole, rows); });
  } else {
    whole = gather(name, in.row, gathered_bytes, regions);
    multiply(whole, s.tokens);
  }
  for (const Product& p : products) {
    own_matrix(p.width, in_width, p.bias);
    if (p.bias && !kernels.fused_bias_activation) {
      const std::int64_t size = bytes(s.tokens * p.width);
      stream(p.name + "_bias", StreamKind::kElementwise, size, size, 1, p.outs, p.outs, regions);
    }
  }
  // Adapters read the same whole input; what they send back to it is reduced with the product's own.
  const bool adapted = std::any_of(products.begin(), products.end(), [](const Product& p) { return !p.adapters.empty(); });
  const TensorId sink = adapted ? tape.tensor(name + "_adapted", 0) : kNoTensor;
  tape.on_backward([=, this] { column_backward(name, in, in_width, products, quantised, whole, sink); });
  for (const Product& p : products) {
    for (const Product::Adapted& a : p.adapters) adapt(a.name, whole, sink, in_width, a.width, a.out, regions);
  }
}

void Writer::column_backward(const std::string& name, const LinearInput& in, std::int64_t in_width, const std::vector<Product>& products, bool quantised, TensorId whole, TensorId sink) {
  const bool q = quantised && format.on, sparse = quantised && training.sparse;
  const DType dtype = q ? training.precision : act;
  const std::int64_t n_in = s.tokens * in_width;
  const std::int64_t gathered_bytes = q ? format.one(n_in) : bytes(n_in);
  std::vector<std::vector<TensorId>> dys;
  for (const Product& p : products) {
    std::vector<TensorId> gradients;
    for (const TensorId out : p.outs) gradients.push_back(tape.gradient(out));
    if (p.bias) bias_gradient(p.name, s.tokens, p.width, gradients);
    if (q) gradients = {quantise_gradients(p.name, gradients, s.tokens * p.width)};
    dys.push_back(std::move(gradients));
  }
  const bool overlaps = s.sp && shard.tp_overlap != TpOverlap::kNone;
  const bool bulk = overlaps && kernels.tp_overlap_bulk;
  TensorId again = in.column;
  Comm gather_again{CommKind::kAllGather, Axis::kTp, gathered_bytes};
  if (s.sp && ((!kernels.gathers_inputs_again && !q) || training.adapter.on())) {
    again = whole;  // of frozen weights nothing reads it, and adapters keep it
  } else if (s.sp) {
    again = tape.tensor(name + "_gathered_again", gathered_bytes);
    if (bulk) gather_again = overlapped(CommKind::kAllGather, gathered_bytes);
    if (bulk || !overlaps) tape.backward({"all_gather_" + name, gather_again}, {in.column}, {again}, true);
  }
  const bool cuts = overlaps && !bulk && tp_pieces() > 1;
  std::vector<TensorId> weights;
  for (const Product& p : products) weights.push_back(quantised ? weight_copy(p.name, p.width * in_width, true, kNoRegion) : kNoTensor);
  TensorId dx = kNoTensor;
  const auto input_gradient = [&](std::size_t i, std::int64_t rows, TensorId part) {
    const Product& p = products[i];
    std::vector<TensorId> operands = dys[i];
    if (weights[i] != kNoTensor) operands.push_back(weights[i]);
    tape.backward({p.name + "_input_gradient", Gemm{.m = rows, .n = in_width, .k = p.width, .in = dtype, .out = act, .layout = GemmLayout::kNN, .sparse = sparse}}, operands, {part});
  };
  for (std::size_t i = 0; i + (cuts ? 1 : 0) < products.size(); ++i) {
    const TensorId part = activation(products[i].name + "_input_gradient", n_in);
    input_gradient(i, s.tokens, part);
    if (dx != kNoTensor) backward_stream("add_gradients", StreamKind::kElementwise, 2 * bytes(n_in), bytes(n_in), 1, {dx, part}, {});
    dx = part;
  }
  if (sink != kNoTensor) {
    backward_stream("add_adapter_gradients", StreamKind::kElementwise, 2 * bytes(n_in), bytes(n_in), 1, {dx, tape.gradient(sink)}, {});
  }
  int scattering = -1;
  if (cuts) {
    // The last product is added to the others' sum in its epilogue, piece by piece, and each piece goes out at once.
    const std::size_t last = products.size() - 1;
    const TensorId sum = dx == kNoTensor ? activation(products[last].name + "_input_gradient", n_in) : dx;
    const TensorId part = activation(name + "_gradient_shard", s.shard_tokens * in_width);
    const Step step = [&](const Operation& op, const std::vector<TensorId>& reads, const std::vector<TensorId>& makes, Regions) { tape.backward(op, reads, makes); };
    scatter_under(name, sum, part, bytes(n_in), step, [&](std::int64_t rows) { input_gradient(last, rows, sum); });
    dx = part;
  } else if (s.sp) {
    const TensorId part = activation(name + "_gradient_shard", s.shard_tokens * in_width);
    Comm scatter{CommKind::kReduceScatter, Axis::kTp, bytes(n_in)};
    if (bulk) {
      scatter = overlapped(CommKind::kReduceScatter, bytes(n_in));
      scattering = scatter.ticket;
    }
    tape.backward({"reduce_scatter_" + name, scatter}, {dx}, {part});
    dx = part;
  } else if (s.tp > 1) {
    tape.backward({"all_reduce_" + name, Comm{CommKind::kAllReduce, Axis::kTp, bytes(n_in)}}, {dx}, {});
  }
  if (overlaps && !bulk && again != whole) tape.backward({"all_gather_" + name, gather_again}, {in.column}, {again}, true);
  if (gather_again.ticket >= 0) tape.backward({"wait_" + name, Await{gather_again.ticket}}, {}, {}, true);
  for (std::size_t i = 0; i < products.size(); ++i) weight_gradient(products[i], in_width, dys[i], again, dtype, s.tokens);
  if (scattering >= 0) tape.backward({"wait_" + name + "_gradient", Await{scattering}}, {}, {});
  tape.add_gradient(in.plain, dx, bytes(s.shard_tokens * in_width));
}

TensorId Writer::row_parallel(const std::string& name, const LinearInput& in, std::int64_t in_width, Regions regions, bool adapted) {
  const DType dtype = format.on ? training.precision : act;
  const std::int64_t n_out = s.tokens * s.hidden;
  const Product product{name, s.hidden, false, {}};
  own_matrix(s.hidden, in_width, false);
  const TensorId partial = activation(name + "_output", n_out);
  std::vector<TensorId> operands = {in.row};
  if (const TensorId weight = weight_copy(name, s.hidden * in_width, false, regions); weight != kNoTensor) operands.push_back(weight);
  const auto product_of = [&](std::int64_t rows) {
    tape.forward({name, Gemm{.m = rows, .n = s.hidden, .k = in_width, .in = dtype, .out = act, .layout = GemmLayout::kTN, .sparse = training.sparse}}, operands, {partial}, regions);
  };
  TensorId out = partial;
  if (s.sp) out = activation(name + "_output_shard", s.shard_tokens * s.hidden);
  if (tp_pieces() > 1) {
    const Step step = [&](const Operation& op, const std::vector<TensorId>& reads, const std::vector<TensorId>& makes, Regions more) { tape.forward(op, reads, makes, regions | more); };
    scatter_under(name, partial, out, bytes(n_out), step, product_of);
  } else {
    product_of(s.tokens);
  }
  // The adapter's output is partial as the product's is, and is summed over the ranks with it.
  if (adapted) adapt(name, in.plain, in.plain, in_width, s.hidden, partial, regions);
  if (s.sp && tp_pieces() == 1) {
    tape.forward({"reduce_scatter_" + name, Comm{CommKind::kReduceScatter, Axis::kTp, bytes(n_out)}}, {partial}, {out}, regions);
  } else if (s.tp > 1 && !s.sp) {
    tape.forward({"all_reduce_" + name, Comm{CommKind::kAllReduce, Axis::kTp, bytes(n_out)}}, {partial}, {partial}, regions);
  }
  tape.on_backward([=, this] {
    TensorId dy = tape.gradient(out);
    if (format.on) dy = quantise_gradients(name, {dy}, s.shard_tokens * s.hidden);
    TensorId whole = dy;
    // With one scale a tensor the second orientation is a transpose of what was gathered; scales by block belong to one orientation,
    // and both travel (transformer_engine/pytorch/distributed.py, gather_along_first_dim of block-scaled tensors).
    const std::int64_t whole_bytes = !format.on ? bytes(n_out) : format.by_block ? format.all(n_out) : format.one(n_out);
    if (s.sp) whole = tape.tensor(name + "_output_gradient", whole_bytes);
    const TensorId weight = weight_copy(name, s.hidden * in_width, true, kNoRegion);
    const TensorId dx = activation(name + "_input_gradient", s.tokens * in_width);
    const auto input_gradient = [&](std::int64_t rows) {
      std::vector<TensorId> turned = {whole};
      if (weight != kNoTensor) turned.push_back(weight);
      tape.backward({name + "_input_gradient", Gemm{.m = rows, .n = in_width, .k = s.hidden, .in = dtype, .out = act, .layout = GemmLayout::kNN, .sparse = training.sparse}}, turned, {dx});
    };
    if (tp_pieces() > 1) {
      const Step step = [&](const Operation& op, const std::vector<TensorId>& reads, const std::vector<TensorId>& makes, Regions) { tape.backward(op, reads, makes); };
      gather_under(name, dy, whole, whole_bytes, step, input_gradient);
    } else {
      if (s.sp) tape.backward({"all_gather_" + name, Comm{CommKind::kAllGather, Axis::kTp, whole_bytes}}, {dy}, {whole});
      input_gradient(s.tokens);
    }
    dy = whole;
    if (partial != out) tape.set_gradient(partial, whole);
    weight_gradient(product, in_width, {dy}, in.column, dtype, s.tokens);
    tape.add_gradient(in.plain, dx, bytes(s.tokens * in_width));
  });
  return out;
}

}  // namespace orrery::workload
