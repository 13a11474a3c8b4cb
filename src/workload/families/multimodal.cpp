// An encoder of images before a decoder (LLaVA: Liu et al., arXiv:2304.08485 and 2310.03744; Qwen2-VL: arXiv:2409.12191; Pixtral: arXiv:2410.07073).
//
// The chain of layers is the encoder's blocks, then the decoder's. The first decoder block begins with what stands between: the encoder's last
// norm, its class token dropped, neighbouring patches merged, an MLP to the decoder's width, the words' embedding, and the features put where
// the sequence has room for them (transformers LlavaForConditionalGeneration, masked_scatter). So a pipeline's stages are as uneven as the two
// towers, and the decoder's word table stands with its first block (Megatron-LM examples/multimodal).
//
// A part that is frozen has neither gradients nor optimizer states. Nothing runs backward below the lowest trained part; above it a frozen part
// passes gradients on: the first stage of LLaVA's training freezes both towers and trains the projector alone.
//
// Split over tensor-parallel ranks: the blocks of both towers; patch projection and projector are on every rank. Images are never split by
// sequence parallelism.
#include <string_view>

#include <fmt/format.h>

#include "orrery/base/checked.hpp"
#include "plain.hpp"
#include "read.hpp"
#include "table.hpp"
#include "workload/passes.hpp"

