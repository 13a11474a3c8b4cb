// Multi-token prediction: exact parameters and FLOPs, what stays for backward, and what a module shares with the model.
#include <numeric>

#include "catch.h"
#include "orrery/document/document.hpp"
#include "samples.hpp"

using namespace orrery;
using namespace orrery::workload;
using namespace orrery::workload::samples;

namespace {

Model deepseek_v3(std::int64_t modules) {
  const auto document = document::load("model", "deepseek-v3", "", "", "");
  REQUIRE(document);
  Model m = *read_model(document->value, "", "");
  m.mtp_layers = modules;
  return m;
}

Model mixture(std::int64_t modules) {
  Model m = llama(4, 1024, 8, 2048);
  m.moe = experts_of(16, 4, 512);
  m.mtp_layers = modules;
  return m;
}

Layer modules_of(const Model& m, const Shard& shard, const Training& t = {}, const StackKernels& k = {}) { return make_layer(LayerKind::kPrediction, m, t, shard, k, block_of(m, m.layers - 1)); }

double products(const std::vector<Operation>& operations) {
  double sum = 0;
  for (const Operation& op : operations) sum += op.flops().value();
  return sum;
}

std::int64_t sum(const std::vector<std::int64_t>& v) { return std::accumulate(v.begin(), v.end(), std::int64_t{0}); }

}  // namespace

TEST_CASE("DeepSeek-V3's module has the layer of its last, a projection of two states and three norms; with its copies of table and head the checkpoint has 685 billion") {
  const std::int64_t h = 7168;
  const std::int64_t attention = 1536 * (h + 128 * 192 + 1) + 512 * (h + 128 * 256 + 1) + h * 64 + 128 * 128 * h;
  const std::int64_t layer = attention + 257 * 3 * h * 2048 + 256 * (h + 1) + 2 * h;
  const ModelCounts without = count(deepseek_v3(0), 4096, true), with = count(deepseek_v3(1), 4096, true);
  CHECK(with.parameters - without.parameters == layer + 2 * h * h + 3 * h);
  CHECK(with.embedding_parameters == without.embedding_parameters);
  // The repository's card: 685B, of which 671B are the model; its module is stored with copies of embedding and head.
  CHECK(static_cast<double>(with.parameters + 2 * 129280 * h) / 1e9 == Approx(685).margin(0.6));
  // A token visits 8 of the module's 256 experts.
  CHECK(with.active_parameters - without.active_parameters == layer - 248 * 3 * h * 2048 + 2 * h * h + 3 * h);
}

TEST_CASE("the products of layers, modules and heads add up to the exact count") {
  for (const std::int64_t depth : {1, 2}) {
    for (const Model& m : {deepseek_v3(depth), mixture(depth)}) {
      const Shard one{.micro_batch = 1, .sequence = 4096};
      double forward = products(modules_of(m, one).forward) + products(make_layer(LayerKind::kHead, m, Training{}, one, StackKernels{}).forward);
      for (const BlockCount& b : blocks_of(m)) forward += static_cast<double>(b.layers) * products(make_layer(LayerKind::kDecoder, m, Training{}, one, StackKernels{}, b.block).forward);
      CHECK(3 * forward / 4096 == Approx(count(m, 4096, true).exact).epsilon(1e-12));
    }
  }
}

TEST_CASE("a module holds its own weights and the table; the head's matrix is none of its own") {
  for (const std::int64_t tp : {1, 2, 4}) {
    for (const std::int64_t ep : {1, 4}) {
      const Model m = mixture(2);
      const Shard shard{.micro_batch = 1, .sequence = 512, .tp = tp, .ep = ep, .sequence_parallel = true};
      const LayerParameters all = modules_of(m, shard).parameters, layer = layer_parameters(LayerKind::kDecoder, m, shard, moe_block());
      CHECK(all.sharded == word_embedding_parameters(m, shard) + 2 * (layer.sharded + 2 * 1024 * 1024 / tp));
      CHECK(all.replicated == 2 * (layer.replicated + 3 * 1024));
      CHECK(all.experts == 2 * layer.experts);
      const std::vector<std::int64_t> tensors = parameter_tensors(LayerKind::kPrediction, m, shard, true, moe_block());
      CHECK(sum(tensors) == all.total() - all.experts);
      CHECK(tensors.front() == word_embedding_parameters(m, shard));
    }
  }
}

