// A config.json of Hugging Face means the same model as the catalogue's file. hugging_face.json holds the members that shape each model, as
// its repository states them.
#include "catch.h"
#include "orrery/document/document.hpp"
#include "samples.hpp"

using namespace orrery;
using namespace orrery::workload;
using document::Value;

namespace {

Model read(const Value& reference, const std::string& name) {
  INFO(name);
  const auto document = document::load("model", reference, name, "", "");
  if (!document) FAIL(to_string(document.error().front()));
  const auto model = read_model(document->value, name, "");
  REQUIRE(model);
  return *model;
}

Value configs() {
  const std::string path = std::string(ORRERY_SOURCE_DIR) + "/tests/workload/hugging_face.json";
  const auto text = document::read_file(path);
  REQUIRE(text);
  const auto all = document::parse(*text, path);
  REQUIRE(all);
  return *all;
}

}  // namespace

TEST_CASE("a config.json has the layers, parameters and FLOPs of the catalogue's model of that name") {
  const Shard one{.micro_batch = 1, .sequence = 512};
  const auto names = document::catalogue("model");
  REQUIRE(names);
  int compared = 0;
  const Value all = configs();
  for (const auto& [name, config] : all.members()) {
    if (!std::binary_search(names->begin(), names->end(), name)) continue;
    INFO(name);
    // The catalogue counts models without their prediction modules, as published counts do.
    const Model theirs = read(config, name);
    Model ours = read(Value(name), name);
    if (const Value& modules = config.at("num_nextn_predict_layers"); modules.is_int()) {
      CHECK(ours.mtp_layers == 0);
      ours.mtp_layers = modules.as_int();
    }
    CHECK(theirs.mtp_layers == ours.mtp_layers);
    const ModelCounts a = count(theirs, 8192, true), b = count(ours, 8192, true);
    CHECK(a.parameters == b.parameters);
    CHECK(a.active_parameters == b.active_parameters);
    CHECK(a.exact == b.exact);
    CHECK(theirs.layers == ours.layers);
    CHECK(theirs.tied_embeddings == ours.tied_embeddings);
    for (const LayerKind kind : {LayerKind::kEmbedding, LayerKind::kHead}) {
      const Layer x = make_layer(kind, theirs, Training{}, one, StackKernels{}), y = make_layer(kind, ours, Training{}, one, StackKernels{});
      CHECK(x.forward == y.forward);
      CHECK(x.backward == y.backward);
    }
    for (std::int64_t i = 0; i < ours.layers; ++i) REQUIRE(block_of(theirs, i) == block_of(ours, i));
    for (const BlockCount& c : blocks_of(ours)) {
      const Layer x = make_layer(LayerKind::kDecoder, theirs, Training{}, one, StackKernels{}, c.block);
      const Layer y = make_layer(LayerKind::kDecoder, ours, Training{}, one, StackKernels{}, c.block);
      CHECK(x.forward == y.forward);
      CHECK(x.backward == y.backward);
      CHECK(x.parameters.total() == y.parameters.total());
    }
    ++compared;
  }
  CHECK(compared >= 143);
}

TEST_CASE("BERT's classes are encoders with the heads that they have, and the parameters that transformers counts") {
  const auto bert = [](const char* architecture, const char* sizes) { return read(*document::parse(std::string("{\"architectures\": [\"") + architecture + "\"]" + sizes + "}", ""), architecture); };
  const char* const large = ", \"hidden_size\": 1024, \"num_hidden_layers\": 24, \"num_attention_heads\": 16, \"intermediate_size\": 4096";
  CHECK(count(bert("BertForPreTraining", ""), 512, false).parameters == count(read(Value("bert-base"), ""), 512, false).parameters);
  CHECK(count(bert("BertForPreTraining", large), 512, false).parameters == count(read(Value("bert-large"), ""), 512, false).parameters);
  CHECK(count(bert("BertForMaskedLM", ""), 512, false).parameters == 109514298);
  CHECK(count(bert("BertForMaskedLM", large), 512, false).parameters == 335174458);
  const char* const roberta = ", \"vocab_size\": 50265, \"max_position_embeddings\": 514, \"type_vocab_size\": 1";
  CHECK(count(bert("RobertaForMaskedLM", roberta), 512, false).parameters == count(read(Value("roberta-base"), ""), 512, false).parameters);
}

TEST_CASE("a ViTForImageClassification has as many classes as its config.json names labels") {
  std::string labels;
  for (int i = 0; i < 1000; ++i) labels += (i == 0 ? "\"" : ", \"") + std::to_string(i) + "\": \"class\"";
  const auto config = document::parse("{\"architectures\": [\"ViTForImageClassification\"], \"id2label\": {" + labels + "}}", "");
  REQUIRE(config);
  const Model theirs = read(*config, "vit"), ours = read(Value("vit-b-16"), "");
  CHECK(count(theirs, 197, false).parameters == count(ours, 197, false).parameters);
  CHECK(count(theirs, 197, false).exact == count(ours, 197, false).exact);
}
