// Low-rank adapters: y = W x + s B A x with W frozen, A of rank x inputs and B of outputs x rank (Hu et al., arXiv:2106.09685, section 4.1).
//
// Frozen weights have no gradient, no optimizer state and no reduction. So nothing keeps a product's input for its weight gradient, but the
// adapter of a product keeps it for its own; gradients still run through every product, down to the lowest adapter (whether the embedding's
// output asks for one too makes a difference in the first layer alone: PEFT's enable_input_require_grads, which checkpointing needs, asks).
// What is launched is PEFT's LoraLayer.forward (peft/tuners/lora/layer.py, dropout 0): two thin products, one kernel for the scale and one
// for the sum. The two factors are products of their own, at a rank that no GPU is fast at.
//
// Over tensor-parallel ranks the small side is whole on every rank: A of a column-parallel product, B of a row-parallel one. The other
// follows the product's cut, so that what adapters add is summed by the collectives that the product has anyway; gradients of the whole
// factors are partial sums, reduced at the end of the step.
//
// Frozen matrices in 4 bits are dequantised before each product that reads them, forward and backward (bitsandbytes autograd/_functions.py,
// MatMul4Bit): the scales' own scales, their offset, and the table look-up are a kernel each.
#include <array>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "orrery/workload/adapter.hpp"
#include "orrery/base/checked.hpp"
#include "writer.hpp"

