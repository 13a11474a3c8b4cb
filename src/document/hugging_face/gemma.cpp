// Google's Gemma (norms around both branches, local layers, caps) and Cohere's Command (one LayerNorm before parallel branches, scaled logits).
#include "architectures.hpp"

namespace orrery::document::hugging_face {
namespace {

void set_bias(Config& c, Value& m) {
  const bool bias = c.flag({"attention_bias"}, false);
  m.set("qkv_bias", bias);
  m.set("attention_out_bias", bias);
}

Value gemma_model(Config& c, const Sizes& s) {
  Value m = model_of(s);
  // hidden_act of the first release is a mistake that the class overrides by hidden_activation.
  m.set("activation", c.activation({"hidden_activation", "hidden_act"}, "gelu_pytorch_tanh"));
  m.set("tied_embeddings", c.flag({"tie_word_embeddings"}, true));
  m.set("embedding_scale", true);  // by the root of the width
  set_bias(c, m);
  c.expect_off("use_bidirectional_attention", "attention in both directions is not known for Gemma");
  return m;
}

void set_cap(Config& c, Value& m, const char* name, const char* member, std::optional<double> otherwise) {
  const std::optional<double> cap = c.states(name) ? c.maybe_number({name}) : otherwise;
  if (cap) m.set(member, *cap);
}

}  // namespace

Value gemma(Config& c) { return gemma_model(c, sizes(c, {28, 3072, 24576, 16, 16, 256, 256000})); }

Value gemma2(Config& c) {
  const Sizes s = sizes(c, {26, 2304, 9216, 8, 4, 256, 256000});
  Value m = gemma_model(c, s);
  m.set("post_norms", true);
  windows_from_layer_types(c, m, s.layers, c.size({"sliding_window"}, 4096), "sliding_window", 2);
  set_cap(c, m, "attn_logit_softcapping", "attn_softcap", 50.0);
  set_cap(c, m, "final_logit_softcapping", "final_softcap", 30.0);
  c.ignore({"query_pre_attn_scalar"});
  return m;
}

Value gemma3(Config& c) {
  const Sizes s = sizes(c, {26, 2304, 9216, 8, 4, 256, 262208});
  Value m = gemma_model(c, s);
  m.set("post_norms", true);
  m.set("qk_norm", true);
  const std::int64_t every = c.size({"sliding_window_pattern", "_sliding_window_pattern"}, 6);
  windows_from_layer_types(c, m, s.layers, c.size({"sliding_window"}, 4096), "sliding_window", every);
  set_cap(c, m, "attn_logit_softcapping", "attn_softcap", std::nullopt);
  set_cap(c, m, "final_logit_softcapping", "final_softcap", std::nullopt);
  c.ignore({"query_pre_attn_scalar"});
  return m;
}

namespace {

Value cohere_model(Config& c, const Sizes& s) {
  Value m = model_of(s);
  m.set("activation", c.activation({"hidden_act"}, "silu"));
  m.set("tied_embeddings", c.flag({"tie_word_embeddings"}, true));
  m.set("norm", "layer");  // CohereLayerNorm: a weight and no bias
  m.set("parallel_block", "one_norm");
  m.set("logit_scale", c.number({"logit_scale"}, 0.0625) != 1);
  set_bias(c, m);
  return m;
}

}  // namespace

Value cohere(Config& c) {
  Value m = cohere_model(c, sizes(c, {40, 8192, 22528, 64, 0, 0, 256000}));
  if (c.flag({"use_qk_norm"}, false)) m.set("qk_norm", "each_head");
  return m;
}

Value cohere2(Config& c) {
  const Sizes s = sizes(c, {40, 8192, 22528, 64, 0, 0, 256000});
  Value m = cohere_model(c, s);
  const std::int64_t every = c.size({"sliding_window_pattern", "_sliding_window_pattern"}, 4);
  windows_from_layer_types(c, m, s.layers, c.size({"sliding_window"}, 4096), "sliding_window", every);
  if (!m.at("global_every").is_null()) m.set("nope_every", m.at("global_every"));  // global layers have no positions
  c.ignore({"order_of_interleaved_layers", "rotary_pct", "position_embedding_type", "use_embedding_sharing", "use_gated_activation", "use_parallel_block", "use_parallel_embedding"});
  c.expect_off("use_qk_norm", "norms of queries and keys are not known for Cohere2");
  return m;
}

}  // namespace orrery::document::hugging_face
