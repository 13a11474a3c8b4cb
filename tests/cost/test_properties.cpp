// What holds for every shape, device and profile: limits, monotony, roofline.
#include <rapidcheck.h>

#include <cmath>
#include <map>
#include <memory>

#include "devices.hpp"

using namespace orrery;
using namespace orrery::test;
using workload::DType;
using workload::GemmLayout;
using workload::StreamKind;

namespace {

const std::vector<std::string>& device_names() {
  static const std::vector<std::string> names = {"a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm", "l40s", "v100-sxm2-32gb", "mi300x", "rtx-4090", "xeon-8380-2s"};
  return names;
}

struct Device {
  cluster::Gpu gpu;
  calibration::Profile profile;
  cost::GpuCost cost;
};

const Device& device(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Device>> all;
  auto& slot = all[name];
  if (!slot) {
    const auto gpu = catalogue_gpu(name);
    // The formulas: tables of residuals bend them by what was seen of a device, where more work does take less time here and there.
    auto profile = default_profile(gpu);
    for (auto& [dtype, g] : profile.gemm) g.residual = {};
    for (auto& a : profile.attention) a.residual = {};
    slot = std::make_unique<Device>(Device{gpu, profile, cost::GpuCost(gpu, profile)});
  }
  return *slot;
}

const Device& any_device() { return device(*rc::gen::elementOf(device_names())); }

/// Roots and quotients round: a difference below 1e-12 is none.
bool not_less(Seconds a, Seconds b) { return a.value() * (1 + 1e-12) >= b.value(); }

/// An extent that is a multiple of 32 elements (16 bytes in every type).
std::int64_t extent() { return 32 * *rc::gen::inRange<std::int64_t>(1, *rc::gen::element<std::int64_t>(8, 64, 512)); }

workload::Gemm any_gemm() {
  auto g = gemm(extent(), extent(), extent(), *rc::gen::element(DType::kBf16, DType::kFp16, DType::kFp8, DType::kFp32));
  g.batch = *rc::gen::element<std::int64_t>(1, 1, 4, 24);
  g.layout = *rc::gen::element(GemmLayout::kTN, GemmLayout::kNN, GemmLayout::kNT);
  g.accumulate = g.layout == GemmLayout::kNT && *rc::gen::arbitrary<bool>();
  g.out = g.accumulate ? DType::kFp32 : DType::kBf16;
  return g;
}

workload::Attention any_attention() {
  auto a = attention(*rc::gen::inRange<std::int64_t>(1, 9), *rc::gen::inRange<std::int64_t>(1, 20000), *rc::gen::inRange<std::int64_t>(1, 65),
                     *rc::gen::element<std::int64_t>(64, 96, 128, 256), *rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>());
  if (*rc::gen::arbitrary<bool>()) a.kv_heads = 1;
  return a;
}

workload::Stream any_stream() {
  workload::Stream s;
  s.kind = *rc::gen::element(StreamKind::kCopy, StreamKind::kElementwise, StreamKind::kNorm, StreamKind::kPermute, StreamKind::kCrossEntropy, StreamKind::kOptimizer);
  s.read_bytes = *rc::gen::inRange<std::int64_t>(0, 500'000'000);
  s.write_bytes = *rc::gen::inRange<std::int64_t>(0, 500'000'000);
  s.kernels = *rc::gen::inRange(1, 5);
  return s;
}

cost::Mode any_mode() { return {*rc::gen::inRange(0, 33), gb_per_s(*rc::gen::inRange(0, 2000))}; }

double peak_of(const cluster::Gpu& gpu, DType t) {
  if (t == DType::kFp8 && gpu.peak.fp8) return gpu.peak.fp8->value();
  if (t == DType::kFp32 && gpu.peak.fp32) return std::max(gpu.peak.fp32->value(), gpu.peak.tf32 ? gpu.peak.tf32->value() : 0);
  if (gpu.peak.bf16 && gpu.peak.fp16) return std::max(gpu.peak.bf16->value(), gpu.peak.fp16->value());
  if (gpu.peak.bf16) return gpu.peak.bf16->value();
  return gpu.peak.fp16 ? gpu.peak.fp16->value() : gpu.peak.fp32->value();
}

}  // namespace

