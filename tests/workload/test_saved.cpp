// What a layer keeps for backward, against the published formulas (Korthikanti et al., arXiv:2205.05198, table 2, and its like for
// fused Llama layers). The production code knows none of them: it keeps what backward reads.
#include <string>
#include <vector>

#include "catch.h"
#include "samples.hpp"

using namespace orrery;
using namespace orrery::workload;
using namespace orrery::workload::samples;

namespace {

Training selective(Training t, const std::vector<std::string>& modules) {
  t.recompute.mode = RecomputeMode::kSelective;
  t.recompute.modules = modules;
  return t;
}
Training full(Training t) {
  t.recompute.mode = RecomputeMode::kFull;
  return t;
}
double in_sbh(const Layer& layer, const Model& m, const Shard& shard) {
  return static_cast<double>(saved_bytes(layer)) / static_cast<double>(shard.sequence * shard.micro_batch * m.hidden);
}

}  // namespace

TEST_CASE("a GPT-3 layer with dropout and unfused attention keeps what Korthikanti's table 2 says") {
  const Model m = gpt3_175b();
  const StackKernels k = megatron_kernels();
  const Training t = megatron_training();
  const Shard one{.micro_batch = 1, .sequence = 2048};
  const Shard tp8{.micro_batch = 1, .sequence = 2048, .tp = 8};
  const Shard tp8sp{.micro_batch = 1, .sequence = 2048, .tp = 8, .sequence_parallel = true};
  struct Row {
    const char* id;
    Training training;
    Shard shard;
    double expected;  // units of s b h
  };
  const Row rows[] = {
      {"mem.kor.gpt3_none", t, one, 34 + 80},
      {"mem.kor.gpt3_tp8", t, tp8, 23.0},
      {"mem.kor.gpt3_tp8sp", t, tp8sp, 14.25},
      {"mem.kor.gpt3_tp8sp_selective", selective(t, {"core_attn"}), tp8sp, 4.25},
      {"mem.kor.gpt3_full", full(t), tp8, 2.0},
  };
  for (const Row& row : rows) {
    INFO(row.id);
    CHECK(in_sbh(make_layer(LayerKind::kDecoder, m, row.training, row.shard, k), m, row.shard) == row.expected);
  }
  INFO("mem.kor.gpt3_none");
  CHECK(saved_bytes(make_layer(LayerKind::kDecoder, m, t, one, k)) == 2868903936);
  INFO("mem.kor.gpt3_score_term");
  // 5as/h: what recomputing the core attention drops on one GPU.
  const double dropped = in_sbh(make_layer(LayerKind::kDecoder, m, t, one, k), m, one) - in_sbh(make_layer(LayerKind::kDecoder, m, selective(t, {"core_attn"}), one, k), m, one);
  CHECK(dropped == 80.0);
}

TEST_CASE("a fused Llama layer keeps 8h + 4q + 4kv + 6f + 4a bytes per token, over tp with sequence parallelism") {
  INFO("mem.act.llama70b_token_layer");
  const Model m = llama3_70b();
  const Training t;
  const StackKernels k;
  const std::int64_t s = 4096;
  const auto kept = [&](const Training& training, const Shard& shard) { return saved_bytes(make_layer(LayerKind::kDecoder, m, training, shard, k)); };
  CHECK(kept(t, {.micro_batch = 1, .sequence = s}) == 274688 * s);
  CHECK(kept(t, {.micro_batch = 2, .sequence = s}) == 2 * 274688 * s);
  for (const std::int64_t tp : {2, 4, 8}) {
    CHECK(kept(t, {.micro_batch = 1, .sequence = s, .tp = tp, .sequence_parallel = true}) == 274688 * s / tp);
    // Without it the residual stream and the norms' outputs, 8h, are on every rank.
    CHECK(kept(t, {.micro_batch = 1, .sequence = s, .tp = tp}) == (8 * 8192 + (274688 - 8 * 8192) / tp) * s);
  }
  CHECK(kept(t, {.micro_batch = 1, .sequence = s, .cp = 4}) == 274688 * s / 4);

  const std::int64_t h = 8192, f = 28672, q = 8192, kv = 1024, a = 64;
  const Shard one{.micro_batch = 1, .sequence = s};
  CHECK(kept(selective(t, {"mlp_act"}), one) == (274688 - 2 * f) * s);
  CHECK(kept(selective(t, {"norm"}), one) == (274688 - 2 * 2 * h) * s);
  CHECK(kept(selective(t, {"norm", "mlp_act"}), one) == (274688 - 4 * h - 2 * f) * s);
  CHECK(kept(selective(t, {"mlp"}), one) == (274688 - 6 * f) * s);
  CHECK(kept(selective(t, {"core_attn"}), one) == (274688 - 4 * a) * s);  // flash attention keeps no scores: only the log-sum-exp goes
  CHECK(kept(full(t), one) == 2 * h * s);
  CHECK(kept(full(t), {.micro_batch = 1, .sequence = s, .tp = 8, .sequence_parallel = true}) == 2 * h * s / 8);

  // torchtitan keeps the input, the first of every two products (query, value, gate, down) and what attention gives.
  StackKernels apart = k;
  apart.fused_projections = false;
  CHECK(saved_bytes(make_layer(LayerKind::kDecoder, m, selective(t, {"matmul_every_other"}), one, apart)) == (2 * h + 2 * q + 2 * kv + 2 * q + 4 * a + 2 * f + 2 * h) * s);
}

