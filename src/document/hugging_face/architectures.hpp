#pragma once
// One function per family of classes in transformers: what its config.json says, as an orrery/model/1 object. Defaults are those of the
// class's own file (transformers/models/<type>/configuration_<type>.py), layer structure that of modeling_<type>.py.
#include "config.hpp"

namespace orrery::document::hugging_face {

/// Sizes that most classes state under the same names. Members come in the order of the format's reference page.
struct Sizes {
  std::int64_t layers = 0, hidden = 0, ffn = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0;
};
/// Reads them under Llama's names; `d` holds the class's defaults, head_dim 0: hidden / heads, kv_heads 0: heads.
Sizes sizes(Config& c, const Sizes& d);
/// The model with these sizes.
Value model_of(const Sizes& s);

/// Local and global layers from a list of words ("sliding_attention", "full_attention"), as sliding_window (or attention_chunk) and
/// global_every; refuses a pattern that is not every n-th. `window_member` is the name in the model.
void windows_from_layer_types(Config& c, Value& model, std::int64_t layers, std::int64_t window, const char* window_member, std::int64_t default_global_every);

Value llama(Config& c);
Value mistral(Config& c);
Value mixtral(Config& c);
Value qwen2(Config& c);
Value qwen2_moe(Config& c);
Value qwen3(Config& c);
Value qwen3_moe(Config& c);
Value phi3(Config& c);
Value olmo(Config& c);
Value olmo2(Config& c);
Value olmo3(Config& c);
Value olmoe(Config& c);
Value granite(Config& c);
Value starcoder2(Config& c);
Value stablelm(Config& c);
Value nemotron(Config& c);
Value smollm3(Config& c);
Value internlm2(Config& c);

Value gemma(Config& c);
Value gemma2(Config& c);
Value gemma3(Config& c);
Value cohere(Config& c);
Value cohere2(Config& c);

Value gpt2(Config& c);
Value gpt_bigcode(Config& c);
Value gpt_neox(Config& c);
Value gptj(Config& c);
Value phi(Config& c);
Value bloom(Config& c);
Value opt(Config& c);
Value mpt(Config& c);
Value falcon(Config& c);

Value deepseek_v2(Config& c);
Value deepseek_v3(Config& c);
Value gpt_oss(Config& c);
Value llama4(Config& c);
Value dbrx(Config& c);

Value bert_pretraining(Config& c);
Value bert_masked_lm(Config& c);
Value roberta(Config& c);
Value t5(Config& c);
Value vit(Config& c);
Value mamba2(Config& c);
Value nemotron_h(Config& c);

Value llava(Config& c);
Value qwen2_vl(Config& c);

}  // namespace orrery::document::hugging_face
