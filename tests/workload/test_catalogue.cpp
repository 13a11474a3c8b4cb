// Every shipped model is read, and has the parameters that its publisher's checkpoint has.
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>

#include "catch.h"
#include "orrery/document/document.hpp"
#include "orrery/workload/layers.hpp"
#include "orrery/workload/model.hpp"

using namespace orrery;
using namespace orrery::workload;

namespace {

const std::filesystem::path kFolder = std::filesystem::path(ORRERY_SOURCE_DIR) / "configs" / "models";

Model load(const std::string& name) {
  const auto read = document::load("model", name, "", "", "");
  REQUIRE(read);
  CHECK(read->value.at("name").as_string() == name);
  CHECK_FALSE(read->value.at("sources").items().empty());
  const auto model = read_model(read->value, name, "");
  REQUIRE(model);
  return *model;
}

struct Exact {
  const char* family;
  const char* name;
  std::int64_t parameters;
  const char* source;
};
// Stored weights of the published checkpoints, a tied matrix once.
constexpr const char* kIndex = "the model repository's safetensors metadata, or num_parameters of its class in transformers";
constexpr const char* kPythia = "Biderman et al., arXiv:2304.01373, table 1";
constexpr const char* kNeoX = "Black et al., arXiv:2204.06745, section 2";
constexpr Exact kExact[] = {
    {"BLOOM", "bloom-560m", 559214592, kIndex},
    {"BLOOM", "bloom-1.1b", 1065314304, kIndex},
    {"BLOOM", "bloom-1.7b", 1722408960, kIndex},
    {"BLOOM", "bloom-3b", 3002557440, kIndex},
    {"BLOOM", "bloom-7.1b", 7069016064, kIndex},
    {"BLOOM", "bloom-176b", 176247271424, kIndex},
    {"Command", "aya-23-8b", 8028033024, kIndex},
    {"Command", "command-r-35b", 34980831232, kIndex},
    {"Command", "command-r-plus-104b", 103810674688, kIndex},
    {"DeepSeek", "deepseek-llm-7b", 6910365696, kIndex},
    {"DeepSeek", "deepseek-coder-33b", 33342991360, kIndex},
    {"DeepSeek", "deepseek-v2-lite", 15706484224, kIndex},
    {"DeepSeek", "deepseek-v2", 235741434880, kIndex},
    {"DeepSeek", "deepseek-v3", 671026419200, kIndex},
    {"Mixtral", "mixtral-8x7b", 46702792704, kIndex},
    {"Mixtral", "mixtral-8x22b", 140620634112, kIndex},
    {"gpt-oss", "gpt-oss-20b", 20914757184, kIndex},
    {"gpt-oss", "gpt-oss-120b", 116829156672, kIndex},
    {"DBRX", "dbrx", 131596523520, kIndex},
    {"Falcon", "falcon-rw-1b", 1311625216, kIndex},
    {"Falcon", "falcon-7b", 6921720704, kIndex},
    {"Falcon", "falcon-40b", 41303293952, kIndex},
    {"GPT-2", "distilgpt2", 81912576, kIndex},
    {"GPT-2", "gpt2", 124439808, kIndex},
    {"GPT-2", "gpt2-medium", 354823168, kIndex},
    {"GPT-2", "gpt2-large", 774030080, kIndex},
    {"GPT-2", "gpt2-xl", 1557611200, kIndex},
    {"GPT-J", "gpt-j-6b", 6050882784, kIndex},
    {"GPT-NeoX", "pythia-70m", 70426624, kPythia},
    {"GPT-NeoX", "pythia-160m", 162322944, kPythia},
    {"GPT-NeoX", "pythia-410m", 405334016, kPythia},
    {"GPT-NeoX", "pythia-1b", 1011781632, kPythia},
    {"GPT-NeoX", "pythia-1.4b", 1414647808, kPythia},
    {"GPT-NeoX", "pythia-2.8b", 2775208960, kPythia},
    {"GPT-NeoX", "pythia-6.9b", 6857302016, kPythia},
    {"GPT-NeoX", "pythia-12b", 11846072320, kPythia},
    {"GPT-NeoX", "gpt-neox-20b", 20554567680, kNeoX},
    {"Gemma", "gemma-3-1b", 999885952, kIndex},
    {"Gemma", "gemma-2b", 2506172416, kIndex},
    {"Gemma", "gemma-2-2b", 2614341888, kIndex},
    {"Gemma", "gemma-7b", 8537680896, kIndex},
    {"Gemma", "gemma-2-9b", 9241705984, kIndex},
    {"Gemma", "gemma-2-27b", 27227128320, kIndex},
    {"Granite", "granite-3.1-2b", 2533531648, kIndex},
    {"Granite", "granite-3.1-8b", 8170848256, kIndex},
    {"InternLM", "internlm2-7b", 7737708544, kIndex},
    {"InternLM", "internlm2-20b", 19861149696, kIndex},
    {"Llama", "tinyllama-1.1b", 1100048384, kIndex},
    {"Llama", "llama-3.2-1b", 1235814400, kIndex},
    {"Llama", "llama-3.2-3b", 3212749824, kIndex},
    {"Llama", "llama-7b", 6738415616, kIndex},
    {"Llama", "llama-2-7b", 6738415616, kIndex},
    {"Llama", "llama-3-8b", 8030261248, kIndex},
    {"Llama", "llama-3.1-8b", 8030261248, kIndex},
    {"Llama", "solar-10.7b", 10731524096, kIndex},
    {"Llama", "llama-13b", 13015864320, kIndex},
    {"Llama", "llama-2-13b", 13015864320, kIndex},
    {"Llama", "llama-30b", 32528943616, kIndex},
    {"Llama", "codellama-34b", 33743970304, kIndex},
    {"Llama", "llama-65b", 65285660672, kIndex},
    {"Llama", "llama-2-70b", 68976648192, kIndex},
    {"Llama", "llama-3-70b", 70553706496, kIndex},
    {"Llama", "llama-3.1-70b", 70553706496, kIndex},
    {"Llama", "llama-3.3-70b", 70553706496, kIndex},
    {"Llama", "llama-3.1-405b", 405853388800, kIndex},
    {"MPT", "mpt-7b", 6649286656, kIndex},
    {"Mistral", "mistral-7b-v0.1", 7241732096, kIndex},
    {"Mistral", "mistral-7b", 7248023552, kIndex},
    {"Mistral", "mistral-nemo-12b", 12247782400, kIndex},
    {"Mistral", "codestral-22b", 22247282688, kIndex},
    {"Mistral", "mistral-small-24b", 23572403200, kIndex},
    {"Mistral", "mistral-large-123b", 122610069504, kIndex},
    {"OLMo", "olmo-1b", 1176764416, kIndex},
    {"OLMo", "olmo-7b", 6888095744, kIndex},
    {"OLMo", "olmo-2-7b", 7298617344, kIndex},
    {"OLMo", "olmo-2-13b", 13716198400, kIndex},
    {"OLMo", "olmo-2-32b", 32234279936, kIndex},
    {"OLMo", "olmoe-1b-7b", 6919161856, kIndex},
    {"OPT", "opt-125m", 125239296, kIndex},
    {"OPT", "opt-1.3b", 1315758080, kIndex},
    {"OPT", "opt-2.7b", 2651596800, kIndex},
    {"OPT", "opt-6.7b", 6658473984, kIndex},
    {"OPT", "opt-13b", 12853473280, kIndex},
    {"OPT", "opt-30b", 29974540288, kIndex},
    {"Phi", "phi-1.5", 1418270720, kIndex},
    {"Phi", "phi-2", 2779683840, kIndex},
    {"Phi", "phi-3-mini-128k", 3821079552, kIndex},
    {"Phi", "phi-3-medium-128k", 13960238080, kIndex},
    {"Phi", "phi-4", 14659507200, kIndex},
    {"Qwen", "qwen2.5-0.5b", 494032768, kIndex},
    {"Qwen", "qwen3-0.6b", 596049920, kIndex},
    {"Qwen", "qwen2.5-1.5b", 1543714304, kIndex},
    {"Qwen", "qwen3-1.7b", 1720574976, kIndex},
    {"Qwen", "qwen2.5-3b", 3085938688, kIndex},
    {"Qwen", "qwen3-4b", 4022468096, kIndex},
    {"Qwen", "qwen2.5-7b", 7615616512, kIndex},
    {"Qwen", "qwen3-8b", 8190735360, kIndex},
    {"Qwen", "qwen3-14b", 14768307200, kIndex},
    {"Qwen", "qwen2.5-14b", 14770033664, kIndex},
    {"Qwen", "qwen3-32b", 32762123264, kIndex},
    {"Qwen", "qwen2.5-32b", 32763876352, kIndex},
    {"Qwen", "qwen2.5-72b", 72706203648, kIndex},
    {"Qwen", "qwen1.5-moe-a2.7b", 14315784192, kIndex},
    {"Qwen", "qwen3-30b-a3b", 30532122624, kIndex},
    {"Qwen", "qwen3-235b-a22b", 235093634560, kIndex},
    {"SmolLM", "smollm2-135m", 134515008, kIndex},
    {"SmolLM", "smollm2-360m", 361821120, kIndex},
    {"SmolLM", "smollm2-1.7b", 1711376384, kIndex},
    {"SmolLM", "smollm3-3b", 3075098624, kIndex},
    {"StableLM", "stablelm-2-1.6b", 1644515328, kIndex},
    {"StableLM", "stablelm-3b-4e1t", 2795443200, kIndex},
    {"StarCoder", "starcoder2-3b", 3030371328, kIndex},
    {"StarCoder", "starcoder2-7b", 7173923840, kIndex},
    {"StarCoder", "starcoder-15b", 15517456384, kIndex},
    {"StarCoder", "starcoder2-15b", 15957889024, kIndex},
    {"Yi", "yi-6b", 6061035520, kIndex},
    {"Yi", "yi-9b", 8829407232, kIndex},
    {"Yi", "yi-34b", 34388917248, kIndex},
};

// Decoders of checkpoints that hold an encoder of images as well: the published total less that encoder (SigLIP, 416,866,032) and its
// projection (width x 1152 and a norm of 1152).
struct WithImages {
  const char* name;
  std::int64_t total, hidden;
};
constexpr WithImages kWithImages[] = {{"gemma-3-4b", 4300079472, 2560}, {"gemma-3-12b", 12187325040, 3840}, {"gemma-3-27b", 27432406640, 5376}};

/// Llama 4's encoder of images and its projection (transformers models/llama4/configuration_llama4.py, both checkpoints alike): patches, class and
/// positions, two norms of 1408, 34 layers of 1408 with an MLP of 5632 and biases, the adapter 5632 -> 4096 -> 4096 and 4096 -> 5120.
constexpr std::int64_t kLlama4Images = 588 * 1408 + 1408 + 577 * 1408 + 4 * 1408 + 34 * (4 * (1408 * 1408 + 1408) + 2 * 1408 * 5632 + 5632 + 1408 + 4 * 1408) + 5632 * 4096 + 4096 * 4096 + 4096 * 5120;

struct Rounded {
  const char* name;
  double billions, half_unit;  // as printed, and half of its last digit
};
// Brown et al. (arXiv:2005.14165), table 2.1; Narayanan et al. (arXiv:2104.04473), table 1; Korthikanti et al. (arXiv:2205.05198), table 3.
constexpr Rounded kRounded[] = {
    {"gpt3-125m", 0.125, 0.0005},
    {"gpt3-350m", 0.35, 0.01},
    {"gpt3-760m", 0.76, 0.005},
    {"gpt3-1.3b", 1.3, 0.05},
    {"gpt3-2.7b", 2.7, 0.05},
    {"gpt3-6.7b", 6.7, 0.05},
    {"megatron-1.7b", 1.7, 0.05},
    {"megatron-3.6b", 3.6, 0.05},
    {"megatron-7.5b", 7.5, 0.05},
    {"megatron-18b", 18.4, 0.05},
    {"megatron-39b", 39.1, 0.05},
    {"megatron-76b", 76.1, 0.05},
    {"megatron-145b", 145.6, 0.05},
    {"megatron-310b", 310.1, 0.05},
    {"megatron-530b", 529.6, 0.05},
    {"megatron-1t", 1008.0, 0.05},
    {"gpt3-13b", 13, 0.5},
    {"gpt3-175b", 175, 0.5},
    {"megatron-22b", 22, 0.5},
    {"megatron-175b", 175, 0.5},
    // names: Falcon 180B (its index counts the tied matrix twice: 179.5), OPT (arXiv:2205.01068, table 1), DeepSeek LLM
    // (arXiv:2401.02954), MPT-30B's card, Minitron (arXiv:2407.14679), Stable LM 2 12B's card, Command R7B's card (8 with its embedding), Qwen2-57B-A14B's repository page
    {"opt-66b", 66, 0.5},
    {"deepseek-llm-67b", 67, 0.5},
    {"mpt-30b", 30, 0.5},
    {"minitron-4b", 4.19, 0.005},
    {"minitron-8b", 8.27, 0.005},
    {"stablelm-2-12b", 12.1, 0.05},
    {"command-r7b", 8, 0.05},
    {"qwen2-57b-a14b", 57.4, 0.05},
    {"olmo-2-1b", 1.48, 0.005},
};

}  // namespace

