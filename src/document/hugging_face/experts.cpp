// Classes with experts that are no variant of Llama's layer: DeepSeek's latent attention, gpt-oss, Llama 4, DBRX.
#include <fmt/format.h>

#include "document/check.hpp"
#include "architectures.hpp"

namespace orrery::document::hugging_face {
namespace {

void set_bias(Config& c, Value& m, bool otherwise) {
  const bool bias = c.flag({"attention_bias"}, otherwise);
  m.set("qkv_bias", bias);
  m.set("attention_out_bias", bias);
}

/// What DeepSeek's two classes share.
Value deepseek(Config& c, const Sizes& d, std::int64_t q_rank, std::int64_t experts, std::int64_t expert_ffn, std::int64_t shared, std::int64_t per_token, std::int64_t dense) {
  Sizes s = sizes(c, d);
  const std::int64_t nope = c.size({"qk_nope_head_dim"}, 128), rope = c.size({"qk_rope_head_dim"}, 64), value = c.size({"v_head_dim"}, 128);
  s.head_dim = nope + rope;
  s.kv_heads = s.heads;  // every head has keys and values of its own, made from the latent
  c.ignore({"head_dim", "qk_head_dim"});
  Value m = model_of(s);
  m.set("activation", c.activation({"hidden_act"}, "silu"));
  m.set("tied_embeddings", c.flag({"tie_word_embeddings"}, false));
  c.expect_off("attention_bias", "biases of latent attention are not known");
  const std::optional<std::int64_t> rank = c.states("q_lora_rank") ? c.maybe_size({"q_lora_rank"}) : std::optional(q_rank);
  Value mla = Value::Object{{"kv_lora_rank", c.size({"kv_lora_rank"}, 512)}, {"qk_nope_head_dim", nope}, {"qk_rope_head_dim", rope}, {"v_head_dim", value}};
  if (rank) mla.set("q_lora_rank", *rank);
  m.set("mla", std::move(mla));
  if (c.size({"moe_layer_freq"}, 1) != 1) c.refuse("moe_layer_freq", "experts in some of the later layers are not known for DeepSeek; use 1");
  const std::int64_t width = c.size({"moe_intermediate_size"}, expert_ffn);
  const std::int64_t shared_experts = c.size({"n_shared_experts"}, shared, 0);
  Value moe = Value::Object{{"experts", c.size({"n_routed_experts"}, experts)},
                            {"experts_per_token", c.size({"num_experts_per_tok"}, per_token)},
                            {"expert_ffn", width},
                            {"shared_experts", shared_experts},
                            {"dense_layers", c.size({"first_k_dense_replace"}, dense, 0)}};
  if (shared_experts > 0) moe.set("shared_ffn", shared_experts * width);
  const std::int64_t groups = c.size({"n_group"}, 1), visited = c.size({"topk_group"}, 1);
  if (groups > 1 && visited < groups) moe.set("group_limit", visited);
  m.set("moe", std::move(moe));
  c.ignore({"ep_size", "routed_scaling_factor", "norm_topk_prob", "scoring_func"});
  return m;
}

}  // namespace

Value deepseek_v2(Config& c) {
  Value m = deepseek(c, {30, 4096, 11008, 32, 32, 0, 102400}, 1536, 160, 1407, 2, 6, 0);
  c.ignore({"topk_method"});
  return m;
}

Value deepseek_v3(Config& c) {
  Value m = deepseek(c, {61, 7168, 18432, 128, 128, 0, 129280}, 1536, 256, 2048, 1, 8, 3);
  Value& moe = *m.find("moe");
  moe.set("router_bias", c.text({"topk_method"}, "noaux_tc") == "noaux_tc");
  // Kimi-K2 states no prediction layers, DeepSeek-V3 one; the class itself holds none.
  m.set("mtp_layers", c.size({"num_nextn_predict_layers"}, 0, 0));
  return m;
}

Value gpt_oss(Config& c) {
  const Sizes s = sizes(c, {36, 2880, 2880, 64, 8, 64, 201088});
  Value m = model_of(s);
  m.set("activation", c.activation({"hidden_act"}, "silu"));
  m.set("tied_embeddings", c.flag({"tie_word_embeddings"}, false));
  set_bias(c, m, true);
  m.set("mlp_bias", true);  // GptOssExperts: gate_up_proj_bias and down_proj_bias of every expert
  m.set("attention_sinks", true);
  windows_from_layer_types(c, m, s.layers, c.size({"sliding_window"}, 128), "sliding_window", 2);
  m.set("moe", Value::Object{{"experts", c.size({"num_local_experts"}, 128)},
                             {"experts_per_token", c.size({"num_experts_per_tok", "experts_per_token"}, 4)},
                             {"expert_ffn", s.ffn},
                             {"router_bias", true}});
  c.ignore({"swiglu_limit"});
  return m;
}

Value llama4(Config& c) {
  Sizes s = sizes(c, {48, 5120, 8192, 40, 8, 128, 202048});
  const std::int64_t expert = s.ffn;
  s.ffn = c.size({"intermediate_size_mlp"}, 16384);  // of layers without experts
  Value m = model_of(s);
  m.set("activation", c.activation({"hidden_act"}, "silu"));
  m.set("tied_embeddings", c.flag({"tie_word_embeddings"}, false));
  set_bias(c, m, false);
  if (c.flag({"use_qk_norm"}, true)) m.set("qk_norm", "unweighted");
  const std::int64_t every = c.size({"no_rope_layer_interval"}, 4);
  const Value& rope = c.raw({"no_rope_layers"});  // 1: rotary, 0: none; an empty list means every n-th
  if (rope.is_array()) {
    for (std::size_t i = 0; i < rope.items().size(); ++i) {
      if ((rope.items()[i] == Value(0)) != ((static_cast<std::int64_t>(i) + 1) % every == 0)) {
        c.refuse("no_rope_layers", fmt::format("layer {} breaks the pattern of one layer in {} without positions", i, every));
        break;
      }
    }
  }
  m.set("nope_every", every);
  // Layers with positions attend inside chunks, the others to all (modeling_llama4.py).
  windows_from_layer_types(c, m, s.layers, c.size({"attention_chunk_size"}, 8192), "attention_chunk", every);
  const std::int64_t step = c.size({"interleave_moe_layer_step"}, 1);
  const Value& layers = c.raw({"moe_layers"});
  if (layers.is_array()) {
    for (std::size_t i = 0; i < layers.items().size(); ++i) {
      if (layers.items()[i] != Value(static_cast<std::int64_t>(i + 1) * step - 1)) {
        c.refuse("moe_layers", fmt::format("the list breaks the pattern of experts in one layer in {}", step));
        break;
      }
    }
  }
  m.set("moe", Value::Object{{"experts", c.size({"num_local_experts"}, 16)}, {"experts_per_token", c.size({"num_experts_per_tok"}, 1)}, {"expert_ffn", expert},
                             {"shared_experts", 1}, {"shared_ffn", expert}, {"every", step}});
  c.ignore({"for_llm_compressor", "attn_temperature_tuning", "floor_scale", "attn_scale"});
  return m;
}

Value dbrx(Config& c) {
  Sizes s;
  s.vocab = c.size({"vocab_size"}, 32000);
  s.hidden = c.size({"d_model"}, 2048);
  s.layers = c.size({"n_layers"}, 24);
  s.heads = c.size({"n_heads"}, 16);
  Config a = c.inside("attn_config");
  s.kv_heads = a.size({"kv_n_heads"}, 1);
  if (a.maybe_number({"clip_qkv"})) a.warn("clip_qkv", "clamps queries, keys and values: three small kernels that are not counted");
  a.ignore({"attn_pdrop"});
  a.warn_unread();
  Config f = c.inside("ffn_config");
  s.ffn = f.size({"ffn_hidden_size"}, 3584);
  s.head_dim = std::max<std::int64_t>(1, s.hidden / s.heads);
  Value m = model_of(s);
  m.set("norm", "layer");  // nn.LayerNorm without bias
  m.set("tied_embeddings", c.flag({"tie_word_embeddings"}, false));
  m.set("moe", Value::Object{{"experts", f.size({"moe_num_experts"}, 4)}, {"experts_per_token", f.size({"moe_top_k"}, 1)}, {"expert_ffn", s.ffn}});
  f.ignore({"ffn_act_fn", "moe_jitter_eps", "moe_loss_weight", "moe_normalize_expert_weights", "uniform_expert_assignment", "ffn_hidden_act"});
  f.warn_unread();
  return m;
}

}  // namespace orrery::document::hugging_face
