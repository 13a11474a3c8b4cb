// Attention over context-parallel ranks that each hold a piece of the sequence: gathered keys and values, or heads against sequence.
// The ring is in ring.cpp.
//
// With a causal mask a rank holds pieces i and 2c-1-i of 2c, so that all have the same work (Llama 3, arXiv:2407.21783, section 3.3.2).
#include <algorithm>

#include "orrery/base/assert.hpp"
#include "writer.hpp"

namespace orrery::workload {

Attention Writer::flash(std::int64_t queries, std::int64_t keys, bool causal) const {
  return {.batch = s.batch, .seq_q = queries, .seq_kv = keys, .heads = s.heads, .kv_heads = s.kv_heads, .dim_qk = s.head_dim, .dim_v = s.value_dim, .causal = causal,
          .backward = false, .dtype = act, .window = window, .chunked = model.attention_chunk.has_value(), .softcap = model.attn_softcap.has_value()};
}

/// Keys and values are gathered, again in backward, and their gradients reduce-scattered; only the rank's own part is saved. Pieces arrive
/// in the order of ranks and are put in that of the sequence; one kernel per own piece sees all keys up to its end (Transformer Engine,
/// pytorch/attention/dot_product_attention/context_parallel.py, AttnFuncWithCPAndKVAllGather), or those that its window reaches.
TensorId Writer::gathered_attention(TensorId q, TensorId k, TensorId v) {
  const std::int64_t own = s.tokens * s.kv, all = s.batch * s.keys * s.kv, rows = s.tokens * s.heads, qn = s.tokens * s.q;
  std::vector<Attention> pieces;
  if (training.causal) {
    const std::int64_t piece = s.queries / 2;
    const auto seen = [&](std::int64_t end) { return window > 0 ? std::min(end, piece + window) : end; };
    pieces = {flash(piece, seen(piece * (shard.cp_rank + 1)), true), flash(piece, seen(piece * (2 * s.cp - shard.cp_rank)), true)};
  } else {
    pieces = {flash(s.queries, s.keys, false)};
  }
  const auto gather = [=, this](bool again) {
    const std::string suffix = again ? "_again" : "";
    const TensorId raw = activation("keys_values_arrived" + suffix, 2 * all), kv = activation("keys_values_gathered" + suffix, 2 * all);
    const Operation collective{"all_gather_kv", Comm{CommKind::kAllGather, Axis::kCp, bytes(2 * all)}};
    const Operation order{"order_kv", Stream{StreamKind::kPermute, bytes(2 * all), bytes(2 * all), 2}};
    if (again) {
      tape.backward(collective, {k, v}, {raw});
      tape.backward(order, {raw}, {kv});
    } else {
      tape.forward(collective, {k, v}, {raw}, kCoreAttention);
      tape.forward(order, {raw}, {kv}, kCoreAttention);
    }
    return kv;
  };
  const TensorId kv = gather(false);
  const TensorId o = activation("attention_output", qn), lse = tape.tensor("log_sum_exp", 4 * rows);
  for (const Attention& piece : pieces) tape.forward({"attention", piece}, {q, kv}, {o, lse}, kCoreAttention);
  tape.on_backward([=, this] {
    const TensorId whole = gather(true);
    const TensorId dq = activation("query_rotated_gradient", qn), dkv = activation("keys_values_gradient", 2 * all);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      Attention work = pieces[i];
      work.backward = true;
      const std::int64_t seen = 2 * s.batch * work.seq_kv * s.kv;
      const TensorId part = activation("keys_values_gradient_of_piece", seen);
      const TensorId sum = tape.tensor("query_gradient_fp32", 4 * (qn + rows) / static_cast<std::int64_t>(pieces.size()));
      tape.backward({"attention_backward", work}, {tape.gradient(o), q, whole, o, lse}, {dq, part, sum});
      backward_stream("add_kv_gradient", StreamKind::kElementwise, bytes(seen) + (i > 0 ? bytes(seen) : 0), i > 0 ? bytes(seen) : bytes(2 * all), 1, {part}, {dkv});
    }
    const TensorId ordered = activation("keys_values_gradient_ordered", 2 * all), dk = activation("key_shard_gradient", own), dv = activation("value_shard_gradient", own);
    backward_stream("order_kv_gradient", StreamKind::kPermute, bytes(2 * all), bytes(2 * all), 2, {dkv}, {ordered});
    tape.backward({"reduce_scatter_kv", Comm{CommKind::kReduceScatter, Axis::kCp, bytes(2 * all)}}, {ordered}, {dk, dv});
    tape.set_gradient(q, dq);
    tape.set_gradient(k, dk);
    tape.set_gradient(v, dv);
  });
  return o;
}