namespace orrery::workload {
namespace {

constexpr int kDequantiseKernels = 3;

/// One adapter on this rank.
struct Factors {
  std::int64_t in = 0, out = 0;
  bool row = false;  ///< of a row-parallel product
};

std::vector<Factors> factors_of(const Model& m, const Adapter& a, std::int64_t tp) {
  const std::int64_t q = ceil_div(m.heads, tp) * m.head_dim, kv = ceil_div(m.kv_heads, tp) * m.head_dim, ffn = ceil_div(m.ffn_hidden, tp), h = m.hidden;
  std::vector<Factors> out;
  const auto add = [&](bool on, const Factors& f) {
    if (on) out.push_back(f);
  };
  add(a.query, {h, q});
  add(a.key, {h, kv});
  add(a.value, {h, kv});
  add(a.out, {q, h, true});
  add(a.gate, {h, ffn});
  add(a.up, {h, ffn});
  add(a.down, {ffn, h, true});
  return out;
}

/// Matrix products of a list, and what attention multiplies.
struct Work {
  double products = 0, attention = 0;
};
Work work_of(const std::vector<Operation>& operations) {
  Work w;
  for (const Operation& op : operations) (std::holds_alternative<Attention>(op.work) ? w.attention : w.products) += op.flops().value();
  return w;
}

}  // namespace

void Writer::adapt(const std::string& name, TensorId x, TensorId sink, std::int64_t in_width, std::int64_t width, TensorId out, Regions regions) {
  const std::int64_t r = training.adapter.rank, n = s.tokens * width;
  const TensorId low = activation(name + "_low", s.tokens * r), delta = activation(name + "_delta", n);
  tape.forward({name + "_a", Gemm{.m = s.tokens, .n = r, .k = in_width, .in = act, .out = act, .layout = GemmLayout::kTN}}, {x}, {low}, regions);
  tape.forward({name + "_b", Gemm{.m = s.tokens, .n = width, .k = r, .in = act, .out = act, .layout = GemmLayout::kTN}}, {low}, {delta}, regions);
  stream(name + "_add", StreamKind::kElementwise, 3 * bytes(n), 2 * bytes(n), 2, {delta, out}, {}, regions);
  tape.train(Trained::kAll);
  tape.on_backward([=, this] {
    const TensorId scaled = activation(name + "_gradient_scaled", n), low_gradient = activation(name + "_low_gradient", s.tokens * r);
    backward_stream(name + "_scale", StreamKind::kElementwise, bytes(n), bytes(n), 1, {tape.gradient(out)}, {scaled});
    tape.backward({name + "_b_input_gradient", Gemm{.m = s.tokens, .n = r, .k = width, .in = act, .out = act, .layout = GemmLayout::kNN}}, {scaled}, {low_gradient});
    weight_gradient({name + "_b", width, false, {}}, r, {scaled}, low, act, s.tokens);
    const TensorId dx = activation(name + "_input_gradient", s.tokens * in_width);
    tape.backward({name + "_a_input_gradient", Gemm{.m = s.tokens, .n = in_width, .k = r, .in = act, .out = act, .layout = GemmLayout::kNN}}, {low_gradient}, {dx});
    weight_gradient({name + "_a", r, false, {}}, in_width, {low_gradient}, x, act, s.tokens);
    tape.add_gradient(sink, dx, bytes(s.tokens * in_width));
  });
  tape.train(Trained::kInputs);
}

TensorId Writer::dequantised(const std::string& name, std::int64_t elements, bool in_backward, Regions regions) {
  const TensorId out = activation(name + "_weight_wide", elements);
  const auto stored = static_cast<std::int64_t>(std::ceil(static_cast<double>(elements) * kNf4Bytes));
  const Operation op{"dequantise_" + name, Stream{StreamKind::kCast, stored, bytes(elements), kDequantiseKernels}};
  if (in_backward) {
    tape.backward(op, {}, {out});
  } else {
    tape.forward(op, {}, {out}, regions);
  }
  return out;
}

LayerParameters adapted_parameters(LayerKind kind, const Model& m, const Training& t, const Shard& shard, const Block& block) {
  const LayerParameters all = layer_parameters(kind, m, shard, block);
  LayerParameters p;
  p.frozen = all.total();
  std::int64_t linear = 0;
  for (const Matrix& x : all.matrices) linear += x.between_layers ? x.elements() : 0;
  const bool quantised = t.adapter.store == FrozenStore::kNf4;
  const double wide = element_bytes(t.activation_dtype), narrow = quantised ? kNf4Bytes : wide;
  p.frozen_bytes = static_cast<std::int64_t>(std::ceil(static_cast<double>(linear) * narrow)) + static_cast<std::int64_t>(static_cast<double>(p.frozen - linear) * wide);
  if (kind != LayerKind::kDecoder) return p;
  const std::int64_t r = t.adapter.rank;
  for (const Factors& f : factors_of(m, t.adapter, shard.tp)) {
    p.matrices.push_back({r, f.in});
    p.matrices.push_back({f.out, r});
    p.sharded += r * (f.row ? f.in : f.out);
    p.replicated += r * (f.row ? f.out : f.in);
  }
  return p;
}

AdapterCounts count_adapters(const Model& m, const Training& given) {
  Training t = given;
  t.recompute = {};
  t.micro_batch = 1;
  const Shard whole{.micro_batch = 1, .sequence = t.sequence_length};
  AdapterCounts c;
  const auto add = [&](LayerKind kind, const Block& block, std::int64_t times) {
    const Layer layer = make_layer(kind, m, t, whole, StackKernels(), block);
    c.trainable += times * layer.parameters.total();
    const Work forward = work_of(layer.forward), backward = work_of(layer.backward);
    // A flash kernel's backward makes the scores again, which no convention counts.
    c.exact += static_cast<double>(times) * (forward.products + backward.products + 3 * forward.attention);
  };
  add(LayerKind::kEmbedding, {}, 1);
  for (const BlockCount& b : blocks_of(m)) add(LayerKind::kDecoder, b.block, b.layers);
  add(LayerKind::kHead, {}, 1);
  c.exact /= static_cast<double>(t.sequence_length);
  return c;
}

std::vector<Limit> adapter_limits(const Model& m, const Training& t, TpOverlap overlap) {
  std::vector<Limit> out;
  const Adapter& a = t.adapter;
  if (!a.on()) return out;
  const char* const here = "/training/adapter";
  if (m.family != Family::kTransformer) {
    out.push_back({here, "adapters are known of decoder transformers alone; leave it out"});
    return out;
  }
  if (m.mla) out.push_back({here, "latent attention has no query, key and value matrices of the model's width to adapt; leave it out"});
  if (m.mtp_layers > 0) out.push_back({here, "prediction modules are no part of fine-tuning; use mtp_layers 0"});
  if (m.moe && (a.gate || a.up || a.down)) out.push_back({"/training/adapter/targets", "experts have no adapters; use those of the attention: q_proj, k_proj, v_proj, o_proj"});
  if (!m.gated_mlp && a.gate) out.push_back({"/training/adapter/targets", "the model's MLP has no gate_proj; leave it out"});
  if (quantised_format(t).on) out.push_back({"/training/precision", fmt::format("adapters are known beside products of 16 bits and more; use bf16 instead of {}", to_string(t.precision))});
  if (t.sparse) out.push_back({"/training/sparsity", "frozen weights are not pruned; leave it out"});
  if (overlap != TpOverlap::kNone) out.push_back({"/parallelism/overlap/tp", "adapters read whole inputs, which pieces do not give them; use false"});
  if (t.offload.parameters > 0) out.push_back({"/training/offload/parameters", "frozen parameters stay on the device; use 0"});
  return out;
}

}  // namespace orrery::workload