namespace orrery::workload {
namespace {

enum Part : std::int64_t { kVisionBlock, kFirstDecoderBlock, kDecoderBlock };

const Multimodal& own(const Model& m) { return std::get<Multimodal>(m.of_family); }

void read_vision(const document::Value& v, Multimodal& x, const Complain& complain) {
  x.vision.image_size = v.at("image_size").as_int();
  x.vision.patch_size = v.at("patch_size").as_int();
  x.vision.channels = integer_of(v, "channels", 3);
  x.vision.frames = integer_of(v, "frames", 1);
  x.vision.class_token = flag_of(v, "class_token", false);
  x.vision.patch_bias = flag_of(v, "patch_bias", false);
  x.vision.input_norm = flag_of(v, "input_norm", false);
  x.vision.position_table = text_of(v, "position", "learned") == "learned";
  x.idle_layers = integer_of(v, "idle_layers", 0);
  x.vision_layers = v.at("layers").as_int() - x.idle_layers;
  x.vision_hidden = v.at("hidden").as_int();
  x.vision_ffn = v.at("ffn_hidden").as_int();
  x.vision_heads = v.at("heads").as_int();
  x.vision_activation = activation_of(v, Activation::kGelu);
  x.vision_gated = flag_of(v, "gated_mlp", false);
  x.vision_rms = text_of(v, "norm", "layer") == "rms";
  x.vision_bias = flag_of(v, "linear_bias", true);
  x.final_norm = flag_of(v, "final_norm", false);
  if (x.vision_layers < 1) complain("vision/idle_layers", fmt::format("{} idle layers leave none of {} to run; use less", x.idle_layers, v.at("layers").as_int()));
  if (x.vision_hidden % x.vision_heads != 0) complain("vision/heads", fmt::format("{} features cannot be shared by {} heads evenly; use a divisor", x.vision_hidden, x.vision_heads));
  if (x.vision.image_size % x.vision.patch_size != 0) {
    complain("vision/patch_size", fmt::format("patches of {} pixels do not tile an image of {}; use a divisor of image_size", x.vision.patch_size, x.vision.image_size));
  }
}

void read(const document::Value& v, Model& m, const Complain& complain) {
  Multimodal x;
  read_vision(v.at("vision"), x, complain);
  const document::Value& projector = v.at("projector");
  x.merge = integer_of(projector, "merge", 1);
  x.projector_norm = flag_of(projector, "norm", false);
  x.projector_bias = flag_of(projector, "bias", true);
  for (const document::Value& width : projector.at("widths").items()) x.projector.push_back(width.as_int());
  if (x.projector.back() != m.hidden) complain("projector/widths", fmt::format("the last layer makes {} features, but the decoder is {} wide; end with hidden", x.projector.back(), m.hidden));
  if (x.vision.image_size / x.vision.patch_size % x.merge != 0) {
    complain("projector/merge", fmt::format("{} patches a side are no multiple of {}; use a divisor", x.vision.image_size / x.vision.patch_size, x.merge));
  }
  x.images = integer_of(v, "images", 1);
  if (const document::Value& frozen = v.at("frozen"); !frozen.is_null()) {
    for (const document::Value& part : frozen.items()) {
      (part.as_string() == "vision" ? x.frozen_vision : part.as_string() == "projector" ? x.frozen_projector : x.frozen_decoder) = true;
    }
  }
  if (x.frozen_vision && x.frozen_projector && x.frozen_decoder) complain("frozen", "nothing is trained where every part is frozen; leave one out");
  if (m.tied_embeddings) complain("tied_embeddings", "a word table that is the head's too is not known behind an encoder of images; use false");
  x.decoder_layers = m.layers;
  m.layers += x.vision_layers;
  m.of_family = std::move(x);
}

Model decoder_of(const Model& m) {
  Model d = m;
  d.layers = own(m).decoder_layers;
  d.family = Family::kTransformer;
  d.of_family = {};
  return d;
}

Model vision_of(const Model& m) {
  const Multimodal& x = own(m);
  Model v;
  v.layers = x.vision_layers;
  v.hidden = x.vision_hidden;
  v.ffn_hidden = x.vision_ffn;
  v.heads = v.kv_heads = x.vision_heads;
  v.head_dim = x.vision_hidden / x.vision_heads;
  v.activation = x.vision_activation;
  v.gated_mlp = x.vision_gated;
  v.norm = x.vision_rms ? Norm::kRms : Norm::kLayer;
  v.norm_bias = !x.vision_rms;
  v.linear_bias = v.qkv_bias = v.attention_out_bias = v.mlp_bias = x.vision_bias;
  v.position = x.vision.position_table ? Position::kLearned : Position::kRotary;
  return v;
}

/// All images of a microbatch, `tokens` each.
Shard of_images(Shard shard, const Multimodal& x, std::int64_t tokens) {
  shard.micro_batch *= x.images;
  shard.sequence = tokens;
  shard.sequence_parallel = false;
  shard.tp_overlap = TpOverlap::kNone;
  return shard;
}

LayerParameters frozen(const LayerParameters& p, const Training& t, bool is) {
  if (!is) return p;
  return {.frozen = p.stored(), .frozen_bytes = p.stored() * static_cast<std::int64_t>(element_bytes(t.param_dtype))};
}

Trained towers_of(bool is_frozen, bool wanted_below) { return !is_frozen ? Trained::kAll : wanted_below ? Trained::kInputs : Trained::kNothing; }

/// What writers of the encoder of images hold on to.
struct ImageTower {
  ImageTower(const Model& m, const Training& given, const Shard& s) : model(vision_of(m)), training(both_ways(given)), shard(of_images(s, own(m), own(m).vision.tokens())) {}
  Model model;
  Training training;
  Shard shard;
};

Layer vision_block(const Model& m, const Training& t, const Shard& shard, const StackKernels& k) {
  const Multimodal& x = own(m);
  const ImageTower e(m, t, shard);
  Writer w(e.model, e.training, e.shard, k);
  w.tape.train(towers_of(x.frozen_vision, false));
  const TensorId in = w.tape.input(w.bytes(w.s.tokens * w.s.hidden));
  Layer out = w.tape.finish(pre_norm_block(w, in), x.frozen_vision ? RecomputePolicy{} : recompute_policy(e.training, k));
  out.parameters = frozen(w.parameters, t, x.frozen_vision);
  out.name = "vision";
  return out;
}

Layer patches(const Model& m, const Training& t, const Shard& shard, const StackKernels& k) {
  const Multimodal& x = own(m);
  const ImageTower e(m, t, shard);
  Writer w(e.model, e.training, e.shard, k);
  w.tape.train(towers_of(x.frozen_vision, false));
  Layer out = w.tape.finish(embed_patches(w, x.vision), {});
  out.parameters = frozen(w.parameters, t, x.frozen_vision);
  if (x.idle_layers > 0) {
    LayerParameters idle = vision_block(m, t, shard, k).parameters;
    const std::int64_t one = idle.stored();
    idle = {.replicated = x.idle_layers * one + (x.final_norm ? norm_parameters(e.model) : 0)};
    out.parameters += frozen(idle, t, true);
  }
  out.name = "patches";
  return out;
}

/// Patches without the class token, to the decoder's width.
TensorId project(Writer& encoder, Writer& patch, const Multimodal& x, TensorId hidden) {
  Tape& tape = patch.tape;
  tape.train(towers_of(x.frozen_vision, false));
  if (x.final_norm && x.idle_layers == 0) hidden = encoder.norm("vision_final_norm", hidden, false).plain;
  if (x.vision.class_token) hidden = pick_rows(patch, "drop_class_token", hidden, patch.s.tokens, encoder.s.tokens, patch.s.hidden);
  tape.train(towers_of(x.frozen_projector, !x.frozen_vision));
  return hidden;
}

TensorId projector_mlp(Writer& patch, const Multimodal& x, TensorId hidden) {
  const std::int64_t rows = patch.s.batch * x.features();
  if (x.projector_norm) hidden = patch.norm("projector_norm", hidden, false).plain;
  std::int64_t in = x.merge * x.merge * patch.s.hidden;
  for (std::size_t i = 0; i < x.projector.size(); ++i) {
    const std::string name = fmt::format("projector{}", i + 1);
    hidden = plain_linear(patch, name, hidden, rows, in, x.projector[i], x.projector_bias, i == 0 && x.frozen_vision && !x.projector_norm);
    if (i + 1 < x.projector.size()) hidden = plain_activation(patch, name + "_activation", hidden, rows * x.projector[i], false);
    in = x.projector[i];
  }
  return hidden;
}

/// The features take the places that the sequence keeps for them, on the ranks that have those.
TensorId insert(Writer& w, const Multimodal& x, TensorId words, TensorId features) {
  const std::int64_t n = w.s.shard_tokens * w.s.hidden, all = w.s.batch * x.images * x.features() * w.s.hidden, part = w.s.sp ? ceil_div(all, w.s.tp) : all;
  const TensorId y = w.activation("words_and_features", n);
  w.stream("insert_features", StreamKind::kCopy, w.bytes(n + part), w.bytes(n + part), 2, {words, features}, {y});
  const bool wanted = !x.frozen_vision || !x.frozen_projector;
  w.tape.train(Trained::kAll);
  w.tape.on_backward([=, &w, &x] {
    const TensorId dy = w.tape.gradient(y);
    if (wanted) {
      TensorId own_rows = w.activation("features_gradient", part);
      w.backward_stream("features_gradient", StreamKind::kCopy, w.bytes(part), w.bytes(part), 1, {dy}, {own_rows});
      if (w.s.sp) {
        const TensorId whole = w.activation("features_gradient_gathered", all);
        w.tape.backward({"all_gather_features_gradient", Comm{CommKind::kAllGather, Axis::kTp, w.bytes(all)}}, {own_rows}, {whole});
        own_rows = whole;
      }
      w.tape.set_gradient(features, own_rows);
    }
    if (!x.frozen_decoder) {
      const TensorId dwords = w.activation("words_gradient", n);
      w.backward_stream("words_gradient", StreamKind::kCopy, w.bytes(n), w.bytes(n), 1, {dy}, {dwords});
      w.tape.set_gradient(words, dwords);
    }
  });
  return y;
}

Layer first_decoder_block(const Model& m, const Training& t, const Shard& shard, const StackKernels& k, const Block& block) {
  const Multimodal& x = own(m);
  const Model decoder = decoder_of(m);
  const ImageTower e(m, t, shard);
  const Shard patch_shard = of_images(shard, x, x.vision.patches());
  Writer w(decoder, t, shard, k);
  Writer encoder(e.model, e.training, e.shard, k, &w.tape);
  Writer patch(e.model, e.training, patch_shard, k, &w.tape);
  const TensorId in = w.tape.input(encoder.bytes(encoder.s.tokens * encoder.s.hidden));
  const TensorId hidden = project(encoder, patch, x, in);
  LayerParameters parameters = frozen(encoder.parameters, t, x.frozen_vision);
  const TensorId features = projector_mlp(patch, x, hidden);
  parameters += frozen(patch.parameters, t, x.frozen_projector);
  w.tape.train(towers_of(x.frozen_decoder, false));
  const TensorId words = embed_words(w);
  const TensorId sequence = insert(w, x, words, features);
  w.tape.train(towers_of(x.frozen_decoder, true));
  Layer out = w.tape.finish(decoder_block(w, sequence, block), recompute_policy(t, k));
  LayerParameters tower = layer_parameters(LayerKind::kDecoder, decoder, shard, block);
  tower += layer_parameters(LayerKind::kEmbedding, decoder, shard);
  parameters += frozen(tower, t, x.frozen_decoder);
  out.parameters = std::move(parameters);
  out.name = "projector and decoder";
  return out;
}

Layer layer(LayerKind kind, const Model& m, const Training& t, const Shard& shard, const StackKernels& k, const Block& b) {
  const Multimodal& x = own(m);
  if (kind == LayerKind::kEmbedding) return patches(m, t, shard, k);
  if (kind == LayerKind::kDecoder && b.part == kVisionBlock) return vision_block(m, t, shard, k);
  Block block = b;
  block.part = 0;
  if (kind == LayerKind::kDecoder && b.part == kFirstDecoderBlock) return first_decoder_block(m, t, shard, k, block);
  Shard local = shard;
  local.frozen_weights = x.frozen_decoder;
  const Model decoder = decoder_of(m);
  Layer out = kind == LayerKind::kHead ? head_layer(decoder, t, local, k) : decoder_layer(decoder, t, local, k, block);
  out.parameters = frozen(layer_parameters(kind, decoder, shard, block), t, x.frozen_decoder);
  out.name = kind == LayerKind::kHead ? "head" : "decoder";
  return out;
}

Block block(const Model& m, std::int64_t layer) {
  const std::int64_t first = own(m).vision_layers;
  if (layer < first) return part(kVisionBlock);
  Block b = block_of(decoder_of(m), layer - first);
  b.part = layer == first ? kFirstDecoderBlock : kDecoderBlock;
  return b;
}

std::int64_t entering(const Model& m, const Training& t, const Shard& shard, std::int64_t layer) {
  const Multimodal& x = own(m);
  if (layer > x.vision_layers) return hidden_bytes(m, t, shard, layer);
  return hidden_bytes(vision_of(m), t, of_images(shard, x, x.vision.tokens()), layer);
}

double widest(const Model& m, double sequence) {
  const Multimodal& x = own(m);
  const auto d = [](std::int64_t n) { return static_cast<double>(n); };
  double projector = d(x.merge) * d(x.merge) * d(x.vision_hidden);
  for (const std::int64_t width : x.projector) projector += d(width);
  const double pixels = d(x.vision.channels) * d(x.vision.frames) * d(x.vision.image_size) * d(x.vision.image_size);
  return widest_of_blocks(m, sequence) + d(x.images) * (widest_of_blocks(vision_of(m), d(x.vision.tokens())) + pixels + d(x.features()) * projector);
}

std::vector<Limit> limits(const Model& m, const Training& t, const Split& split) {
  std::vector<Limit> out;
  const Multimodal& x = own(m);
  if (!t.causal) out.push_back({"/training/attention_mask", "the decoder generates text; use \"causal\""});
  if (t.sequence_length / x.images < x.features()) {
    out.push_back({"/training/sequence_length", fmt::format("{} tokens have no room for {} of {} images; use more, or less images", t.sequence_length, x.features(), x.images)});
  }
  if (x.vision_heads % split.tp != 0 || x.vision_ffn % split.tp != 0) {
    out.push_back({"/parallelism/tp", fmt::format("{} ranks cannot share the {} heads and {} MLP columns of the encoder of images evenly; use a divisor of both", split.tp, x.vision_heads, x.vision_ffn)});
  }
  if (t.loss.chunks > 1 && x.frozen_decoder) out.push_back({"/training/loss/chunks", "projection and loss in chunks make the gradient of a head that is frozen; use 1"});
  no_context_parallelism(out, split, "a decoder behind an encoder of images");
  return out;
}

std::int64_t tables(const Model& m) { return m.vocab * m.hidden; }

std::int64_t tokens(const Model& m) { return std::max<std::int64_t>(2048, own(m).images * own(m).features()); }

/// Forward once; a gradient for what is below once more; a gradient of the weights once more.
double passes(const Model& m, LayerKind kind, const Block& b, const Operation& op) {
  const Multimodal& x = own(m);
  if (kind == LayerKind::kEmbedding || (kind == LayerKind::kDecoder && b.part == kVisionBlock)) return x.frozen_vision ? 1 : 3;
  if (std::string_view(op.name).starts_with("projector")) return !x.frozen_projector ? 3 : x.frozen_vision ? 1 : 2;
  return !x.frozen_decoder ? 3 : 2;
}

}  // namespace

const FamilyRow kMultimodalRow{Family::kMultimodal, "multimodal", read, block, layer, entering, widest, limits, tokens, tables, false, true, passes};

}  // namespace orrery::workload
