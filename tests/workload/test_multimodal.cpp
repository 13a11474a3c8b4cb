// An encoder of images before a decoder: parameters of published checkpoints, what each part costs, and what freezing a part leaves out.
#include <string>
#include <vector>

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

std::vector<std::string> refused(const std::string& members) {
  const auto value = document::parse(R"({"schema": "orrery/model/1", "extends": "llava-1.5-7b", )" + members + "}", "m.json");
  REQUIRE(value);
  const auto read = document::load("model", *value, "m.json", "", "");
  REQUIRE(read);
  const auto model = read_model(read->value, "m.json", "/model");
  REQUIRE_FALSE(model);
  std::vector<std::string> all;
  for (const Diagnostic& d : model.error()) all.push_back(to_string(d));
  return all;
}

constexpr std::int64_t kVisionBlocks = 23, kBlocks = 55;  // of LLaVA-1.5-7B: 24 layers, of which the last does not run, and 32

Layer layer_of(const Model& m, LayerKind kind, const Block& block = {}, const Shard& shard = {.micro_batch = 2, .sequence = 2048}) {
  Training t;
  t.sequence_length = shard.sequence;
  return make_layer(kind, m, t, shard, StackKernels{}, block);
}

struct Sum {
  std::int64_t trained = 0, frozen = 0;
};
Sum parameters(const Model& m) {
  Sum s;
  const auto add = [&](const LayerParameters& p, std::int64_t times) { s.trained += times * p.total(), s.frozen += times * p.frozen; };
  add(layer_of(m, LayerKind::kEmbedding).parameters, 1);
  for (const BlockCount& b : blocks_of(m)) add(layer_of(m, LayerKind::kDecoder, b.block).parameters, b.layers);
  add(layer_of(m, LayerKind::kHead).parameters, 1);
  return s;
}

void freeze(Model& m, bool vision, bool projector, bool decoder) {
  auto& x = std::get<Multimodal>(m.of_family);
  x.frozen_vision = vision;
  x.frozen_projector = projector;
  x.frozen_decoder = decoder;
}

double products(const std::vector<Operation>& ops) { return samples::work(ops).gemm; }

}  // namespace

TEST_CASE("models of images and text have the parameters of the published checkpoints") {
  struct Exact { const char* name; std::int64_t parameters; };
  // transformers LlavaForConditionalGeneration and Qwen2VLForConditionalGeneration, safetensors metadata of llava-hf/llava-1.5-*-hf and
  // Qwen/Qwen2-VL-7B-Instruct; Pixtral by the shapes of its classes, 12 B and 400 M as its report prints (arXiv:2410.07073, section 2).
  for (const Exact& e : {Exact{"llava-1.5-7b", 7063427072}, Exact{"llava-1.5-13b", 13351494656}, Exact{"qwen2-vl-7b", 8291375616}, Exact{"pixtral-12b", 12682739712}}) {
    INFO(e.name);
    CHECK(count(load(e.name), 2048, true).parameters == e.parameters);
  }
}

TEST_CASE("what is no decoder is the encoder and the projector as their own repositories count them") {
  struct Apart { const char* name; const char* decoder; std::int64_t more_rows, others; };
  // CLIPVisionModel of openai/clip-vit-large-patch14-336: 303,507,456. Qwen2VisionTransformerPretrainedModel: 675,759,104 with its merger.
  for (const Apart& a : {Apart{"llava-1.5-7b", "llama-2-7b", 64, 303507456 + 20979712}, Apart{"llava-1.5-13b", "llama-2-13b", 64, 303507456 + 31467520}, Apart{"qwen2-vl-7b", "qwen2.5-7b", 0, 675759104},
                         Apart{"pixtral-12b", "mistral-nemo-12b", 0, 403489792 + 31467520}}) {
    INFO(a.name);
    const Model m = load(a.name);
    CHECK(count(m, 2048, true).parameters - count(load(a.decoder), 2048, true).parameters - 2 * a.more_rows * m.hidden == a.others);
  }
}

TEST_CASE("forward FLOPs are the encoder's over its patches, the projector's over the features and the decoder's over the sequence") {
  const Model m = load("llava-1.5-7b");
  const double v = 577, h = 1024, patches = 576, s = 2048, d = 4096, f = 11008;
  const double encoder = 2 * patches * 588 * h + 23 * (2 * v * (4 * h * h + 8 * h * h) + 4 * v * v * h);
  const double projector = 2 * patches * (h * d + d * d);
  const double decoder = 32 * (2 * s * (4 * d * d + 3 * d * f) + 2 * s * s * d) + 2 * s * d * 32064;
  CHECK(count(m, 2048, true).exact * s == Approx(3 * (encoder + projector + decoder)));
  Model stage = m;
  freeze(stage, true, false, false);
  CHECK(count(stage, 2048, true).exact * s == Approx(encoder + 3 * (projector + decoder)));
  freeze(stage, true, false, true);
  CHECK(count(stage, 2048, true).exact * s == Approx(encoder + 3 * projector + 2 * decoder));
  freeze(stage, false, true, true);
  CHECK(count(stage, 2048, true).exact * s == Approx(3 * encoder + 2 * projector + 2 * decoder));
}