TEST_CASE("the hidden state passes modules unchanged and is kept once, though the head reads it too") {
  const Model m = mixture(1);
  const Shard shard{.micro_batch = 1, .sequence = 512};
  const std::int64_t state = 512 * 1024 * 2;
  const Layer layer = modules_of(m, shard), head = make_layer(LayerKind::kHead, m, Training{}, shard, StackKernels{});
  CHECK(layer.input_bytes == state);
  CHECK(layer.output_bytes == state);
  CHECK(saves(layer, "input"));
  CHECK_FALSE(saves(head, "input"));
  CHECK(saves(make_layer(LayerKind::kHead, mixture(0), Training{}, shard, StackKernels{}), "input"));
  // Kept beside what the decoder layer keeps of its own input: the state, the embedding's rows, both normalised side by side, the layer's
  // result, its norm, and the logits' gradient.
  const Layer decoder = make_layer(LayerKind::kDecoder, m, Training{}, shard, StackKernels{}, moe_block());
  CHECK(saved_bytes(layer) - saved_bytes(decoder) == 6 * state + 512 * 128256 * 2);
}

TEST_CASE("full recompute keeps a module's input and result, runs it again, and leaves head and loss as they are") {
  const Model m = mixture(2);
  const Shard shard{.micro_batch = 1, .sequence = 512};
  Training full;
  full.recompute.mode = RecomputeMode::kFull;
  const Layer layer = modules_of(m, shard, full), kept = modules_of(m, shard);
  const std::int64_t state = 512 * 1024 * 2;
  // The input, and for each module: its result, the norm of it and the logits' gradient.
  CHECK(saved_bytes(layer) == state + 2 * (2 * state + 512 * 128256 * 2));
  CHECK(layer.forward == kept.forward);
  CHECK(layer.backward == kept.backward);
  const Operation* logits = find(layer.recompute, "logits");
  CHECK(logits == nullptr);
  double again = 0;
  for (const Operation& op : kept.forward) again += op.name == "logits" ? 0 : op.flops().value();
  CHECK(products(layer.recompute) == again);
}

TEST_CASE("selective recompute treats a module's layer as any other") {
  const Model m = mixture(1);
  const Shard shard{.micro_batch = 1, .sequence = 512};
  Training t;
  t.recompute = recompute_of({"moe_act"});
  const std::int64_t spared = saved_bytes(modules_of(m, shard)) - saved_bytes(modules_of(m, shard, t));
  CHECK(spared == 512 * 4 * 512 * 2);
  // A policy that is a decoder layer's own: modules keep what they make.
  t.recompute = recompute_of({"matmul_every_other"});
  CHECK(saved_bytes(modules_of(m, shard, t)) == saved_bytes(modules_of(m, shard)));
}

TEST_CASE("tensor parallelism: a module's embedding and projection bring their own collectives, all of a state's bytes") {
  const Model m = mixture(1);
  const std::int64_t state = 512 * 1024 * 2;
  const Shard sp{.micro_batch = 1, .sequence = 512, .tp = 2, .sequence_parallel = true}, one{.micro_batch = 1, .sequence = 512, .tp = 2};
  Model none = m;
  const auto more = [&](const Shard& shard, CommKind kind, bool forward) {
    const Layer layer = modules_of(m, shard), decoder = make_layer(LayerKind::kDecoder, none, Training{}, shard, StackKernels{}, moe_block());
    const Layer head = make_layer(LayerKind::kHead, none, Training{}, shard, StackKernels{});
    const auto bytes = [&](const Layer& l) { return comm_bytes(forward ? l.forward : l.backward, kind); };
    return bytes(layer) - bytes(decoder) - bytes(head);
  };
  // Forward: the rows' reduce-scatter; the states gathered for the projection, and its columns.
  CHECK(more(sp, CommKind::kReduceScatter, true) == state);
  CHECK(more(sp, CommKind::kAllGather, true) == 2 * state + state);
  // Backward: tokens of the projection's gradient and of the rows'; the states again for the weight gradient, and their gradient scattered.
  CHECK(more(sp, CommKind::kAllGather, false) == 2 * state + 2 * state);
  CHECK(more(sp, CommKind::kReduceScatter, false) == 2 * state);
  CHECK(more(one, CommKind::kAllReduce, true) == state);
  CHECK(more(one, CommKind::kAllReduce, false) == 2 * state);
}

TEST_CASE("every module looks tokens up, shifts them and runs the head: as many losses as modules") {
  const Layer layer = modules_of(mixture(3), {.micro_batch = 1, .sequence = 512});
  int losses = 0, tables = 0;
  for (const Operation& op : layer.forward) {
    losses += op.name == "cross_entropy" ? 1 : 0;
    tables += op.name == "mtp_embedding" ? 1 : 0;
  }
  CHECK(losses == 3);
  CHECK(tables == 3);
}