TEST_CASE("catalogue models of twenty families have exactly the parameters of the published checkpoints") {
  std::set<std::string> families;
  for (const Exact& e : kExact) {
    INFO(e.name << ", " << e.source);
    CHECK(count(load(e.name), 2048, true).parameters == e.parameters);
    families.insert(e.family);
  }
  CHECK(std::size(kExact) >= 45);
  CHECK(families.size() >= 20);
}

TEST_CASE("what a checkpoint holds beside its encoder of images is the decoder of the catalogue") {
  for (const WithImages& w : kWithImages) {
    INFO(w.name);
    CHECK(count(load(w.name), 2048, true).parameters == w.total - 416866032 - (w.hidden * 1152 + 1152));
  }
}

TEST_CASE("Llama 4's decoders are its checkpoints less the encoder of images") {
  CHECK(count(load("llama-4-scout"), 2048, true).parameters == 108641793536 - kLlama4Images);
  CHECK(count(load("llama-4-maverick"), 2048, true).parameters == 401583781376 - kLlama4Images);
}

TEST_CASE("parameters that a token visits are those that reports print as active") {
  // Jiang et al. (arXiv:2401.04088); Mistral AI on 8x22B; arXiv:2405.04434; arXiv:2412.19437 (a look-up visits
  // one row of the embedding, which it leaves out); Qwen3's and Llama 4's cards; arXiv:2409.02060, table 1; DBRX's announcement;
  // gpt-oss' card (arXiv:2508.10925, table 1).
  struct Row {
    const char* name;
    double billions, half_unit;
    bool without_embedding = false;
  };
  for (const Row& r : {Row{"mixtral-8x7b", 12.9, 0.05}, Row{"mixtral-8x22b", 39, 0.5}, Row{"deepseek-v2", 21, 0.5}, Row{"deepseek-v3", 37, 0.5, true}, Row{"qwen3-30b-a3b", 3.3, 0.06},
                       Row{"qwen3-235b-a22b", 22, 0.5}, Row{"llama-4-scout", 17, 0.5}, Row{"llama-4-maverick", 17, 0.5}, Row{"qwen1.5-moe-a2.7b", 2.7, 0.05}, Row{"qwen2-57b-a14b", 14, 0.5}, Row{"gpt-oss-20b", 3.61, 0.005, true}, Row{"gpt-oss-120b", 5.13, 0.005, true}, Row{"olmoe-1b-7b", 1.3, 0.05}, Row{"dbrx", 36, 0.5}}) {
    INFO(r.name);
    const ModelCounts c = count(load(r.name), 2048, true);
    CHECK(std::abs(static_cast<double>(c.active_parameters - (r.without_embedding ? c.embedding_parameters : 0)) / 1e9 - r.billions) <= r.half_unit);
  }
}

