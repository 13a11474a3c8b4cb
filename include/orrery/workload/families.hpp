#pragma once
// What models of other families than the decoder transformer have beside the common sizes of Model (orrery/model/1, family).
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace orrery::workload {

enum class Family : std::uint8_t { kTransformer, kEncoder, kEncoderDecoder, kVisionTransformer, kDiffusionTransformer, kConvolutional, kMlp, kRecommendation, kStateSpace, kMultimodal };
enum class Activation : std::uint8_t;

/// BERT (Devlin et al., arXiv:1810.04805). Sizes of its blocks stand in Model.
struct Encoder {
  bool post_norm = true, pooler = true, masked_lm = true, next_sentence = true;
  std::int64_t token_types = 2;
  std::optional<std::int64_t> masked_positions;  ///< of a sequence that the masked-token head sees; null: all
  bool operator==(const Encoder&) const = default;
};

/// Dosovitskiy et al., arXiv:2010.11929. Sizes of its blocks stand in Model.
struct VisionTransformer {
  std::int64_t image_size = 224, patch_size = 16, channels = 3, classes = 1000;
  bool class_token = true, patch_bias = true, input_norm = false;
  std::int64_t frames = 1;        ///< of a video that one patch spans
  bool position_table = true;     ///< learned; false: rotations in every block
  [[nodiscard]] std::int64_t patches() const { return (image_size / patch_size) * (image_size / patch_size); }
  [[nodiscard]] std::int64_t tokens() const { return patches() + (class_token ? 1 : 0); }
  bool operator==(const VisionTransformer&) const = default;
};

/// T5 (Raffel et al., arXiv:1910.10683). Sizes of the blocks of both stacks stand in Model; its layers are the encoder's, then the decoder's.
struct EncoderDecoder {
  std::int64_t encoder_layers = 0, decoder_layers = 0;
  std::int64_t target_length = 0;     ///< tokens that the decoder sees
  std::int64_t relative_buckets = 0;  ///< of the relative position bias, one table for each stack; 0: none
  bool operator==(const EncoderDecoder&) const = default;
};

/// DiT (Peebles and Xie, arXiv:2212.09748). Sizes of its blocks stand in Model.
struct DiffusionTransformer {
  std::int64_t latent_size = 32, latent_channels = 4, patch_size = 2, classes = 1000, frequencies = 256;
  bool learn_sigma = true;
  [[nodiscard]] std::int64_t patches() const { return (latent_size / patch_size) * (latent_size / patch_size); }
  [[nodiscard]] std::int64_t patch_elements() const { return latent_channels * patch_size * patch_size; }
  bool operator==(const DiffusionTransformer&) const = default;
};

/// Residual networks (He et al., arXiv:1512.03385) as torchvision builds them.
struct Convolutional {
  struct Stage {
    std::int64_t blocks = 0, width = 0, stride = 1;
    bool operator==(const Stage&) const = default;
  };
  bool bottleneck = true;
  std::int64_t image_size = 224, channels = 3, stem_width = 64, classes = 1000;
  std::vector<Stage> stages;
  [[nodiscard]] std::int64_t expansion() const { return bottleneck ? 4 : 1; }
  bool operator==(const Convolutional&) const = default;
};

/// Linear layers one after the other.
struct Mlp {
  std::vector<std::int64_t> widths;
  bool bias = true, squared_error = false;
  bool operator==(const Mlp&) const = default;
};

/// DLRM (Naumov et al., arXiv:1906.00091).
struct Recommendation {
  std::int64_t dense_features = 0, embedding_dim = 0;
  std::vector<std::int64_t> bottom, top;      ///< widths of the hidden layers; the top's last is the click
  std::vector<std::int64_t> tables, lookups;  ///< rows of each table, and rows that a sample looks up in it
  std::int64_t cross_layers = 0, cross_rank = 0;  ///< low-rank cross network (DCN v2); 0: dot products of all pairs
  bool operator==(const Recommendation&) const = default;
};

/// Mamba-2 (Dao and Gu, arXiv:2405.21060), alone or with blocks of attention and MLP between. Those have their sizes in Model.
struct StateSpace {
  std::int64_t state = 128, head_dim = 64, heads = 0, groups = 1, convolution = 4, chunk = 256;
  std::string pattern;  ///< a letter a layer: M, * (attention) or - (MLP); empty: all M
  [[nodiscard]] std::int64_t inner() const { return heads * head_dim; }
  bool operator==(const StateSpace&) const = default;
};

/// An encoder of images, a projector of what it makes, and a decoder (LLaVA: Liu et al., arXiv:2304.08485). Sizes of the decoder stand in Model; its
/// layers are the encoder's, then the decoder's.
struct Multimodal {
  VisionTransformer vision;
  std::int64_t vision_layers = 0, idle_layers = 0;  ///< that run; that are stored behind them
  std::int64_t vision_hidden = 0, vision_ffn = 0, vision_heads = 0;
  Activation vision_activation{};
  bool vision_rms = false, vision_bias = true, vision_gated = false, final_norm = false;
  std::int64_t merge = 1;               ///< patches of a square with this edge become one token of the decoder
  bool projector_norm = false, projector_bias = true;
  std::vector<std::int64_t> projector;  ///< widths; the last is the decoder's
  std::int64_t images = 1;              ///< of a sequence
  std::int64_t decoder_layers = 0;
  bool frozen_vision = false, frozen_projector = false, frozen_decoder = false;
  /// Tokens that one image becomes.
  [[nodiscard]] std::int64_t features() const { return vision.patches() / (merge * merge); }
  bool operator==(const Multimodal&) const = default;
};

using FamilyMembers = std::variant<std::monostate, Encoder, EncoderDecoder, VisionTransformer, DiffusionTransformer, Convolutional, Mlp, Recommendation, StateSpace, Multimodal>;

}  // namespace orrery::workload
