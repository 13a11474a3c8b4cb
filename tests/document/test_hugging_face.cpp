// What a config.json of Hugging Face is refused for, what it warns of, and what its classes fill in.
#include <string>
#include <vector>

#include "catch.h"
#include "scenarios.hpp"
#include "orrery/document/document.hpp"

using namespace orrery;
using document::Value;

namespace {

Value config(const std::string& architecture, const std::string& members) {
  const auto v = document::parse(R"({"architectures": [")" + architecture + "\"]" + (members.empty() ? "" : ", ") + members + "}", "config.json");
  REQUIRE(v);
  return *v;
}

document::Document model(const std::string& architecture, const std::string& members) {
  const auto read = document::load("model", config(architecture, members), "config.json", "", "");
  if (!read) FAIL(to_string(read.error().front()));
  return *read;
}

std::vector<std::string> refused(const std::string& architecture, const std::string& members) {
  const auto read = document::load("model", config(architecture, members), "config.json", "", "");
  REQUIRE_FALSE(read);
  std::vector<std::string> all;
  for (const Diagnostic& d : read.error()) all.push_back(to_string(d));
  return all;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("an unknown architecture is refused by name, with the nearest that is known") {
  CHECK(refused("LlamaForCasualLM", "") == Words{"config.json:/architectures: unknown architecture \"LlamaForCasualLM\"; did you mean \"LlamaForCausalLM\"?"});
  CHECK(refused("XyzForProteins", "") == Words{"config.json:/architectures: unknown architecture \"XyzForProteins\"; describe the model as orrery/model/1"});
  const auto none = document::parse(R"({"architectures": []})", "config.json");
  REQUIRE(none);
  const auto read = document::load("model", *none, "config.json", "", "");
  REQUIRE_FALSE(read);
  CHECK(to_string(read.error().front()) == "config.json:/architectures: expected one name of a class in transformers");
}

TEST_CASE("an architecture that orrery/model/1 cannot say is refused for a stated reason") {
  CHECK(refused("GlmMoeDsaForCausalLM", "\"hidden_size\": 6144") ==
        Words{"config.json:/architectures: GlmMoeDsaForCausalLM is not supported: its attention picks keys by an indexer (DeepSeek sparse attention), which orrery/model/1 does not have"});
  CHECK(refused("CLIPModel", "") == Words{"config.json:/architectures: CLIPModel is not supported: a pair of encoders of images and texts, trained by contrast"});
}

TEST_CASE("encoders, encoder-decoders and state-space models are refused where they differ from what orrery/model/1 can say") {
  CHECK(refused("BartForConditionalGeneration", "") ==
        Words{"config.json:/architectures: BartForConditionalGeneration is not supported: an encoder-decoder other than T5, which orrery/model/1 does not have"});
  CHECK(refused("MambaForCausalLM", "") == Words{"config.json:/architectures: MambaForCausalLM is not supported: its state-space layers are not Mamba-2's"});
  CHECK(refused("BertForMaskedLM", R"("position_embedding_type": "relative_key", "tie_word_embeddings": false, "is_decoder": true)") ==
        Words{"config.json:/position_embedding_type: relative_key positions have a table in every layer, which orrery/model/1 does not have",
              "config.json:/tie_word_embeddings: the matrix of the masked-token head is the word table; use true", "config.json:/is_decoder: a decoder with BERT's blocks is not known"});
  CHECK(refused("T5ForConditionalGeneration", R"("feed_forward_proj": "gated-mish")") ==
        Words{"config.json:/feed_forward_proj: the activation \"mish\" is not known; known are relu, gelu, silu and their gated forms"});
  CHECK(refused("ViTForImageClassification", R"("qkv_bias": false)") ==
        Words{"config.json:/qkv_bias: blocks whose queries, keys and values alone lack a bias are not known; use true"});
  CHECK(refused("Mamba2ForCausalLM", R"("num_heads": 64, "rms_norm": false, "use_bias": true, "use_conv_bias": false)") ==
        Words{"config.json:/use_bias: biases of a mixer's projections are not known", "config.json:/use_conv_bias: a mixer's convolution without a bias is not known; use true",
              "config.json:/num_heads: 64 heads of 64 are not the 2 x hidden_size that a mixer is wide", "config.json:/rms_norm: a mixer without its gated norm is not known; use true"});
  CHECK(refused("NemotronHForCausalLM", R"("hybrid_override_pattern": "MEM*", "num_hidden_layers": 4)") ==
        Words{"config.json:/hybrid_override_pattern: layers of experts (E) among state-space mixers are not known"});
}

TEST_CASE("an encoder of images that orrery/model/1 cannot say is refused where it stands") {
  CHECK(refused("LlavaForConditionalGeneration", R"("text_config": {"model_type": "phi"}, "vision_config": {"model_type": "siglip_vision_model"}, "vision_feature_layer": [-2, -5])") ==
        Words{"config.json:/text_config/model_type: the decoder \"phi\" is none of llama, mistral, qwen2",
              "config.json:/vision_config/model_type: the encoder \"siglip_vision_model\" is none of clip_vision_model, pixtral",
              "config.json:/vision_feature_layer: layers of features are known as one number that counts from the last, -1"});
  CHECK(refused("LlavaForConditionalGeneration", R"("vision_feature_layer": -1, "vision_feature_select_strategy": "full", "projector_hidden_act": "relu")") ==
        Words{"config.json:/vision_feature_select_strategy: features with the class token among them are not known; use \"default\"",
              "config.json:/vision_config/num_hidden_layers: features of CLIP's last layer stand before its norm, which is not known; use vision_feature_layer -2 or less",
              "config.json:/projector_hidden_act: a projector without a GELU is not known; use \"gelu\""});
  CHECK(refused("LlavaForConditionalGeneration", R"("vision_config": {"model_type": "pixtral"}, "vision_feature_layer": -3)") ==
        Words{"config.json:/vision_feature_layer: features of an inner layer of this encoder are not known; use -1"});
  CHECK(refused("Qwen2VLForConditionalGeneration", R"("vision_config": {"spatial_merge_size": 65})") ==
        Words{"config.json:/vision_config/spatial_merge_size: 65 patches a side are more than the 64 that are known to be merged"});
}

TEST_CASE("a T5 config.json does not say how long targets are, and the reader says so") {
  const document::Document d = model("T5ForConditionalGeneration", "");
  CHECK(d.value.at("target_length") == Value(114));
  REQUIRE(d.warnings.size() == 1);
  CHECK(to_string(d.warnings[0]) ==
        "config.json:/architectures: a config.json does not say how long targets are; taken as 114 tokens, those of T5's pre-training (target_length of orrery/model/1)");
}

TEST_CASE("members that are absent have the defaults of the class") {
  const Value llama = model("LlamaForCausalLM", "").value;  // configuration_llama.py
  CHECK(llama.at("layers") == Value(32));
  CHECK(llama.at("kv_heads") == Value(32));
  CHECK(llama.at("head_dim") == Value(128));
  CHECK(llama.at("tied_embeddings") == Value(false));
  const Value mistral = model("MistralForCausalLM", "").value;  // configuration_mistral.py
  CHECK(mistral.at("kv_heads") == Value(8));
  CHECK(mistral.at("sliding_window") == Value(4096));
  CHECK(model("MistralForCausalLM", "\"sliding_window\": null, \"num_key_value_heads\": null").value.at("sliding_window").is_null());
  CHECK(model("MistralForCausalLM", "\"num_key_value_heads\": null").value.at("kv_heads") == Value(32));
  const Value gpt2 = model("GPT2LMHeadModel", "").value;  // configuration_gpt2.py; tie_word_embeddings of PretrainedConfig
  CHECK(gpt2.at("tied_embeddings") == Value(true));
  CHECK(gpt2.at("ffn_hidden") == Value(3072));
  CHECK(gpt2.at("max_positions") == Value(1024));
  const Value gemma = model("Gemma2ForCausalLM", "").value;  // configuration_gemma2.py
  CHECK(gemma.at("attn_softcap").as_double() == 50);
  CHECK(gemma.at("head_dim") == Value(256));
  CHECK(gemma.at("global_every") == Value(2));
  CHECK(model("Gemma2ForCausalLM", "\"attn_logit_softcapping\": null").value.at("attn_softcap").is_null());
}

TEST_CASE("names that older files use mean the same: n_embed for hidden_size, n_head for num_attention_heads") {
  const Value bloom = model("BloomForCausalLM", "\"n_embed\": 2048, \"num_attention_heads\": 16, \"n_layer\": 3, \"vocab_size\": 1000").value;
  CHECK(bloom.at("hidden") == Value(2048));
  CHECK(bloom.at("heads") == Value(16));
  CHECK(bloom.at("embedding_norm") == Value(true));
  CHECK(model("FalconForCausalLM", "\"n_head\": 16, \"n_layer\": 1, \"hidden_size\": 1024").value.at("heads") == Value(16));
}

TEST_CASE("the decoder of a model with an encoder of images stands in text_config, and the encoder is left out with a warning") {
  const document::Document d = model("Gemma3ForConditionalGeneration", R"("text_config": {"num_hidden_layers": 12, "sliding_window": 1024}, "vision_config": {"hidden_size": 1152})");
  CHECK(d.value.at("layers") == Value(12));
  CHECK(d.value.at("global_every") == Value(6));
  REQUIRE(d.warnings.size() == 1);
  CHECK(to_string(d.warnings[0]) == "config.json:/vision_config: the encoder of images is left out: this is the decoder alone");
}

TEST_CASE("a member that nothing reads is a warning, and one that cannot matter is none") {
  const document::Document d = model("LlamaForCausalLM", R"("rope_theta": 500000.0, "bos_token_id": 1, "use_cache": true, "torch_dtype": "bfloat16", "flux_capacitor": 3)");
  REQUIRE(d.warnings.size() == 1);
  CHECK(to_string(d.warnings[0]) == "config.json:/flux_capacitor: not known to change the model, and not read");
}

TEST_CASE("warnings of a config.json reach the scenario that names it") {
  const auto job = document::load_scenario_text(test::scenario(), "job.json", "", std::vector<document::Override>{{"model", R"({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 4, "odd": 1})"}});
  REQUIRE(job);
  CHECK(job->value.at("model").at("layers") == Value(4));
  REQUIRE_FALSE(job->warnings.empty());
  CHECK(to_string(job->warnings[0]) == "job.json:/model/odd: not known to change the model, and not read");
}

TEST_CASE("values of the wrong kind, and what the class would do differently, are refused where they stand") {
  CHECK(refused("LlamaForCausalLM", R"("hidden_size": "wide", "num_hidden_layers": 0, "tie_word_embeddings": 1)") ==
        Words{"config.json:/hidden_size: expected an integer from 1 to 1073741824, found \"wide\"", "config.json:/num_hidden_layers: expected an integer from 1 to 1073741824, found 0",
              "config.json:/tie_word_embeddings: expected true or false, found 1"});
  CHECK(refused("LlamaForCausalLM", R"("hidden_act": "mish")") == Words{"config.json:/hidden_act: the activation \"mish\" is none of silu, gelu, relu, relu2"});
  CHECK(refused("OPTForCausalLM", R"("do_layer_norm_before": false)") ==
        Words{"config.json:/do_layer_norm_before: norms of the residual stream itself (OPT-350m) are not known"});
  CHECK(refused("GptOssForCausalLM", R"("num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"])") ==
        Words{"config.json:/layer_types: layer 2 breaks the pattern of one global layer in 2"});
  CHECK(refused("Gemma2ForCausalLM", R"("num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"])") ==
        Words{"config.json:/layer_types: the layer type \"linear_attention\" is none of full_attention, sliding_attention, chunked_attention"});
  CHECK(refused("Qwen2ForCausalLM", R"("use_sliding_window": true, "max_window_layers": 3, "num_hidden_layers": 4)") ==
        Words{"config.json:/use_sliding_window: windows in the last layers only are no pattern of orrery/model/1"});
}
