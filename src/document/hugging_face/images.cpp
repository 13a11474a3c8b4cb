// Classes of an encoder of images before a decoder: LLaVA and Pixtral (one class in transformers), Qwen2-VL.
#include <fmt/format.h>

#include "document/check.hpp"
#include "architectures.hpp"

namespace orrery::document::hugging_face {
namespace {

/// CLIPVisionModel (modeling_clip.py): a class token, norms before and after, features of an inner layer without the class token.
Value clip(Config& c, std::int64_t feature_layer) {
  Value v = Value::Object{{"image_size", c.size({"image_size"}, 336)}, {"patch_size", c.size({"patch_size"}, 14)},   {"layers", c.size({"num_hidden_layers"}, 24)},
                          {"hidden", c.size({"hidden_size"}, 1024)},   {"ffn_hidden", c.size({"intermediate_size"}, 4096)}, {"heads", c.size({"num_attention_heads"}, 16)},
                          {"activation", c.activation({"hidden_act"}, "quick_gelu")}, {"class_token", true},         {"input_norm", true},
                          {"final_norm", true}};
  v.set("channels", c.size({"num_channels"}, 3));
  // Layers are counted from the back, the last being -1; the norm behind it is the class token's alone.
  if (feature_layer > -2) c.refuse("num_hidden_layers", "features of CLIP's last layer stand before its norm, which is not known; use vision_feature_layer -2 or less");
  v.set("idle_layers", -1 - feature_layer);
  c.ignore({"projection_dim", "vocab_size"});
  return v;
}

/// PixtralVisionModel (modeling_pixtral.py): rotations, RMSNorm, a gated MLP, no biases.
Value pixtral(Config& c) {
  Value v = Value::Object{{"image_size", 512}, {"patch_size", c.size({"patch_size"}, 16)}, {"layers", c.size({"num_hidden_layers"}, 24)}, {"hidden", c.size({"hidden_size"}, 1024)},
                          {"ffn_hidden", c.size({"intermediate_size"}, 4096)}, {"heads", c.size({"num_attention_heads"}, 16)}, {"gated_mlp", true},
                          {"activation", c.activation({"hidden_act"}, "gelu")}, {"position", "rotary"}, {"norm", "rms"}, {"input_norm", true}, {"linear_bias", false}};
  v.set("channels", c.size({"num_channels"}, 3));
  c.warn("image_size", "images keep their own size; 512 x 512 pixels stand for them (vision.image_size of orrery/model/1)");
  c.ignore({"head_dim", "image_size"});
  return v;
}

}  // namespace

Value llava(Config& c) {
  Config text = c.inside("text_config");
  const std::string decoder = text.text({"model_type"}, "llama");
  if (decoder != "llama" && decoder != "mistral" && decoder != "qwen2") text.refuse("model_type", fmt::format("the decoder {} is none of llama, mistral, qwen2", found(Value(decoder))));
  Value m = decoder == "mistral" ? mistral(text) : decoder == "qwen2" ? qwen2(text) : llama(text);
  text.warn_unread();
  Config vision = c.inside("vision_config");
  const std::string encoder = vision.text({"model_type"}, "clip_vision_model");
  if (encoder != "clip_vision_model" && encoder != "pixtral") vision.refuse("model_type", fmt::format("the encoder {} is none of clip_vision_model, pixtral", found(Value(encoder))));
  const Value& stated = c.raw({"vision_feature_layer"});
  if (!stated.is_null() && (!stated.is_int() || stated.as_int() >= 0)) c.refuse("vision_feature_layer", "layers of features are known as one number that counts from the last, -1");
  const std::int64_t layer = stated.is_int() && stated.as_int() < 0 ? stated.as_int() : encoder == "pixtral" ? -1 : -2;
  if (encoder == "pixtral") {
    if (layer != -1) c.refuse("vision_feature_layer", "features of an inner layer of this encoder are not known; use -1");
    m.set("vision", pixtral(vision));
  } else {
    if (c.text({"vision_feature_select_strategy"}, "default") != "default") c.refuse("vision_feature_select_strategy", "features with the class token among them are not known; use \"default\"");
    m.set("vision", clip(vision, layer));
  }
  vision.warn_unread();
  if (c.activation({"projector_hidden_act"}, "gelu") != "gelu") c.refuse("projector_hidden_act", "a projector without a GELU is not known; use \"gelu\"");
  const std::int64_t width = m.at("hidden").as_int();
  m.set("projector", Value::Object{{"widths", Value::Array{width, width}}, {"bias", c.flag({"multimodal_projector_bias"}, true)}});
  m.set("family", "multimodal");
  c.ignore({"text_config", "vision_config", "image_token_index", "image_seq_length", "ignore_index", "pad_token_id", "projector_hidden_act", "vision_feature_select_strategy", "tie_word_embeddings", "vocab_size",
            "image_grid_pinpoints"});
  return m;
}

/// Qwen2VisionTransformerPretrainedModel (modeling_qwen2_vl.py): patches of two frames, rotations, a merger of 2 x 2 patches behind a norm.
Value qwen2_vl(Config& c) {
  Value m = qwen2(c);
  Config v = c.inside("vision_config");
  const std::int64_t hidden = v.size({"embed_dim"}, 1280), stated = v.size({"spatial_merge_size"}, 2);
  const std::int64_t merge = stated <= 64 ? stated : 1;
  if (stated > 64) v.refuse("spatial_merge_size", fmt::format("{} patches a side are more than the 64 that are known to be merged", stated));
  m.set("vision", Value::Object{{"image_size", 672}, {"patch_size", v.size({"patch_size"}, 14)}, {"frames", v.size({"temporal_patch_size"}, 2)}, {"layers", v.size({"depth"}, 32)}, {"hidden", hidden},
                                {"ffn_hidden", v.size({"mlp_ratio"}, 4) * hidden}, {"heads", v.size({"num_heads"}, 16)}, {"activation", v.activation({"hidden_act"}, "quick_gelu")}, {"position", "rotary"},
                                {"channels", v.size({"in_channels", "in_chans"}, 3)}});
  m.set("projector", Value::Object{{"merge", merge}, {"norm", true}, {"widths", Value::Array{merge * merge * hidden, v.size({"hidden_size"}, 3584)}}});
  m.set("family", "multimodal");
  v.warn("image_size", "images keep their own size; 672 x 672 pixels stand for them (vision.image_size of orrery/model/1)");
  v.ignore({"spatial_patch_size"});
  v.warn_unread();
  c.ignore({"vision_config", "vision_start_token_id", "vision_end_token_id", "vision_token_id", "image_token_id", "video_token_id"});
  return m;
}

}  // namespace orrery::document::hugging_face
