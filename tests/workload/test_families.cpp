// Families beside the decoder transformer: parameters of published checkpoints, FLOPs of papers, and what backward costs.
#include <cmath>
#include <string>

#include "catch.h"
#include "orrery/document/document.hpp"
#include "orrery/workload/layers.hpp"
#include "samples.hpp"

using namespace orrery;
using namespace orrery::workload;

namespace {

Model load(const std::string& name) {
  const auto read = document::load("model", name, "", "", "");
  REQUIRE(read);
  const auto model = read_model(read->value, name, "");
  REQUIRE(model);
  return *model;
}

std::string refusal(const std::string& text) {
  const auto value = document::parse(text, "m.json");
  REQUIRE(value);
  const auto read = document::load("model", *value, "m.json", "", "");
  REQUIRE(read);
  const auto model = read_model(read->value, "m.json", "/model");
  REQUIRE_FALSE(model);
  return to_string(model.error().front());
}

ModelCounts counts(const std::string& name) {
  const Model m = load(name);
  return count(m, tokens_of_sample(m, 512), false);
}

struct Exact {
  const char* name;
  std::int64_t parameters;
};
// transformers BertForPreTraining.num_parameters() of google-bert/bert-base-uncased and bert-large-uncased; torchvision
// ViT_*_Weights.meta["num_params"].
constexpr Exact kExact[] = {
    {"bert-base", 110106428}, {"bert-large", 336226108},
    // transformers RobertaForMaskedLM.num_parameters().
    {"roberta-base", 124697433}, {"roberta-large", 355412057},
    {"vit-b-16", 86567656},   {"vit-b-32", 88224232},
    {"vit-l-16", 304326632},  {"vit-h-14", 632045800},
    // torchvision ResNet*_Weights.meta["num_params"].
    {"resnet-18", 11689512},  {"resnet-34", 21797672}, {"resnet-50", 25557032}, {"resnet-101", 44549160}, {"resnet-152", 60192808},
    // transformers T5ForConditionalGeneration.num_parameters().
    {"t5-small", 60506624},   {"t5-base", 222903552}, {"t5-large", 737668096}, {"t5-3b", 2851598336}, {"t5-11b", 11307321344},
    {"t5-v1.1-small", 76961152}, {"t5-v1.1-base", 247577856}, {"t5-v1.1-large", 783150080}, {"t5-v1.1-xl", 2849757184}, {"t5-v1.1-xxl", 11135332352},
    // The checkpoints of state-spaces/mamba2-*.
    {"mamba2-130m", 128989632}, {"mamba2-370m", 368346624}, {"mamba2-780m", 780161280}, {"mamba2-1.3b", 1343757312}, {"mamba2-2.7b", 2702599680},
    // mistralai/Mamba-Codestral-7B-v0.1, safetensors metadata.
    {"mamba-codestral-7b", 7285403648},
    // facebookresearch/DiT: 674,834,720 trained and 256 x 1,152 of the position table.
    {"dit-xl-2", 675129632},
    // MLPerf: 187,767,399 rows of 128; dense layers 13-512-256-128 and 479-1024-1024-512-256-1.
    {"dlrm", 187767399LL * 128 + 171392 + 2197505},
    {"linear-1000-10", 1000 * 10 + 10}, {"mlp-mnist", 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10},
};

/// A layer of one sample with everything on, whole.
Layer whole(const Model& m, LayerKind kind, const Block& block) {
  Training t;
  t.sequence_length = tokens_of_sample(m, 512);
  return make_layer(kind, m, t, {.micro_batch = 1, .sequence = t.sequence_length}, StackKernels{}, block);
}

}  // namespace

TEST_CASE("models of other families have exactly the parameters of the published checkpoints") {
  for (const Exact& e : kExact) {
    INFO(e.name);
    CHECK(counts(e.name).parameters == e.parameters);
  }
}