/// Heads against sequence: every rank gets some heads of the whole sequence, and gives its output back the same way (DeepSpeed-Ulysses,
/// arXiv:2309.14509, section 3). Each exchange is a transpose, an all-to-all and a second transpose that puts pieces in order (Transformer
/// Engine, flash_attn_a2a_communicate). What attention read and made stays for backward, and so does the output as the projection reads it.
TensorId Writer::ulysses_attention(TensorId q, TensorId k, TensorId v) {
  ORRERY_ASSERT(s.heads % s.cp == 0 && s.kv_heads % s.cp == 0, "the plan has checked the heads");
  const std::int64_t qn = s.tokens * s.q, kvn = s.tokens * s.kv, rows = s.tokens * s.heads;  // as many elements after the exchange as before
  const auto exchange = [this](const std::string& name, TensorId in, std::int64_t n, bool backward) {
    const TensorId sent = activation(name + "_by_rank", n), arrived = activation(name + "_exchanged", n), out = activation(name + "_in_order", n);
    const Operation first{"transpose_" + name, Stream{StreamKind::kPermute, bytes(n), bytes(n), 1}};
    const Operation collective{"all_to_all_" + name, Comm{CommKind::kAllToAll, Axis::kCp, bytes(n)}};
    const Operation second{"order_" + name, Stream{StreamKind::kPermute, bytes(n), bytes(n), 1}};
    if (backward) {
      tape.backward(first, {in}, {sent});
      tape.backward(collective, {sent}, {arrived});
      tape.backward(second, {arrived}, {out});
    } else {
      tape.forward(first, {in}, {sent}, kCoreAttention);
      tape.forward(collective, {sent}, {arrived}, kCoreAttention);
      tape.forward(second, {arrived}, {out}, kCoreAttention | kAttentionResult);
    }
    return out;
  };
  const TensorId qh = exchange("query", q, qn, false), kh = exchange("key", k, kvn, false), vh = exchange("value", v, kvn, false);
  Attention work = flash(s.keys, s.keys, training.causal);
  work.heads = s.heads / s.cp;
  work.kv_heads = s.kv_heads / s.cp;
  const TensorId oh = activation("attention_output_of_heads", qn), lse = tape.tensor("log_sum_exp", 4 * rows);
  tape.forward({"attention", work}, {qh, kh, vh}, {oh, lse}, kCoreAttention);
  const TensorId o = exchange("attention_output", oh, qn, false);
  work.backward = true;
  tape.on_backward([=, this] {
    const TensorId doh = exchange("attention_output_gradient", tape.gradient(o), qn, true);
    const TensorId dq = activation("query_gradient_of_heads", qn), dk = activation("key_gradient_of_heads", kvn), dv = activation("value_gradient_of_heads", kvn);
    const TensorId sum = tape.tensor("query_gradient_fp32", 4 * (qn + rows));
    tape.backward({"attention_backward", work}, {doh, qh, kh, vh, oh, lse}, {dq, dk, dv, sum});
    tape.set_gradient(q, exchange("query_gradient", dq, qn, true));
    tape.set_gradient(k, exchange("key_gradient", dk, kvn, true));
    tape.set_gradient(v, exchange("value_gradient", dv, kvn, true));
  });
  return o;
}

}  // namespace orrery::workload
