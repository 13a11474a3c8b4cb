#pragma once
// The families of models beside the decoder transformer, one row each. A family describes its layers on the tape, as the decoder does; its
// parameters, FLOPs and memory follow from them.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/workload/layers.hpp"

namespace orrery::workload {

/// Takes a problem of the model's object: the member below it, and what is wrong.
using Complain = std::function<void(const std::string& member, const std::string& text)>;

struct FamilyRow {
  Family id = Family::kTransformer;
  std::string_view name;
  /// Fills what is not common to all: name and family are there. The document's description has checked every member by itself.
  void (*read)(const document::Value& v, Model& m, const Complain& complain) = nullptr;
  Block (*block)(const Model& m, std::int64_t layer) = nullptr;
  /// With parameters and name.
  Layer (*layer)(LayerKind kind, const Model& m, const Training& t, const Shard& shard, const StackKernels& k, const Block& block) = nullptr;
  /// Of the activation that enters layer `layer`: what a stage boundary there sends.
  std::int64_t (*input_bytes)(const Model& m, const Training& t, const Shard& shard, std::int64_t layer) = nullptr;
  /// An upper bound of the elements of one sample that any layer holds or any of its kernels moves.
  double (*widest)(const Model& m, double sequence) = nullptr;
  std::vector<Limit> (*limits)(const Model& m, const Training& t, const Split& split) = nullptr;
  /// How many tokens a sample has: what the model fixes, or at most has room for.
  std::int64_t (*tokens)(const Model& m) = nullptr;
  /// Parameters of look-up tables, which counts without embedding leave out.
  std::int64_t (*tables)(const Model& m) = nullptr;
  bool conventions = false;  ///< six_n and palm count its parameters per token, as they do a decoder's
  bool decodes = false;      ///< it has the members of a decoder transformer, which are read before its own
  /// How often training runs an operation of the forward pass, its gradients counted as one each; null: three times.
  double (*passes)(const Model& m, LayerKind kind, const Block& block, const Operation& op) = nullptr;
};

inline Block part(std::int64_t number) {
  Block b;
  b.part = number;
  return b;
}
/// A row's function for families without look-up tables.
inline std::int64_t no_tables(const Model&) { return 0; }
/// ... and without a sequence: a sample is one token.
inline std::int64_t one_token(const Model&) { return 1; }

/// A layer of a family, with its kind and block. Only matrices between layers are marked so: tables of words, positions and classes and the
/// projections in and out are not.
Layer family_layer(const FamilyRow& family, LayerKind kind, const Model& m, const Training& t, const Shard& shard, const StackKernels& k, const Block& block);

/// nullptr for the decoder transformer.
const FamilyRow* family_row(Family family);
const FamilyRow* family_row(std::string_view name);

// Limits that several families share.

/// Of a network over whole samples, no sequence: no tensor or context parallelism, sequences of one, products in 16 bits or more, no parts of
/// a transformer block to recompute. `what` begins the sentence: "an MLP".
std::vector<Limit> limits_of_samples(const std::string& what, const Training& t, const Split& split);
/// The model fixes how many tokens a sample has.
void fix_tokens(std::vector<Limit>& out, const Training& t, std::int64_t tokens, const std::string& why);
/// Attention sees both ways.
void fix_full_mask(std::vector<Limit>& out, const Training& t, const std::string& what);
void no_context_parallelism(std::vector<Limit>& out, const Split& split, const std::string& what);

extern const FamilyRow kEncoderRow, kEncoderDecoderRow, kVisionTransformerRow, kDiffusionTransformerRow, kConvolutionalRow, kMlpRow, kRecommendationRow, kStateSpaceRow, kMultimodalRow;

}  // namespace orrery::workload
