// Vision transformers (Dosovitskiy et al., arXiv:2010.11929): a projection of patches, a class token and positions, pre-norm blocks that
// attend both ways, a norm and a classifier. Split over tensor-parallel ranks as Megatron-LM's CLIP ViT is (megatron/core/models/vision):
// the blocks; the patch projection and the classifier are on every rank.
#include <fmt/format.h>

#include "plain.hpp"
#include "read.hpp"
#include "table.hpp"

namespace orrery::workload {
namespace {

const VisionTransformer& own(const Model& m) { return std::get<VisionTransformer>(m.of_family); }

void read(const document::Value& v, Model& m, const Complain& complain) {
  read_blocks(v, m, complain);
  VisionTransformer vit;
  vit.image_size = v.at("image_size").as_int();
  vit.patch_size = v.at("patch_size").as_int();
  vit.channels = integer_of(v, "channels", 3);
  vit.classes = v.at("classes").as_int();
  vit.class_token = text_of(v, "pool", "class_token") == "class_token";
  vit.patch_bias = flag_of(v, "patch_bias", true);
  vit.input_norm = flag_of(v, "input_norm", false);
  if (vit.image_size % vit.patch_size != 0) {
    complain("patch_size", fmt::format("patches of {} pixels do not tile an image of {}; use a divisor of image_size", vit.patch_size, vit.image_size));
  }
  m.norm = Norm::kLayer;
  m.position = Position::kLearned;
  m.norm_bias = m.linear_bias = m.qkv_bias = m.attention_out_bias = m.mlp_bias = true;
  m.of_family = vit;
}

Block block(const Model&, std::int64_t) { return {}; }

/// One table for all images; its sum is split over the ranks after it.
TensorId add_positions(Writer& w, const VisionTransformer& vit, TensorId x) {
  const Sizes& s = w.s;
  const std::int64_t h = s.hidden, all = s.tokens * h;
  const auto g = static_cast<std::int64_t>(element_bytes(w.training.grad_dtype));
  w.parameters.replicated += vit.tokens() * h;
  w.parameters.matrices.push_back({vit.tokens(), h});
  const TensorId sum = w.activation("positioned", s.shard_tokens * h);
  w.stream("add_positions", StreamKind::kElementwise, 2 * w.bytes(all), w.bytes(all), 1, {x}, {sum});
  w.tape.on_backward([=, &w, &s] {
    TensorId dx = w.tape.gradient(sum);
    if (s.sp) {
      const TensorId whole = w.activation("positioned_gradient", all);
      w.tape.backward({"all_gather_patches", Comm{CommKind::kAllGather, Axis::kTp, w.bytes(all)}}, {dx}, {whole});
      dx = whole;
    }
    w.backward_stream("position_weight_gradient", StreamKind::kReduce, w.bytes(all), g * s.queries * h, 1, {dx}, {}, true);
    w.tape.set_gradient(x, dx);
  });
  return sum;
}

Layer head(Writer& w, const VisionTransformer& vit) {
  const Sizes& s = w.s;
  const std::int64_t h = s.hidden;
  const TensorId x = w.tape.input(w.bytes(s.shard_tokens * h));
  const TensorId normed = whole_sequence(w, w.norm("final_norm", x, false).plain);
  TensorId pooled = kNoTensor;
  if (vit.class_token) {
    pooled = pick_rows(w, "class_token", normed, s.batch, s.tokens, h);
  } else {
    pooled = w.activation("mean", s.batch * h);
    w.stream("mean", StreamKind::kReduce, w.bytes(s.tokens * h), w.bytes(s.batch * h), 1, {normed}, {pooled});
    w.tape.on_backward([=, &w, &s] {
      const TensorId dx = w.activation("mean_gradient", s.tokens * h);
      w.backward_stream("mean_backward", StreamKind::kElementwise, w.bytes(s.batch * h), w.bytes(s.tokens * h), 1, {w.tape.gradient(pooled)}, {dx});
      w.tape.set_gradient(normed, dx);
    });
  }
  plain_cross_entropy(w, plain_linear(w, "classifier", pooled, s.batch, h, vit.classes, true), s.batch, vit.classes);
  return w.tape.finish(kNoTensor, {});
}

Layer layer(LayerKind kind, const Model& m, const Training& given, const Shard& shard, const StackKernels& k, const Block&) {
  const Training t = both_ways(given);
  Writer w(m, t, shard, k);
  Layer out;
  if (kind == LayerKind::kEmbedding) {
    out = w.tape.finish(embed_patches(w, own(m)), {});
  } else if (kind == LayerKind::kHead) {
    out = head(w, own(m));
  } else {
    const TensorId x = w.tape.input(w.bytes(w.s.shard_tokens * w.s.hidden));
    out = w.tape.finish(pre_norm_block(w, x), recompute_policy(t, k));
  }
  out.parameters = w.parameters;
  out.name = kind == LayerKind::kEmbedding ? "patches" : kind == LayerKind::kHead ? "classifier" : "encoder";
  return out;
}

std::int64_t tokens(const Model& m) { return own(m).tokens(); }

double widest(const Model& m, double sequence) {
  const auto d = [](std::int64_t n) { return static_cast<double>(n); };
  return widest_of_blocks(m, sequence) + d(own(m).classes) + d(own(m).channels) * d(own(m).image_size) * d(own(m).image_size);
}

std::vector<Limit> limits(const Model& m, const Training& t, const Split& split) {
  std::vector<Limit> out;
  const VisionTransformer& vit = own(m);
  fix_tokens(out, t, vit.tokens(), fmt::format("an image of {0} x {0} pixels has {1} patches of {2} x {2}{3}", vit.image_size, vit.patches(), vit.patch_size, vit.class_token ? " and a class token" : ""));
  fix_full_mask(out, t, "a vision transformer");
  no_context_parallelism(out, split, "a vision transformer");
  return out;
}

}  // namespace

/// The patch projection is a convolution whose stride is its kernel: every pixel is read once, as one operand of a product.
TensorId embed_patches(Writer& w, const VisionTransformer& vit) {
  const Sizes& s = w.s;
  const std::int64_t rows = s.batch * vit.patches(), h = s.hidden, all = s.tokens * h;
  const std::int64_t pixels = vit.channels * vit.frames * vit.patch_size * vit.patch_size;
  const auto g = static_cast<std::int64_t>(element_bytes(w.training.grad_dtype));
  const TensorId image = w.activation("image", rows * pixels);
  w.stream("cast_image", StreamKind::kCast, 4 * rows * pixels, w.bytes(rows * pixels), 1, {}, {image});
  TensorId x = plain_linear(w, "patch_projection", image, rows, pixels, h, vit.patch_bias, true);
  if (vit.class_token) w.own_vectors(h, 1);
  if (vit.class_token) {
    const TensorId patches = x, with_class = w.activation("patches_and_class", all);
    w.stream("class_token", StreamKind::kCopy, w.bytes(rows * h), w.bytes(all), 1, {patches}, {with_class});
    w.tape.on_backward([=, &w] {
      const TensorId dx = w.activation("patches_gradient", rows * h);
      w.backward_stream("class_token_backward", StreamKind::kCopy, w.bytes(all), w.bytes(rows * h) + g * h, 2, {w.tape.gradient(with_class)}, {dx});
      w.tape.set_gradient(patches, dx);
    });
    x = with_class;
  }
  TensorId out = vit.position_table ? add_positions(w, vit, x) : x;
  if (vit.input_norm) out = w.norm("input_norm", out, false).plain;
  if (w.kernels.dropout) out = w.dropout("embedding_dropout", out, s.shard_tokens * h, kNoRegion);
  return out;
}

const FamilyRow kVisionTransformerRow{Family::kVisionTransformer, "vision_transformer", read, block, layer, hidden_bytes, widest, limits, tokens, no_tables, true};

}  // namespace orrery::workload
