#include "table.hpp"

#include <array>

namespace orrery::workload {
namespace {

constexpr std::array kRows = {&kEncoderRow, &kEncoderDecoderRow, &kVisionTransformerRow, &kDiffusionTransformerRow, &kConvolutionalRow,
                              &kMlpRow, &kRecommendationRow, &kStateSpaceRow, &kMultimodalRow};

}  // namespace

const FamilyRow* family_row(Family family) {
  for (const FamilyRow* row : kRows) {
    if (row->id == family) return row;
  }
  return nullptr;
}

const FamilyRow* family_row(std::string_view name) {
  for (const FamilyRow* row : kRows) {
    if (row->name == name) return row;
  }
  return nullptr;
}

Layer family_layer(const FamilyRow& family, LayerKind kind, const Model& m, const Training& t, const Shard& shard, const StackKernels& k, const Block& block) {
  Shard local = shard;
  // Overlap of tensor-parallel collectives is a block's, as in a decoder (head.cpp).
  if (kind != LayerKind::kDecoder) local.tp_overlap = TpOverlap::kNone;
  Layer layer = family.layer(kind, m, t, local, k, block);
  layer.kind = kind;
  layer.block = block;
  if (kind == LayerKind::kDecoder) return layer;
  const std::int64_t words = m.vocab > 0 ? padded_vocab(m, shard) / shard.tp : 0;
  for (Matrix& x : layer.parameters.matrices) {
    // Dense layers of a head before a tied projection are matrices like any other.
    if (!m.tied_embeddings || kind == LayerKind::kEmbedding || (x.rows == words && x.columns == m.hidden)) x.between_layers = false;
  }
  return layer;
}

std::int64_t tokens_of_sample(const Model& m, std::int64_t otherwise) {
  const FamilyRow* row = family_row(m.family);
  return row == nullptr ? otherwise : row->tokens(m);
}

std::vector<Limit> family_limits(const Model& m, const Training& t, const Split& split) {
  const FamilyRow* row = family_row(m.family);
  if (row == nullptr) return {};
  std::vector<Limit> out = row->limits(m, t, split);
  const bool generates = m.family == Family::kEncoderDecoder || m.family == Family::kStateSpace || m.family == Family::kMultimodal;
  if (t.loss.chunks > 1 && !generates) out.push_back({"/training/loss/chunks", "the head of this model's family has no projection and loss in chunks; use 1"});
  if (t.loss.fused && m.vocab == 0) out.push_back({"/training/loss/fused", "the loss of a model without a vocabulary is the framework's own; leave it out"});
  return out;
}

}  // namespace orrery::workload
