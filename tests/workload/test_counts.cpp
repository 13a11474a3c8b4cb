// Parameter counts and FLOP conventions, against published counts and throughputs. Sources by key: MEG Megatron-LM
// num_floating_point_operations; MBR Megatron-Bridge performance summaries; TT torchtitan benchmarks; NAR arXiv:2104.04473; KOR
// arXiv:2205.05198; MLE the Machine Learning Engineering book.
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "catch.h"
#include "samples.hpp"

using namespace orrery;
using namespace orrery::workload;
using namespace orrery::workload::samples;

namespace {

struct Check {
  const char* id;
  double computed;
  double expected;
  double tolerance;  // relative; 0: exact
  std::optional<double> published = std::nullopt;
  double published_tolerance = 0;
};

void verify(const std::vector<Check>& checks) {
  for (const Check& c : checks) {
    INFO(c.id);
    if (c.tolerance == 0) {
      CHECK(c.computed == c.expected);
    } else {
      CHECK(std::abs(c.computed / c.expected - 1) <= c.tolerance);
    }
    if (c.published) CHECK(std::abs(c.expected / *c.published - 1) <= c.published_tolerance);
  }
}

ModelCounts at8k(const Model& m) { return count(m, 8192, true); }
double parameters(const Model& m) { return static_cast<double>(at8k(m).parameters); }

}  // namespace

TEST_CASE("parameters of the Llama 3 models are the published ones to the last") {
  verify({{"flops.params.llama3_8b", parameters(llama3_8b()), 8030261248, 0, 8.03e9, 0.002},
          {"flops.params.llama3_70b", parameters(llama3_70b()), 70553706496, 0, 70.6e9, 0.002},
          {"flops.params.llama3_405b", parameters(llama3_405b()), 405853388800, 0, 405.9e9, 0.002}});
}

TEST_CASE("tokens per second times the Megatron count give the TFLOP/s that were published beside them") {
  const double m8b = at8k(llama3_8b()).megatron;
  verify({{"flops.megatron.llama3_8b.s8192", m8b, 51470401536, 0},
          {"flops.megatron.llama3_70b.tput", 1639 * at8k(llama3_70b()).megatron / 1e12, 736.27574521, 1e-9, 736, 0.002},
          {"flops.megatron.llama31_405b.tput", 326 * at8k(llama3_405b()).megatron / 1e12, 822.809651577, 1e-9, 822, 0.002}});
}

TEST_CASE("torchtitan's and PaLM's counts differ from Megatron's as their definitions do") {
  const ModelCounts c = at8k(llama3_8b());
  verify({{"flops.torchtitan.llama3_8b.s8192", c.torchtitan, 57914449920, 0},
          {"flops.torchtitan.mfu_compile", 6667 * c.torchtitan / 989e12, 0.390410149258, 1e-9, 0.39, 0.01},
          {"flops.torchtitan.mfu_eager", 5762 * c.torchtitan / 989e12, 0.337414621273, 1e-9, 0.33, 0.03},
          {"flops.palm.llama3_8b.s8192", c.palm, 61066469376, 0},
          {"flops.spread.llama3_8b.s8192", c.palm / c.megatron, 1.18643856573, 1e-9}});
  CHECK(c.six_n == 6.0 * 8030261248);
  CHECK(c.megatron == c.exact);                                // causal: both count half the square
  CHECK(count(llama3_8b(), 8192, false).exact == c.megatron_legacy);  // a full mask is what the legacy count assumes
  CHECK(count(llama3_8b(), 8192, false).megatron == c.megatron);      // which halves whatever the mask
}

TEST_CASE("Narayanan's formula for GPT-3 with its vocabulary of 51,200") {
  const ModelCounts c = count(gpt3_175b(), 2048, true);
  verify({{"flops.narayanan.gpt3", 1536.0 * 2048 * c.narayanan, 4.51097075332e18, 1e-9},
          // equation 4: 8 T P / (n X) seconds, in days
          {"flops.narayanan.days_175b", 8 * 300e9 * 175e9 / (1024 * 140e12) / 86400, 33.9084201389, 1e-9, 34, 0.01}});
  // It counts one forward pass more than training does, every GEMM and the full square: 4/3 of the legacy count but for the head,
  // which it takes three times.
  const double head = 6.0 * 12288 * 51200;
  CHECK(c.narayanan == Approx((c.megatron_legacy - head) * 4 / 3 + head).epsilon(1e-12));
}

