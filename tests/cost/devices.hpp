#pragma once
// Devices and profiles of the cost tests.
#include <string>

#include "catch.h"
#include "orrery/calibration/select.hpp"
#include "orrery/cluster/parts.hpp"
#include "orrery/cost/cost.hpp"
#include "orrery/document/document.hpp"

namespace orrery::test {

inline cluster::Gpu catalogue_gpu(const std::string& name) {
  const auto doc = document::load("gpu", document::Value(name), "", "", ".");
  REQUIRE(doc.has_value());
  const auto gpu = cluster::read_gpu(doc->value, doc->file, "");
  REQUIRE(gpu.has_value());
  return *gpu;
}

inline const std::vector<calibration::Profile>& shipped_profiles() {
  static const std::vector<calibration::Profile> all = [] {
    std::vector<calibration::Profile> profiles;
    const auto names = document::catalogue("profile");
    REQUIRE(names.has_value());
    for (const auto& name : *names) {
      const auto doc = document::load("profile", document::Value(name), "", "", ".");
      REQUIRE(doc.has_value());
      const auto p = calibration::read_profile(doc->value, doc->file, "");
      REQUIRE(p.has_value());
      profiles.push_back(*p);
    }
    return profiles;
  }();
  return all;
}

/// What a scenario on this GPU is predicted with by default.
inline calibration::Profile default_profile(const cluster::Gpu& gpu) {
  calibration::Profile merged;
  for (const auto& p : calibration::rank(shipped_profiles(), {gpu.name, gpu.architecture, ""})) merged = calibration::merge(std::move(merged), p);
  return merged;
}

inline calibration::Parameter exactly(double v) { return {v, v, v, Origin::kMeasured}; }

/// A device with nothing but what a formula states: no L2, no power limit.
inline cluster::Gpu bare_gpu(int sms, double bf16_tflops, double fp8_tflops, double tb_per_s) {
  cluster::Gpu g;
  g.name = "bare";
  g.sm_count = sms;
  g.memory_bandwidth = gb_per_s(tb_per_s * 1e3);
  g.peak.bf16 = tflops(bf16_tflops);
  if (fp8_tflops > 0) g.peak.fp8 = tflops(fp8_tflops);
  return g;
}

/// GEMM without clock term, split and layout factors: the plain tile and wave formula of modelling texts.
inline calibration::GemmProfile plain_gemm(double efficiency, double overhead_us, double launch_us, double bandwidth, double hardness, std::vector<calibration::Tile> tiles) {
  calibration::GemmProfile g;
  g.efficiency = exactly(efficiency);
  g.wave_overhead_us = exactly(overhead_us);
  g.launch_us = exactly(launch_us);
  g.bandwidth_efficiency = exactly(bandwidth);
  g.wave_hardness = exactly(hardness);
  g.layout_nn = g.layout_nt_accumulate = g.align_penalty = g.sustained_ratio = exactly(1);
  g.tiles = std::move(tiles);
  g.split_k_max = 1;
  return g;
}

inline workload::Gemm gemm(std::int64_t m, std::int64_t n, std::int64_t k, workload::DType in = workload::DType::kBf16) {
  workload::Gemm g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.in = in;
  return g;
}

inline workload::Attention attention(std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t dim, bool causal = true, bool backward = false) {
  workload::Attention a;
  a.batch = batch;
  a.seq_q = a.seq_kv = seq;
  a.heads = a.kv_heads = heads;
  a.dim_qk = a.dim_v = dim;
  a.causal = causal;
  a.backward = backward;
  return a;
}

}  // namespace orrery::test
