// Parameters of each kind of layer on one tensor-parallel rank, split as Megatron-LM does (arXiv:1909.08053, section 3): columns of QKV and
// of the first MLP matrix, rows of the projection and of the second, rows of the embedding. Norms and row-parallel biases are on every rank.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include "orrery/base/checked.hpp"
#include "families/table.hpp"
#include "orrery/workload/layers.hpp"
#include "writer.hpp"

namespace orrery::workload {
namespace {

std::int64_t norms_of_layer(const Model& m) {
  if (m.parallel_block != ParallelBlock::kNone) return m.parallel_block == ParallelBlock::kTwoNorms ? 2 : 1;
  return (m.pre_norms ? 2 : 0) + (m.post_norms ? 2 : 0);
}

/// Queries, keys and values by latents: the projections down and their norms are on every rank, those up split by head.
void latent_attention(const Model& m, std::int64_t tp, LayerParameters& p) {
  const Mla& a = *m.mla;
  const std::int64_t heads = ceil_div(m.heads, tp), q = heads * m.head_dim;
  if (a.q_lora_rank) {
    p.replicated += *a.q_lora_rank * (m.hidden + 1);
    p.sharded += *a.q_lora_rank * q;
    p.matrices.push_back({*a.q_lora_rank, m.hidden});
    p.matrices.push_back({q, *a.q_lora_rank});
    ++p.vectors;
  } else {
    p.sharded += m.hidden * q;
    p.matrices.push_back({q, m.hidden});
  }
  p.matrices.push_back({a.kv_lora_rank + a.qk_rope_head_dim, m.hidden});
  p.matrices.push_back({heads * (a.qk_nope_head_dim + a.v_head_dim), a.kv_lora_rank});
  p.matrices.push_back({m.hidden, heads * a.v_head_dim});
  ++p.vectors;
  p.replicated += m.hidden * (a.kv_lora_rank + a.qk_rope_head_dim) + a.kv_lora_rank;
  p.sharded += a.kv_lora_rank * heads * (a.qk_nope_head_dim + a.v_head_dim) + heads * a.v_head_dim * m.hidden;
}

void attention(const Model& m, std::int64_t tp, LayerParameters& p) {
  if (m.mla) return latent_attention(m, tp, p);
  const std::int64_t q = ceil_div(m.heads, tp) * m.head_dim;
  const std::int64_t kv = ceil_div(m.kv_heads, tp) * m.head_dim;
  p.sharded += m.hidden * (q + 2 * kv) + q * m.hidden;
  // Query, key and value apart, as gate and up below: one matrix each, however a stack joins their products.
  p.matrices.insert(p.matrices.end(), {{q, m.hidden}, {kv, m.hidden, 2}, {m.hidden, q}});
  p.vectors += (m.qkv_bias ? 1 : 0) + (m.attention_out_bias ? 1 : 0) + (m.attention_sinks ? 1 : 0) + (m.qk_norm == QkNorm::kNone || m.qk_norm == QkNorm::kUnweighted ? 0 : 2);
  if (m.qkv_bias) p.sharded += q + 2 * kv;
  if (m.attention_sinks) p.sharded += ceil_div(m.heads, tp);
  if (m.attention_out_bias) p.replicated += m.hidden;
  if (m.qk_norm == QkNorm::kHead) p.replicated += 2 * m.head_dim;
  if (m.qk_norm == QkNorm::kEachHead || m.qk_norm == QkNorm::kFull) p.sharded += q + kv;
}

void mlp(const Model& m, std::int64_t f, LayerParameters& p) {
  const std::int64_t up = m.gated_mlp ? 2 * f : f;
  p.sharded += m.hidden * (up + f);
  p.matrices.insert(p.matrices.end(), {{f, m.hidden, m.gated_mlp ? 2 : 1}, {m.hidden, f}});
  p.vectors += m.mlp_bias ? 2 : 0;
  if (m.mlp_bias) p.sharded += up, p.replicated += m.hidden;
}

/// Of one expert of this width: a bias per column of its first product(s) and of its last.
std::int64_t expert_biases(const Model& m, std::int64_t width) { return (m.gated_mlp ? 2 : 1) * width + m.hidden; }

void experts(const Model& m, const Shard& s, LayerParameters& p) {
  const Moe& moe = *m.moe;
  p.replicated += moe.experts * (m.hidden + (moe.router_bias ? 1 : 0));
  const std::int64_t local = moe.experts / s.ep, width = ceil_div(moe.expert_ffn, s.etp);
  p.experts = local * m.hidden * width * (m.gated_mlp ? 3 : 2);
  p.matrices.push_back({moe.experts, m.hidden, 1, false});  // the router is no hidden matrix: AdamW updates it
  p.matrices.push_back({width, m.hidden, local * (m.gated_mlp ? 2 : 1), true, true});
  p.matrices.push_back({m.hidden, width, local, true, true});
  p.vectors += moe.router_bias ? 1 : 0;
  if (m.mlp_bias) p.experts += local * expert_biases(m, width);
  if (moe.shared_ffn == 0) return;
  mlp(m, ceil_div(moe.shared_ffn, s.tp), p);
  if (!moe.shared_gate) return;
  p.replicated += m.hidden;
  p.matrices.push_back({1, m.hidden, 1, false});  // one row of scores, as the router's
}

LayerParameters decoder(const Model& m, const Shard& s, const Block& block) {
  LayerParameters p;
  p.replicated = norms_of_layer(m) * norm_parameters(m);
  p.vectors = norms_of_layer(m) * norm_vectors(m);
  attention(m, s.tp, p);
  if (block.moe) {
    experts(m, s, p);
  } else {
    mlp(m, ceil_div(m.ffn_hidden, s.tp), p);
  }
  return p;
}

/// Multi-token prediction modules (prediction.cpp): a projection of two states into one, three norms and a layer each. The table that they
/// look the next token up in comes first: it is the embedding's, of which the last stage keeps a copy.
LayerParameters prediction(const Model& m, const Shard& s, const Block& block) {
  LayerParameters p{.sharded = word_embedding_parameters(m, s)};
  p.matrices.push_back({padded_vocab(m, s) / s.tp, m.hidden, 1, false});
  for (std::int64_t i = 0; i < m.mtp_layers; ++i) {
    p += decoder(m, s, block);
    const std::int64_t width = ceil_div(m.hidden, s.tp);
    p.sharded += 2 * m.hidden * width;
    p.matrices.push_back({width, 2 * m.hidden});
    p.replicated += 3 * norm_parameters(m);
    p.vectors += 3 * norm_vectors(m);
  }
  return p;
}

}  // namespace

std::int64_t norm_vectors(const Model& m) { return (m.norm_weight ? 1 : 0) + (m.norm_bias ? 1 : 0); }
std::int64_t norm_parameters(const Model& m) { return norm_vectors(m) * m.hidden; }

std::int64_t padded_vocab(const Model& m, const Shard& s) {
  const std::int64_t unit = s.vocab_multiple * s.tp;
  return ceil_div(m.vocab, unit) * unit;
}

std::int64_t word_embedding_parameters(const Model& m, const Shard& s) { return padded_vocab(m, s) / s.tp * m.hidden; }

namespace {
/// What the operations of a family's layer multiply with, as a stack joins its products.
LayerParameters family_parameters(const FamilyRow& family, LayerKind kind, const Model& m, const Shard& s, bool fused_projections, const Block& block) {
  Training t;
  t.sequence_length = s.sequence;
  StackKernels k;
  k.fused_projections = fused_projections;
  return family_layer(family, kind, m, t, s, k, block).parameters;
}

/// The matrices of a family's layer; a word table, which a tied head shares, comes first.
std::vector<std::int64_t> weights_of(const LayerParameters& p) {
  std::vector<std::int64_t> out;
  for (const bool between : {false, true}) {
    for (const Matrix& x : p.matrices) {
      for (std::int64_t i = 0; x.between_layers == between && i < x.count; ++i) out.push_back(x.rows * x.columns);
    }
  }
  return out;
}
}  // namespace

LayerParameters layer_parameters(LayerKind kind, const Model& m, const Shard& s, const Block& block) {
  if (const FamilyRow* family = family_row(m.family)) return family_parameters(*family, kind, m, s, StackKernels().fused_projections, block);
  switch (kind) {
    case LayerKind::kDecoder: return decoder(m, s, block);
    case LayerKind::kEmbedding: {
      LayerParameters p{.sharded = word_embedding_parameters(m, s)};
      p.matrices.push_back({padded_vocab(m, s) / s.tp, m.hidden, 1, false});
      if (m.position == Position::kLearned) {
        p.replicated = m.max_positions.value_or(s.sequence) * m.hidden;
        p.matrices.push_back({m.max_positions.value_or(s.sequence), m.hidden, 1, false});
      }
      if (m.embedding_norm) {
        p.replicated += norm_parameters(m);
        p.vectors += norm_vectors(m);
      }
      return p;
    }
    case LayerKind::kHead: {
      LayerParameters p{.sharded = word_embedding_parameters(m, s) + (m.head_bias ? padded_vocab(m, s) / s.tp : 0), .replicated = norm_parameters(m)};
      p.matrices.push_back({padded_vocab(m, s) / s.tp, m.hidden, 1, false});
      p.vectors = norm_vectors(m) + (m.head_bias ? 1 : 0);
      return p;
    }
    case LayerKind::kPrediction: return prediction(m, s, block);
  }
  return {};
}

namespace {
/// The matrices of an MLP of local width f: up (with gate in it where fused) and down.
void mlp_matrices(const Model& m, std::int64_t f, bool fused, std::vector<std::int64_t>& out) {
  if (m.gated_mlp && !fused) out.push_back(m.hidden * f);
  out.push_back(m.hidden * (m.gated_mlp && fused ? 2 * f : f));
  out.push_back(f * m.hidden);
}

void attention_matrices(const Model& m, std::int64_t tp, bool fused, std::vector<std::int64_t>& out) {
  const std::int64_t q = ceil_div(m.heads, tp) * m.head_dim, kv = ceil_div(m.kv_heads, tp) * m.head_dim;
  if (m.mla) {
    const Mla& a = *m.mla;
    const std::int64_t heads = ceil_div(m.heads, tp);
    if (a.q_lora_rank) {
      out.insert(out.end(), {m.hidden * *a.q_lora_rank, *a.q_lora_rank * q});
    } else {
      out.push_back(m.hidden * q);
    }
    out.insert(out.end(), {m.hidden * (a.kv_lora_rank + a.qk_rope_head_dim), a.kv_lora_rank * heads * (a.qk_nope_head_dim + a.v_head_dim), heads * a.v_head_dim * m.hidden});
  } else if (fused) {
    out.insert(out.end(), {m.hidden * (q + 2 * kv), q * m.hidden});
  } else {
    out.insert(out.end(), {m.hidden * q, m.hidden * kv, m.hidden * kv, q * m.hidden});
  }
}

void decoder_matrices(const Model& m, const Shard& s, bool fused, const Block& block, std::vector<std::int64_t>& out) {
  attention_matrices(m, s.tp, fused, out);
  if (!block.moe) return mlp_matrices(m, ceil_div(m.ffn_hidden, s.tp), fused, out);
  out.push_back(m.hidden * m.moe->experts);
  if (m.moe->shared_ffn > 0) mlp_matrices(m, ceil_div(m.moe->shared_ffn, s.tp), fused, out);
  if (m.moe->shared_gate) out.push_back(m.hidden);
}
}  // namespace

std::vector<std::int64_t> parameter_tensors(LayerKind kind, const Model& m, const Shard& s, bool fused_projections, const Block& block) {
  const FamilyRow* family = family_row(m.family);
  const LayerParameters all = family != nullptr ? family_parameters(*family, kind, m, s, fused_projections, block) : layer_parameters(kind, m, s, block);
  std::vector<std::int64_t> matrices;
  if (family != nullptr) {
    matrices = weights_of(all);
  } else if (kind == LayerKind::kDecoder) {
    decoder_matrices(m, s, fused_projections, block, matrices);
  } else {
    matrices.push_back(word_embedding_parameters(m, s));
  }
  for (std::int64_t i = 0; kind == LayerKind::kPrediction && i < m.mtp_layers; ++i) {
    matrices.push_back(2 * m.hidden * ceil_div(m.hidden, s.tp));
    decoder_matrices(m, s, fused_projections, block, matrices);
  }
  std::vector<std::int64_t> out;
  std::int64_t rest = all.total() - all.experts;
  for (const std::int64_t n : matrices) {
    if (n <= 0 || n > rest) continue;
    out.push_back(n);
    rest -= n;
  }
  if (rest > 0) out.push_back(rest);  // norms, biases, positions: together, for they are small
  return out;
}

std::vector<std::int64_t> expert_tensors(const Model& m, const Shard& s, bool fused_projections, const Block& block) {
  std::vector<std::int64_t> out;
  if (!block.moe) return out;
  const std::int64_t width = ceil_div(m.moe->expert_ffn, s.etp);
  for (std::int64_t e = 0; e < m.moe->experts / s.ep; ++e) {
    mlp_matrices(m, width, fused_projections, out);
    if (m.mlp_bias) out.push_back(expert_biases(m, width));
  }
  return out;
}

Result<bool> check_sizes(const Model& m, const Training& t, const std::string& file) {
  const auto d = [](std::int64_t v) { return static_cast<double>(v); };
  const double tokens = d(t.micro_batch) * d(t.sequence_length);
  if (const FamilyRow* family = family_row(m.family)) {
    const double bytes = d(t.micro_batch) * family->widest(m, d(t.sequence_length)) * 64;
    if (bytes > 0x1p62) {
      return fail(file, "/training/micro_batch", fmt::format("a microbatch of {} samples moves about {:.1e} bytes in one layer; at most {:.1e} are possible", t.micro_batch, bytes, 0x1p62));
    }
    return true;
  }
  // 64 bytes per element is above what any kernel here moves or any list of tensors sums to.
  const double routed = m.moe ? d(m.moe->experts_per_token) * (2 * d(m.hidden) + 3 * d(m.moe->expert_ffn)) + d(m.moe->experts) + 3 * d(m.moe->shared_ffn) : 0;
  const double wide = tokens * (routed + d(m.hidden) + d(m.heads + 2 * m.kv_heads) * d(m.head_dim) + 2 * d(m.ffn_hidden) + d(m.vocab)) * 64;
  const double scores = t.flash_attention ? 0 : tokens * d(m.heads) * d(t.sequence_length) * 64;
  const double most = 0x1p62;
  if (std::max(wide, scores) > most) {
    return fail(file, "/training", fmt::format("a microbatch of {} x {} tokens moves about {:.1e} bytes in one layer; at most {:.1e} are possible", t.micro_batch,
                                               t.sequence_length, std::max(wide, scores), most));
  }
  return true;
}

}  // namespace orrery::workload
