// Multi-token prediction (DeepSeek-V3, arXiv:2412.19437, section 2.2; Megatron-LM core/transformer/multi_token_prediction.py).
//
// A module predicts one token further than what came before it. It normalises the hidden state and the embedding of the token ahead, puts
// them side by side, projects 2h to h, and runs a decoder layer like the model's last, a norm, the model's own head and a loss of its own.
// Table and head are the model's matrices; projection, norms and layer are the module's. All modules are one layer of the list, between
// the last decoder layer and the head, whose input is its output: what goes on to the head is the hidden state that came.
#include "passes.hpp"
#include "writer.hpp"

namespace orrery::workload {
namespace {

/// Kernels that shift token ids, labels and the loss' mask by one (roll_tensor), 8 bytes a token each.
constexpr int kShifts = 3;
constexpr std::int64_t kIdBytes = 8;

/// Rows of the shared table for the token ahead, on this rank's shard of tokens.
TensorId embed(Writer& w) {
  const Sizes& s = w.s;
  const std::int64_t all = s.tokens * s.hidden, e = w.bytes(1);
  w.stream("mtp_shift", StreamKind::kCopy, kShifts * kIdBytes * s.tokens, kShifts * kIdBytes * s.tokens, kShifts, {}, {});
  const TensorId rows = w.activation("mtp_embedding_rows", all);
  w.stream("mtp_embedding", StreamKind::kEmbedding, e * all, e * all, 1, {}, {rows});
  TensorId x = rows;
  if (s.sp) {
    x = w.activation("mtp_embedding_shard", s.shard_tokens * s.hidden);
    w.tape.forward({"reduce_scatter_mtp_embedding", Comm{CommKind::kReduceScatter, Axis::kTp, e * all}}, {rows}, {x});
  } else if (s.tp > 1) {
    w.tape.forward({"all_reduce_mtp_embedding", Comm{CommKind::kAllReduce, Axis::kTp, e * all}}, {rows}, {rows});
  }
  const auto g = static_cast<std::int64_t>(element_bytes(w.training.grad_dtype));
  w.tape.on_backward([&w, x, all, e, g] {
    TensorId dx = w.tape.gradient(x);
    if (w.s.sp) {
      const TensorId whole = w.activation("mtp_embedding_gradient", all);
      w.tape.backward({"all_gather_mtp_embedding", Comm{CommKind::kAllGather, Axis::kTp, e * all}}, {dx}, {whole});
      dx = whole;
    }
    w.backward_stream("mtp_embedding_weight_gradient", StreamKind::kEmbedding, e * all, g * all, 1, {dx}, {}, true);
  });
  return x;
}

/// A column-parallel product's parts, gathered to full width; under sequence parallelism each rank then keeps its own tokens
/// (gather_from_tensor_model_parallel_region, scatter_to_sequence_parallel_region, whose gradients are a split and an all-gather).
TensorId gather_columns(Writer& w, TensorId part, std::int64_t local) {
  const Sizes& s = w.s;
  if (s.tp == 1) return part;
  const std::int64_t all = s.tokens * s.hidden, n = s.shard_tokens * s.hidden;
  const TensorId whole = w.activation("mtp_projection_gathered", all);
  w.tape.forward({"all_gather_mtp_projection", Comm{CommKind::kAllGather, Axis::kTp, w.bytes(all)}}, {part}, {whole});
  TensorId own = whole;
  if (s.sp) {
    own = w.activation("mtp_projection_own", n);
    w.stream("mtp_take_own_tokens", StreamKind::kCopy, w.bytes(n), w.bytes(n), 1, {whole}, {own});
  }
  w.tape.on_backward([&w, part, own, all, local] {
    TensorId d = w.tape.gradient(own);
    if (w.s.sp) {
      d = w.activation("mtp_projection_gradient_gathered", all);
      w.tape.backward({"all_gather_mtp_gradient", Comm{CommKind::kAllGather, Axis::kTp, w.bytes(all)}}, {w.tape.gradient(own)}, {d});
    }
    const std::int64_t mine = w.bytes(w.s.tokens * local);
    const TensorId dp = w.tape.tensor("mtp_projection_gradient", mine);
    w.backward_stream("mtp_take_own_columns", StreamKind::kCopy, mine, mine, 1, {d}, {dp});
    w.tape.set_gradient(part, dp);
  });
  return own;
}

/// Two normalised states side by side, and back to one width.
TensorId merge(Writer& w, TensorId hidden, TensorId ahead) {
  const Sizes& s = w.s;
  const std::int64_t n = s.shard_tokens * s.hidden, local = s.hidden / s.tp;
  const TensorId both = w.activation("mtp_states", 2 * n);
  w.stream("mtp_concatenate", StreamKind::kCopy, w.bytes(2 * n), w.bytes(2 * n), 1, {hidden, ahead}, {both});
  w.tape.on_backward([&w, hidden, ahead, both, n] {
    const TensorId dh = w.activation("mtp_hidden_gradient", n), da = w.activation("mtp_ahead_gradient", n);
    w.backward_stream("mtp_split_gradient", StreamKind::kCopy, w.bytes(2 * n), w.bytes(2 * n), 2, {w.tape.gradient(both)}, {dh, da});
    w.tape.set_gradient(hidden, dh);
    w.tape.set_gradient(ahead, da);
  });
  const TensorId part = w.activation("mtp_projection", s.tokens * local);
  w.column_parallel("mtp_projection", w.linear_input("mtp_states", both, 2 * n, kNoRegion), 2 * s.hidden, {{"mtp_projection", local, false, {part}}}, true, kNoRegion);
  return gather_columns(w, part, local);
}

TensorId module(Writer& w, TensorId hidden, const Block& block) {
  const TensorId ahead = w.norm("mtp_embedding_norm", embed(w), false, 0, kNoRegion).plain;
  const TensorId state = w.norm("mtp_hidden_norm", hidden, false, 0, kNoRegion).plain;
  return decoder_block(w, merge(w, state, ahead), block);
}

/// Full recompute runs a module again up to its norm (_checkpointed_forward); head and loss are kept. A policy over every other product is a
/// decoder layer's own and says nothing of modules.
RecomputePolicy policy_of_modules(const Training& t, const StackKernels& k) {
  const RecomputePolicy p = recompute_policy(t, k);
  if (p.every_other_matmul) return {};
  return p.whole ? RecomputePolicy{.regions = kPredictionModule} : p;
}

}  // namespace

Layer prediction_layer(const Model& m, const Training& t, const Shard& shard, const StackKernels& k, const Block& block) {
  Shard plain = shard;
  plain.tp_overlap = TpOverlap::kNone;  // as of the head itself
  Writer w(m, t, shard, k), head(m, t, plain, k, &w.tape);
  const TensorId x = w.tape.input(w.bytes(w.s.shard_tokens * w.s.hidden));
  TensorId state = x;
  for (std::int64_t i = 0; i < m.mtp_layers; ++i) {
    w.tape.inside(kPredictionModule);
    state = module(w, state, block);
    w.tape.inside(kNoRegion);
    head_and_loss(head, w.norm("mtp_norm", state, false, 0, kNoRegion));
  }
  return w.tape.finish(x, policy_of_modules(t, k));
}

}  // namespace orrery::workload
