// Windows, chunks, caps and sinks: what attention sees, and what it costs beside its products.
#include "catch.h"
#include "samples.hpp"

using namespace orrery;
using namespace orrery::workload;
using namespace orrery::workload::samples;

namespace {

/// Pairs of a query and a key, row by row: a row's own key counts half where causal, as half of the square does.
double pairs_row_by_row(std::int64_t s, bool causal, std::int64_t window, bool chunked) {
  double sum = 0;
  for (std::int64_t i = 0; i < s; ++i) {
    const std::int64_t start = chunked ? i / window * window : 0;
    const std::int64_t end = chunked ? std::min(start + window, s) : s;
    if (causal) {
      const double seen = static_cast<double>(i - start) + 0.5;
      sum += chunked || window == 0 ? seen : std::min(seen, static_cast<double>(window));
    } else {
      sum += static_cast<double>(end - start);
    }
  }
  return sum;
}

Model local_model() {
  Model m = llama3_8b();
  m.layers = 6;
  m.sliding_window = 1024;
  m.global_every = 3;
  return m;
}
Training training_of(bool flash) {
  Training t;
  t.flash_attention = flash;
  return t;
}
const Shard kOne{.micro_batch = 1, .sequence = 4096};

}  // namespace

TEST_CASE("a causal window of w keys leaves s w - w^2/2 pairs, and a window of the sequence what no window leaves") {
  CHECK(visible_share(4096, true, 1024, false) * 4096 * 4096 == 4096.0 * 1024 - 0.5 * 1024 * 1024);
  CHECK(visible_share(4096, true, 4096, false) == 0.5);
  CHECK(visible_share(4096, true, 1 << 20, false) == 0.5);
  CHECK(visible_share(4096, true, 0, false) == 0.5);
  CHECK(visible_share(4096, false, 0, false) == 1);
  CHECK(visible_share(4096, false, 8192, false) == 1);
  for (const std::int64_t s : {1, 7, 128, 1000})
    for (const std::int64_t w : {1, 3, 64, 999, 1000, 5000}) {
      INFO(s << " tokens, window " << w);
      CHECK(visible_share(s, true, w, false) * static_cast<double>(s * s) == Approx(pairs_row_by_row(s, true, w, false)));
    }
}

TEST_CASE("chunks leave the square of each, the last one shorter") {
  for (const bool causal : {true, false})
    for (const std::int64_t s : {1, 100, 128, 1000})
      for (const std::int64_t c : {1, 64, 300, 1000, 5000}) {
        INFO(s << " tokens, chunks of " << c << (causal ? ", causal" : ""));
        CHECK(visible_share(s, causal, c, true) * static_cast<double>(s * s) == Approx(pairs_row_by_row(s, causal, c, true)));
      }
}

TEST_CASE("every third layer sees all and the others a window: two blocks, counted apart") {
  const Model m = local_model();
  const std::vector<BlockCount> blocks = blocks_of(m);
  REQUIRE(blocks.size() == 2);
  CHECK(blocks[0].block.window == 1024);
  CHECK(blocks[0].layers == 4);
  CHECK_FALSE(blocks[1].block.window);
  CHECK(blocks[1].layers == 2);
  CHECK_FALSE(block_of(m, 2).window);
  CHECK(block_of(m, 3).window == 1024);

  const ModelCounts c = count(m, 4096, true);
  Model all = m;
  all.sliding_window = all.global_every = std::nullopt;
  const ModelCounts whole = count(all, 4096, true);
  // 12 q a layer and key: four layers see 1024 - 1024^2/(2 4096) keys on the mean in place of 2048
  CHECK(whole.exact - c.exact == 12.0 * 4096 * 4 * (2048 - (1024 - 128)));
  CHECK(c.megatron == whole.megatron);
  CHECK(c.torchtitan == whole.torchtitan);
  CHECK(c.palm == whole.palm);
  CHECK(c.parameters == whole.parameters);
}

TEST_CASE("the counted FLOPs of a model with windows are three times its forward kernels'") {
  Model m = local_model();
  m.attention_chunk = std::nullopt;
  for (const bool chunked : {false, true}) {
    if (chunked) std::swap(m.sliding_window, m.attention_chunk);
    double forward = work(make_layer(LayerKind::kHead, m, Training{}, kOne, StackKernels{}).forward).total();
    for (const BlockCount& b : blocks_of(m)) forward += static_cast<double>(b.layers) * work(make_layer(LayerKind::kDecoder, m, Training{}, kOne, StackKernels{}, b.block).forward).total();
    CHECK(3 * forward == Approx(4096 * count(m, 4096, true).exact).epsilon(1e-12));
  }
}

TEST_CASE("attention without a fused kernel multiplies the whole square whatever the window") {
  const Model m = local_model();
  const auto local = work(make_layer(LayerKind::kDecoder, m, training_of(false), kOne, StackKernels{}, block_of(m, 0)).forward);
  const auto global = work(make_layer(LayerKind::kDecoder, m, training_of(false), kOne, StackKernels{}, block_of(m, 2)).forward);
  CHECK(local.gemm == global.gemm);
}

TEST_CASE("a cap of the scores is the fused kernel's own affair, and three kernels each way without one") {
  Model m = llama3_8b();
  m.attn_softcap = 50;
  const Layer fused = make_layer(LayerKind::kDecoder, m, training_of(true), kOne, StackKernels{});
  REQUIRE(find(fused.forward, "attention") != nullptr);
  CHECK(std::get<Attention>(find(fused.forward, "attention")->work).softcap);
  CHECK(find(fused.forward, "softcap") == nullptr);
  const Layer eager = make_layer(LayerKind::kDecoder, m, training_of(false), kOne, StackKernels{});
  REQUIRE(find(eager.forward, "softcap") != nullptr);
  const std::int64_t scores = 2 * std::int64_t{32} * 4096 * 4096;
  CHECK(std::get<Stream>(find(eager.forward, "softcap")->work) == Stream{StreamKind::kElementwise, 3 * scores, 3 * scores, 3});
  CHECK(find(eager.backward, "softcap_backward") != nullptr);
  CHECK(saves(eager, "softcap_tanh"));
}

TEST_CASE("sinks are a parameter a head, split over tensor-parallel ranks") {
  Model m = llama3_8b();
  const std::int64_t without = count(m, 4096, true).parameters;
  m.attention_sinks = true;
  CHECK(count(m, 4096, true).parameters == without + 32 * 32);
  Shard four = kOne;
  four.tp = 4;
  CHECK(layer_parameters(LayerKind::kDecoder, m, four).sharded * 4 == layer_parameters(LayerKind::kDecoder, m, kOne).sharded);
  CHECK(find(make_layer(LayerKind::kDecoder, m, training_of(false), kOne, StackKernels{}).forward, "append_sinks") != nullptr);
}

TEST_CASE("a cap of the logits is a chain of kernels over them, and none where the loss is compiled") {
  Model m = llama3_8b();
  m.final_softcap = 30;
  StackKernels eager;
  eager.fused_bias_activation = false;
  const std::int64_t logits = 2 * std::int64_t{4096} * 128256;
  const Layer head = make_layer(LayerKind::kHead, m, Training{}, kOne, eager);
  REQUIRE(find(head.forward, "final_softcap") != nullptr);
  CHECK(std::get<Stream>(find(head.forward, "final_softcap")->work) == Stream{StreamKind::kElementwise, 3 * logits, 3 * logits, 3});
  Training compiled;
  compiled.fusion = Fusion::kCompiled;
  CHECK(find(make_layer(LayerKind::kHead, m, compiled, kOne, eager).forward, "final_softcap") == nullptr);
}
