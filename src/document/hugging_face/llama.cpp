// Classes that are Llama's layer (RMSNorm or LayerNorm, grouped keys, gated MLP) with a few members changed.
#include <algorithm>

#include <fmt/format.h>

#include "document/check.hpp"
#include "architectures.hpp"

namespace orrery::document::hugging_face {

Sizes sizes(Config& c, const Sizes& d) {
  Sizes s;
  s.vocab = c.size({"vocab_size"}, d.vocab);
  s.hidden = c.size({"hidden_size"}, d.hidden);
  s.ffn = c.size({"intermediate_size"}, d.ffn);
  s.layers = c.size({"num_hidden_layers"}, d.layers);
  s.heads = c.size({"num_attention_heads"}, d.heads);
  const bool null_kv = c.states("num_key_value_heads") && c.raw({"num_key_value_heads"}).is_null();  // None means as many as heads
  s.kv_heads = c.size({"num_key_value_heads"}, null_kv || d.kv_heads == 0 ? s.heads : d.kv_heads);
  s.head_dim = c.size({"head_dim"}, d.head_dim == 0 ? std::max<std::int64_t>(1, s.hidden / s.heads) : d.head_dim);
  return s;
}

Value model_of(const Sizes& s) {
  return Value::Object{{"layers", s.layers},   {"hidden", s.hidden},     {"ffn_hidden", s.ffn},    {"gated_mlp", true},         {"activation", "silu"}, {"heads", s.heads},
                       {"kv_heads", s.kv_heads}, {"head_dim", s.head_dim}, {"vocab", s.vocab}, {"tied_embeddings", false}, {"norm", "rms"},        {"position", "rotary"}};
}

void windows_from_layer_types(Config& c, Value& model, std::int64_t layers, std::int64_t window, const char* window_member, std::int64_t default_global_every) {
  const Value& types = c.raw({"layer_types"});
  std::int64_t every = default_global_every;
  if (types.is_array()) {
    std::int64_t first_global = 0;
    const auto is_global = [](const Value& v) { return v == Value("full_attention"); };
    for (const Value& v : types.items()) {
      if (!is_global(v) && v != Value("sliding_attention") && v != Value("chunked_attention")) {
        return c.refuse("layer_types", fmt::format("the layer type {} is none of full_attention, sliding_attention, chunked_attention", found(v)));
      }
      if (first_global == 0 && is_global(v)) first_global = &v - types.items().data() + 1;
    }
    if (static_cast<std::int64_t>(types.items().size()) != layers) return c.refuse("layer_types", fmt::format("{} entries, but the model has {} layers", types.items().size(), layers));
    every = first_global;  // 0: none is global
    for (std::int64_t i = 0; i < layers; ++i) {
      const bool global = every > 0 && (i + 1) % every == 0;
      if (global != is_global(types.items()[static_cast<std::size_t>(i)])) return c.refuse("layer_types", fmt::format("layer {} breaks the pattern of one global layer in {}", i, every));
    }
  }
  if (every == 1) return;
  model.set(window_member, window);
  if (every > 0) model.set("global_every", every);
}

namespace {

void set_ties(Config& c, Value& model, bool otherwise) { model.set("tied_embeddings", c.flag({"tie_word_embeddings"}, otherwise)); }

void rotate_part(Config& c, Value& model, double otherwise) {
  const double share = c.number({"partial_rotary_factor", "rotary_pct", "rope_pct"}, otherwise);
  const std::int64_t dim = model.at("head_dim").as_int();
  const auto part = static_cast<std::int64_t>(share * static_cast<double>(dim));  // int(), as the classes cut it
  if (part < 1 || part > dim) return c.refuse("partial_rotary_factor", fmt::format("{} is no share of a head", share));
  if (part < dim) model.set("rotary_dim", part);
}

/// Experts in every n-th layer but those of a list, as Qwen's classes choose them.
void set_sparse_layers(Config& c, Value& moe) {
  const std::int64_t step = c.size({"decoder_sparse_step"}, 1);
  moe.set("every", step);
  const Value& dense = c.raw({"mlp_only_layers"});
  if (!dense.is_array() || dense.items().empty()) return;
  for (std::size_t i = 0; i < dense.items().size(); ++i) {
    if (step != 1 || dense.items()[i] != Value(static_cast<std::int64_t>(i))) return c.refuse("mlp_only_layers", "only leading layers can be without experts, and then every other one has them");
  }
  moe.set("dense_layers", static_cast<std::int64_t>(dense.items().size()));
}

/// A window that holds for every layer, or none.
void set_window(Config& c, Value& model, std::optional<std::int64_t> otherwise) {
  const std::optional<std::int64_t> window = c.states("sliding_window") ? c.maybe_size({"sliding_window"}) : otherwise;
  if (window) model.set("sliding_window", *window);
}

/// Qwen's windows begin at layer max_window_layers, and are off in every published model.
void expect_no_window(Config& c, std::int64_t layers) {
  const bool used = c.flag({"use_sliding_window"}, false);
  c.ignore({"sliding_window"});
  if (used && c.size({"max_window_layers"}, 28, 0) < layers) c.refuse("use_sliding_window", "windows in the last layers only are no pattern of orrery/model/1");
  c.ignore({"max_window_layers"});
}

}  // namespace

Value llama(Config& c) {
  Value m = model_of(sizes(c, {32, 4096, 11008, 32, 0, 0, 32000}));
  m.set("activation", c.activation({"hidden_act"}, "silu"));
  set_ties(c, m, false);
  const bool attention_bias = c.flag({"attention_bias"}, false);  // of all four projections (modeling_llama.py)
  m.set("qkv_bias", attention_bias);
  m.set("attention_out_bias", attention_bias);
  m.set("mlp_bias", c.flag({"mlp_bias"}, false));
  return m;
}

Value mistral(Config& c) {
  Value m = model_of(sizes(c, {32, 4096, 14336, 32, 8, 0, 32000}));
  m.set("activation", c.activation({"hidden_act"}, "silu"));
  set_ties(c, m, false);
  set_window(c, m, 4096);
  return m;
}

Value mixtral(Config& c) {
  Sizes s = sizes(c, {32, 4096, 14336, 32, 8, 0, 32000});
  Value m = model_of(s);
  m.set("activation", c.activation({"hidden_act"}, "silu"));
  set_ties(c, m, false);
  set_window(c, m, std::nullopt);
  m.set("moe", Value::Object{{"experts", c.size({"num_local_experts"}, 8)}, {"experts_per_token", c.size({"num_experts_per_tok"}, 2)}, {"expert_ffn", s.ffn}});
  return m;
}

Value qwen2(Config& c) {
  const Sizes s = sizes(c, {32, 4096, 22016, 32, 32, 0, 151936});
  Value m = model_of(s);
  m.set("activation", c.activation({"hidden_act"}, "silu"));
  set_ties(c, m, false);
  m.set("qkv_bias", true);  // modeling_qwen2.py: always
  c.ignore({"layer_types"});
  expect_no_window(c, s.layers);
  return m;
}

Value qwen2_moe(Config& c) {
  const Sizes s = sizes(c, {24, 2048, 5632, 16, 16, 0, 151936});
  Value m = model_of(s);
  m.set("activation", c.activation({"hidden_act"}, "silu"));
  set_ties(c, m, false);
  m.set("qkv_bias", c.flag({"qkv_bias"}, true));
  expect_no_window(c, s.layers);
  Value moe = Value::Object{{"experts", c.size({"num_experts"}, 60)},
                            {"experts_per_token", c.size({"num_experts_per_tok"}, 4)},
                            {"expert_ffn", c.size({"moe_intermediate_size"}, 1408)},
                            {"shared_experts", 1},
                            {"shared_ffn", c.size({"shared_expert_intermediate_size"}, 5632)},
                            {"shared_gate", true}};
  c.ignore({"norm_topk_prob"});
  set_sparse_layers(c, moe);
  m.set("moe", std::move(moe));
  return m;
}

Value qwen3(Config& c) {
  const Sizes s = sizes(c, {32, 4096, 22016, 32, 32, 128, 151936});
  Value m = model_of(s);
  m.set("activation", c.activation({"hidden_act"}, "silu"));
  set_ties(c, m, false);
  m.set("qk_norm", true);
  const bool bias = c.flag({"attention_bias"}, false);
  m.set("qkv_bias", bias);
  m.set("attention_out_bias", bias);
  c.ignore({"layer_types"});
  expect_no_window(c, s.layers);
  return m;
}

Value qwen3_moe(Config& c) {
  const Sizes s = sizes(c, {24, 2048, 6144, 32, 4, 0, 151936});
  Value m = model_of(s);
  m.set("activation", c.activation({"hidden_act"}, "silu"));
  set_ties(c, m, false);
  m.set("qk_norm", true);
  const bool bias = c.flag({"attention_bias"}, false);
  m.set("qkv_bias", bias);
  m.set("attention_out_bias", bias);
  expect_no_window(c, s.layers);
  Value moe = Value::Object{{"experts", c.size({"num_experts"}, 128)}, {"experts_per_token", c.size({"num_experts_per_tok"}, 8)}, {"expert_ffn", c.size({"moe_intermediate_size"}, 768)}};
  c.ignore({"norm_topk_prob"});
  set_sparse_layers(c, moe);
  m.set("moe", std::move(moe));
  return m;
}

Value phi3(Config& c) {
  Value m = model_of(sizes(c, {32, 3072, 8192, 32, 0, 0, 32064}));
  m.set("activation", c.activation({"hidden_act"}, "silu"));
  set_ties(c, m, false);
  rotate_part(c, m, 1);
  expect_no_window(c, 0);
  // transformers attends through it; where it reaches past the context it never binds.
  const std::optional<std::int64_t> window = c.maybe_size({"sliding_window"});
  const std::int64_t context = c.size({"max_position_embeddings"}, 4096);
  if (window && *window < context) m.set("sliding_window", *window);
  const bool bias = c.flag({"attention_bias"}, false);
  m.set("qkv_bias", bias);
  m.set("attention_out_bias", bias);
  c.expect_off("mlp_bias", "Phi3ForCausalLM has no biases in its MLP");
  c.ignore({"full_attn_mod", "interpolate_factor", "lm_head_bias"});
  return m;
}

Value olmo(Config& c) {
  Value m = llama(c);
  // defaults of OlmoConfig that differ from Llama's are the vocabulary alone
  if (!c.states("vocab_size")) m.set("vocab", 50304);
  m.set("norm", "layer");
  m.set("norm_weight", false);  // OlmoLayerNorm: F.layer_norm without weight and bias
  if (c.maybe_number({"clip_qkv"})) c.warn("clip_qkv", "clamps queries, keys and values: three small kernels that are not counted");
  return m;
}

Value olmo2(Config& c) {
  Value m = llama(c);
  if (!c.states("vocab_size")) m.set("vocab", 50304);
  m.set("pre_norms", false);
  m.set("post_norms", true);
  m.set("qk_norm", "full");
  return m;
}

Value olmo3(Config& c) {
  Value m = olmo2(c);
  windows_from_layer_types(c, m, m.at("layers").as_int(), c.size({"sliding_window"}, 4096), "sliding_window", 4);
  return m;
}

Value olmoe(Config& c) {
  const Sizes s = sizes(c, {16, 2048, 2048, 16, 0, 0, 50304});
  Value m = model_of(s);
  m.set("activation", c.activation({"hidden_act"}, "silu"));
  set_ties(c, m, false);
  m.set("qk_norm", "full");
  const bool bias = c.flag({"attention_bias"}, false);
  m.set("qkv_bias", bias);
  m.set("attention_out_bias", bias);
  if (c.maybe_number({"clip_qkv"})) c.warn("clip_qkv", "clamps queries, keys and values: three small kernels that are not counted");
  m.set("moe", Value::Object{{"experts", c.size({"num_experts"}, 64)}, {"experts_per_token", c.size({"num_experts_per_tok"}, 8)}, {"expert_ffn", s.ffn}});
  c.ignore({"norm_topk_prob"});
  return m;
}

Value granite(Config& c) {
  Value m = llama(c);
  m.set("embedding_scale", c.number({"embedding_multiplier"}, 1) != 1);
  m.set("logit_scale", c.number({"logits_scaling"}, 1) != 1);
  c.ignore({"attention_multiplier"});  // the scale of the scores, which attention has anyway
  if (c.number({"residual_multiplier"}, 1) != 1) c.warn("residual_multiplier", "multiplies what each branch adds: one small kernel a branch that is not counted");
  return m;
}

Value starcoder2(Config& c) {
  Value m = model_of(sizes(c, {30, 3072, 12288, 24, 2, 0, 49152}));
  m.set("gated_mlp", false);
  m.set("activation", c.activation({"hidden_act"}, "gelu_pytorch_tanh"));
  set_ties(c, m, true);
  m.set("norm", "layer");
  m.set("norm_bias", true);
  m.set("linear_bias", c.flag({"use_bias"}, true));
  if (c.text({"mlp_type"}, "default") != "default") c.refuse("mlp_type", "only the default MLP of StarCoder2 is known");
  if (c.text({"norm_type"}, "layer_norm") != "layer_norm") c.refuse("norm_type", "only layer_norm is known");
  c.ignore({"norm_epsilon", "layer_types"});
  set_window(c, m, std::nullopt);
  return m;
}

Value stablelm(Config& c) {
  Value m = model_of(sizes(c, {32, 2560, 6912, 32, 32, 0, 50304}));
  m.set("activation", c.activation({"hidden_act"}, "silu"));
  set_ties(c, m, false);
  m.set("norm", "layer");
  m.set("norm_bias", true);
  m.set("qkv_bias", c.flag({"use_qkv_bias"}, false));
  if (c.flag({"qk_layernorm"}, false)) m.set("qk_norm", "each_head");
  if (c.flag({"use_parallel_residual"}, false)) m.set("parallel_block", "one_norm");
  rotate_part(c, m, 0.25);
  return m;
}

Value nemotron(Config& c) {
  Value m = model_of(sizes(c, {32, 6144, 24576, 48, 0, 0, 256000}));
  m.set("gated_mlp", false);
  m.set("activation", c.activation({"hidden_act"}, "relu2"));
  set_ties(c, m, false);
  m.set("norm", "layer");  // LayerNorm with its weight stored less one
  m.set("norm_bias", true);
  const bool bias = c.flag({"attention_bias"}, false);
  m.set("qkv_bias", bias);
  m.set("attention_out_bias", bias);
  m.set("mlp_bias", c.flag({"mlp_bias"}, false));
  rotate_part(c, m, 0.5);
  return m;
}

Value smollm3(Config& c) {
  const Sizes s = sizes(c, {36, 2048, 11008, 16, 4, 0, 128256});
  Value m = model_of(s);
  m.set("activation", c.activation({"hidden_act"}, "silu"));
  set_ties(c, m, true);
  const bool bias = c.flag({"attention_bias"}, false);
  m.set("qkv_bias", bias);
  m.set("attention_out_bias", bias);
  m.set("mlp_bias", c.flag({"mlp_bias"}, false));
  expect_no_window(c, 0);
  if (c.flag({"use_sliding_window"}, false)) c.refuse("use_sliding_window", "windows of SmolLM3 are not known");
  const std::int64_t every = c.size({"no_rope_layer_interval"}, 4);
  const Value& layers = c.raw({"no_rope_layers"});  // 1: rotary, 0: none
  if (layers.is_array()) {
    for (std::size_t i = 0; i < layers.items().size(); ++i) {
      if ((layers.items()[i] == Value(0)) != ((static_cast<std::int64_t>(i) + 1) % every == 0)) {
        c.refuse("no_rope_layers", fmt::format("layer {} breaks the pattern of one layer in {} without positions", i, every));
        break;
      }
    }
  }
  m.set("nope_every", every);
  c.ignore({"layer_types"});
  return m;
}

Value internlm2(Config& c) {
  Value m = model_of(sizes(c, {32, 4096, 11008, 32, 0, 0, 103168}));
  m.set("activation", c.activation({"hidden_act"}, "silu"));
  set_ties(c, m, false);
  const bool bias = c.flag({"bias"}, true);
  m.set("qkv_bias", bias);
  m.set("attention_out_bias", bias);
  return m;
}

}  // namespace orrery::document::hugging_face
