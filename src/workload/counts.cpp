// FLOPs per token of a dense decoder by every convention in use. One exact counter of GEMMs; the others are what people print, so that a
// published TFLOP/s or MFU can be read in its own terms. Training: forward and backward, three times the forward, no recompute.
#include "orrery/workload/layers.hpp"
#include "orrery/workload/model.hpp"

namespace orrery::workload {
namespace {

struct Sizes {
  std::int64_t matrices = 0;  ///< weights of every GEMM of the layers
  std::int64_t layers = 0, word_embedding = 0, positions = 0, head = 0;
  double visible = 0;         ///< sum over layers of head width x keys that a token sees
};

Sizes sizes(const Model& m, std::int64_t sequence, bool causal) {
  const Shard whole{.micro_batch = 1, .sequence = sequence};
  Sizes s;
  const std::int64_t q = m.heads * m.head_dim;
  const std::int64_t kv = m.kv_heads * m.head_dim;
  for (const BlockCount& b : blocks_of(m)) {
    s.matrices += b.layers * (m.hidden * (2 * q + 2 * kv) + (m.gated_mlp ? 3 : 2) * m.hidden * m.ffn_hidden);
    s.layers += b.layers * layer_parameters(LayerKind::kDecoder, m, whole, b.block).total();
    const double keys = static_cast<double>(sequence) * visible_share(sequence, causal, b.block.window.value_or(0), m.attention_chunk.has_value());
    s.visible += static_cast<double>(b.layers) * static_cast<double>(q) * keys;
  }
  s.word_embedding = word_embedding_parameters(m, whole);
  s.positions = layer_parameters(LayerKind::kEmbedding, m, whole).total() - s.word_embedding;
  s.head = layer_parameters(LayerKind::kHead, m, whole).total() - (m.tied_embeddings ? s.word_embedding : 0);
  return s;
}

}  // namespace

ModelCounts count(const Model& m, std::int64_t sequence, bool causal) {
  const Sizes s = sizes(m, sequence, causal);
  const auto d = [](std::int64_t v) { return static_cast<double>(v); };
  ModelCounts c;
  c.embedding_parameters = s.word_embedding + s.positions;
  c.parameters = s.layers + c.embedding_parameters + s.head;
  c.parameters_without_embedding = c.parameters - c.embedding_parameters;
  c.active_parameters = c.parameters;

  const double layers = d(m.layers);
  const double n = d(c.parameters);
  const double matrices = d(s.matrices) + d(m.hidden) * d(m.vocab);  // every GEMM weight, the head's included
  const double square = layers * d(m.heads) * d(m.head_dim) * d(sequence);          // sum over layers of q s
  // Forward 2 per weight, scores and context 4 q a key that is seen; three times that with backward.
  c.exact = 6 * matrices + 12 * s.visible;
  // Megatron-LM num_floating_point_operations: since core 0.12 the score term is the causal half, whatever mask or window. None of the
  // conventions below knows windows either.
  c.megatron = 6 * matrices + 6 * square;
  c.megatron_legacy = 6 * matrices + 12 * square;
  // PaLM (arXiv:2204.02311, appendix B): 6N + 12 L H Q T, embeddings in N.
  c.palm = 6 * n + 12 * square;
  c.six_n = 6 * n;
  // torchtitan models/utils.py: 6 (N - N_emb) + 6 L n (d_qk + d_v) s; a tied matrix is a projection too and stays in N.
  c.torchtitan = 6 * (n - d(m.tied_embeddings ? s.positions : c.embedding_parameters)) + 12 * square;
  // Narayanan et al. 2021 (arXiv:2104.04473, eq. 3): 96 B s l h^2 (1 + s/6h + V/16lh); MLP of 4h, one extra forward for recompute.
  const double h = d(m.hidden);
  c.narayanan = 96 * layers * h * h * (1 + d(sequence) / (6 * h) + d(m.vocab) / (16 * layers * h));
  return c;
}

}  // namespace orrery::workload
