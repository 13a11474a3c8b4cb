// Classes that descend from GPT-2: LayerNorm, an MLP of one up-projection, as many key heads as query heads or one, biases here and there.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "document/check.hpp"
#include "architectures.hpp"

namespace orrery::document::hugging_face {
namespace {

/// LayerNorm with weight and bias, biases everywhere but the head, an MLP without a gate.
Value gpt_model(const Sizes& s, const char* position) {
  Value m = model_of(s);
  m.set("gated_mlp", false);
  m.set("norm", "layer");
  m.set("norm_bias", true);
  m.set("linear_bias", true);
  m.set("position", position);
  return m;
}

std::int64_t head_dim(std::int64_t hidden, std::int64_t heads) { return std::max<std::int64_t>(1, hidden / heads); }

Sizes gpt2_sizes(Config& c) {
  Sizes s;
  s.vocab = c.size({"vocab_size"}, 50257);
  s.hidden = c.size({"n_embd", "hidden_size"}, 768);
  s.layers = c.size({"n_layer", "num_hidden_layers"}, 12);
  s.heads = s.kv_heads = c.size({"n_head", "num_attention_heads"}, 12);
  s.ffn = c.size({"n_inner"}, 4 * s.hidden);
  s.head_dim = head_dim(s.hidden, s.heads);
  return s;
}

void set_rotary(Config& c, Value& m, double share) {
  const auto part = static_cast<std::int64_t>(share * m.at("head_dim").as_double());  // int(), as the classes cut it
  if (part < 1 || part > m.at("head_dim").as_int()) return c.refuse("rotary_pct", fmt::format("{} is no share of a head", share));
  if (part < m.at("head_dim").as_int()) m.set("rotary_dim", part);
}

}  // namespace

Value gpt2(Config& c) {
  Value m = gpt_model(gpt2_sizes(c), "learned");
  m.set("activation", c.activation({"activation_function"}, "gelu_new"));
  m.set("max_positions", c.size({"n_positions", "max_position_embeddings"}, 1024));
  m.set("tied_embeddings", c.flag({"tie_word_embeddings"}, true));
  c.expect_off("add_cross_attention", "cross attention makes this half of an encoder-decoder, which GPT2LMHeadModel alone is not");
  return m;
}

Value gpt_bigcode(Config& c) {
  Sizes s = gpt2_sizes(c);
  if (c.flag({"multi_query"}, true)) s.kv_heads = 1;
  Value m = gpt_model(s, "learned");
  m.set("activation", c.activation({"activation_function"}, "gelu_pytorch_tanh"));
  m.set("max_positions", c.size({"n_positions"}, 1024));
  m.set("tied_embeddings", c.flag({"tie_word_embeddings"}, true));
  c.ignore({"attention_softmax_in_fp32", "inference_runner", "validate_runner_input", "pre_allocate_kv_cache", "max_sequence_length", "max_batch_size", "pad_key_length"});
  return m;
}

Value gpt_neox(Config& c) {
  Value m = gpt_model(sizes(c, {44, 6144, 24576, 64, 0, 0, 50432}), "rotary");
  m.set("activation", c.activation({"hidden_act"}, "gelu"));
  m.set("tied_embeddings", c.flag({"tie_word_embeddings"}, false));
  if (c.flag({"use_parallel_residual"}, true)) m.set("parallel_block", "two_norms");
  if (!c.flag({"attention_bias"}, true)) {
    m.set("linear_bias", false);
    m.set("mlp_bias", true);
  }
  set_rotary(c, m, c.number({"rotary_pct", "partial_rotary_factor"}, 0.25));
  return m;
}

Value gptj(Config& c) {
  Sizes s;
  s.vocab = c.size({"vocab_size"}, 50400);
  s.hidden = c.size({"n_embd", "hidden_size"}, 4096);
  s.layers = c.size({"n_layer", "num_hidden_layers"}, 28);
  s.heads = s.kv_heads = c.size({"n_head", "num_attention_heads"}, 16);
  s.ffn = c.size({"n_inner"}, 4 * s.hidden);
  s.head_dim = head_dim(s.hidden, s.heads);
  Value m = gpt_model(s, "rotary");
  m.set("activation", c.activation({"activation_function"}, "gelu_new"));
  m.set("tied_embeddings", c.flag({"tie_word_embeddings"}, false));
  m.set("parallel_block", "one_norm");
  m.set("linear_bias", false);
  m.set("mlp_bias", true);
  m.set("head_bias", true);
  const std::int64_t rotated = c.size({"rotary_dim"}, 64);
  if (rotated < s.head_dim) m.set("rotary_dim", rotated);
  c.ignore({"n_positions", "rotary"});
  return m;
}

Value phi(Config& c) {
  Value m = gpt_model(sizes(c, {24, 2048, 8192, 32, 0, 0, 51200}), "rotary");
  m.set("activation", c.activation({"hidden_act"}, "gelu_new"));
  m.set("tied_embeddings", c.flag({"tie_word_embeddings"}, false));
  m.set("parallel_block", "one_norm");
  m.set("head_bias", true);
  set_rotary(c, m, c.number({"partial_rotary_factor"}, 0.5));
  c.expect_off("qk_layernorm", "norms of queries and keys with biases are not known");
  return m;
}

Value bloom(Config& c) {
  Sizes s;
  s.vocab = c.size({"vocab_size"}, 250880);
  s.hidden = c.size({"hidden_size", "n_embed"}, 64);
  s.layers = c.size({"n_layer", "num_hidden_layers"}, 2);
  s.heads = s.kv_heads = c.size({"n_head", "num_attention_heads"}, 8);
  s.ffn = 4 * s.hidden;
  s.head_dim = head_dim(s.hidden, s.heads);
  Value m = gpt_model(s, "alibi");
  m.set("activation", "gelu");
  m.set("embedding_norm", true);
  m.set("tied_embeddings", c.flag({"tie_word_embeddings"}, true));
  if (const Value& inner = c.raw({"n_inner"}); !inner.is_null() && inner != Value(s.ffn)) c.refuse("n_inner", "BloomForCausalLM's MLP is four times as wide as its stream; use null");
  c.expect_off("apply_residual_connection_post_layernorm", "a residual stream that is normalised itself is not known");
  c.ignore({"offset_alibi"});
  return m;
}

Value opt(Config& c) {
  Sizes s;
  s.vocab = c.size({"vocab_size"}, 50272);
  s.hidden = c.size({"hidden_size"}, 768);
  s.layers = c.size({"num_hidden_layers"}, 12);
  s.heads = s.kv_heads = c.size({"num_attention_heads"}, 12);
  s.ffn = c.size({"ffn_dim"}, 3072);
  s.head_dim = head_dim(s.hidden, s.heads);
  Value m = gpt_model(s, "learned");
  m.set("activation", c.activation({"activation_function"}, "relu"));
  m.set("tied_embeddings", c.flag({"tie_word_embeddings"}, true));
  m.set("linear_bias", c.flag({"enable_bias"}, true));
  const bool affine = c.flag({"layer_norm_elementwise_affine"}, true);
  m.set("norm_weight", affine);
  m.set("norm_bias", affine);
  m.set("max_positions", c.size({"max_position_embeddings"}, 2048) + 2);  // OPTLearnedPositionalEmbedding.offset
  if (!c.flag({"do_layer_norm_before"}, true)) c.refuse("do_layer_norm_before", "norms of the residual stream itself (OPT-350m) are not known");
  if (c.size({"word_embed_proj_dim"}, s.hidden) != s.hidden) c.refuse("word_embed_proj_dim", "an embedding narrower than the stream (OPT-350m) is not known");
  c.ignore({"_remove_final_layer_norm"});
  return m;
}

/// Both Mosaic's own class and transformers'.
Value mpt(Config& c) {
  Sizes s;
  s.vocab = c.size({"vocab_size"}, 50368);
  s.hidden = c.size({"d_model", "hidden_size"}, 2048);
  s.layers = c.size({"n_layers", "num_hidden_layers"}, 24);
  s.heads = c.size({"n_heads", "num_attention_heads"}, 16);
  s.ffn = c.size({"expansion_ratio"}, 4) * s.hidden;
  s.head_dim = head_dim(s.hidden, s.heads);
  Config a = c.inside("attn_config");
  const std::string type = a.text({"attn_type"}, "multihead_attention");
  s.kv_heads = type == "multiquery_attention" ? 1 : a.size({"kv_n_heads"}, s.heads);
  const bool rope = a.flag({"rope"}, false);
  const bool alibi = a.flag({"alibi"}, true);
  Value m = gpt_model(s, rope ? "rotary" : alibi ? "alibi" : "learned");
  if (!rope && !alibi) m.set("max_positions", c.size({"max_seq_len"}, 2048));
  m.set("activation", "gelu");
  m.set("tied_embeddings", c.flag({"tie_word_embeddings"}, true));
  const bool bias = !c.flag({"no_bias"}, true);
  m.set("norm_bias", bias);
  m.set("linear_bias", bias);
  if (c.text({"norm_type"}, "low_precision_layernorm").find("rms") != std::string::npos) m.set("norm", "rms");
  if (a.flag({"qk_ln"}, false)) m.set("qk_norm", "full");
  if (a.maybe_number({"clip_qkv"})) a.warn("clip_qkv", "clamps queries, keys and values: three small kernels that are not counted");
  a.expect_off("prefix_lm", "a prefix that is attended in both directions is not known");
  a.ignore({"attn_impl", "attn_pdrop", "softmax_scale", "alibi_bias_max", "attn_uses_sequence_id", "rope_theta", "rope_impl", "rope_dail_config", "rope_hf_config"});
  a.warn_unread();
  c.ignore({"learned_pos_emb", "logit_scale", "fc_type", "ffn_config", "use_pad_tok_in_ffn", "embedding_fraction", "embed_fraction"});
  return m;
}

Value falcon(Config& c) {
  Sizes s;
  s.vocab = c.size({"vocab_size"}, 65024);
  s.hidden = c.size({"hidden_size", "n_embed"}, 4544);
  s.layers = c.size({"num_hidden_layers", "n_layer"}, 32);
  s.heads = c.size({"num_attention_heads", "n_head"}, 71);
  s.ffn = c.size({"ffn_hidden_size"}, 4 * s.hidden);
  s.head_dim = head_dim(s.hidden, s.heads);
  const bool new_decoder = c.flag({"new_decoder_architecture"}, false);
  const bool multi_query = c.flag({"multi_query"}, true);
  const std::int64_t grouped = c.size({"num_kv_heads", "n_head_kv"}, s.heads);
  s.kv_heads = new_decoder ? grouped : multi_query ? 1 : s.heads;  // modeling_falcon.py FalconAttention
  const bool alibi = c.flag({"alibi"}, false);
  Value m = gpt_model(s, alibi ? "alibi" : "rotary");
  m.set("activation", c.activation({"activation"}, "gelu"));
  m.set("tied_embeddings", c.flag({"tie_word_embeddings"}, true));
  m.set("linear_bias", c.flag({"bias"}, false));
  const bool parallel = new_decoder || c.flag({"parallel_attn"}, true);
  const std::int64_t norms = c.size({"num_ln_in_parallel_attn"}, new_decoder ? 2 : 1);
  if (parallel) m.set("parallel_block", norms == 2 ? "two_norms" : "one_norm");
  c.ignore({"parallel_attn"});
  c.expect_off("apply_residual_connection_post_layernorm", "a residual stream that is normalised itself is not known");
  return m;
}

}  // namespace orrery::document::hugging_face