TEST_CASE("models of papers of other families have the parameters that their tables round") {
  struct Rounded { const char* name; double millions, half_unit; };
  // arXiv:2212.09748, table 4; arXiv:2504.03624 (8B: 8.1 on the model card); MLPerf recommendation_v2: 204 million rows of 128.
  for (const Rounded& r : {Rounded{"dit-l-2", 458, 0.5}, Rounded{"dit-b-2", 130, 0.6}, Rounded{"nemotron-h-8b", 8100, 50}, Rounded{"dlrm-dcnv2", 26100, 100}}) {
    INFO(r.name);
    CHECK(std::abs(static_cast<double>(counts(r.name).parameters) / 1e6 - r.millions) <= r.half_unit);
  }
}

TEST_CASE("forward multiply-adds of a residual network are what torchvision's table says, and of a diffusion transformer what its paper says") {
  // torchvision ResNet*_Weights.meta["_ops"] and arXiv:2212.09748, table 4, both in billions of one image, to the digits printed.
  for (const auto& [name, gmacs] : {std::pair{"resnet-18", 1.814}, std::pair{"resnet-34", 3.664}, std::pair{"resnet-50", 4.089}, std::pair{"resnet-101", 7.801},
                                    std::pair{"resnet-152", 11.514}, std::pair{"dit-xl-2", 118.64}, std::pair{"dit-l-2", 80.71}, std::pair{"dit-b-2", 23.01}}) {
    INFO(name);
    const Model m = load(name);
    CHECK(count(m, tokens_of_sample(m, 1), false).exact * static_cast<double>(tokens_of_sample(m, 1)) / 6e9 == Approx(gmacs).epsilon(0.001));
  }
}

TEST_CASE("a state-space mixer costs as the sum of its products, linear in the sequence") {
  // Per token: projections 2 h (2 i + 2 g n + heads) + 2 i h; states 2 i n; C B^T 2 g n q; half of the chunk i q; what came before 2 i n.
  const Model m = load("mamba2-2.7b");
  const double h = 2560, i = 5120, n = 128, q = 256, heads = 80;
  const double layer = 2 * h * (2 * i + 2 * n + heads) + 2 * i * h + 2 * i * n + 2 * n * q + i * q + 2 * i * n;
  for (const std::int64_t sequence : {2048, 8192}) {
    CHECK(count(m, sequence, true).exact == Approx(3 * (64 * layer + 2 * h * 50288)));
  }
}

TEST_CASE("a convolution's passes are products of equal work") {
  for (const Convolution& c : {Convolution{.images = 32, .in_channels = 64, .out_channels = 256, .in_size = 56, .out_size = 28, .kernel = 3, .stride = 2},
                               Convolution{.images = 2, .in_channels = 128, .out_channels = 128, .in_size = 14, .out_size = 14, .kernel = 1, .stride = 1}}) {
    for (const ConvolutionPass pass : {ConvolutionPass::kForward, ConvolutionPass::kInputGradient, ConvolutionPass::kWeightGradient}) {
      Convolution one = c;
      one.pass = pass;
      CHECK(one.flops() == c.flops());
      CHECK(one.implicit_gemm().flops().value() == Approx(c.flops().value()));
    }
  }
}

TEST_CASE("a decoder block of T5 reads the source at the target's expense") {
  // Beside self-attention and MLP over 114 tokens: keys and values of 512 source tokens, queries and output of 114, attention of 114 x 512.
  const Model m = load("t5-base");
  const Layer block = whole(m, LayerKind::kDecoder, block_of(m, 13));
  const double h = 768, f = 3072, s = 512, t = 114;
  const double self = 2 * t * h * 4 * h + 2 * t * t * h, cross = 2 * t * h * 2 * h + 2 * s * h * 2 * h + 4 * t * s * h, mlp = 4 * t * h * f;
  CHECK(samples::work(block.forward).total() == Approx(self + cross + mlp));
  Training training;
  CHECK(input_bytes(m, training, {.micro_batch = 3, .sequence = 512}, 13) == 2 * 3 * (512 + 114) * 768);
}

