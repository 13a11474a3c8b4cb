// A decoder layer: two residual branches. Embedding and head are in files of their own.
#include "orrery/workload/layers.hpp"

#include <algorithm>

#include "orrery/workload/adapter.hpp"
#include "orrery/base/assert.hpp"
#include "orrery/base/checked.hpp"
#include "families/table.hpp"
#include "passes.hpp"
#include "writer.hpp"

namespace orrery::workload {

namespace {

/// Both branches read the same stream; each reduces its own output (Wang and Komatsuzaki, GPT-J; Black et al., arXiv:2204.06745, section 2.1).
TensorId parallel_branches(Writer& w, TensorId x, const Block& block) {
  const Model& m = w.model;
  const LinearInput normed = w.norm("norm1", x, true);
  const TensorId attended = w.attention(normed, block);
  const TensorId fed = w.mlp(m.parallel_block == ParallelBlock::kTwoNorms ? w.norm("norm2", x, true) : normed);
  return w.residual("residual2", w.residual("residual1", x, attended, m.attention_out_bias), fed, m.mlp_bias);
}

/// Norms after the branches only (OLMo-2, arXiv:2501.00656, section 3.1).
TensorId normed_after(Writer& w, TensorId x, const Block& block) {
  const Model& m = w.model;
  const std::int64_t n = w.s.shard_tokens * w.s.hidden;
  TensorId y = w.attention(w.linear_input("attention_input", x, n, kNoRegion), block);
  const TensorId z = w.residual("residual1", x, w.norm("post_norm1", y, false).plain, m.attention_out_bias);
  y = w.mlp(w.linear_input("mlp_input", z, n, kMlp));
  return w.residual("residual2", z, w.norm("post_norm2", y, false).plain, m.mlp_bias);
}

}  // namespace

TensorId decoder_block(Writer& w, TensorId x, const Block& block) {
  const Model& m = w.model;
  if (m.parallel_block != ParallelBlock::kNone) return parallel_branches(w, x, block);
  if (!m.pre_norms) return normed_after(w, x, block);
  TensorId y = w.attention(w.norm("norm1", x, true), block);
  if (m.post_norms) y = w.norm("post_norm1", y, false).plain;
  const auto [z, normed] = w.residual_norm("residual1", x, y, m.attention_out_bias, "norm2", !block.moe);
  y = block.moe ? w.experts(normed) : w.mlp(normed);
  if (m.post_norms) y = w.norm("post_norm2", y, false).plain;
  // Experts add their own biases to their own rows; what is left for the residual is the shared experts' last.
  return w.residual("residual2", z, y, m.mlp_bias && (!block.moe || m.moe->shared_ffn > 0));
}

Layer decoder_layer(const Model& m, const Training& t, const Shard& shard, const StackKernels& k, const Block& block) {
  Writer w(m, t, shard, k);
  return w.tape.finish(decoder_block(w, w.tape.input(w.bytes(w.s.shard_tokens * w.s.hidden)), block), recompute_policy(t, k));
}

Block block_of(const Model& m, std::int64_t layer) {
  if (const FamilyRow* family = family_row(m.family)) return family->block(m, layer);
  Block b;
  b.moe = m.moe && layer >= m.moe->dense_layers && (layer - m.moe->dense_layers) % m.moe->every == m.moe->every - 1;
  if (!(m.global_every && (layer + 1) % *m.global_every == 0)) b.window = m.sliding_window ? m.sliding_window : m.attention_chunk;
  b.no_position = m.nope_every && (layer + 1) % *m.nope_every == 0;
  return b;
}

std::vector<BlockCount> blocks_of(const Model& m) {
  std::vector<BlockCount> list;
  for (std::int64_t i = 0; i < m.layers; ++i) {
    const Block block = block_of(m, i);
    const auto same = std::find_if(list.begin(), list.end(), [&](const BlockCount& c) { return c.block == block; });
    if (same == list.end()) {
      list.push_back({block, 1});
    } else {
      ++same->layers;
    }
  }
  return list;
}

std::int64_t input_bytes(const Model& m, const Training& t, const Shard& shard, std::int64_t layer) {
  if (const FamilyRow* family = family_row(m.family)) return family->input_bytes(m, t, shard, layer);
  const std::int64_t tokens = shard.micro_batch * ceil_div(shard.sequence, shard.cp);
  const bool sp = shard.sequence_parallel && shard.tp > 1;
  return (sp ? ceil_div(tokens, shard.tp) : tokens) * m.hidden * static_cast<std::int64_t>(element_bytes(t.activation_dtype));
}

namespace {
std::string name_of(LayerKind kind, const Block& block) {
  if (kind == LayerKind::kEmbedding) return "embedding";
  if (kind == LayerKind::kHead) return "head";
  return std::string(kind == LayerKind::kPrediction ? "prediction" : "decoder") + (block.window ? " local" : "") + (block.no_position ? " nope" : "") + (block.moe ? " moe" : "");
}
}  // namespace

Variation varies(const Model& m, const Training& t, const Shard& shard) {
  Variation v;
  v.by_cp = shard.cp > 1 && t.causal && shard.cp_method != CpMethod::kUlysses;  // what a rank's queries see depends on where they stand
  // Loads that differ by expert split the group, unless they are the same on every rank by chance.
  if (m.moe && m.moe->load != ExpertLoad::kBalanced && shard.ep > 1) v.by_ep = true;
  return v;
}

Layer make_layer(LayerKind kind, const Model& m, const Training& t, const Shard& shard, const StackKernels& k, const Block& block) {
  ORRERY_ASSERT(shard.micro_batch > 0 && shard.sequence > 0 && shard.tp > 0 && shard.cp > 0 && shard.vocab_multiple > 0, "the plan has checked the sizes");
  if (const FamilyRow* family = family_row(m.family)) return family_layer(*family, kind, m, t, shard, k, block);
  const auto written = [&] {
    switch (kind) {
      case LayerKind::kEmbedding: return embedding_layer(m, t, shard, k);
      case LayerKind::kHead: return head_layer(m, t, shard, k);
      case LayerKind::kPrediction: return prediction_layer(m, t, shard, k, block);
      case LayerKind::kDecoder: break;
    }
    return decoder_layer(m, t, shard, k, block);
  };
  Layer layer = written();
  layer.kind = kind;
  layer.block = block;
  layer.name = name_of(kind, block);
  layer.parameters = t.adapter.on() ? adapted_parameters(kind, m, t, shard, block) : layer_parameters(kind, m, shard, block);
  return layer;
}

}  // namespace orrery::workload