TEST_CASE("decoder blocks behind the first, and the head, are those of the decoder alone") {
  const Model m = load("qwen2-vl-7b"), alone = load("qwen2.5-7b");
  const Layer block = layer_of(m, LayerKind::kDecoder, block_of(m, 40)), own = layer_of(alone, LayerKind::kDecoder, block_of(alone, 8));
  CHECK(block.forward == own.forward);
  CHECK(block.backward == own.backward);
  CHECK(block.parameters.total() == own.parameters.total());
  CHECK(layer_of(m, LayerKind::kHead).backward == layer_of(alone, LayerKind::kHead).backward);
}

TEST_CASE("a frozen encoder runs forward, keeps nothing and is stored in one copy") {
  Model m = load("llava-1.5-7b");
  freeze(m, true, false, false);
  for (const Layer& layer : {layer_of(m, LayerKind::kEmbedding), layer_of(m, LayerKind::kDecoder, block_of(m, 0))}) {
    INFO(layer.name);
    CHECK(products(layer.forward) > 0);
    CHECK(layer.backward.empty());
    CHECK(layer.saved.empty());
    CHECK(layer.parameters.total() == 0);
    CHECK(layer.parameters.frozen_bytes == 2 * layer.parameters.frozen);
  }
  const Sum sum = parameters(m);
  CHECK(sum.frozen == 303507456);
  CHECK(sum.trained == 7063427072 - 303507456);
  // The projector's first layer needs no gradient of the features then: 2 x 576 x 1024 x 4096 FLOPs an image less.
  const Layer trained = layer_of(load("llava-1.5-7b"), LayerKind::kDecoder, block_of(m, kVisionBlocks)), behind = layer_of(m, LayerKind::kDecoder, block_of(m, kVisionBlocks));
  CHECK(products(trained.backward) - products(behind.backward) == Approx(2.0 * 2 * 576 * 1024 * 4096));
}

TEST_CASE("a frozen encoder of which the last layer is idle stores it all the same") {
  Model m = load("llava-1.5-7b");
  const Sum sum = parameters(m);
  CHECK(sum.frozen == 12596224 + 2048);  // one block, and the norm behind it that only the class token would pass
  CHECK(sum.trained + sum.frozen == 7063427072);
}

TEST_CASE("the first stage of LLaVA trains the projector alone: the decoder passes gradients on, one product for each of forward") {
  Model m = load("llava-1.5-7b");
  freeze(m, true, false, true);
  const Sum sum = parameters(m);
  CHECK(sum.trained == 1024 * 4096 + 4096 + 4096 * 4096 + 4096);
  CHECK(sum.trained + sum.frozen == 7063427072);
  const Layer block = layer_of(m, LayerKind::kDecoder, block_of(m, kBlocks - 1));
  CHECK(products(block.backward) == products(block.forward));
  CHECK(block.weight_gradient.empty());
  const Layer whole = layer_of(load("llava-1.5-7b"), LayerKind::kDecoder, block_of(m, kBlocks - 1));
  CHECK(samples::saved_bytes(block) < samples::saved_bytes(whole));  // inputs of products are read by gradients of weights alone
  const Layer head = layer_of(m, LayerKind::kHead);
  CHECK(products(head.backward) == products(head.forward));
  const Layer first = layer_of(m, LayerKind::kDecoder, block_of(m, kVisionBlocks));
  CHECK(first.parameters.total() == sum.trained);
  const double projector = 2.0 * 2 * 576 * (1024.0 * 4096 + 4096.0 * 4096);
  // Behind the frozen encoder: both weight gradients of the projector, and one input gradient between its layers.
  CHECK(products(first.backward) == Approx(products(block.forward) + projector + 2.0 * 2 * 576 * 4096.0 * 4096));
}

