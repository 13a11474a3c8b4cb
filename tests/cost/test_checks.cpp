// Reference values of the kernel models: each is either what a production function returns for the stated inputs ("function") or a
// definition computed here from catalogue and profile values ("arithmetic"). Where somebody published the number, the reference must also
// meet it within the stated tolerance.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "devices.hpp"

using namespace orrery;
using namespace orrery::test;
using workload::DType;

namespace {

struct Check {
  std::string id;
  std::function<double()> value;
  double expected, tolerance;
  double published = 0, published_tolerance = 0;
};

/// The tile and wave formula as the reference states it: hard waves, four tiles, no clock term.
double h100_fp8_us(std::int64_t m, std::int64_t n, std::int64_t k) {
  calibration::Profile p;
  p.gemm["fp8"] = plain_gemm(0.72, 2.8, 1.75, 0.85, 1, {{128, 256, 1, 1}, {256, 128, 1, 1}, {128, 128, 1, 0.92}, {128, 192, 1, 0.97}});
  return cost::GpuCost(bare_gpu(132, 989, 1979, 3.35), p).gemm(gemm(m, n, k, DType::kFp8)).time.value() * 1e6;
}

/// Math time in units of one tile on one SM, with `hardness` of the wave rounding, on a device without memory limits.
double tile_times(int sms, double hardness, const workload::Gemm& g, calibration::Tile tile) {
  calibration::Profile p;
  p.gemm["bf16"] = plain_gemm(1, 0, 0, 1, hardness, {tile});
  const auto gpu = bare_gpu(sms, sms, 0, 1e9);
  const double one = 2.0 * tile.m * tile.n * static_cast<double>(g.k) / 1e12;
  return cost::GpuCost(gpu, p).gemm(g).time.value() / one;
}

double two_wave_tail_us() {
  calibration::Profile p;
  p.gemm["bf16"] = plain_gemm(0.765, 0, 0, 1, 1, {{256, 128, 1, 1}});
  return cost::GpuCost(bare_gpu(108, 312, 0, 1e9), p).gemm(gemm(4096, 1024, 4096)).time.value() * 1e6;
}

double stream_seconds(std::int64_t read, std::int64_t write, workload::StreamKind kind) {
  calibration::Profile p;
  p.stream[workload::to_string(kind)] = {exactly(1), exactly(0), exactly(0)};
  workload::Stream s;
  s.kind = kind;
  s.read_bytes = read;
  s.write_bytes = write;
  return cost::GpuCost(bare_gpu(132, 989, 0, 2.9), p).stream(s).time.value();
}

/// Achieved TFLOP/s of an attention kernel with the stated asymptote and saturation, filled machine.
double attention_tflops(double asymptote, double saturation, const workload::Attention& a) {
  calibration::Profile p;
  calibration::AttentionProfile k;
  k.kernel = "fa3";
  k.forward_efficiency = exactly(asymptote / 989);
  k.saturation_causal = exactly(saturation);
  k.fill_exponent = k.launch_us = exactly(0);
  p.attention.push_back(k);
  return a.flops().value() / cost::GpuCost(bare_gpu(132, 989, 0, 3.35), p).attention(a).time.value() / 1e12;
}

double shipped_copy(const char* gpu) { return default_profile(catalogue_gpu(gpu)).stream.at("copy").efficiency.value; }

/// FLOPs of the last rank of a contiguous causal split into c chunks, over the mean of all ranks: its own triangle and c - 1 full squares.
double contiguous_imbalance(std::int64_t c) {
  const auto triangle = attention(1, 4096, 8, 128), square = attention(1, 4096, 8, 128, false);
  double sum = 0, last = 0;
  for (std::int64_t rank = 0; rank < c; ++rank) {
    last = triangle.flops().value() + static_cast<double>(rank) * square.flops().value();
    sum += last;
  }
  return last / (sum / static_cast<double>(c));
}

std::vector<Check> checks() {
  using workload::StreamKind;
  std::vector<Check> all = {
      // function
      {"gemm.flops.8192", [] { return gemm(8192, 8192, 8192).flops().value(); }, 1099511627776.0, 0},
      {"gemm.waves.h100", [] { return tile_times(132, 1, gemm(8192, 14336, 64), {128, 256, 1, 1}); }, 28, 1e-9},
      {"gemm.wave_eff.h100", [] { return tile_times(132, 0, gemm(8192, 14336, 64), {128, 256, 1, 1}) / tile_times(132, 1, gemm(8192, 14336, 64), {128, 256, 1, 1}); }, 0.969696969697, 1e-9},
      {"gemm.sm_count_speedup", [] { return tile_times(148, 1, gemm(8192, 14336, 64), {128, 256, 1, 1}) / tile_times(152, 1, gemm(8192, 14336, 64), {128, 256, 1, 1}); }, 1.04166666667, 1e-9, 1.042, 0.002},
      {"gemm.tile_eff", [] { return 1000.0 * 1000 / (128 * 256) / tile_times(1, 0, gemm(1000, 1000, 64), {128, 256, 1, 1}); }, 0.953674316406, 1e-9},
      {"gemm.model.h100fp8.2048x2048x2048", [] { return h100_fp8_us(2048, 2048, 2048); }, 16.9923337116, 1e-6, 16.99, 0.02},
      {"gemm.model.h100fp8.4096x4096x4096", [] { return h100_fp8_us(4096, 4096, 4096); }, 112.422497166, 1e-6, 112.94, 0.02},
      {"gemm.model.h100fp8.8192x8192x8192", [] { return h100_fp8_us(8192, 8192, 8192); }, 842.316494973, 1e-6, 852.27, 0.02},
      {"gemm.model.h100fp8.16384x16384x16384", [] { return h100_fp8_us(16384, 16384, 16384); }, 6444.80899575, 1e-6, 6386.48, 0.02},
      {"gemm.model.h100fp8.802816x192x768", [] { return h100_fp8_us(802816, 192, 768); }, 357.280545771, 1e-6, 356.67, 0.02},
      {"gemm.a100.two_wave_tail", two_wave_tail_us, 242.92801448, 1e-6, 240.7, 0.02},
      {"gemm.grouped.tile_eff", [] { auto g = gemm(154, 256, 64); g.batch = 160; return 160.0 * 154 / 128 / tile_times(1, 0, g, {128, 256, 1, 1}); }, 0.6015625, 1e-9},
      {"gemm.mxfp8.bytes_per_elem", [] { return workload::element_bytes(DType::kMxfp8) + 1.0 / 32; }, 1.03125, 1e-9},
      {"gemm.nvfp4.bytes_per_elem", [] { return workload::element_bytes(DType::kFp4) + 1.0 / 16; }, 0.5625, 1e-9},
      {"mem.rmsnorm_fwd", [] { return stream_seconds(8192LL * 8192 * 2, 8192LL * 8192 * 2, StreamKind::kNorm) * 1e6; }, 92.5639503448, 1e-9},
      {"mem.swiglu_fwd", [] { return stream_seconds(8192LL * 28672 * 4, 8192LL * 28672 * 2, StreamKind::kElementwise) * 1e6; }, 485.96073931, 1e-9},
      {"mem.adam_time", [] { return stream_seconds(1003782656LL * 16, 1003782656LL * 14, StreamKind::kOptimizer) * 1e3; }, 10.3839585103, 1e-9},
      {"mem.xent_fused", [] { return stream_seconds(8192LL * 128256 * 2, 8192LL * 128256 * 2, StreamKind::kCrossEntropy) * 1e3; }, 1.44920434759, 1e-9},
      {"attn.fwd_flops.causal", [] { return attention(1, 8192, 32, 128).flops().value(); }, 549755813888.0, 0},
      {"attn.bwd_flops.causal", [] { return attention(1, 8192, 32, 128, true, true).flops().value(); }, 1374389534720.0, 0},
      {"attn.fa3_time", [] { return attention(1, 8192, 32, 128).flops().value() / attention_tflops(602, 0, attention(1, 8192, 32, 128)) / 1e6; }, 913.215637688, 1e-9},
      {"attn.cp.naive_imbalance", [] { return contiguous_imbalance(8); }, 1.875, 1e-9},
      {"attn.cp.naive_eff", [] { return 1 / contiguous_imbalance(8); }, 0.533333333333, 1e-9, 0.535, 0.03},
      {"overlap.sm_steal",
       [] {
         calibration::Profile p;
         p.gemm["bf16"] = plain_gemm(1, 0, 0, 1, 0, {{128, 256, 1, 1}});
         const cost::GpuCost c(bare_gpu(132, 989, 0, 1e9), p);
         return c.gemm(gemm(16384, 16384, 4096), {20, {}}).time / c.gemm(gemm(16384, 16384, 4096)).time;
       },
       1.17857142857, 1e-9},
      // arithmetic
      {"gemm.peak.a100_bf16", [] { return 1410e6 * 256 * 2 * 432 / 1e12; }, 311.86944, 1e-9, catalogue_gpu("a100-sxm4-80gb").peak.bf16->value() / 1e12, 0.005},
      {"gemm.peak.h100_bf16", [] { return 1830e6 * 512 * 2 * 528 / 1e12; }, 989.42976, 1e-9, catalogue_gpu("h100-sxm5-80gb").peak.bf16->value() / 1e12, 0.005},
      {"gemm.peak.mi300x_bf16", [] { return 2100e6 * 256 * 2 * 1216 / 1e12; }, 1307.4432, 1e-9, catalogue_gpu("mi300x").peak.bf16->value() / 1e12, 0.005},
      {"gemm.splitk_fill", [] { return std::min(1.0, std::ceil(1024.0 / 128) * std::ceil(1024.0 / 256) * 4 / 132); }, 0.969696969697, 1e-9},
      {"gemm.ai.4096", [] { return gemm(4096, 4096, 4096).flops().value() / (workload::element_bytes(DType::kBf16) * 3 * 4096 * 4096); }, 1365.33333333, 1e-9},
      {"gemm.ridge.h100", [] { return 989 / 3.35; }, 295.223880597, 1e-9, 295.2, 0.001},
      {"gemm.mamf.h100", [] { return 794.5 / 989; }, 0.803336703741, 1e-9, 0.803, 0.002},
      {"gemm.mamf.b200", [] { return 1745.0 / 2250; }, 0.775555555556, 1e-9, 0.776, 0.002},
      {"gemm.data_throttle.a100", [] { return 257.0 / 295; }, 0.871186440678, 1e-9},
      {"gemm.fp8.autocast_speedup.mxfp8_b300", [] { return 12.758 / 8.984; }, 1.42008014248, 1e-9, 1.42, 0.005},
      {"gemm.fp8.quant_overhead.mxfp8_b300", [] { return (8.984 - 7.161) / 8.984; }, 0.202916295637, 1e-9},
      {"mem.adam_bytes", [] { return 4.0 + 4 + 4 + 4 + 4 + 4 + 4 + 2; }, 30, 0},
      {"mem.copy_eff.a100", [] { return 1.61 / 2.039; }, 0.789602746444, 1e-9, shipped_copy("a100-sxm4-80gb"), 0.01},
      {"mem.copy_eff.h100", [] { return 2.9 / 3.35; }, 0.865671641791, 1e-9, shipped_copy("h100-sxm5-80gb"), 0.01},
      {"mem.copy_eff.h200", [] { return 4.01 / 4.8; }, 0.835416666667, 1e-9, shipped_copy("h200-sxm-141gb"), 0.01},
      {"attn.cp.ring_bytes", [] { return 7.0 * (131072.0 / 8) * 2 * 1024 * 2; }, 469762048, 0},
      {"attn.cp.ulysses_bytes", [] { return 7.0 / 8 * (131072.0 / 8) * (2 * 4096 + 2 * 1024) * 2; }, 293601280, 0},
  };
  // FlashAttention-3 forward, causal, head dim 128, 16 k tokens (function).
  struct Fa3 { const char* id; std::int64_t s; double expected, published; };
  for (const Fa3& f : {Fa3{"attn.fa3_sat.h100.hd128.causal.1024", 1024, 400.941176471, 423}, {"attn.fa3_sat.h100.hd128.causal.2048", 2048, 492.722891566, 521},
                       {"attn.fa3_sat.h100.hd128.causal.4096", 4096, 556.408163265, 579}, {"attn.fa3_sat.h100.hd128.causal.8192", 8192, 594.850909091, 602},
                       {"attn.fa3_sat.h100.hd128.causal.16384", 16384, 616.13559322, 616}})
    all.push_back({f.id, [s = f.s] { return attention_tflops(639, 608, attention(16384 / s, s, 16, 128)); }, f.expected, 1e-9, f.published, 0.055});
  return all;
}

}  // namespace

TEST_CASE("kernel models reproduce the reference values, and these the published ones") {
  for (const Check& c : checks()) {
    const double value = c.value();
    INFO(c.id << ": " << value << ", expected " << c.expected);
    CHECK(std::abs(value / c.expected - 1) <= std::max(c.tolerance, 1e-15));
    if (c.published > 0) CHECK(std::abs(c.expected / c.published - 1) <= c.published_tolerance);
  }
}
