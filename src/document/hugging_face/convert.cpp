#include "convert.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "document/check.hpp"
#include "architectures.hpp"
#include "orrery/base/text.hpp"

namespace orrery::document {
namespace {

using namespace hugging_face;

struct Architecture {
  const char* name;
  Value (*convert)(Config&);
  bool nested = false;  ///< the decoder's members stand in "text_config"
};
constexpr std::array kArchitectures = {
    Architecture{"LlamaForCausalLM", llama},
    Architecture{"MistralForCausalLM", mistral},
    Architecture{"MixtralForCausalLM", mixtral},
    Architecture{"Qwen2ForCausalLM", qwen2},
    Architecture{"Qwen2MoeForCausalLM", qwen2_moe},
    Architecture{"Qwen3ForCausalLM", qwen3},
    Architecture{"Qwen3MoeForCausalLM", qwen3_moe},
    Architecture{"GemmaForCausalLM", gemma},
    Architecture{"Gemma2ForCausalLM", gemma2},
    Architecture{"Gemma3ForCausalLM", gemma3},
    Architecture{"Gemma3ForConditionalGeneration", gemma3, true},
    Architecture{"Phi3ForCausalLM", phi3},
    Architecture{"PhiForCausalLM", phi},
    Architecture{"OlmoForCausalLM", olmo},
    Architecture{"Olmo2ForCausalLM", olmo2},
    Architecture{"Olmo3ForCausalLM", olmo3},
    Architecture{"OlmoeForCausalLM", olmoe},
    Architecture{"GraniteForCausalLM", granite},
    Architecture{"Starcoder2ForCausalLM", starcoder2},
    Architecture{"StableLmForCausalLM", stablelm},
    Architecture{"NemotronForCausalLM", nemotron},
    Architecture{"SmolLM3ForCausalLM", smollm3},
    Architecture{"InternLM2ForCausalLM", internlm2},
    Architecture{"CohereForCausalLM", cohere},
    Architecture{"Cohere2ForCausalLM", cohere2},
    Architecture{"GPT2LMHeadModel", gpt2},
    Architecture{"GPTBigCodeForCausalLM", gpt_bigcode},
    Architecture{"GPTNeoXForCausalLM", gpt_neox},
    Architecture{"GPTJForCausalLM", gptj},
    Architecture{"BloomForCausalLM", bloom},
    Architecture{"OPTForCausalLM", opt},
    Architecture{"MPTForCausalLM", mpt},
    Architecture{"MptForCausalLM", mpt},
    Architecture{"FalconForCausalLM", falcon},
    Architecture{"RWForCausalLM", falcon},
    Architecture{"DeepseekV2ForCausalLM", deepseek_v2},
    Architecture{"DeepseekV3ForCausalLM", deepseek_v3},
    Architecture{"GptOssForCausalLM", gpt_oss},
    Architecture{"Llama4ForCausalLM", llama4},
    Architecture{"Llama4ForConditionalGeneration", llama4, true},
    Architecture{"DbrxForCausalLM", dbrx},
    Architecture{"BertForPreTraining", bert_pretraining},
    Architecture{"BertForMaskedLM", bert_masked_lm},
    Architecture{"RobertaForMaskedLM", roberta},
    Architecture{"T5ForConditionalGeneration", t5},
    Architecture{"MT5ForConditionalGeneration", t5},
    Architecture{"ViTForImageClassification", vit},
    Architecture{"Mamba2ForCausalLM", mamba2},
    Architecture{"NemotronHForCausalLM", nemotron_h},
    Architecture{"LlavaForConditionalGeneration", llava},
    Architecture{"Qwen2VLForConditionalGeneration", qwen2_vl},
};

/// Known by name, and known to be none that orrery/model/1 can say.
struct Other {
  const char* name;
  const char* reason;
};
constexpr const char* kDelta = "most of its layers are gated linear attention (Gated DeltaNet), which orrery/model/1 does not have";
constexpr const char* kSparse = "its attention picks keys by an indexer (DeepSeek sparse attention), which orrery/model/1 does not have";
constexpr const char* kStates = "its state-space layers are not Mamba-2's";
constexpr const char* kEncoder = "an encoder-decoder other than T5, which orrery/model/1 does not have";
constexpr std::array kOthers = {
    Other{"Qwen3NextForCausalLM", kDelta},
    Other{"Qwen3_5ForConditionalGeneration", kDelta},
    Other{"Qwen3_5MoeForConditionalGeneration", kDelta},
    Other{"GlmMoeDsaForCausalLM", kSparse},
    Other{"DeepseekV32ForCausalLM", kSparse},
    Other{"Gemma4ForConditionalGeneration", "its layers have experts beside an MLP, and its global layers heads of their own size whose keys are their values"},
    Other{"Gemma3nForConditionalGeneration", "its layers have embeddings of their own and share keys and values"},
    Other{"MambaForCausalLM", kStates},
    Other{"JambaForCausalLM", kStates},
    Other{"CLIPModel", "a pair of encoders of images and texts, trained by contrast"},
    Other{"BartForConditionalGeneration", kEncoder},
    Other{"WhisperForConditionalGeneration", kEncoder},
};

/// The one entry of "architectures".
std::optional<std::string> name_of(const Value& config, const Place& place, Problems& problems) {
  const Value& list = config.at("architectures");
  const Place here = place.member("architectures");
  if (!list.is_array() || list.items().size() != 1 || !list.items()[0].is_string()) {
    problems.add(here.file, here.pointer, "expected one name of a class in transformers");
    return std::nullopt;
  }
  return list.items()[0].as_string();
}

const Architecture* known(const std::string& name, const Place& place, Problems& problems) {
  const auto it = std::find_if(kArchitectures.begin(), kArchitectures.end(), [&](const Architecture& a) { return name == a.name; });
  if (it != kArchitectures.end()) return &*it;
  const Place here = place.member("architectures");
  const auto other = std::find_if(kOthers.begin(), kOthers.end(), [&](const Other& o) { return name == o.name; });
  if (other != kOthers.end()) {
    problems.add(here.file, here.pointer, fmt::format("{} is not supported: {}", name, other->reason));
    return nullptr;
  }
  std::vector<std::string> names;
  for (const Architecture& a : kArchitectures) names.emplace_back(a.name);
  std::string hint = did_you_mean(name, names);
  if (hint.empty()) hint = "; describe the model as orrery/model/1";
  problems.add(here.file, here.pointer, fmt::format("unknown architecture {}{}", found(Value(name)), hint));
  return nullptr;
}

}  // namespace

bool is_hugging_face(const Value& value) { return value.is_object() && value.find("architectures") != nullptr && value.find("schema") == nullptr; }

std::optional<Value> from_hugging_face(const Value& config, const Place& place, Problems& problems) {
  const std::optional<std::string> name = name_of(config, place, problems);
  const Architecture* architecture = name ? known(*name, place, problems) : nullptr;
  if (architecture == nullptr) return std::nullopt;
  const std::size_t before = problems.count();
  Config whole(config, place, problems);
  Value model;
  if (architecture->nested) {
    Config decoder = whole.inside("text_config");
    model = architecture->convert(decoder);
    decoder.warn_unread();
    if (whole.states("vision_config")) whole.warn("vision_config", "the encoder of images is left out: this is the decoder alone");
    whole.ignore({"text_config", "vision_config", "tie_word_embeddings", "boi_token_index", "eoi_token_index", "image_token_index", "mm_tokens_per_image"});
  } else {
    model = architecture->convert(whole);
  }
  whole.warn_unread();
  if (problems.count() != before) return std::nullopt;
  const std::string stated = whole.text({"_name_or_path"}, "");
  model.set("name", stated.empty() ? *name : stated);
  model.set("sources", Value::Array{Value::Object{{"what", "all members"}, {"title", fmt::format("Hugging Face config.json ({})", *name)}}});
  return model;
}

}  // namespace orrery::document