TEST_CASE("a frozen projector between trained towers passes gradients on") {
  Model m = load("llava-1.5-7b");
  const Block first = block_of(m, kVisionBlocks);
  const Layer trained = layer_of(m, LayerKind::kDecoder, first);
  freeze(m, false, true, false);
  const Layer passes = layer_of(m, LayerKind::kDecoder, first);
  CHECK(products(trained.backward) - products(passes.backward) == Approx(2.0 * 2 * 576 * (1024.0 * 4096 + 4096.0 * 4096)));
  CHECK(trained.parameters.total() - passes.parameters.total() == 20979712);
}

TEST_CASE("nothing runs backward below a decoder that alone is trained") {
  Model m = load("llava-1.5-7b");
  freeze(m, true, true, false);
  const Layer first = layer_of(m, LayerKind::kDecoder, block_of(m, kVisionBlocks)), block = layer_of(m, LayerKind::kDecoder, block_of(m, kBlocks - 1));
  CHECK(products(first.backward) == products(block.backward));
}

TEST_CASE("a stage boundary carries the images' hidden states before the decoder, and the sequence's behind its first block") {
  const Model m = load("llava-1.5-7b");
  Training t;
  const Shard shard{.micro_batch = 3, .sequence = 2048, .tp = 2, .sequence_parallel = true};
  CHECK(input_bytes(m, t, shard, 0) == 2 * 3 * 577 * 1024);
  CHECK(input_bytes(m, t, shard, kVisionBlocks) == 2 * 3 * 577 * 1024);
  CHECK(input_bytes(m, t, shard, kVisionBlocks + 1) == 2 * 3 * 1024 * 4096);  // sequence parallelism halves it
  for (const std::int64_t layer : {std::int64_t{0}, kVisionBlocks, kVisionBlocks + 1, kBlocks - 1})
    CHECK(layer_of(m, LayerKind::kDecoder, block_of(m, layer), shard).input_bytes == input_bytes(m, t, shard, layer));
}

TEST_CASE("tensor-parallel ranks share the blocks of both towers and repeat patches and projector") {
  const Model m = load("llava-1.5-7b");
  const Shard half{.micro_batch = 1, .sequence = 2048, .tp = 2, .sequence_parallel = true};
  const auto gemm = [&](std::int64_t layer, const Shard& shard) { return products(layer_of(m, LayerKind::kDecoder, block_of(m, layer), shard).forward); };
  const Shard whole{.micro_batch = 1, .sequence = 2048};
  CHECK(2 * gemm(0, half) == gemm(0, whole));
  const double projector = 2.0 * 576 * (1024.0 * 4096 + 4096.0 * 4096);
  CHECK(2 * gemm(kVisionBlocks, half) - gemm(kVisionBlocks, whole) == Approx(projector));
}

TEST_CASE("what an encoder of images cannot be, or stand before, is refused by name") {
  using Words = std::vector<std::string>;
  CHECK(refused(R"("frozen": ["vision", "projector", "decoder"])") == Words{"m.json:/model/frozen: nothing is trained where every part is frozen; leave one out"});
  CHECK(refused(R"("tied_embeddings": true)") == Words{"m.json:/model/tied_embeddings: a word table that is the head's too is not known behind an encoder of images; use false"});
  CHECK(refused(R"("projector": {"merge": 5, "widths": [4096, 1024]}, "vision": {"idle_layers": 24, "heads": 15, "image_size": 337})") ==
        Words{"m.json:/model/vision/idle_layers: 24 idle layers leave none of 24 to run; use less", "m.json:/model/vision/heads: 1024 features cannot be shared by 15 heads evenly; use a divisor",
              "m.json:/model/vision/patch_size: patches of 14 pixels do not tile an image of 337; use a divisor of image_size",
              "m.json:/model/projector/widths: the last layer makes 1024 features, but the decoder is 4096 wide; end with hidden",
              "m.json:/model/projector/merge: 24 patches a side are no multiple of 5; use a divisor"});
  Training t;
  t.sequence_length = 1024;
  t.causal = false;
  t.loss.chunks = 4;
  Model m = load("llava-1.5-7b");
  std::get<Multimodal>(m.of_family).images = 2;
  freeze(m, true, false, true);
  const auto limits = family_limits(m, t, {.tp = 32, .cp = 2});
  REQUIRE(limits.size() == 5);
  CHECK(limits[0].why == "the decoder generates text; use \"causal\"");
  CHECK(limits[1].why == "1024 tokens have no room for 576 of 2 images; use more, or less images");
  CHECK(limits[2].why == "32 ranks cannot share the 16 heads and 4096 MLP columns of the encoder of images evenly; use a divisor of both");
  CHECK(limits[3].why == "projection and loss in chunks make the gradient of a head that is frozen; use 1");
  CHECK(limits[4].why == "a decoder behind an encoder of images has no long sequence that frameworks split over context-parallel ranks; use 1");
}