TEST_CASE("recomputing the scores adds s/6h of the model's FLOPs by Korthikanti's own count") {
  struct Row {
    const char* id;
    double hidden, expected, published;
  };
  // published: HFU over MFU of arXiv:2205.05198, table 5
  for (const Row& r : {Row{"flops.hfu_over_mfu.22b", 6144, 1.05555555556, 43.7 / 41.5}, Row{"flops.hfu_over_mfu.175b", 12288, 1.02777777778, 52.8 / 51.4},
                       Row{"flops.hfu_over_mfu.530b", 20480, 1.01666666667, 57.0 / 56.0}, Row{"flops.hfu_over_mfu.1t", 25600, 1.01333333333, 57.0 / 56.3}}) {
    verify({{r.id, 1 + 2048 / (6 * r.hidden), r.expected, 1e-9, r.published, 0.004}});
  }
}

TEST_CASE("the head of Llama-3-8B costs as much as two layers and a tenth") {
  const Model m = llama3_8b();
  const Training t;
  const Shard one{.micro_batch = 1, .sequence = 8192};
  // The definition counts causal attention as half of 4 q s.
  const double layer = work(make_layer(LayerKind::kDecoder, m, t, one, StackKernels{}).forward).total();
  const double head = work(make_layer(LayerKind::kHead, m, t, one, StackKernels{}).forward).total();
  verify({{"flops.head_in_layers.llama3_8b", head / layer, 2.0875, 1e-9}});
}

TEST_CASE("bytes per parameter of a rank's states follow from the types of the recipe") {
  Training t;  // bf16 weights, fp32 gradients, master copy and Adam
  const auto sharded = [](const StateBytes& s, double d) { return s.parameter + s.gradient + (s.master + s.optimizer) / d; };
  verify({{"mem.states.plain", state_bytes(t).total(), 18, 0}, {"mem.states.dist_opt_d64", sharded(state_bytes(t), 64), 6.1875, 1e-9}});
  t.grad_dtype = DType::kBf16;
  const StateBytes s = state_bytes(t);
  verify({{"mem.zero2_bf16grad_d16", s.parameter + (s.gradient + s.master + s.optimizer) / 16, 2.875, 1e-9}});
  t.grad_dtype = DType::kFp32;
  t.param_dtype = DType::kFp32;
  CHECK(state_bytes(t).total() == 16);  // no copy of what is fp32 already
  // torchtitan shards all of it: what 128 ranks hold less than 8 (published: 82.4 - 67.0 GiB).
  verify({{"mem.fsdp.delta_8_to_128", state_bytes(t).total() * 8030261248.0 * (1.0 / 8 - 1.0 / 128) / static_cast<double>(kGiB), 14.0226817131, 1e-9, 15.4, 0.1}});
  t.param_dtype = t.grad_dtype = DType::kBf16;
  t.master_weights = false;
  CHECK(state_bytes(t).total() == 8);
  t.optimizer = Optimizer::kSgd;
  CHECK(state_bytes(t).total() == 4);
  t.optimizer = Optimizer::kMomentum;
  CHECK(state_bytes(t).total() == 6);
}

TEST_CASE("embedding and head of Llama-3-8B are two gigabytes of bf16") {
  const Shard one{.micro_batch = 1, .sequence = 8192};
  verify({{"mem.embed_unit.llama3_8b", 2.0 * 2 * static_cast<double>(word_embedding_parameters(llama3_8b(), one)) / 1e9, 2.101346304, 1e-9}});
}

TEST_CASE("a tied matrix is counted once, and stays a projection in torchtitan's count") {
  Model m = llama3_8b();
  const ModelCounts untied = at8k(m);
  m.tied_embeddings = true;
  const ModelCounts tied = at8k(m);
  CHECK(untied.parameters - tied.parameters == 128256 * 4096);
  CHECK(untied.embedding_parameters == tied.embedding_parameters);
  CHECK(tied.torchtitan == untied.torchtitan);
  CHECK(tied.exact == untied.exact);
  CHECK(tied.parameters_without_embedding == tied.parameters - 128256 * 4096);
}