TEST_CASE("look-up tables are split over the data-parallel ranks, and their rows travel by all-to-all") {
  const Model m = load("dlrm");
  Training t;
  t.sequence_length = 1;
  t.optimizer = Optimizer::kSgd;
  const Layer layer = make_layer(LayerKind::kEmbedding, m, t, {.micro_batch = 4096, .sequence = 1, .dp = 8}, StackKernels{});
  CHECK(layer.parameters.total() == 0);
  CHECK(layer.parameters.tables == (187767399LL * 128 + 7) / 8);
  CHECK(samples::comm_bytes(layer.forward, CommKind::kAllToAll, Axis::kDp) == 4096LL * 26 * (8 + 2 * 128));
  CHECK(samples::comm_bytes(layer.backward, CommKind::kAllToAll, Axis::kDp) == 4096LL * 26 * 2 * 128);
}

TEST_CASE("what an image keeps for backward is the maps between its layers") {
  // A bottleneck of 56 x 56 x 256 to 64 and back keeps its input, two convolution outputs and two activations of 64 channels, and a
  // convolution's output of 256: 56 x 56 x (256 + 4 x 64 + 256) elements of two bytes; its own output is the next block's input, and ReLU's.
  const Model m = load("resnet-50");
  const Layer layer = whole(m, LayerKind::kDecoder, block_of(m, 1));
  CHECK(samples::saved_bytes(layer) == 2 * 56 * 56 * (256 + 4 * 64 + 256 + 256));
}

TEST_CASE("without the pre-training heads BERT has the parameters of the bare encoder") {
  // transformers BertModel.num_parameters(): 109,482,240 and 335,141,888, pooler included. What is left of a head is next_sentence's two rows.
  for (const auto& [name, bare, hidden] : {std::tuple{"bert-base", 109482240, 768}, std::tuple{"bert-large", 335141888, 1024}}) {
    Model m = load(name);
    std::get<Encoder>(m.of_family).masked_lm = m.tied_embeddings = false;
    CHECK(count(m, 512, false).parameters == bare + 2 * hidden + 2);
  }
}

TEST_CASE("a pooler that no head reads runs forward, and is stored without being trained") {
  Model m = load("bert-base");
  std::get<Encoder>(m.of_family).next_sentence = false;
  const Layer idle = whole(m, LayerKind::kHead, {});
  std::get<Encoder>(m.of_family).pooler = false;
  const Layer without = whole(m, LayerKind::kHead, {});
  CHECK(idle.parameters.frozen == 768 * 768 + 768);
  CHECK(idle.parameters.total() == without.parameters.total());
  CHECK(samples::work(idle.forward).gemm - samples::work(without.forward).gemm == 2.0 * 768 * 768);
  CHECK(idle.backward == without.backward);
}

TEST_CASE("a parameter count without embedding leaves out the tables of words, positions and segments") {
  const ModelCounts c = counts("bert-base");
  CHECK(c.parameters - c.parameters_without_embedding == (30522 + 512 + 2) * 768);
}

TEST_CASE("forward FLOPs of a vision transformer are what torchvision's table says") {
  // torchvision ViT_*_Weights.meta["_ops"]: billions of multiply-adds of one image, attention's two products among them.
  for (const auto& [name, gmacs] : {std::pair{"vit-b-16", 17.564}, std::pair{"vit-b-32", 4.409}, std::pair{"vit-l-16", 61.555}, std::pair{"vit-h-14", 167.295}}) {
    INFO(name);
    const Model m = load(name);
    double flops = 0;
    for (std::int64_t i = 0; i < m.layers; ++i) {
      for (const Operation& op : whole(m, LayerKind::kDecoder, block_of(m, i)).forward) flops += op.flops().value();
    }
    for (const LayerKind kind : {LayerKind::kEmbedding, LayerKind::kHead}) {
      for (const Operation& op : whole(m, kind, {}).forward) flops += op.flops().value();
    }
    CHECK(flops / 2e9 == Approx(gmacs).epsilon(0.0005));
    CHECK(3 * flops == Approx(count(m, tokens_of_sample(m, 1), false).exact * static_cast<double>(tokens_of_sample(m, 1))));
  }
}