TEST_CASE("no kernel is faster than the peak or the memory allows") {
  CHECK(rc::check("gemm", [] {
    const Device& d = any_device();
    const auto g = any_gemm();
    const double bytes = static_cast<double>(g.batch) * (static_cast<double>(g.k) * static_cast<double>(g.m + g.n) * workload::element_bytes(g.in) +
                                                         static_cast<double>(g.m) * static_cast<double>(g.n) * workload::element_bytes(g.out) * (g.accumulate ? 2 : 1));
    const double t = d.cost.gemm(g, any_mode()).time.value();
    RC_ASSERT(std::isfinite(t));
    RC_ASSERT(t >= g.flops().value() / peak_of(d.gpu, g.in));
    RC_ASSERT(t >= bytes / d.gpu.memory_bandwidth.value());
  }));
  CHECK(rc::check("attention", [] {
    const Device& d = any_device();
    const auto a = any_attention();
    RC_ASSERT(d.cost.attention(a, any_mode()).time.value() >= a.flops().value() / peak_of(d.gpu, DType::kBf16));
  }));
  CHECK(rc::check("stream", [] {
    const Device& d = any_device();
    const auto s = any_stream();
    RC_ASSERT(d.cost.stream(s, any_mode()).time.value() >= static_cast<double>(s.read_bytes + s.write_bytes) / d.gpu.memory_bandwidth.value());
  }));
}

TEST_CASE("a table of residuals multiplies the formula's time, never below the roofline, and fades away from its shapes") {
  const auto gpu = catalogue_gpu("h100-sxm5-80gb");
  auto profile = default_profile(gpu);
  auto& table = profile.gemm["bf16"].residual;
  table = {};
  const cost::GpuCost plain(gpu, profile);
  table.axes = {std::vector<double>{1024, 8192}, std::vector<double>{1024, 8192}, std::vector<double>{1024, 8192}};
  table.values = {100, 100, 100, 100, 100, 100, 100, 100};
  const cost::GpuCost slower(gpu, profile);
  const auto g = gemm(4096, 2048, 4096);
  CHECK(slower.gemm(g).time.value() == Approx(plain.gemm(g).time.value() * std::exp(0.1)));
  const auto small = gemm(16, 16, 16);
  CHECK(slower.gemm(small).time.value() == Approx(plain.gemm(small).time.value()).epsilon(1e-6));
  table.values.assign(8, -2000);
  const cost::GpuCost faster(gpu, profile);
  CHECK(faster.gemm(g).time.value() == Approx(g.flops().value() / gpu.peak.bf16->value()));
}

TEST_CASE("more work never takes less time") {
  CHECK(rc::check("gemm in m, n, k and batch, in steps of 16 bytes", [] {
    const Device& d = any_device();
    const auto g = any_gemm();
    auto more = g;
    switch (*rc::gen::inRange(0, 4)) {
      case 0: more.m += extent(); break;
      case 1: more.n += extent(); break;
      case 2: more.k += extent(); break;
      default: more.batch += 1;
    }
    const auto mode = any_mode();
    RC_ASSERT(not_less(d.cost.gemm(more, mode).time, d.cost.gemm(g, mode).time));
  }));
  CHECK(rc::check("gemm in any m of a forward layout, one row at a time", [] {
    const Device& d = any_device();
    auto g = any_gemm();
    g.layout = GemmLayout::kTN;
    g.accumulate = false;
    g.m = *rc::gen::inRange<std::int64_t>(1, 9000);
    auto more = g;
    more.m += 1;
    RC_ASSERT(not_less(d.cost.gemm(more).time, d.cost.gemm(g).time));
  }));
  CHECK(rc::check("attention in batch, tokens, heads and head dim", [] {
    const Device& d = any_device();
    const auto a = any_attention();
    auto more = a;
    switch (*rc::gen::inRange(0, 5)) {
      case 0: more.batch += 1; break;
      case 1: more.seq_q += *rc::gen::inRange<std::int64_t>(1, 300); break;
      case 2: more.seq_kv += *rc::gen::inRange<std::int64_t>(1, 300); break;
      case 3: more.heads += 1; break;
      default: more.dim_qk += 32; more.dim_v += 32;
    }
    RC_ASSERT(not_less(d.cost.attention(more).time, d.cost.attention(a).time));
  }));
  CHECK(rc::check("streams in bytes", [] {
    const Device& d = any_device();
    const auto s = any_stream();
    auto more = s;
    // (More kernels for the same bytes may be faster: each piece may fit into L2.)
    auto& bytes = *rc::gen::arbitrary<bool>() ? more.read_bytes : more.write_bytes;
    bytes += *rc::gen::inRange<std::int64_t>(1, 10'000'000);
    RC_ASSERT(not_less(d.cost.stream(more).time, d.cost.stream(s).time));
  }));
}

