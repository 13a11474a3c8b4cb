// The attention block: from the first norm's output to the projection's, on this rank's heads.
#include <algorithm>

#include "orrery/base/assert.hpp"
#include "writer.hpp"

namespace orrery::workload {

TensorId Writer::attention(const LinearInput& in, const Block& block) {
  window = block.window.value_or(0);
  if (model.mla) return latent_attention(in);
  const std::int64_t qn = s.tokens * s.q;
  const std::int64_t kvn = s.tokens * s.kv;
  TensorId q = activation("query", qn);
  TensorId k = activation("key", kvn);
  const TensorId v = activation("value", kvn);
  std::vector<Product> products;
  if (kernels.fused_projections) {
    products = {{"qkv", s.q + 2 * s.kv, model.qkv_bias, {q, k, v}}};
  } else {
    products = {{"query", s.q, model.qkv_bias, {q}}, {"key", s.kv, model.qkv_bias, {k}}, {"value", s.kv, model.qkv_bias, {v}}};
  }
  const Adapter& a = training.adapter;
  if (a.query) products.back().adapters.push_back({"query_adapter", q, s.q});
  if (a.key) products.back().adapters.push_back({"key_adapter", k, s.kv});
  if (a.value) products.back().adapters.push_back({"value_adapter", v, s.kv});
  column_parallel("qkv", in, s.hidden, products, true, kNoRegion);
  // Llama 4 normalises what it rotates, after it (transformers modeling_llama4.py Llama4TextAttention); the others before.
  const bool after = model.qk_norm == QkNorm::kUnweighted;
  const bool rotary = model.position == Position::kRotary && !block.no_position;
  if (model.qk_norm != QkNorm::kNone && !after) norm_queries(q, k);
  if (rotary) rotate(q, k);
  if (after && rotary) norm_queries(q, k);
  return attention_projection(core_attention(q, k, v));
}

/// Attention's output is an operand of its backward pass and of the next product's weight gradient. It may be kept once for both, in
/// 12 bits with a scale per 128, whose other orientation is made in backward (DeepSeek-V3, arXiv:2412.19437, section 3.3.3: E5M6).
TensorId Writer::attention_projection(TensorId o) {
  const std::int64_t n = s.tokens * s.o;
  if (format.on && kernels.narrow_attention_output && o == flash_output && !training.adapter.on()) {
    const auto kept_bytes = static_cast<std::int64_t>((1.5 + 4.0 / 128) * static_cast<double>(n));
    const TensorId kept = tape.tensor("attention_output_kept", kept_bytes);
    const LinearInput in{o, tape.tensor("attention_output_row", format.one(n)), tape.tensor("attention_output_column", format.one(n))};
    if (format.amax_pass) stream("attention_output_amax", StreamKind::kReduce, bytes(n), 0, 1, {o}, {});
    stream("store_attention_output", StreamKind::kCast, bytes(n), kept_bytes + format.one(n), 1, {o}, {kept, in.row});
    narrowed.emplace_back(o, kept);
    const TensorId out = row_parallel("proj", in, s.o, kNoRegion, false);
    tape.on_backward([=, this] { backward_stream("turn_attention_output", StreamKind::kCast, kept_bytes, format.one(n), 1, {kept}, {in.column}, true); });
    return out;
  }
  return row_parallel("proj", linear_input("attention_output", o, s.tokens * s.o, kNoRegion), s.o, kNoRegion, training.adapter.out);
}

TensorId Writer::core_attention(TensorId q, TensorId k, TensorId v) {
  if (s.cp == 1) return training.flash_attention ? flash_attention(q, {k, v}) : math_attention(q, {k, v});
  switch (shard.cp_method) {
    case CpMethod::kRing:
    case CpMethod::kRingNaive: return ring_attention(q, k, v);
    case CpMethod::kAllGather: return gathered_attention(q, k, v);
    case CpMethod::kUlysses: return ulysses_attention(q, k, v);
  }
  ORRERY_ASSERT(false, "the switch names every method");
}

/// In backward, what an operation gave, from its narrow copy where that is what was kept.
TensorId Writer::widened(TensorId o) {
  const auto found = std::find_if(narrowed.begin(), narrowed.end(), [o](const auto& pair) { return pair.first == o; });
  if (found == narrowed.end()) return o;
  const std::int64_t n = s.tokens * s.o;
  const TensorId wide = activation("attention_output_again", n);
  backward_stream("widen_attention_output", StreamKind::kCast, static_cast<std::int64_t>((1.5 + 4.0 / 128) * static_cast<double>(n)), bytes(n), 1, {found->second}, {wide});
  return wide;
}

/// One kernel; the scores never reach memory. It keeps the log-sum-exp of every row, and its backward sums dQ in fp32 before the cast
/// (FlashAttention-2, arXiv:2307.08691, section 3.1.2). Dropout regenerates its mask from a counter.
TensorId Writer::flash_attention(TensorId q, const KeysValues& kv) {
  const std::int64_t rows = s.tokens * s.heads;
  const std::int64_t positions = s.batch * s.keys;
  Attention work{.batch = s.batch, .seq_q = s.queries, .seq_kv = s.keys, .heads = s.heads, .kv_heads = s.kv_heads, .dim_qk = s.head_dim, .dim_v = s.value_dim,
                 .causal = training.causal, .backward = false, .dtype = act, .window = window, .chunked = model.attention_chunk.has_value(),
                 .softcap = model.attn_softcap.has_value()};
  const TensorId o = activation("attention_output", s.tokens * s.o);
  const TensorId lse = tape.tensor("log_sum_exp", 4 * rows);
  tape.forward({"attention", work}, {q, kv.keys, kv.values}, {o, lse}, kCoreAttention);
  flash_output = o;
  work.backward = true;
  tape.on_backward([=, this] {
    const TensorId dq = activation("query_rotated_gradient", s.tokens * s.q), dk = activation("key_rotated_gradient", positions * s.kv);
    const TensorId dv = activation("value_gradient", positions * s.v);
    const TensorId sum = tape.tensor("query_gradient_fp32", 4 * (s.tokens * s.q + rows));  // and one row sum of dO o a row
    tape.backward({"attention_backward", work}, {tape.gradient(o), q, kv.keys, kv.values, widened(o), lse}, {dq, dk, dv, sum});
    tape.set_gradient(q, dq);
    tape.set_gradient(kv.keys, dk);
    tape.set_gradient(kv.values, dv);
  });
  return o;
}

/// Scores, softmax and context as kernels of their own; a causal mask saves nothing, for the products are square. Grouped keys and values
/// are copied out to every query head first (Megatron-LM repeat_interleave).
TensorId Writer::math_attention(TensorId q, const KeysValues& kv) {
  const std::int64_t group = s.heads / s.kv_heads;
  const std::int64_t kvn = s.batch * s.keys * s.kv;
  const std::int64_t wide = group * kvn;                  // keys of every query head
  const std::int64_t wide_v = s.batch * s.keys * s.o;     // and values
  const std::int64_t on = s.tokens * s.o;
  KeysValues full = kv;
  if (group > 1) {
    full.keys = activation("keys_repeated", wide);
    full.values = activation("values_repeated", wide);
    stream("repeat_kv", StreamKind::kCopy, 2 * bytes(kvn), 2 * bytes(wide), 2, {kv.keys, kv.values}, {full.keys, full.values}, kCoreAttention);
    tape.on_backward([=, this] {
      const TensorId dk = activation("key_rotated_gradient", kvn), dv = activation("value_gradient", kvn);
      backward_stream("repeat_kv_backward", StreamKind::kReduce, 2 * bytes(wide), 2 * bytes(kvn), 2, {tape.gradient(full.keys), tape.gradient(full.values)}, {dk, dv});
      tape.set_gradient(kv.keys, dk);
      tape.set_gradient(kv.values, dv);
    });
  }
  const std::int64_t batch = s.batch * s.heads;
  const auto product = [&](std::int64_t m, std::int64_t n, std::int64_t k, GemmLayout layout) {
    return Gemm{.m = m, .n = n, .k = k, .batch = batch, .in = act, .out = act, .layout = layout};
  };
  const TensorId probabilities = scores(q, full);
  TensorId dropped = probabilities;
  if (kernels.dropout) dropped = dropout("attention_dropout", probabilities, batch * s.queries * s.keys, kCoreAttention);
  const TensorId context = activation("context", on), o = activation("attention_output", on);
  tape.forward({"context", product(s.queries, s.value_dim, s.keys, GemmLayout::kNN)}, {dropped, full.values}, {context}, kCoreAttention);
  stream("permute_context", StreamKind::kPermute, bytes(on), bytes(on), 1, {context}, {o}, kCoreAttention);
  const Gemm to_probabilities = product(s.queries, s.keys, s.value_dim, GemmLayout::kTN), to_values = product(s.keys, s.value_dim, s.queries, GemmLayout::kNT);
  tape.on_backward([=, this] {
    const TensorId dcontext = activation("context_gradient", on), dv = activation("values_gradient", wide_v);
    const TensorId dp = activation("probabilities_gradient", batch * s.queries * s.keys);
    backward_stream("permute_context_backward", StreamKind::kPermute, bytes(on), bytes(on), 1, {tape.gradient(o)}, {dcontext});
    tape.backward({"probabilities_gradient", to_probabilities}, {dcontext, full.values}, {dp});
    tape.backward({"values_gradient", to_values}, {dcontext, dropped}, {dv});
    tape.set_gradient(dropped, dp);
    tape.set_gradient(full.values, dv);
  });
  return o;
}

/// softmax(mask(q k^T / sqrt(d))): one kernel where fused, else scale, mask and softmax.
TensorId Writer::scores(TensorId q, const KeysValues& kv) {
  const std::int64_t batch = s.batch * s.heads;
  const std::int64_t n = batch * s.queries * s.keys;
  const TensorId raw = activation("scores", n), probabilities = activation("probabilities", n);
  const Gemm forward{.m = s.queries, .n = s.keys, .k = s.head_dim, .batch = batch, .in = act, .out = act, .layout = GemmLayout::kTN};
  tape.forward({"scores", forward}, {q, kv.keys}, {raw}, kCoreAttention);
  const Gemm to_queries{.m = s.queries, .n = s.head_dim, .k = s.keys, .batch = batch, .in = act, .out = act, .layout = GemmLayout::kNN};
  const Gemm to_keys{.m = s.keys, .n = s.head_dim, .k = s.queries, .batch = batch, .in = act, .out = act, .layout = GemmLayout::kNT};
  tape.on_backward([=, this] {
    const TensorId dq = activation("query_rotated_gradient", s.tokens * s.q), dk = activation("keys_gradient", s.batch * s.keys * s.q);
    const TensorId ds = tape.gradient(raw);
    tape.backward({"query_gradient", to_queries}, {ds, kv.keys}, {dq});
    tape.backward({"keys_gradient", to_keys}, {ds, q}, {dk});
    tape.set_gradient(q, dq);
    tape.set_gradient(kv.keys, dk);
  });
  const bool fused = kernels.fused_softmax;
  const bool caps_inside = model.attn_softcap && training.fusion == Fusion::kCompiled;  // then backward reads the scores themselves again
  TensorId masked = model.attn_softcap && !caps_inside ? softcap("softcap", raw, n, 3, kCoreAttention) : raw;
  if (model.attention_sinks) masked = append_sinks(masked, n);
  stream("softmax", StreamKind::kSoftmax, fused ? bytes(n) : 3 * bytes(n) + n, fused ? bytes(n) : 3 * bytes(n), fused ? 1 : 3, {masked}, {probabilities}, kCoreAttention);
  // Played back before the products above, which read the gradient that it leaves.
  tape.on_backward([=, this] {
    const TensorId ds = activation("scores_gradient", n);
    std::vector<TensorId> reads = {tape.gradient(probabilities), probabilities};
    if (caps_inside) reads.push_back(raw);
    const std::int64_t again = caps_inside ? bytes(n) : 0;
    backward_stream("softmax_backward", StreamKind::kSoftmax, (fused ? 2 * bytes(n) : 4 * bytes(n) + n) + again, fused ? bytes(n) : 3 * bytes(n), fused ? 1 : 3, reads, {ds});
    tape.set_gradient(masked, ds);
  });
  return probabilities;
}

/// A column of sinks beside the scores, as eager code writes it: concatenate, row maximum, subtract; the softmax's column is cut off again
/// (transformers modeling_gpt_oss.py eager_attention_forward). The column itself is one in as many as there are keys.
TensorId Writer::append_sinks(TensorId scores, std::int64_t n) {
  const TensorId joined = activation("scores_with_sinks", n);
  stream("append_sinks", StreamKind::kCopy, 3 * bytes(n), 2 * bytes(n), 3, {scores}, {joined}, kCoreAttention);
  tape.on_backward([=, this] {
    const TensorId ds = activation("scores_with_sinks_gradient", n);
    backward_stream("append_sinks_backward", StreamKind::kCopy, bytes(n), bytes(n), 2, {tape.gradient(joined)}, {ds});
    tape.set_gradient(scores, ds);
  });
  return joined;
}

/// c tanh(x / c): in eager code a product, the tanh and a product each way (transformers modeling_gemma2.py). The tanh is kept for backward.
TensorId Writer::softcap(const std::string& name, TensorId x, std::int64_t n, int launches, Regions regions) {
  const TensorId bent = activation(name + "_tanh", n), out = activation(name + "_output", n);
  stream(name, StreamKind::kElementwise, launches * bytes(n), (launches == 1 ? 2 : launches) * bytes(n), launches, {x}, {bent, out}, regions);
  tape.on_backward([=, this] {
    const TensorId dx = activation(name + "_gradient", n);
    backward_stream(name + "_backward", StreamKind::kElementwise, (launches + 1) * bytes(n), launches * bytes(n), launches, {tape.gradient(out), bent}, {dx});
    tape.set_gradient(x, dx);
  });
  return out;
}

}  // namespace orrery::workload
