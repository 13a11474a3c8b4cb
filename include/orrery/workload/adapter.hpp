#pragma once
// Low-rank adapters beside frozen weights (training.adapter): Hu et al., LoRA, arXiv:2106.09685; Dettmers et al., QLoRA, arXiv:2305.14314.
#include <cstdint>
#include <vector>

#include "orrery/workload/layers.hpp"

namespace orrery::workload {

/// Bytes of a frozen element in 4-bit storage with double quantisation: half a byte, an 8-bit scale per block of 64 and an fp32 one per 256 of
/// those (QLoRA, section 3: 0.127 bits of scales a parameter).
inline constexpr double kNf4Bytes = 0.5 + 1.0 / 64 + 4.0 / (64 * 256);

/// What a layer has beside and instead of its own parameters: those of the adapters are trained, all others frozen.
LayerParameters adapted_parameters(LayerKind kind, const Model& model, const Training& training, const Shard& shard, const Block& block);

/// Trained parameters of the whole model, and FLOPs a token that training needs: forward and input gradients of every product, weight
/// gradients of the adapters' own, attention as in a full step.
struct AdapterCounts {
  std::int64_t trainable = 0;
  double exact = 0;
};
AdapterCounts count_adapters(const Model& model, const Training& training);

/// All that stands against such a job; empty where nothing does.
std::vector<Limit> adapter_limits(const Model& model, const Training& training, TpOverlap overlap);

}  // namespace orrery::workload