TEST_CASE("embedding and other parameters apart are those that reports print apart") {
  struct Row {
    const char* name;
    double others, half_unit;  // millions
    double embedding = 0;      // as the Nemotron reports print it, the head with it; 0: not compared
  };
  // Gemma 3 report (arXiv:2503.19786), table 1; Nemotron-4 15B (arXiv:2402.16819) and 340B (arXiv:2406.11704), section 2.
  for (const Row& r : {Row{"gemma-3-1b", 698, 0.5}, Row{"gemma-3-4b", 3209, 0.5}, Row{"gemma-3-12b", 10759, 0.5}, Row{"gemma-3-27b", 25600, 0.5}, Row{"nemotron-4-15b", 12500, 60, 3200},
                       Row{"nemotron-4-340b", 331600, 50, 9400}}) {
    INFO(r.name);
    const ModelCounts c = count(load(r.name), 2048, true);
    const std::int64_t head = r.embedding > 0 ? c.embedding_parameters : 0;
    CHECK(std::abs(static_cast<double>(c.parameters_without_embedding - head) / 1e6 - r.others) <= r.half_unit);
    if (r.embedding > 0) CHECK(std::abs(static_cast<double>(c.embedding_parameters + head) / 1e6 - r.embedding) <= r.half_unit);
  }
}