TEST_CASE("backward is twice forward but for data, whose gradient nobody asks for") {
  for (const char* name : {"bert-base", "vit-b-16", "mlp-mnist", "resnet-50", "dit-xl-2", "t5-base"}) {
    INFO(name);
    const Model m = load(name);
    const auto products = [](const std::vector<Operation>& ops) {
      double sum = 0;
      for (const Operation& op : ops) sum += std::holds_alternative<Attention>(op.work) ? 0 : op.flops().value();
      return sum;
    };
    const Layer last = whole(m, LayerKind::kDecoder, block_of(m, m.layers - 1));
    CHECK(products(last.backward) == Approx(2 * products(last.forward)));
  }
  const Model mlp = load("mlp-mnist");
  const Layer first = whole(mlp, LayerKind::kDecoder, block_of(mlp, 0));
  CHECK(samples::work(first.backward).gemm == samples::work(first.forward).gemm);
  const Layer patches = whole(load("vit-b-16"), LayerKind::kEmbedding, {});
  CHECK(samples::work(patches.backward).gemm == samples::work(patches.forward).gemm);
}

TEST_CASE("the masked-token head costs by the positions that it sees") {
  Model m = load("bert-base");
  const double all = samples::work(whole(m, LayerKind::kHead, {}).forward).gemm;
  std::get<Encoder>(m.of_family).masked_positions = 80;  // max_predictions_per_seq of 512 tokens, google-research/bert README
  const double some = samples::work(whole(m, LayerKind::kHead, {}).forward).gemm;
  const double pooled = 2.0 * 768 * 768 + 2.0 * 768 * 2;
  CHECK((some - pooled) / (all - pooled) == Approx(80.0 / 512));
}

TEST_CASE("decoders have the parameters that their operations multiply with") {
  const Shard shard{.micro_batch = 1, .sequence = 256, .tp = 2};
  Training t;
  t.sequence_length = 256;
  for (const char* name : {"llama-3.1-8b", "gpt2-medium", "qwen3-8b", "qwen2.5-7b"}) {
    INFO(name);
    const Model m = load(name);
    const Layer layer = make_layer(LayerKind::kDecoder, m, t, shard, StackKernels{});
    double weights = 0;
    for (const Operation& op : layer.forward) {
      if (const auto* g = std::get_if<Gemm>(&op.work)) weights += static_cast<double>(g->n * g->k);
    }
    const double biases = static_cast<double>(layer.parameters.total()) - weights;
    CHECK(biases >= 0);
    CHECK(biases < 0.01 * weights);
  }
}

TEST_CASE("tensors of a family's parameters are its matrices and what is small as one, and add up to all of them") {
  for (const char* name : {"bert-base", "t5-base", "vit-b-16", "dit-b-2", "resnet-50", "mlp-mnist", "dlrm", "mamba2-130m", "nemotron-h-8b"}) {
    const Model m = load(name);
    const Shard shard{.micro_batch = 1, .sequence = tokens_of_sample(m, 512)};
    const auto check = [&](LayerKind kind, const Block& block) {
      CAPTURE(name, static_cast<int>(kind), block.part);
      const LayerParameters p = layer_parameters(kind, m, shard, block);
      std::int64_t matrices = 0, tensors = 0;
      for (const Matrix& x : p.matrices) matrices += x.elements();
      for (const bool fused : {false, true}) {
        tensors = 0;
        for (const std::int64_t n : parameter_tensors(kind, m, shard, fused, block)) tensors += n;
        CHECK(tensors == p.total());
      }
      CHECK(matrices <= p.total());
      CHECK((p.vectors > 0 || matrices == p.total()));
      // A word table comes first: where head and embedding are one matrix, it is the one that is not there twice.
      if (m.vocab > 0 && kind != LayerKind::kDecoder) CHECK(parameter_tensors(kind, m, shard, true, block).front() == word_embedding_parameters(m, shard));
    };
    check(LayerKind::kEmbedding, {});
    for (const BlockCount& b : blocks_of(m)) check(LayerKind::kDecoder, b.block);
    check(LayerKind::kHead, {});
  }
}

