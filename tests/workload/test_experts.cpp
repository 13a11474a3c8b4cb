// Mixture of experts: who gets how many tokens, what a layer runs, keeps and sends. Sums are written as equations before they are compared.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <rapidcheck.h>

#include "catch.h"
#include "orrery/base/random.hpp"
#include "orrery/workload/experts.hpp"
#include "samples.hpp"

using namespace orrery;
using namespace orrery::workload;
using namespace orrery::workload::samples;

namespace {

Model mixture(std::int64_t experts, std::int64_t per_token, std::int64_t shared = 0) {
  Model m = llama(2, 1024, 8, 2048);
  m.moe = experts_of(experts, per_token, 512, shared);
  return m;
}

Layer moe_layer(const Model& m, const Shard& shard, const StackKernels& k = {}, const Training& t = {}) {
  return make_layer(LayerKind::kDecoder, m, t, shard, k, moe_block());
}

double grouped_flops(const std::vector<Operation>& operations) {
  double sum = 0;
  for (const Operation& op : operations) {
    if (const auto* g = std::get_if<GroupedGemm>(&op.work)) sum += g->flops().value();
  }
  return sum;
}

std::int64_t sum(const std::vector<std::int64_t>& v) { return std::accumulate(v.begin(), v.end(), std::int64_t{0}); }

}  // namespace

TEST_CASE("the copies of all tokens are dealt to experts without rest, whatever the load, and no expert gets a token twice") {
  CHECK(rc::check("loads add up", [] {
    Moe moe;
    moe.experts = *rc::gen::inRange<std::int64_t>(1, 300);
    moe.experts_per_token = *rc::gen::inRange<std::int64_t>(1, std::min<std::int64_t>(moe.experts, 16) + 1);
    moe.load = *rc::gen::element(ExpertLoad::kBalanced, ExpertLoad::kMultinomial, ExpertLoad::kZipf, ExpertLoad::kHistogram);
    moe.zipf = *rc::gen::inRange(0, 40) / 10.0;
    moe.histogram.assign(static_cast<std::size_t>(moe.experts), 0.0);
    for (double& w : moe.histogram) w = *rc::gen::inRange(0, 5);
    moe.histogram.front() = 1;
    const std::int64_t sources = *rc::gen::inRange<std::int64_t>(1, 65), tokens = *rc::gen::inRange<std::int64_t>(1, 9000);
    const std::vector<std::int64_t> loads = expert_loads(moe, sources, tokens);
    RC_ASSERT(sum(loads) == sources * tokens * moe.experts_per_token);
    RC_ASSERT(*std::max_element(loads.begin(), loads.end()) <= sources * tokens);
    RC_ASSERT(*std::min_element(loads.begin(), loads.end()) >= 0);
  }));
}

TEST_CASE("what the ranks of an expert-parallel group compute together is what they send together") {
  CHECK(rc::check("tokens dispatched are tokens computed", [] {
    Moe moe;
    Shard shard;
    shard.ep = *rc::gen::element<std::int64_t>(1, 2, 4, 8);
    shard.etp = *rc::gen::element<std::int64_t>(1, 2);
    moe.experts = shard.ep * *rc::gen::inRange<std::int64_t>(1, 9);
    moe.experts_per_token = *rc::gen::inRange<std::int64_t>(1, moe.experts + 1);
    moe.load = *rc::gen::element(ExpertLoad::kBalanced, ExpertLoad::kMultinomial, ExpertLoad::kZipf);
    moe.zipf = 1.2;
    const std::int64_t tokens = *rc::gen::inRange<std::int64_t>(1, 5000);
    std::int64_t received = 0, busiest = 0;
    for (shard.ep_rank = 0; shard.ep_rank < shard.ep; ++shard.ep_rank) {
      const ExpertTokens t = expert_tokens(moe, shard, tokens);
      RC_ASSERT(sum(t.local) == t.rows);
      RC_ASSERT(t.rows == shard.etp * t.received);
      RC_ASSERT(t.sent == tokens * moe.experts_per_token);
      received += t.received;
      busiest = std::max({busiest, t.received, t.sent});
      RC_ASSERT(t.busiest >= t.received);
    }
    RC_ASSERT(received == shard.ep * tokens * moe.experts_per_token);
    shard.ep_rank = 0;
    RC_ASSERT(expert_tokens(moe, shard, tokens).busiest == busiest);
  }));
}

