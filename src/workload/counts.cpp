// FLOPs per token of a decoder by every convention in use. One exact counter of GEMMs; the others are what people print, so that a
// published TFLOP/s or MFU can be read in its own terms. Training: forward and backward, three times the forward, no recompute.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "families/table.hpp"
#include "orrery/workload/layers.hpp"
#include "orrery/workload/model.hpp"

namespace orrery::workload {
namespace {

/// Weights of the matrices that a token passes in one decoder layer, what they are with the norms that Megatron's formula counts among
/// them, and the parameters that a token does not visit.
struct LayerSizes {
  std::int64_t matrices = 0, router = 0, latent_norms = 0, idle = 0, parameters = 0;
};

LayerSizes layer_sizes(const Model& m, const Shard& whole, const Block& block) {
  LayerSizes s;
  if (m.mla) {
    const Mla& a = *m.mla;
    const std::int64_t q = m.heads * m.head_dim;
    s.matrices = a.q_lora_rank ? *a.q_lora_rank * (m.hidden + q) : m.hidden * q;
    s.matrices += a.kv_lora_rank * (m.hidden + m.heads * (a.qk_nope_head_dim + a.v_head_dim)) + m.hidden * a.qk_rope_head_dim + m.heads * a.v_head_dim * m.hidden;
    s.latent_norms = a.q_lora_rank.value_or(0) + a.kv_lora_rank;
  } else {
    s.matrices = m.hidden * (2 * m.heads + 2 * m.kv_heads) * m.head_dim;
  }
  const std::int64_t per_width = (m.gated_mlp ? 3 : 2) * m.hidden;
  if (block.moe) {
    s.matrices += per_width * (m.moe->experts_per_token * m.moe->expert_ffn + m.moe->shared_ffn);
    s.router = m.hidden * (m.moe->experts + (m.moe->shared_gate ? 1 : 0));
    const std::int64_t bias = m.mlp_bias ? (m.gated_mlp ? 2 : 1) * m.moe->expert_ffn + m.hidden : 0;
    s.idle = (m.moe->experts - m.moe->experts_per_token) * (per_width * m.moe->expert_ffn + bias);
  } else {
    s.matrices += per_width * m.ffn_hidden;
  }
  s.parameters = layer_parameters(LayerKind::kDecoder, m, whole, block).total();
  return s;
}

struct Sizes {
  LayerSizes layers;   // sum
  double visible = 0;  ///< sum over layers of head width x keys that a token sees
  std::int64_t word_embedding = 0, positions = 0, head = 0;
};

void add(LayerSizes& sum, const LayerSizes& layer) {
  sum.matrices += layer.matrices;
  sum.router += layer.router;
  sum.latent_norms += layer.latent_norms;
  sum.idle += layer.idle;
  sum.parameters += layer.parameters;
}

/// Of scores and context together, half: one product over d_qk and one over d_v.
double head_width(const Model& m) {
  return static_cast<double>(m.heads) * static_cast<double>(m.head_dim + (m.mla ? m.mla->v_head_dim : m.head_dim)) / 2;
}

Sizes sizes(const Model& m, std::int64_t sequence, bool causal) {
  const Shard whole{.micro_batch = 1, .sequence = sequence};
  Sizes s;
  const auto add_block = [&](const Block& block, std::int64_t layers) {
    const LayerSizes one = layer_sizes(m, whole, block);
    for (std::int64_t i = 0; i < layers; ++i) add(s.layers, one);
    const double keys = static_cast<double>(sequence) * visible_share(sequence, causal, block.window.value_or(0), m.attention_chunk.has_value());
    s.visible += static_cast<double>(layers) * head_width(m) * keys;
  };
  for (const BlockCount& b : blocks_of(m)) add_block(b.block, b.layers);
  s.word_embedding = word_embedding_parameters(m, whole);
  s.positions = layer_parameters(LayerKind::kEmbedding, m, whole).total() - s.word_embedding;
  s.head = layer_parameters(LayerKind::kHead, m, whole).total() - (m.tied_embeddings ? s.word_embedding : 0);
  return s;
}

/// Another family: its layers, summed. Exact is three times the forward products where the layer is trained.
ModelCounts count_layers(const FamilyRow& family, const Model& m, std::int64_t sequence, bool causal) {
  const Shard whole{.micro_batch = 1, .sequence = sequence};
  Training t;
  t.sequence_length = sequence;
  t.causal = causal;
  ModelCounts c;
  double flops = 0, attending = 0;  // layers that attend
  std::vector<std::pair<Block, std::int64_t>> kinds;
  const auto add = [&](LayerKind kind, const Block& block, std::int64_t times) {
    const Layer layer = family_layer(family, kind, m, t, whole, StackKernels(), block);
    c.parameters += times * layer.parameters.stored();
    double forward = 0;  // times the passes
    bool attends = false;
    for (const Operation& op : layer.forward) {
      forward += (family.passes != nullptr ? family.passes(m, kind, block, op) : 3) * op.flops().value();
      attends = attends || std::holds_alternative<Attention>(op.work);
    }
    if (attends) attending += static_cast<double>(times);
    flops += forward * static_cast<double>(times);
  };
  add(LayerKind::kEmbedding, {}, 1);
  for (std::int64_t i = 0; i < m.layers; ++i) {
    const Block block = block_of(m, i);
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.first == block; });
    if (known == kinds.end()) kinds.emplace_back(block, 1);
    else ++known->second;
  }
  for (const auto& [block, times] : kinds) add(LayerKind::kDecoder, block, times);
  add(LayerKind::kHead, {}, 1);
  if (m.tied_embeddings) c.parameters -= word_embedding_parameters(m, whole);
  c.embedding_parameters = family.tables(m);
  c.trainable_parameters = c.parameters;
  c.parameters_without_embedding = c.parameters - c.embedding_parameters;
  c.active_parameters = c.trainable_parameters = c.parameters;

  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  c.exact = flops / static_cast<double>(sequence);
  c.megatron = c.megatron_legacy = c.torchtitan = c.narayanan = c.palm = c.six_n = kNone;
  if (family.conventions) {
    const double n = static_cast<double>(c.parameters);
    c.six_n = 6 * n;
    c.palm = 6 * n + 12 * attending * static_cast<double>(m.heads * m.head_dim) * static_cast<double>(sequence);
  }
  return c;
}

}  // namespace