TEST_CASE("conventions of language models say nothing of the others") {
  CHECK(std::isnan(counts("mlp-mnist").six_n));
  CHECK(std::isnan(counts("mlp-mnist").megatron));
  CHECK(counts("bert-base").six_n == 6.0 * 110106428);
  CHECK(std::isnan(counts("bert-base").torchtitan));
}

TEST_CASE("what a family cannot do is refused by name") {
  Training t;
  t.sequence_length = 196;
  const auto limits = family_limits(load("vit-b-16"), t, {.tp = 1, .cp = 2});
  REQUIRE(limits.size() == 3);
  CHECK(limits[0].pointer == "/training/sequence_length");
  CHECK(limits[0].why == "196 is not the length of this model's sequences; an image of 224 x 224 pixels has 196 patches of 16 x 16 and a class token: use 197");
  CHECK(limits[1].why == "a vision transformer attends both ways; use \"full\"");
  CHECK(limits[2].why == "a vision transformer has no long sequence that frameworks split over context-parallel ranks; use 1");

  t.sequence_length = 1024;
  CHECK(family_limits(load("bert-base"), t, {}).front().why == "1024 tokens are more than the 512 rows of the model's position table; use at most 512");

  t.loss.chunks = 4;
  CHECK(family_limits(load("mamba2-130m"), t, {}).empty());
  CHECK(family_limits(load("bert-base"), t, {}).back().why == "the head of this model's family has no projection and loss in chunks; use 1");
  t.loss = {};
  t.loss.fused = true;
  CHECK(family_limits(load("dlrm"), t, {}).back().why == "the loss of a model without a vocabulary is the framework's own; leave it out");
  t.loss = {};
  t.sparse = true;
  CHECK(family_limits(load("dlrm"), t, {}).back().why == "no framework prunes the weights of a recommendation model 2:4 as it trains; leave it out");
  t.sparse = false;

  t.precision = DType::kFp8;
  t.recompute.mode = RecomputeMode::kSelective;
  const auto mlp = family_limits(load("mlp-mnist"), t, {.tp = 2});
  REQUIRE(mlp.size() == 4);
  CHECK(mlp[0].why == "1024 is not the length of this model's sequences; a sample is one token: use 1");
  CHECK(mlp[1].why == "an MLP has no attention heads or MLP columns that frameworks split over tensor-parallel ranks; use 1");
  CHECK(mlp[2].why == "no framework trains an MLP in fp8; use bf16, fp16, tf32 or fp32");
  CHECK(mlp[3].why == "an MLP has none of the parts of a transformer block that selective recompute names; use none or full");
  CHECK(family_limits(load("llama-3.1-8b"), t, {.tp = 2, .cp = 2}).empty());
}

TEST_CASE("a model of another family that contradicts itself is refused") {
  CHECK(refusal(R"({"schema":"orrery/model/1","family":"vision_transformer","image_size":224,"patch_size":15,"layers":1,"hidden":64,"ffn_hidden":64,"heads":1,"classes":10})") ==
        "m.json:/model/patch_size: patches of 15 pixels do not tile an image of 224; use a divisor of image_size");
  CHECK(refusal(R"({"schema":"orrery/model/1","family":"encoder","layers":1,"hidden":64,"ffn_hidden":64,"heads":1,"vocab":10,"max_positions":8,"pooler":false})") ==
        "m.json:/model/next_sentence: the head reads what the pooler makes; use pooler true, or next_sentence false");
  CHECK(refusal(R"({"schema":"orrery/model/1","family":"encoder","layers":1,"hidden":64,"ffn_hidden":64,"heads":1,"vocab":10,"max_positions":8,"masked_lm":false,"next_sentence":false})") ==
        "m.json:/model/masked_lm: nothing is trained without a head; use masked_lm or next_sentence");
}