TEST_CASE("a faster device never takes longer, a busier one never shorter") {
  const auto both = [](const auto& change) {
    const Device& d = any_device();
    auto faster = d.gpu;
    change(faster);
    const cost::GpuCost better(faster, d.profile);
    const auto mode = any_mode();
    const auto g = any_gemm();
    const auto a = any_attention();
    const auto s = any_stream();
    RC_ASSERT(not_less(d.cost.gemm(g, mode).time, better.gemm(g, mode).time));
    RC_ASSERT(not_less(d.cost.attention(a, mode).time, better.attention(a, mode).time));
    RC_ASSERT(not_less(d.cost.stream(s, mode).time, better.stream(s, mode).time));
  };
  const auto scale_peaks = [](cluster::Gpu& g, double by) {
    for (auto* p : {&g.peak.fp32, &g.peak.tf32, &g.peak.fp16, &g.peak.bf16, &g.peak.fp8, &g.peak.fp6, &g.peak.fp4, &g.peak.int8})
      if (*p) *p = FlopsPerSecond((*p)->value() * by);
  };
  CHECK(rc::check("peak", [&] { both([&](cluster::Gpu& g) { scale_peaks(g, 1 + 0.01 * *rc::gen::inRange(1, 300)); }); }));
  CHECK(rc::check("memory bandwidth", [&] { both([&](cluster::Gpu& g) { g.memory_bandwidth = g.memory_bandwidth * (1 + 0.01 * *rc::gen::inRange(1, 300)); }); }));
  CHECK(rc::check("SMs of the same rate", [&] {
    both([&](cluster::Gpu& g) {
      const int before = g.sm_count;
      g.sm_count += *rc::gen::inRange(1, 80);
      scale_peaks(g, static_cast<double>(g.sm_count) / before);
    });
  }));
  CHECK(rc::check("power limit", [&] { both([&](cluster::Gpu& g) { g.power_limit_w = g.tdp_w * 1.5; }); }));
  CHECK(rc::check("mode", [] {
    const Device& d = any_device();
    const auto mode = any_mode();
    const cost::Mode busier{mode.sms + *rc::gen::inRange(0, 40), mode.hbm + gb_per_s(*rc::gen::inRange(0, 1000))};
    const auto g = any_gemm();
    const auto a = any_attention();
    const auto s = any_stream();
    RC_ASSERT(not_less(d.cost.gemm(g, busier).time, d.cost.gemm(g, mode).time));
    RC_ASSERT(not_less(d.cost.attention(a, busier).time, d.cost.attention(a, mode).time));
    RC_ASSERT(not_less(d.cost.stream(s, busier).time, d.cost.stream(s, mode).time));
  }));
}

TEST_CASE("a wave is no longer than its kernel") {
  CHECK(rc::check("wave", [] {
    const Device& d = any_device();
    const workload::Operation ops[] = {{"g", any_gemm()}, {"a", any_attention()}, {"s", any_stream()}};
    for (const auto& op : ops) {
      RC_ASSERT(d.cost.wave(op).value() >= 0);
      RC_ASSERT(d.cost.wave(op) <= d.cost.operation(op).time);
    }
  }));
}

TEST_CASE("an unaligned dimension is never faster than the aligned one below it") {
  for (const auto& name : device_names()) {
    CAPTURE(name);
    const Device& d = device(name);
    for (const std::int64_t n : {2145, 4001, 50257})
      for (const auto layout : {GemmLayout::kTN, GemmLayout::kNN, GemmLayout::kNT}) {
        auto odd = gemm(4096, n, 4096), even = gemm(4096, n / 32 * 32, 4096);
        odd.layout = even.layout = layout;
        CHECK(d.cost.gemm(odd).time > d.cost.gemm(even).time);
      }
  }
}

TEST_CASE("every catalogue device has finite positive times for every type and shape") {
  const auto names = document::catalogue("gpu");
  REQUIRE(names.has_value());
  for (const std::string& name : *names) {
    CAPTURE(name);
    const auto gpu = catalogue_gpu(name);
    const cost::GpuCost c(gpu, default_profile(gpu));
    const auto good = [](Seconds t) { return std::isfinite(t.value()) && t.value() > 0 && t.value() < 3600; };
    for (const auto t : {DType::kFp32, DType::kTf32, DType::kFp16, DType::kBf16, DType::kFp8, DType::kMxfp8, DType::kMxfp6, DType::kFp4, DType::kInt8})
      for (const std::int64_t m : {1, 100, 4096})
        for (const std::int64_t n : {1, 1000, 28672})
          for (const std::int64_t k : {1, 128, 16384}) CHECK(good(c.gemm(gemm(m, n, k, t)).time));
    for (const std::int64_t s : {1, 4096, 131072})
      for (const std::int64_t dim : {32, 64, 128, 160, 256})
        for (const bool backward : {false, true}) CHECK(good(c.attention(attention(1, s, 8, dim, true, backward)).time));
    for (const std::int64_t bytes : {1LL, 1LL << 20, 1LL << 33}) {
      workload::Stream s;
      s.read_bytes = bytes;
      CHECK(good(c.stream(s).time));
    }
  }
}

TEST_CASE("no work takes no time") {
  const Device& d = device("h100-sxm5-80gb");
  CHECK(d.cost.gemm(gemm(0, 128, 128)).time == Seconds(0));
  CHECK(d.cost.attention(attention(1, 0, 8, 128)).time == Seconds(0));
  workload::Stream s;
  s.kernels = 0;
  CHECK(d.cost.stream(s).time == Seconds(0));
}
