// A decoder layer: two residual branches. Embedding and head are in files of their own.
#include "orrery/workload/layers.hpp"

#include "orrery/base/assert.hpp"
#include "orrery/base/checked.hpp"
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

Block block_of(const Model& m, std::int64_t layer) {
  Block b;
  b.moe = m.moe && layer >= m.moe->dense_layers && (layer - m.moe->dense_layers) % m.moe->every == m.moe->every - 1;
  if (m.sliding_window && !(m.global_every && (layer + 1) % *m.global_every == 0)) b.window = m.sliding_window;
  return b;
}

std::int64_t input_bytes(const Model& m, const Training& t, const Shard& shard, std::int64_t) {
  const std::int64_t tokens = shard.micro_batch * ceil_div(shard.sequence, shard.cp);
  const bool sp = shard.sequence_parallel && shard.tp > 1;
  return (sp ? ceil_div(tokens, shard.tp) : tokens) * m.hidden * static_cast<std::int64_t>(element_bytes(t.activation_dtype));
}

namespace {
std::string name_of(LayerKind kind, const Block& block) {
  if (kind == LayerKind::kEmbedding) return "embedding";
  if (kind == LayerKind::kHead) return "head";
  return std::string("decoder") + (block.window ? " local" : "") + (block.moe ? " moe" : "");
}
}  // namespace

Variation varies(const Model&, const Training&, const Shard&) { return {}; }

Layer make_layer(LayerKind kind, const Model& m, const Training& t, const Shard& shard, const StackKernels& k, const Block& block) {
  ORRERY_ASSERT(shard.micro_batch > 0 && shard.sequence > 0 && shard.tp > 0 && shard.cp > 0 && shard.vocab_multiple > 0, "the plan has checked the sizes");
  Layer layer = kind == LayerKind::kEmbedding ? embedding_layer(m, t, shard, k) : kind == LayerKind::kHead ? head_layer(m, t, shard, k) : decoder_layer(m, t, shard, k);
  layer.kind = kind;
  layer.block = block;
  layer.name = name_of(kind, block);
  layer.parameters = layer_parameters(kind, m, shard, block);
  return layer;
}

}  // namespace orrery::workload