ModelCounts count(const Model& m, std::int64_t sequence, bool causal) {
  if (const FamilyRow* family = family_row(m.family)) return count_layers(*family, m, sequence, causal);
  const Sizes s = sizes(m, sequence, causal);
  const auto d = [](std::int64_t v) { return static_cast<double>(v); };
  ModelCounts c;
  // A multi-token prediction module is a projection of two hidden states into one, a layer like the last, and the head once more
  // (DeepSeek-V3, arXiv:2412.19437, section 2.2).
  const Shard whole{.micro_batch = 1, .sequence = sequence};
  LayerSizes all = s.layers;
  const LayerSizes last = layer_sizes(m, whole, block_of(m, m.layers - 1));
  for (std::int64_t i = 0; i < m.mtp_layers; ++i) add(all, last);
  c.embedding_parameters = s.word_embedding + s.positions;
  // Table and head of a module are the model's.
  const std::int64_t of_modules = m.mtp_layers == 0 ? 0 : layer_parameters(LayerKind::kPrediction, m, whole, block_of(m, m.layers - 1)).total() - s.word_embedding;
  c.parameters = s.layers.parameters + of_modules + c.embedding_parameters + s.head;
  c.parameters_without_embedding = c.parameters - c.embedding_parameters;
  c.active_parameters = c.parameters - all.idle;
  const double depth = d(m.mtp_layers), hidden = d(m.hidden);
  const double layers = d(m.layers) + depth;
  const double head = (1 + depth) * hidden * d(m.vocab);  // GEMM weights of the head
  const double matrices = d(all.matrices) + depth * 2 * hidden * hidden + head;
  const double square = layers * head_width(m) * d(sequence);  // sum over layers of q s
  const double visible = s.visible + depth * head_width(m) * d(sequence) * visible_share(sequence, causal, block_of(m, m.layers - 1).window.value_or(0), m.attention_chunk.has_value());
  const double n = d(c.active_parameters);
  // Forward 2 per weight, scores and context 4 q a key that is seen; three times that with backward.
  c.exact = 6 * (matrices + d(all.router)) + 12 * visible;
  // Megatron-LM num_floating_point_operations: no router; the latents' norms and the three norms of a prediction module are counted as
  // weights; since core 0.12 the score term is the causal half, whatever mask or window. None of the
  // conventions below knows windows either.
  const double megatron = matrices + d(all.latent_norms) + depth * 3 * hidden;
  c.megatron = 6 * megatron + 6 * square;
  c.megatron_legacy = 6 * megatron + 12 * square;
  // PaLM (arXiv:2204.02311, appendix B): 6N + 12 L H Q T, embeddings in N; of experts, those that a token visits.
  c.palm = 6 * n + 12 * square;
  c.six_n = 6 * n;
  // torchtitan models/utils.py: 6 (N - N_emb) + 6 L n (d_qk + d_v) s; a tied matrix is a projection too and stays in N.
  c.torchtitan = 6 * (n - d(m.tied_embeddings ? s.positions : c.embedding_parameters)) + 12 * square;
  // Narayanan et al. 2021 (arXiv:2104.04473, eq. 3): 96 B s l h^2 (1 + s/6h + V/16lh); MLP of 4h, one extra forward for recompute.
  const double h = d(m.hidden), l = d(m.layers);
  c.narayanan = 96 * l * h * h * (1 + d(sequence) / (6 * h) + d(m.vocab) / (16 * l * h));
  return c;
}

}  // namespace orrery::workload
