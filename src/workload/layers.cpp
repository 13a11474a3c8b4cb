// A decoder layer: two residual branches. Embedding and head are in files of their own.
#include "orrery/workload/layers.hpp"

#include "orrery/base/assert.hpp"
#include "passes.hpp"
#include "writer.hpp"

namespace orrery::workload {

Layer decoder_layer(const Model& m, const Training& t, const Shard& shard, const StackKernels& k) {
  Writer w(m, t, shard, k);
  const TensorId x = w.tape.input(w.bytes(w.s.shard_tokens * w.s.hidden));
  TensorId y = w.attention(w.norm("norm1", x, true));
  if (m.post_norms) y = w.norm("post_norm1", y, false).plain;
  const auto [z, normed] = w.residual_norm("residual1", x, y, m.linear_bias, "norm2");
  y = w.mlp(normed);
  if (m.post_norms) y = w.norm("post_norm2", y, false).plain;
  return w.tape.finish(w.residual("residual2", z, y, m.linear_bias), recompute_policy(t, k));
}

Layer make_layer(LayerKind kind, const Model& m, const Training& t, const Shard& shard, const StackKernels& k) {
  ORRERY_ASSERT(shard.micro_batch > 0 && shard.sequence > 0 && shard.tp > 0 && shard.cp > 0 && shard.vocab_multiple > 0, "the plan has checked the sizes");
  Layer layer = kind == LayerKind::kEmbedding ? embedding_layer(m, t, shard, k) : kind == LayerKind::kHead ? head_layer(m, t, shard, k) : decoder_layer(m, t, shard, k);
  layer.kind = kind;
  layer.parameters = layer_parameters(kind, m, shard);
  return layer;
}

}  // namespace orrery::workload
