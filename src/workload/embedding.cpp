// The embedding layer: rows of the vocabulary split over tp, positions on every rank.
#include "passes.hpp"
#include "writer.hpp"

namespace orrery::workload {
namespace {

/// A learned position table is added to the whole sequence before it is split, so the partial rows are all-reduced; else sequence
/// parallelism reduce-scatters them (Megatron-LM VocabParallelEmbedding, reduce_scatter_embeddings).
struct Plan {
  bool positions = false, scatters = false, splits = false;
};

TensorId combine(Writer& w, const Plan& plan, TensorId rows) {
  const Sizes& s = w.s;
  const std::int64_t all = s.tokens * s.hidden;
  const std::int64_t e = w.bytes(1);
  TensorId x = rows;
  if (plan.scatters) {
    x = w.activation("embedding_shard", s.shard_tokens * s.hidden);
    w.tape.forward({"reduce_scatter_embedding", Comm{CommKind::kReduceScatter, Axis::kTp, e * all}}, {rows}, {x});
  } else if (s.tp > 1) {
    w.tape.forward({"all_reduce_embedding", Comm{CommKind::kAllReduce, Axis::kTp, e * all}}, {rows}, {rows});
  }
  if (!plan.positions) return x;
  const TensorId sum = w.activation("embedding_with_positions", plan.splits ? s.shard_tokens * s.hidden : all);
  w.stream("add_positions", StreamKind::kElementwise, 2 * e * all, e * all, 1, {x}, {sum});
  return sum;
}

}  // namespace

TensorId embed_words(Writer& w) {
  const Model& m = w.model;
  const Sizes& s = w.s;
  const std::int64_t all = s.tokens * s.hidden;
  const std::int64_t e = w.bytes(1);
  const auto g = static_cast<std::int64_t>(element_bytes(w.training.grad_dtype));
  Plan plan;
  plan.positions = m.position == Position::kLearned;
  plan.scatters = s.sp && !plan.positions;
  plan.splits = s.sp && plan.positions;

  const TensorId rows = w.activation("embedding_rows", all);
  w.stream("embedding", StreamKind::kEmbedding, e * all, e * all, 1, {}, {rows});
  const TensorId x = combine(w, plan, rows);
  w.tape.on_backward([&w, &s, plan, x, all, e, g] {
    TensorId dx = w.tape.gradient(x);
    if (s.sp) {
      const TensorId whole = w.activation("embedding_gradient", all);
      w.tape.backward({"all_gather_embedding", Comm{CommKind::kAllGather, Axis::kTp, e * all}}, {dx}, {whole});
      dx = whole;
    }
    // Atomic adds into the table's gradient, in its type; positions are summed over the batch.
    w.backward_stream("embedding_weight_gradient", StreamKind::kEmbedding, e * all, g * all, 1, {dx}, {}, true);
    if (plan.positions) w.backward_stream("position_weight_gradient", StreamKind::kReduce, e * all, g * s.queries * s.hidden, 1, {dx}, {}, true);
  });
  const std::int64_t shard_elements = s.shard_tokens * s.hidden;
  TensorId out = m.embedding_norm ? w.norm("embedding_norm", x, false).plain : x;
  if (m.embedding_scale) out = w.scale("embedding_scale", out, shard_elements);
  if (w.kernels.dropout) out = w.dropout("embedding_dropout", out, shard_elements, kNoRegion);
  return out;
}

Layer embedding_layer(const Model& m, const Training& t, const Shard& shard, const StackKernels& k) {
  Writer w(m, t, shard, k);
  if (t.adapter.on()) w.tape.train(Trained::kNothing);
  return w.tape.finish(embed_words(w), {});
}

}  // namespace orrery::workload
