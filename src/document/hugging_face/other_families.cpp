// Classes that are no decoders: BERT and RoBERTa, T5, ViT, Mamba-2 and Nemotron-H.
#include <fmt/format.h>

#include "document/check.hpp"
#include "architectures.hpp"

namespace orrery::document::hugging_face {
namespace {

/// Sizes of blocks under BERT's names, which ViT has too; defaults of the base models.
Value blocks(Config& c, const char* family) {
  return Value::Object{{"family", family},
                       {"layers", c.size({"num_hidden_layers"}, 12)},
                       {"hidden", c.size({"hidden_size"}, 768)},
                       {"ffn_hidden", c.size({"intermediate_size"}, 3072)},
                       {"heads", c.size({"num_attention_heads"}, 12)},
                       {"activation", c.activation({"hidden_act"}, "gelu")}};
}

struct BertDefaults {
  std::int64_t vocab, positions, token_types;
};

Value bert_model(Config& c, const BertDefaults& d, bool pooler, bool masked_lm, bool next_sentence) {
  Value m = blocks(c, "encoder");
  m.set("norm_place", "post");
  m.set("vocab", c.size({"vocab_size"}, d.vocab));
  m.set("max_positions", c.size({"max_position_embeddings"}, d.positions));
  m.set("token_types", c.size({"type_vocab_size"}, d.token_types, 0));
  m.set("pooler", pooler);
  m.set("masked_lm", masked_lm);
  m.set("next_sentence", next_sentence);
  if (const std::string position = c.text({"position_embedding_type"}, "absolute"); position != "absolute") {
    c.refuse("position_embedding_type", fmt::format("{} positions have a table in every layer, which orrery/model/1 does not have", position));
  }
  if (masked_lm && !c.flag({"tie_word_embeddings"}, true)) c.refuse("tie_word_embeddings", "the matrix of the masked-token head is the word table; use true");
  c.expect_off("is_decoder", "a decoder with BERT's blocks is not known");
  c.expect_off("add_cross_attention", "cross attention makes this half of an encoder-decoder");
  c.ignore({"classifier_dropout", "directionality", "gradient_checkpointing", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"});
  return m;
}

constexpr BertDefaults kBert{30522, 512, 2};

}  // namespace

Value bert_pretraining(Config& c) { return bert_model(c, kBert, true, true, true); }
Value bert_masked_lm(Config& c) { return bert_model(c, kBert, false, true, false); }

/// Two rows of the position table stand before the first token (modeling_roberta.py create_position_ids_from_input_ids).
Value roberta(Config& c) { return bert_model(c, {50265, 512, 2}, false, true, false); }

Value t5(Config& c) {
  const std::string projection = c.text({"feed_forward_proj"}, "relu");
  const bool gated = projection.starts_with("gated-");
  const std::int64_t layers = c.size({"num_layers"}, 6);
  Value m = Value::Object{{"family", "encoder_decoder"},
                          {"encoder_layers", layers},
                          {"decoder_layers", c.size({"num_decoder_layers"}, layers)},
                          {"hidden", c.size({"d_model", "hidden_size"}, 512)},
                          {"ffn_hidden", c.size({"d_ff"}, 2048)},
                          {"gated_mlp", gated},
                          {"heads", c.size({"num_heads"}, 8)},
                          {"head_dim", c.size({"d_kv"}, 64)},
                          {"vocab", c.size({"vocab_size"}, 32128)},
                          {"tied_embeddings", c.flag({"tie_word_embeddings"}, true)},
                          {"target_length", 114},
                          {"relative_buckets", c.size({"relative_attention_num_buckets"}, 32)}};
  const std::string act = gated ? projection.substr(6) : projection;
  if (act == "relu" || act == "gelu" || act == "gelu_new" || act == "silu") m.set("activation", act == "gelu_new" ? "gelu" : act);
  else c.refuse("feed_forward_proj", fmt::format("the activation {} is not known; known are relu, gelu, silu and their gated forms", found(Value(act))));
  // arXiv:1910.10683, section 3.1.4: what spans of 3 over 15 % of 512 tokens leave.
  c.warn("architectures", "a config.json does not say how long targets are; taken as 114 tokens, those of T5's pre-training (target_length of orrery/model/1)");
  c.ignore({"n_positions", "relative_attention_max_distance", "dropout_rate", "dense_act_fn", "is_gated_act", "output_past", "tokenizer_class", "classifier_dropout"});
  return m;
}

Value vit(Config& c) {
  Value m = blocks(c, "vision_transformer");
  m.set("image_size", c.size({"image_size"}, 224));
  m.set("patch_size", c.size({"patch_size"}, 16));
  m.set("channels", c.size({"num_channels"}, 3));
  const Value& labels = c.raw({"id2label"});
  m.set("classes", labels.is_object() ? static_cast<std::int64_t>(labels.members().size()) : c.size({"num_labels"}, 2));
  m.set("pool", "class_token");
  if (!c.flag({"qkv_bias"}, true)) c.refuse("qkv_bias", "blocks whose queries, keys and values alone lack a bias are not known; use true");
  c.ignore({"encoder_stride", "label2id", "pooler_output_size", "pooler_act", "num_labels"});
  return m;
}

namespace {

void mixers(Config& c, Value& m, std::int64_t state, std::int64_t groups, std::int64_t heads, std::int64_t head_dim, std::int64_t chunk) {
  m.set("state", c.size({"ssm_state_size", "state_size"}, state));
  m.set("ssm_head_dim", c.size({"mamba_head_dim", "head_dim"}, head_dim));
  m.set("ssm_heads", c.size({"mamba_num_heads", "num_heads"}, heads));
  m.set("groups", c.size({"n_groups"}, groups));
  m.set("convolution", c.size({"conv_kernel"}, 4));
  m.set("chunk", c.size({"chunk_size"}, chunk));
  c.expect_off("use_bias", "biases of a mixer's projections are not known");
  if (!c.flag({"use_conv_bias"}, true)) c.refuse("use_conv_bias", "a mixer's convolution without a bias is not known; use true");
  c.ignore({"time_step_rank", "time_step_min", "time_step_max", "time_step_floor", "time_step_limit", "time_step_init_scheme", "time_step_scale", "residual_in_fp32",
            "rescale_prenorm_residual", "norm_before_gate", "use_mamba_kernels", "expand", "intermediate_size"});
}

}  // namespace

Value mamba2(Config& c) {
  Value m = Value::Object{{"family", "state_space"},
                          {"layers", c.size({"num_hidden_layers", "n_layer"}, 64)},
                          {"hidden", c.size({"hidden_size", "d_model"}, 4096)},
                          {"vocab", c.size({"vocab_size"}, 32768)},
                          {"tied_embeddings", c.flag({"tie_word_embeddings"}, false)}};
  mixers(c, m, 128, 8, 128, 64, 256);
  const std::int64_t expand = c.size({"expand"}, 2), heads = m.at("ssm_heads").as_int(), head_dim = m.at("ssm_head_dim").as_int();
  const auto d = [](std::int64_t n) { return static_cast<double>(n); };  // hostile sizes have products beyond 64 bits
  if (d(expand) * m.at("hidden").as_double() != d(heads) * d(head_dim)) {
    c.refuse("num_heads", fmt::format("{} heads of {} are not the {} x hidden_size that a mixer is wide", heads, head_dim, expand));
  }
  if (!c.flag({"rms_norm"}, true)) c.refuse("rms_norm", "a mixer without its gated norm is not known; use true");
  c.activation({"hidden_act"}, "silu");
  return m;
}

Value nemotron_h(Config& c) {
  const std::string pattern = c.text({"hybrid_override_pattern"}, "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-");
  if (pattern.find('E') != std::string::npos) c.refuse("hybrid_override_pattern", "layers of experts (E) among state-space mixers are not known");
  Value m = Value::Object{{"family", "state_space"},
                          {"layers", c.size({"num_hidden_layers"}, 52)},
                          {"hidden", c.size({"hidden_size"}, 4096)},
                          {"vocab", c.size({"vocab_size"}, 131072)},
                          {"tied_embeddings", c.flag({"tie_word_embeddings"}, false)},
                          {"pattern", pattern},
                          {"heads", c.size({"num_attention_heads"}, 32)},
                          {"kv_heads", c.size({"num_key_value_heads"}, 8)},
                          {"head_dim", c.size({"attention_head_dim", "head_dim"}, 128)},
                          {"ffn_hidden", c.size({"intermediate_size"}, 21504)},
                          {"gated_mlp", false},
                          {"activation", c.activation({"mlp_hidden_act"}, "relu2")}};
  mixers(c, m, 128, 8, 128, 64, 256);
  c.expect_off("attention_bias", "biases of the attention layers are not known");
  c.expect_off("mlp_bias", "biases of the MLP layers are not known");
  c.expect_off("mamba_proj_bias", "biases of a mixer's projections are not known");
  c.ignore({"mamba_hidden_act", "mamba_ssm_cache_dtype", "num_logits_to_keep", "norm_eps", "sliding_window", "partial_rotary_factor", "rope_theta", "max_position_embeddings", "attention_dropout", "hidden_dropout",
            "moe_intermediate_size", "moe_shared_expert_intermediate_size", "n_group", "n_routed_experts", "n_shared_experts", "norm_topk_prob", "num_experts_per_tok", "routed_scaling_factor", "topk_group"});
  return m;
}

}  // namespace orrery::document::hugging_face