TEST_CASE("models of papers have the parameters that their tables round") {
  for (const Rounded& r : kRounded) {
    INFO(r.name);
    CHECK(std::abs(static_cast<double>(count(load(r.name), 2048, true).parameters) / 1e9 - r.billions) <= r.half_unit);
  }
}

TEST_CASE("every file of the catalogue is a model with heads that share, and makes layers on one GPU") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    INFO(entry.path());
    const Model m = load(entry.path().stem().string());
    if (m.kv_heads > 0) CHECK(m.heads % m.kv_heads == 0);
    const Shard one{.micro_batch = 1, .sequence = tokens_of_sample(m, 128)};
    std::int64_t parameters = 0;
    const auto add = [&](LayerKind kind, const Block& block, std::int64_t layers) {
      const Layer layer = make_layer(kind, m, Training{}, one, StackKernels{}, block);
      // The data of an MLP arrive as they are: it has no layer before the first block.
      if (m.family != Family::kMlp || kind != LayerKind::kEmbedding) {
        CHECK_FALSE(layer.forward.empty());
        CHECK_FALSE(layer.backward.empty());
      }
      parameters += layer.parameters.stored() * layers;
    };
    add(LayerKind::kEmbedding, {}, 1);
    for (const BlockCount& b : blocks_of(m)) add(LayerKind::kDecoder, b.block, b.layers);
    add(LayerKind::kHead, {}, 1);
    if (m.tied_embeddings) parameters -= word_embedding_parameters(m, one);
    CHECK(parameters == count(m, one.sequence, true).parameters);
    ++files;
  }
  CHECK(files >= 193);
}
