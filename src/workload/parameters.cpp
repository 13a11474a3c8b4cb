// Parameters of each kind of layer on one tensor-parallel rank, split as Megatron-LM does (arXiv:1909.08053, section 3): columns of QKV and
// of the first MLP matrix, rows of the projection and of the second, rows of the embedding. Norms and row-parallel biases are on every rank.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include "orrery/base/checked.hpp"
#include "orrery/workload/layers.hpp"

namespace orrery::workload {
namespace {

std::int64_t norm_vectors(const Model& m) { return (m.norm_weight ? 1 : 0) + (m.norm_bias ? 1 : 0); }
std::int64_t norm_parameters(const Model& m) { return norm_vectors(m) * m.hidden; }

std::int64_t norms_of_layer(const Model& m) {
  if (m.parallel_block != ParallelBlock::kNone) return m.parallel_block == ParallelBlock::kTwoNorms ? 2 : 1;
  return (m.pre_norms ? 2 : 0) + (m.post_norms ? 2 : 0);
}

LayerParameters decoder(const Model& m, std::int64_t tp) {
  const std::int64_t q = ceil_div(m.heads, tp) * m.head_dim;
  const std::int64_t kv = ceil_div(m.kv_heads, tp) * m.head_dim;
  const std::int64_t f = ceil_div(m.ffn_hidden, tp);
  const std::int64_t up = m.gated_mlp ? 2 * f : f;
  LayerParameters p;
  p.sharded = m.hidden * (q + 2 * kv) + q * m.hidden + m.hidden * (up + f);
  if (m.qkv_bias) p.sharded += q + 2 * kv;
  if (m.mlp_bias) p.sharded += up;
  if (m.attention_sinks) p.sharded += ceil_div(m.heads, tp);
  p.replicated = norms_of_layer(m) * norm_parameters(m);
  if (m.attention_out_bias) p.replicated += m.hidden;
  if (m.mlp_bias) p.replicated += m.hidden;
  if (m.qk_norm == QkNorm::kHead) p.replicated += 2 * m.head_dim;
  if (m.qk_norm == QkNorm::kEachHead || m.qk_norm == QkNorm::kFull) p.sharded += q + kv;
  // Query, key and value apart, gate and up apart: one matrix each, however a stack joins their products.
  p.matrices = {{q, m.hidden}, {kv, m.hidden, 2}, {m.hidden, q}, {f, m.hidden, m.gated_mlp ? 2 : 1}, {m.hidden, f}};
  p.vectors = norms_of_layer(m) * norm_vectors(m) + (m.qkv_bias ? 1 : 0) + (m.attention_out_bias ? 1 : 0) + (m.mlp_bias ? 2 : 0) + (m.attention_sinks ? 1 : 0) +
              (m.qk_norm == QkNorm::kNone || m.qk_norm == QkNorm::kUnweighted ? 0 : 2);
  return p;
}

}  // namespace

std::int64_t padded_vocab(const Model& m, const Shard& s) {
  const std::int64_t unit = s.vocab_multiple * s.tp;
  return ceil_div(m.vocab, unit) * unit;
}

std::int64_t word_embedding_parameters(const Model& m, const Shard& s) { return padded_vocab(m, s) / s.tp * m.hidden; }

LayerParameters layer_parameters(LayerKind kind, const Model& m, const Shard& s, const Block&) {
  switch (kind) {
    case LayerKind::kDecoder: return decoder(m, s.tp);
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
  }
  return {};
}

std::vector<std::int64_t> parameter_tensors(LayerKind kind, const Model& m, const Shard& s, bool fused_projections, const Block& block) {
  const LayerParameters all = layer_parameters(kind, m, s, block);
  std::vector<std::int64_t> matrices;
  if (kind == LayerKind::kDecoder) {
    const std::int64_t q = ceil_div(m.heads, s.tp) * m.head_dim, kv = ceil_div(m.kv_heads, s.tp) * m.head_dim, f = ceil_div(m.ffn_hidden, s.tp);
    if (fused_projections) {
      matrices = {m.hidden * (q + 2 * kv), q * m.hidden};
    } else {
      matrices = {m.hidden * q, m.hidden * kv, m.hidden * kv, q * m.hidden};
    }
    if (block.moe) {
      matrices.push_back(all.experts);
    } else {
      if (m.gated_mlp && !fused_projections) matrices.push_back(m.hidden * f);
      matrices.push_back(m.hidden * (m.gated_mlp && fused_projections ? 2 * f : f));
      matrices.push_back(f * m.hidden);
    }
  } else {
    matrices.push_back(word_embedding_parameters(m, s));
  }
  std::vector<std::int64_t> out;
  std::int64_t rest = all.total();
  for (const std::int64_t n : matrices) {
    if (n <= 0 || n > rest) continue;
    out.push_back(n);
    rest -= n;
  }
  if (rest > 0) out.push_back(rest);  // norms, biases, positions, routers: together, for they are small
  return out;
}

Result<bool> check_sizes(const Model& m, const Training& t, const std::string& file) {
  const auto d = [](std::int64_t v) { return static_cast<double>(v); };
  const double tokens = d(t.micro_batch) * d(t.sequence_length);
  // 64 bytes per element is above what any kernel here moves or any list of tensors sums to.
  const double wide = tokens * (d(m.hidden) + d(m.heads + 2 * m.kv_heads) * d(m.head_dim) + 2 * d(m.ffn_hidden) + d(m.vocab)) * 64;
  const double scores = t.flash_attention ? 0 : tokens * d(m.heads) * d(t.sequence_length) * 64;
  const double most = 0x1p62;
  if (std::max(wide, scores) > most) {
    return fail(file, "/training", fmt::format("a microbatch of {} x {} tokens moves about {:.1e} bytes in one layer; at most {:.1e} are possible", t.micro_batch,
                                               t.sequence_length, std::max(wide, scores), most));
  }
  return true;
}

}  // namespace orrery::workload