TEST_CASE("balanced ranks are alike; skewed ones are not, and only their loads tell them apart") {
  Model m = mixture(8, 2);
  Shard shard{.micro_batch = 1, .sequence = 1000, .ep = 4};
  CHECK_FALSE(varies(m, Training(), shard).by_ep);
  const Layer first = moe_layer(m, shard);
  shard.ep_rank = 3;
  CHECK(moe_layer(m, shard).forward == first.forward);
  m.moe->load = ExpertLoad::kHistogram;
  m.moe->histogram = {8, 1, 1, 1, 1, 1, 1, 1};
  CHECK(varies(m, Training(), shard).by_ep);
  const Layer cold = moe_layer(m, shard);
  shard.ep_rank = 0;
  const Layer hot = moe_layer(m, shard);
  CHECK(grouped_flops(hot.forward) > 4 * grouped_flops(cold.forward));
  // All ranks of a group issue the same exchanges: the busiest one's bytes.
  CHECK(comm_bytes(hot.forward, CommKind::kAllToAll, Axis::kEp) == comm_bytes(cold.forward, CommKind::kAllToAll, Axis::kEp));
}

TEST_CASE("multinomial loads have the spread of independent choices") {
  // n tokens, q = k/E: mean n q, standard deviation sqrt(n q (1-q)); the largest of E is near the normal quantile of (E-3/8)/(E+1/4).
  const Moe moe = experts_of(256, 8, 1024, 0, ExpertLoad::kMultinomial);
  const std::vector<std::int64_t> loads = expert_loads(moe, 64, 4096);
  const double n = 64 * 4096.0, q = 8.0 / 256, sigma = std::sqrt(n * q * (1 - q));
  double square = 0;
  for (const std::int64_t l : loads) square += (static_cast<double>(l) - n * q) * (static_cast<double>(l) - n * q);
  CHECK(std::sqrt(square / 256) == Approx(sigma).epsilon(0.02));
  const double largest = static_cast<double>(*std::max_element(loads.begin(), loads.end()));
  CHECK(largest == Approx(n * q + sigma * normal_quantile((256 - 0.375) / 256.25)).epsilon(1e-4));
  CHECK(largest > n * q + 2.5 * sigma);
}

TEST_CASE("a capacity factor drops what is above the even share, and nothing where loads are even") {
  Moe moe = experts_of(8, 2);
  moe.capacity_factor = 1.0;
  Shard shard{.ep = 2};
  CHECK(expert_tokens(moe, shard, 4096).sent == 2 * 4096);
  moe.load = ExpertLoad::kHistogram;
  moe.histogram = {4, 2, 1, 1, 0, 0, 0, 0};
  const ExpertTokens t = expert_tokens(moe, shard, 4096);
  // Even share: 2 x 4096 / 8 = 1024 a source, two sources. Loads 8192, 4096, 2048, 2048 (of 16384): three experts and a fourth at 2048.
  CHECK(t.local == std::vector<std::int64_t>{2048, 2048, 2048, 2048});
  CHECK(t.received == 4 * 2048);
  CHECK(t.sent == 4096);
}

TEST_CASE("distinct places of a token: the nodes of DeepSeek-V3, one place for one choice, all of them for all experts") {
  CHECK(distinct_places(256, 8, 8) == Approx(5.29465200038).epsilon(1e-9));     // "coll.ep.distinct_nodes"
  CHECK(distinct_places(256, 8, 8, 4) == 4);
  CHECK(distinct_places(64, 1, 8) == Approx(1));
  CHECK(distinct_places(64, 64, 8) == Approx(8));
  // "coll.ep.dispatch_time": 4096 tokens of 7168 bytes to 4 nodes at 51 GB/s.
  CHECK(4096 * 7168 * distinct_places(256, 8, 8, 4) / 51e9 * 1e3 == Approx(2.30275513725).epsilon(1e-9));
}

