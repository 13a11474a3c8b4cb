// Multi-head latent attention and the models that have it: counts against what was published, memory against the closed form.
#include "catch.h"
#include "samples.hpp"

using namespace orrery;
using namespace orrery::workload;
using namespace orrery::workload::samples;

namespace {

Model deepseek_v3() {
  Model m;
  m.name = "deepseek-v3";
  m.layers = 61;
  m.hidden = 7168;
  m.ffn_hidden = 18432;
  m.heads = m.kv_heads = 128;
  m.head_dim = 192;
  m.vocab = 129280;
  m.gated_mlp = true;
  m.moe = experts_of(256, 8, 2048, 2048);
  m.moe->dense_layers = 3;
  m.moe->router_bias = true;
  m.mla = Mla{1536, 512, 128, 64, 128};
  return m;
}

}  // namespace

TEST_CASE("parameters of DeepSeek-V3 are the published ones to the last, the score bias included; 37 billion are active") {
  // 671,026,419,200: sum of the published checkpoint's tensors without the prediction module (arXiv:2412.19437 prints 671B and 37B).
  const ModelCounts c = count(deepseek_v3(), 4096, true);
  CHECK(c.parameters == 671026419200);
  CHECK(static_cast<double>(c.active_parameters) / 1e9 == Approx(37.55).epsilon(0.005));
}

TEST_CASE("DeepSeek-V3's FLOPs per token are Megatron's, without and with a prediction module") {
  Model m = deepseek_v3();
  CHECK(count(m, 4096, true).megatron == 249812054016);                      // "flops.deepseek_v3.no_mtp"
  CHECK(249812054016 / 250e9 == Approx(1).epsilon(0.003));                   // DeepSeek's table prints 250 GFLOP
  m.mtp_layers = 1;
  const double with = count(m, 4096, true).megatron;
  CHECK(6288 * with / 1e12 == Approx(1634.83567453).epsilon(1e-9));          // "flops.deepseek_v3.tput_gb300"; published 1635
  // "flops.dsv3.mfu_to_flops_token": 38.94 % of 989.5 TFLOP/s on 2048 GPUs for 19.926 s over 15360 x 4096 tokens; "flops.dsv3.tokens_per_step": 272.8e9 a day.
  CHECK(0.3894 * 989.5e12 * 2048 * 19.926 / (15360.0 * 4096) == Approx(249925552207.0).epsilon(1e-9));
  CHECK(272.8e9 * 19.926 / 86400 == Approx(62914500.0).epsilon(1e-9));
}

TEST_CASE("Qwen3 235B's FLOPs per token give its published rate") {
  Model m = llama(94, 4096, 64, 1536);
  m.kv_heads = 4;
  m.vocab = 151936;
  m.moe = experts_of(128, 8, 1536);
  CHECK(8816 * count(m, 4096, true).megatron / 1e12 == Approx(1305.0749198).epsilon(1e-9));  // "flops.qwen3_235b.tput_gb300"
}

TEST_CASE("the layers' own GEMMs add up to the exact count") {
  const Model m = deepseek_v3();
  const Shard shard{.micro_batch = 1, .sequence = 4096};
  double forward = 0;
  for (const bool moe : {false, true}) {
    const Layer layer = make_layer(LayerKind::kDecoder, m, Training(), shard, StackKernels(), moe ? moe_block() : Block());
    double one = work(layer.forward).total();
    for (const Operation& op : layer.forward) {
      if (const auto* g = std::get_if<GroupedGemm>(&op.work)) one += g->flops().value();
    }
    forward += (moe ? 58 : 3) * one;
  }
  forward += work(make_layer(LayerKind::kHead, m, Training(), shard, StackKernels()).forward).total();
  CHECK(3 * forward / 4096 == Approx(count(m, 4096, true).exact).epsilon(1e-12));
}

TEST_CASE("a DeepSeek-V3 layer keeps 571,008 bytes a token, and the weights of the chosen experts") {
  // "mem.act.dsv3_token_layer": 8h + 4 q_lora + 2 n (dn+dr) + 2 (kv_lora+dr) + 2 kv_lora + 2 n (dn+dr) + 2 n dv + 2 n dv + 4 n, and of the
  // experts 4 k h + 6 k f_e + 6 f_s + 4 E. The formula leaves out one fp32 weight for each of 8 copies.
  const Layer layer = make_layer(LayerKind::kDecoder, deepseek_v3(), Training(), {.micro_batch = 1, .sequence = 4096}, StackKernels(), moe_block());
  CHECK(saved_bytes(layer) == std::int64_t{4096} * (571008 + 4 * 8));
}

TEST_CASE("the up-projections of latent attention can be made again: queries, keys, values and normalised latents go") {
  const Model m = deepseek_v3();
  const Shard shard{.micro_batch = 1, .sequence = 1024};
  Training t;
  const Layer all = make_layer(LayerKind::kDecoder, m, t, shard, StackKernels());
  t.recompute = recompute_of({"mla_up_proj"});
  const Layer less = make_layer(LayerKind::kDecoder, m, t, shard, StackKernels());
  // q and k of 128 x 192, v of 128 x 128, latents of 1536 and 512; the position key is kept for the re-run instead.
  CHECK(saved_bytes(all) - saved_bytes(less) == 1024 * 2 * (2 * 128 * 192 + 128 * 128 + 1536 + 512));
  CHECK(find(less.recompute, "key_value_up") != nullptr);
  CHECK(find(less.recompute, "key_value_down") == nullptr);
}

TEST_CASE("tensor parallelism cuts the projections up, and leaves those down on every rank") {
  const Model m = deepseek_v3();
  const Shard tp4{.micro_batch = 1, .sequence = 1024, .tp = 4, .sequence_parallel = true};
  const Layer one = make_layer(LayerKind::kDecoder, m, Training(), {.micro_batch = 1, .sequence = 1024}, StackKernels());
  const Layer four = make_layer(LayerKind::kDecoder, m, Training(), tp4, StackKernels());
  const auto gemm = [](const Layer& layer, const char* name) { return std::get<Gemm>(find(layer.forward, name)->work); };
  CHECK(gemm(four, "query_up").n * 4 == gemm(one, "query_up").n);
  CHECK(gemm(four, "query_up").m == 1024);
  CHECK(gemm(four, "query_down").n == 1536);
  CHECK(gemm(four, "query_down").m == 256);  // its own tokens
  CHECK(work(one.forward).total() == 4 * work(four.forward).total());
  CHECK(four.parameters.replicated == one.parameters.replicated);
  CHECK(four.parameters.sharded * 4 == one.parameters.sharded);
}
