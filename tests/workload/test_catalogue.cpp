// Every shipped model is read, and has the parameters that its publisher's checkpoint has.
#include <cmath>
#include <filesystem>
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
  const char* name;
  std::int64_t parameters;
};
// Stored weights of the published checkpoints, as transformers counts them (num_parameters; a tied matrix once).
constexpr Exact kExact[] = {
    {"gpt2", 124439808},
    {"gpt2-medium", 354823168},
    {"gpt2-large", 774030080},
    {"gpt2-xl", 1557611200},
    {"llama-7b", 6738415616},
    {"llama-13b", 13015864320},
    {"llama-30b", 32528943616},
    {"llama-65b", 65285660672},
    {"llama-2-7b", 6738415616},
    {"llama-2-13b", 13015864320},
    {"llama-2-70b", 68976648192},
    {"llama-3-8b", 8030261248},
    {"llama-3-70b", 70553706496},
    {"llama-3.1-8b", 8030261248},
    {"llama-3.1-70b", 70553706496},
    {"llama-3.1-405b", 405853388800},
    {"llama-3.2-1b", 1235814400},
    {"llama-3.2-3b", 3212749824},
    {"llama-3.3-70b", 70553706496},
    {"codellama-34b", 33743970304},
    {"tinyllama-1.1b", 1100048384},
    {"mistral-7b", 7248023552},
    {"mistral-nemo-12b", 12247782400},
    {"mistral-small-24b", 23572403200},
    {"mistral-large-123b", 122610069504},
    {"yi-6b", 6061035520},
    {"yi-34b", 34388917248},
    {"deepseek-llm-7b", 6910365696},
    {"smollm2-135m", 134515008},
    {"smollm2-360m", 361821120},
    {"smollm2-1.7b", 1711376384},
    {"phi-3-mini-128k", 3821079552},
    {"phi-3-medium-128k", 13960238080},
    {"phi-4", 14659507200},
    {"qwen2.5-0.5b", 494032768},
    {"qwen2.5-1.5b", 1543714304},
    {"qwen2.5-3b", 3085938688},
    {"qwen2.5-7b", 7615616512},
    {"qwen2.5-14b", 14770033664},
    {"qwen2.5-32b", 32763876352},
    {"qwen2.5-72b", 72706203648},
    {"qwen3-0.6b", 596049920},
    {"qwen3-1.7b", 1720574976},
    {"qwen3-4b", 4022468096},
    {"qwen3-8b", 8190735360},
    {"qwen3-14b", 14768307200},
    {"qwen3-32b", 32762123264},
    {"gemma-2b", 2506172416},
    {"gemma-7b", 8537680896},
    {"opt-125m", 125239296},
    {"opt-1.3b", 1315758080},
    {"opt-2.7b", 2651596800},
    {"opt-6.7b", 6658473984},
    {"mpt-7b", 6649286656},
};

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
};

}  // namespace

TEST_CASE("catalogue models have exactly the parameters of the published checkpoints") {
  for (const Exact& e : kExact) {
    INFO(e.name);
    CHECK(count(load(e.name), 2048, true).parameters == e.parameters);
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
    CHECK(m.heads % m.kv_heads == 0);
    const Shard one{.micro_batch = 1, .sequence = 128};
    std::int64_t parameters = 0;
    for (const LayerKind kind : {LayerKind::kEmbedding, LayerKind::kDecoder, LayerKind::kHead}) {
      const Layer layer = make_layer(kind, m, Training{}, one, StackKernels{});
      CHECK_FALSE(layer.forward.empty());
      CHECK_FALSE(layer.backward.empty());
      parameters += layer.parameters.total() * (kind == LayerKind::kDecoder ? m.layers : 1);
    }
    if (m.tied_embeddings) parameters -= word_embedding_parameters(m, one);
    CHECK(parameters == count(m, 128, true).parameters);
    ++files;
  }
  CHECK(files >= 70);
}