TEST_CASE("forward FLOPs of a mixture layer: router, k experts a token, shared experts; backward twice as many") {
  const Model m = mixture(16, 4, 1024);
  const Shard shard{.micro_batch = 2, .sequence = 512};
  const double tokens = 1024, h = 1024;
  const Layer layer = moe_layer(m, shard);
  CHECK(grouped_flops(layer.forward) == 6 * tokens * 4 * h * 512);
  const double attention = 2 * tokens * h * (2 * 1024 + 2 * 1024);
  CHECK(work(layer.forward).gemm == attention + 2 * tokens * h * 16 + 6 * tokens * h * 1024);
  CHECK(grouped_flops(layer.backward) == 2 * grouped_flops(layer.forward));
  CHECK(work(layer.backward).gemm == 2 * work(layer.forward).gemm);
}

TEST_CASE("expert parallelism: two exchanges forward and two backward, each of the copies' bytes; parameters divide") {
  const Model m = mixture(16, 4);
  const Shard whole{.micro_batch = 1, .sequence = 1024}, ep4{.micro_batch = 1, .sequence = 1024, .ep = 4}, etp2{.micro_batch = 1, .sequence = 1024, .ep = 4, .etp = 2};
  const Layer layer = moe_layer(m, ep4);
  const std::int64_t copies = 1024 * 4 * 1024 * 2;
  CHECK(comm_bytes(layer.forward, CommKind::kAllToAll, Axis::kEp) == 2 * copies);
  CHECK(comm_bytes(layer.backward, CommKind::kAllToAll, Axis::kEp) == 2 * copies);
  CHECK(comm_bytes(moe_layer(m, whole).forward, CommKind::kAllToAll, Axis::kEp) == 0);
  CHECK(grouped_flops(layer.forward) == grouped_flops(moe_layer(m, whole).forward));  // as many come as go
  CHECK(layer.parameters.experts * 4 == moe_layer(m, whole).parameters.experts);
  // etp: the copies of both ranks, half of each expert.
  const Layer shared = moe_layer(m, etp2);
  CHECK(grouped_flops(shared.forward) == grouped_flops(layer.forward));
  CHECK(shared.parameters.experts * 2 == layer.parameters.experts);
  CHECK(comm_bytes(shared.forward, CommKind::kAllGather, Axis::kEtp) == 2 * copies);
  CHECK(comm_bytes(shared.forward, CommKind::kReduceScatter, Axis::kEtp) == 2 * copies);
}

TEST_CASE("sequence parallelism: a rank dispatches the tokens of its shard") {
  const Model m = mixture(16, 4);
  const Shard tp2{.micro_batch = 1, .sequence = 1024, .tp = 2, .ep = 4, .sequence_parallel = true};
  CHECK(comm_bytes(moe_layer(m, tp2).forward, CommKind::kAllToAll, Axis::kEp) == 2 * (512 * 4 * 1024 * 2));
}

TEST_CASE("weights inside the experts spare what the combine would keep: every expert's output") {
  const Model m = mixture(16, 4);
  const Shard shard{.micro_batch = 1, .sequence = 1024};
  StackKernels inside;
  inside.weights_inside_experts = true;
  CHECK(saved_bytes(moe_layer(m, shard)) - saved_bytes(moe_layer(m, shard, inside)) == 1024 * 4 * 1024 * 2);
  CHECK(saves(moe_layer(m, shard), "expert_output"));
  CHECK_FALSE(saves(moe_layer(m, shard, inside), "expert_output"));
}

TEST_CASE("recompute of the experts' activation drops its result alone") {
  const Model m = mixture(16, 4);
  const Shard shard{.micro_batch = 1, .sequence = 1024};
  Training t;
  const std::int64_t all = saved_bytes(moe_layer(m, shard, {}, t));
  t.recompute = recompute_of({"moe_act"});
  CHECK(all - saved_bytes(moe_layer(m, shard, {}, t)) == 1024 * 4 * 512 * 2);
}