TEST_CASE("the stack's own selective modules apply where the recipe names none") {
  const Model m = llama3_8b();
  Training t;
  t.recompute.mode = RecomputeMode::kSelective;
  StackKernels k;
  k.selective_modules = {"mlp_act"};
  const Shard one{.micro_batch = 1, .sequence = 128};
  CHECK(make_layer(LayerKind::kDecoder, m, t, one, k).saved.size() == make_layer(LayerKind::kDecoder, m, selective(t, {"mlp_act"}), one, StackKernels{}).saved.size());
  CHECK_FALSE(saves(make_layer(LayerKind::kDecoder, m, t, one, k), "activation_output"));
  t.recompute.modules = {"norm"};
  CHECK(saves(make_layer(LayerKind::kDecoder, m, t, one, k), "activation_output"));
}

TEST_CASE("8-bit recipes keep one quantised copy of what a linear layer reads") {
  // 8h + 4q + 4kv + 6f + 4a where norm outputs (2 x 2h) and the activation (2f) are one byte, and the projection's input has a copy (q).
  const Model m = llama3_8b();
  Training t;
  t.precision = DType::kFp8;
  const std::int64_t h = 4096, f = 14336, q = 4096, kv = 1024, a = 32, s = 512;
  const Shard one{.micro_batch = 1, .sequence = s};
  for (const Fp8Recipe recipe : {Fp8Recipe::kDelayed, Fp8Recipe::kCurrent}) {
    t.fp8_recipe = recipe;
    CHECK(saved_bytes(make_layer(LayerKind::kDecoder, m, t, one, StackKernels{})) == (4 * h + 2 * h + 4 * q + 4 * kv + q + 5 * f + 4 * a) * s);
  }
}

TEST_CASE("written-out RMSNorm keeps its fp32 input and its scaled value, an unfused gate its opened gate") {
  const Model m = llama3_8b();
  Training t;
  const std::int64_t h = 4096, f = 14336, s = 64;
  const Shard one{.micro_batch = 1, .sequence = s};
  const std::int64_t fused = saved_bytes(make_layer(LayerKind::kDecoder, m, t, one, StackKernels{}));
  t.fusion = Fusion::kNone;
  // per norm: input 2h becomes fp32 4h and scaled 2h. The layer's input itself goes; MLP: silu(gate) 2f more.
  CHECK(saved_bytes(make_layer(LayerKind::kDecoder, m, t, one, StackKernels{})) == fused + (2 * (4 + 2 - 2) * h + 2 * f) * s);
}

TEST_CASE("the head holds four bytes a logit at most when fused, and the fp32 copy's eight when not") {
  const Model m = llama3_8b();
  const Training t;
  StackKernels k;
  const std::int64_t s = 1024;
  const std::int64_t logits = s * m.vocab;
  const Shard one{.micro_batch = 1, .sequence = s};
  Layer head = make_layer(LayerKind::kHead, m, t, one, k);
  const std::int64_t hidden = 2 * 2 * m.hidden * s;  // norm's input and output
  CHECK(saved_bytes(head) == hidden + 2 * logits);
  REQUIRE(head.forward_tensors.size() == 1);
  CHECK(head.forward_tensors[0].name == "logits");
  CHECK(head.forward_tensors[0].bytes == 2 * logits);

  k.fused_cross_entropy = false;
  k.cross_entropy_fp32_logits = true;
  head = make_layer(LayerKind::kHead, m, t, one, k);
  CHECK(saved_bytes(head) == hidden + 4 * logits);
  {
    INFO("mem.logits_fp32");
    const Layer at32k = make_layer(LayerKind::kHead, m, t, {.micro_batch = 1, .sequence = 32768}, k);
    bool found = false;
    for (const Tensor& x : at32k.forward_tensors) {
      if (x.name != "logits_fp32") continue;
      found = true;
      CHECK(to_gib(Bytes(x.bytes)) == 15.65625);
      CHECK(to_gib(Bytes(x.bytes)) == Approx(15.7).epsilon(0.005));  // published, ML engineering book
    }
    CHECK(found);
  }
}
