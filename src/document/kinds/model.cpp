// orrery/model/1: the shape of a network, as its publisher states it (design 5.2).
#include "document/description.hpp"
#include "document/kinds/families.hpp"

namespace orrery::document {

const Type& model_type() {
  static const Type moe = object({
      member("experts", integer(1, 1 << 12), "routed experts of a layer").required(),
      member("experts_per_token", integer(1, 1 << 12), "routed experts that each token visits").required(),
      member("expert_ffn", integer(), "width of one expert").required(),
      member("shared_experts", integer(0, 1 << 20), "experts that every token visits").otherwise(0),
      member("shared_ffn", integer(), "sum of the shared experts' widths").otherwise_text("shared_experts x expert_ffn"),
      member("shared_gate", boolean(), "the shared experts' output is multiplied by a sigmoid of one score a token").otherwise(false),
      member("dense_layers", integer(0, 1 << 20), "leading layers without experts").otherwise(0),
      member("every", integer(1, 1 << 20), "every how many layers one has experts").otherwise(1),
      member("capacity_factor", positive(), "tokens an expert takes, over its balanced share; null: all that come"),
      member("group_limit", integer(1, 1 << 20), "device groups a token may be sent to; null: no limit"),
      member("router_bias", boolean(), "a score bias per expert, kept outside the loss").otherwise(false),
      member("load",
             either({choice({{"balanced"}, {"multinomial"}}),
                     just_one_of({member("zipf", number(0, 10), "exponent of a Zipf law over the experts"), member("histogram", array(number(), 1), "relative loads, one per expert")})}),
             "how tokens spread over the experts, per layer, the same for all groups")
          .otherwise("balanced"),
  });
  static const Type mla = object({
      member("q_lora_rank", integer(), "rank of the query compression; null: a plain query projection"),
      member("kv_lora_rank", integer(), "rank of the key-value compression").required(),
      member("qk_nope_head_dim", integer(), "head size without rotary position").required(),
      member("qk_rope_head_dim", integer(), "head size with rotary position").required(),
      member("v_head_dim", integer(), "head size of the values").required(),
  });
  static const std::vector<Member> transformer = document_members("model", true, with_sources({
      member("name", text(), "the publisher's name").otherwise(""),
      member("family", choice({{"transformer"}}), "how the layers are built").otherwise("transformer"),
      member("layers", integer(1, 1 << 20), "decoder layers").required(),
      member("hidden", integer(1, 1 << 24), "width of the residual stream").required(),
      member("ffn_hidden", integer(1, 1 << 26), "width of the MLP").required(),
      member("gated_mlp", boolean(), "two parallel up-projections, one gating the other").required(),
      member("activation", choice({{"silu"}, {"gelu"}, {"relu"}, {"relu2"}}), "of the MLP; relu2 is the square of relu").required(),
      member("heads", integer(1, 1 << 20), "query heads").required(),
      member("kv_heads", integer(1, 1 << 20), "key and value heads").otherwise_text("heads"),
      member("head_dim", integer(1, 1 << 20), "size of a head").otherwise_text("hidden / heads"),
      member("vocab", integer(1, 1 << 30), "tokens of the vocabulary").required(),
      member("tied_embeddings", boolean(), "the head is the embedding, transposed").required(),
      member("norm", choice({{"rms"}, {"layer"}}), "normalisation").required(),
      member("norm_weight", boolean(), "norms have a weight").otherwise(true),
      member("norm_bias", boolean(), "norms have a bias").otherwise(false),
      member("pre_norms", boolean(), "norms before attention and MLP").otherwise(true),
      member("post_norms", boolean(), "norms after attention and MLP").otherwise(false),
      member("qk_norm", either({boolean(), choice({{"each_head"}, {"full"}, {"unweighted"}})}),
             "queries and keys are normalised per head, with one weight for all heads (true), one per head (each_head) or none, after the rotation (unweighted); or over all heads (full)")
          .otherwise(false),
      member("parallel_block", choice({{"none"}, {"one_norm"}, {"two_norms"}}), "attention and MLP read the same stream, behind the same norm or one each").otherwise("none"),
      member("linear_bias", boolean(), "every linear layer but the head has a bias").otherwise(false),
      member("qkv_bias", boolean(), "the QKV projection has a bias").otherwise(false),
      member("attention_out_bias", boolean(), "the projection after attention has a bias").otherwise(false),
      member("mlp_bias", boolean(), "the MLP's projections have a bias").otherwise(false),
      member("head_bias", boolean(), "the head has a bias").otherwise(false),
      member("embedding_norm", boolean(), "a norm follows the embedding").otherwise(false),
      member("embedding_scale", boolean(), "the embedding is multiplied by a constant").otherwise(false),
      member("logit_scale", boolean(), "the logits are multiplied by a constant").otherwise(false),
      member("position", choice({{"rotary"}, {"learned"}, {"alibi"}, {"none"}}), "position encoding").required(),
      member("max_positions", integer(1, 1 << 30), "rows of a learned position table").otherwise_text("the sequence length"),
      member("rotary_dim", integer(1, 1 << 20), "elements of a head that are rotated").otherwise_text("head_dim"),
      member("nope_every", integer(1, 1 << 20), "every how many layers one has no position encoding; null: none"),
      member("sliding_window", integer(), "tokens that a local layer attends to, the present one included"),
      member("attention_chunk", integer(), "tokens of a chunk inside which a local layer attends"),
      member("global_every", integer(1, 1 << 20), "every how many layers one attends globally; null: none"),
      member("attn_softcap", positive(), "attention scores pass c tanh(x/c)"),
      member("final_softcap", positive(), "logits pass c tanh(x/c)"),
      member("attention_sinks", boolean(), "a learned sink per head").otherwise(false),
      member("mtp_layers", integer(0, 1 << 10), "multi-token prediction modules").otherwise(0),
      member("moe", moe, "mixture of experts"),
      member("mla", mla, "multi-head latent attention"),
  }));
  static const Type type = [] {
    std::vector<Variant> families = {{"transformer", transformer, "A decoder transformer"}};
    for (Variant& v : other_families()) families.push_back(std::move(v));
    families.push_back(multimodal_family(transformer));
    Type t = tagged("family", std::move(families));
    t.tag_default = "transformer";
    return t;
  }();
  return type;
}

}  // namespace orrery::document