TEST_CASE("biases of experts: a column each, added to their own rows and summed over them; a token has those of the experts it visits") {
  Model m = mixture(16, 4);
  const Shard shard{.micro_batch = 1, .sequence = 1024};
  const Layer plain = moe_layer(m, shard);
  const ModelCounts without = count(m, 1024, true);
  m.mlp_bias = true;
  const Layer biased = moe_layer(m, shard);
  const std::int64_t of_one = 2 * 512 + 1024;
  CHECK(biased.parameters.experts - plain.parameters.experts == 16 * of_one);
  CHECK(biased.parameters.replicated == plain.parameters.replicated);
  const ModelCounts with = count(m, 1024, true);
  CHECK(with.parameters - without.parameters == m.layers * 16 * of_one);
  CHECK(with.active_parameters - without.active_parameters == m.layers * 4 * of_one);
  CHECK(with.exact == without.exact);
  const std::int64_t rows = 1024 * 4;
  REQUIRE(find(biased.forward, "expert_down_bias") != nullptr);
  CHECK(std::get<Stream>(find(biased.forward, "expert_down_bias")->work).read_bytes == rows * 1024 * 2);
  CHECK(find(biased.forward, "expert_gate_up_bias") == nullptr);  // in the fused activation
  CHECK(std::get<Stream>(find(biased.backward, "expert_gate_up_bias_gradient")->work).read_bytes == rows * 2 * 512 * 2);
  CHECK(std::get<Stream>(find(biased.backward, "expert_down_bias_gradient")->work).read_bytes == rows * 1024 * 2);
  StackKernels apart;
  apart.fused_bias_activation = false;
  CHECK(std::get<Stream>(find(moe_layer(m, shard, apart).forward, "expert_gate_up_bias")->work).write_bytes == rows * 2 * 512 * 2);
  // Each rank has the biases of its own experts, and each expert's are a tensor.
  const Shard ep4{.micro_batch = 1, .sequence = 1024, .ep = 4};
  CHECK(moe_layer(m, ep4).parameters.experts * 4 == biased.parameters.experts);
  const std::vector<std::int64_t> tensors = expert_tensors(m, ep4, true, moe_block());
  CHECK(std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0}) == moe_layer(m, ep4).parameters.experts);
}

TEST_CASE("a gate of the shared experts is one row of scores, with a product of two FLOPs a weight and token") {
  Model m = mixture(16, 4, 1024);
  const Shard shard{.micro_batch = 1, .sequence = 1024};
  const Layer open = moe_layer(m, shard);
  const double before = count(m, 1024, true).exact;
  m.moe->shared_gate = true;
  const Layer gated = moe_layer(m, shard);
  CHECK(gated.parameters.replicated - open.parameters.replicated == 1024);
  CHECK(work(gated.forward).gemm - work(open.forward).gemm == 2.0 * 1024 * 1024);
  CHECK(work(gated.backward).gemm - work(open.backward).gemm == 4.0 * 1024 * 1024);
  CHECK(count(m, 1024, true).exact - before == 6.0 * 1024 * static_cast<double>(m.layers));
  // Backward needs the ungated output and the gate: a state a token more, and a number.
  CHECK(saved_bytes(gated) - saved_bytes(open) == (1024 * 1024 + 1024) * 2);
  const std::vector<std::int64_t> tensors = parameter_tensors(LayerKind::kDecoder, m, shard, true, moe_block());
  CHECK(std::find(tensors.begin(), tensors.end(), 1024) != tensors.end());
}

