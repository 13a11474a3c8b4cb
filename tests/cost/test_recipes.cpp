// Products in narrow formats and with 2:4 operands, and published times of a whole layer's products with their quantisers.
#include "devices.hpp"
#include "orrery/workload/layers.hpp"

using namespace orrery;
using namespace orrery::test;
using workload::DType;
using workload::Gemm;

namespace {

/// The four linear layers of a GPT block: 12 products and, with quantisation, the kernels that make their operands.
struct LayerTime {
  double products = 0, quantisers = 0;
  [[nodiscard]] double all() const { return products + quantisers; }
};
LayerTime layer_time(const char* name, DType precision, workload::Fp8Recipe recipe = workload::Fp8Recipe::kDelayed) {
  const cluster::Gpu gpu = catalogue_gpu(name);
  const cost::GpuCost cost(gpu, default_profile(gpu));
  workload::Model m;
  m.layers = 1;
  m.hidden = 4096;
  m.heads = m.kv_heads = 32;
  m.head_dim = 128;
  m.ffn_hidden = 16384;
  m.vocab = 50304;
  workload::Training t;
  t.precision = precision;
  t.fp8_recipe = recipe;
  t.one_operand_layout = !gpu.architecture.starts_with("Blackwell");
  workload::StackKernels apart;  // te.Linear alone: nothing writes its operands for it
  apart.fused_norm = apart.fused_bias_activation = false;
  workload::Shard shard{.micro_batch = 1, .sequence = 15872};
  shard.keeps_quantised_weights = false;
  const workload::Layer layer = workload::make_layer(workload::LayerKind::kDecoder, m, t, shard, apart);
  LayerTime sum;
  for (const auto* list : {&layer.forward, &layer.backward}) {
    for (const workload::Operation& op : *list) {
      const double time = std::holds_alternative<workload::Comm>(op.work) ? 0 : cost.operation(op).time.value() * 1e3;
      if (std::holds_alternative<Gemm>(op.work)) sum.products += time;
      const bool quantiser = op.name.find("quantise_") == 0 || op.name.find("_amax") != std::string::npos;
      if (quantiser) sum.quantisers += time;
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("a 2:4 operand takes between half and all of the dense time, and less memory traffic where that binds") {
  const cluster::Gpu gpu = catalogue_gpu("h100-sxm5-80gb");
  const cost::GpuCost cost(gpu, default_profile(gpu));
  for (const std::int64_t m : {64, 1024, 8192}) {
    for (const std::int64_t n : {1024, 8192}) {
      Gemm g{.m = m, .n = n, .k = 8192};
      const double dense = cost.gemm(g).time.value();
      g.sparse = true;
      const double sparse = cost.gemm(g).time.value();
      CAPTURE(m, n, dense, sparse);
      CHECK(sparse < dense);
      CHECK(sparse > dense / 2);
      CHECK(cost.gemm(g).origin == Origin::kDefault);
    }
  }
}

TEST_CASE("a type without a fit of its own takes the nearest fit at its own peak, and says that it is extrapolated") {
  const cluster::Gpu gpu = catalogue_gpu("b200-sxm");
  calibration::Profile one;
  one.gemm["bf16"] = plain_gemm(0.8, 0, 0, 1, 0, {{256, 128, 1, 1}});
  const cost::GpuCost cost(gpu, one);
  const Gemm g{.m = 8192, .n = 8192, .k = 8192};
  Gemm narrow = g;
  for (const auto& [type, times] : {std::pair{DType::kMxfp8, 2.0}, {DType::kMxfp6, 2.0}, {DType::kFp4, 4.0}}) {
    narrow.in = type;
    CHECK(cost.gemm(g).time.value() / cost.gemm(narrow).time.value() == Approx(times).epsilon(1e-4));
    CHECK(cost.gemm(narrow).origin == Origin::kExtrapolated);
  }
}

TEST_CASE("twelve products of a layer with their quantisers, against published times") {
  // Transformer Engine documentation, per layer, M = 15872, h = 4096, f = 16384, ms (modelling 1.7). The times are a check of this model
  // alone: no constant was fitted to them. Tolerance: what the profiles' held-out errors and cast kernels' efficiency leave.
  struct Row { const char* gpu; DType type; workload::Fp8Recipe recipe; double ms; };
  const Row rows[] = {{"b300-sxm", DType::kBf16, {}, 12.76},  {"b300-sxm", DType::kFp8, workload::Fp8Recipe::kCurrent, 9.15}, {"b300-sxm", DType::kMxfp8, {}, 8.98},
                      {"b300-sxm", DType::kFp4, {}, 6.45},    {"h200-nvl-141gb", DType::kBf16, {}, 32.01}, {"h200-nvl-141gb", DType::kFp8, workload::Fp8Recipe::kCurrent, 20.29},
                      {"h200-nvl-141gb", DType::kFp8, workload::Fp8Recipe::kBlock128, 22.88}};
  for (const Row& row : rows) {
    const LayerTime t = layer_time(row.gpu, row.type, row.recipe);
    CAPTURE(row.gpu, workload::to_string(row.type), static_cast<int>(row.recipe), t.products, t.quantisers, row.ms);
    CHECK(t.all() == Approx(row.ms).epsilon(0.35));
  }
  // Quantisers take the published share of MXFP8 (0.20) and NVFP4 (0.42) within a third.
  const LayerTime mx = layer_time("b300-sxm", DType::kMxfp8), nv = layer_time("b300-sxm", DType::kFp4);
  CHECK(mx.quantisers / mx.all() == Approx(0.203).epsilon(0.4));
  CHECK(nv.quantisers / nv.all() == Approx(0.417).epsilon(0.4));
}