TEST_CASE("shared experts under the exchanges: the same work, each exchange waited for behind a part of them, backward as well") {
  Model m = mixture(16, 4, 1024);
  for (const ExpertDispatch dispatch : {ExpertDispatch::kAllToAll, ExpertDispatch::kDeepEp}) {
    Shard shard{.micro_batch = 1, .sequence = 512, .ep = 4};
    shard.dispatch = dispatch;
    const Layer apart = moe_layer(m, shard);
    shard.overlap_shared_experts = true;
    const Layer beside = moe_layer(m, shard);
    CHECK(work(beside.forward).gemm == work(apart.forward).gemm);
    CHECK(work(beside.backward).gemm == work(apart.backward).gemm);
    CHECK(comm_bytes(beside.forward, CommKind::kAllToAll, Axis::kEp) == comm_bytes(apart.forward, CommKind::kAllToAll, Axis::kEp));
    CHECK(comm_bytes(beside.backward, CommKind::kAllToAll, Axis::kEp) == comm_bytes(apart.backward, CommKind::kAllToAll, Axis::kEp));
    CHECK(saved_bytes(beside) == saved_bytes(apart));
    const auto between = [](const std::vector<Operation>& operations, const std::string& from, const std::string& to, const std::string& name) {
      const std::vector<std::string> all = names(operations);
      const auto at = [&](const std::string& wanted) { return std::find(all.begin(), all.end(), wanted); };
      return at(from) < at(name) && at(name) < at(to) && at(to) != all.end();
    };
    CHECK(between(beside.forward, "dispatch", "wait_dispatch", "shared_gate_up"));
    CHECK(between(beside.forward, "dispatch", "wait_dispatch", "shared_activation"));
    CHECK(between(beside.forward, "combine", "wait_combine", "shared_down"));
    CHECK(between(beside.backward, "combine_backward", "wait_combine_backward", "shared_down_input_gradient"));
    CHECK(between(beside.backward, "dispatch_backward", "wait_dispatch_backward", "shared_gate_up_input_gradient"));
    CHECK_FALSE(between(beside.forward, "dispatch", "wait_dispatch", "expert_gate_up"));
    CHECK(find(apart.forward, "wait_dispatch") == nullptr);
  }
}

TEST_CASE("a mixture layer's memory balances, under every recipe and layout") {
  CHECK(rc::check("memory of experts balances", [] {
    Model m = mixture(16, *rc::gen::inRange<std::int64_t>(1, 9), *rc::gen::element<std::int64_t>(0, 512));
    m.gated_mlp = *rc::gen::arbitrary<bool>();
    m.mlp_bias = *rc::gen::arbitrary<bool>();
    m.moe->shared_gate = m.moe->shared_ffn > 0 && *rc::gen::arbitrary<bool>();
    m.moe->load = *rc::gen::element(ExpertLoad::kBalanced, ExpertLoad::kMultinomial, ExpertLoad::kZipf);
    m.moe->zipf = 2;
    Training t;
    t.precision = *rc::gen::element(DType::kBf16, DType::kFp8);
    t.grad_dtype = *rc::gen::element(DType::kFp32, DType::kBf16);
    t.recompute.mode = *rc::gen::element(RecomputeMode::kNone, RecomputeMode::kSelective, RecomputeMode::kFull);
    const std::vector<std::vector<std::string>> modules = {{"moe_act"}, {"norm"}, {"core_attn", "moe_act"}, {"mlp"}};
    if (t.recompute.mode == RecomputeMode::kSelective) t.recompute.modules = *rc::gen::elementOf(modules);
    StackKernels k;
    for (bool* flag : {&k.fused_permute, &k.fused_router, &k.weights_inside_experts, &k.fused_projections, &k.fused_bias_activation, &k.gradient_accumulation_fusion, &k.fp32_router}) *flag = *rc::gen::arbitrary<bool>();
    Shard shard{.micro_batch = 1, .sequence = 256};
    shard.tp = *rc::gen::element<std::int64_t>(1, 2);
    shard.sequence_parallel = true;
    shard.ep = *rc::gen::element<std::int64_t>(1, 2, 8);
    shard.ep_rank = shard.ep - 1;
    shard.etp = *rc::gen::element<std::int64_t>(1, 2);
    shard.overlap_shared_experts = *rc::gen::arbitrary<bool>();
    const Layer layer = moe_layer(m, shard, k, t);
    const auto within = [](const std::vector<Tensor>& tensors, const std::vector<Operation>& operations) {
      for (const Tensor& x : tensors) RC_ASSERT(0 <= x.alloc_at && x.alloc_at <= x.free_at && static_cast<std::size_t>(x.free_at) < operations.size());
    };
    within(layer.forward_tensors, layer.forward);
    within(layer.backward_tensors, layer.backward);
    within(layer.recompute_temporaries, layer.recompute);
    for (const SavedTensor& x : layer.saved) {
      RC_ASSERT(x.forward_alloc_at >= 0 && static_cast<std::size_t>(x.forward_alloc_at) < layer.forward.size());
      RC_ASSERT(x.backward_free_at >= 0 && static_cast<std::size_t>(x.backward_free_at) < layer.backward.size());
    }
    RC_ASSERT(grouped_flops(layer.backward) == 2 * grouped_flops(layer.forward));
  }));
}
