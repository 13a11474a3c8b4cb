#include "fit/shapes.hpp"

#include <algorithm>
#include <cmath>

#include "orrery/workload/operation.hpp"

namespace orrery::fit {
namespace {

using calibration::Point;
using workload::DType;

DType type_of(const std::string& dtype) {
  if (dtype == "fp32") return DType::kFp32;
  if (dtype == "tf32") return DType::kTf32;
  if (dtype == "fp16") return DType::kFp16;
  if (dtype == "fp8" || dtype == "fp8_block") return DType::kFp8;
  if (dtype == "mxfp8") return DType::kMxfp8;
  if (dtype == "mxfp6") return DType::kMxfp6;
  if (dtype == "fp4") return DType::kFp4;
  if (dtype == "int8") return DType::kInt8;
  return DType::kBf16;
}

/// Bytes that a dynamic quantisation moves per element of a 16-bit activation: read 2, write 1 (modelling 1.7).
constexpr double kQuantiseBytes = 3;

}  // namespace

std::optional<double> peak_of(const cluster::Gpu& gpu, const std::string& dtype) {
  std::optional<FlopsPerSecond> p;
  switch (type_of(dtype)) {
    case DType::kFp32: p = gpu.peak.fp32; break;
    case DType::kTf32: p = gpu.peak.tf32; break;
    case DType::kFp16: p = gpu.peak.fp16; break;
    case DType::kBf16: p = gpu.peak.bf16; break;
    case DType::kFp8:
    case DType::kMxfp8: p = gpu.peak.fp8; break;
    case DType::kMxfp6: p = gpu.peak.fp6; break;
    case DType::kFp4: p = gpu.peak.fp4; break;
    case DType::kInt8: p = gpu.peak.int8; break;
  }
  if (!p || !(p->value() > 0)) return std::nullopt;
  return p->value();
}

const calibration::GemmProfile* gemm_profile(const calibration::Profile& profile, const std::string& dtype) {
  for (const std::string& name : {dtype, std::string(dtype == "fp8_block" ? "fp8" : dtype == "fp16" ? "bf16" : dtype == "bf16" ? "fp16" : dtype)})
    if (const auto found = profile.gemm.find(name); found != profile.gemm.end()) return &found->second;
  return nullptr;
}

GemmTimer::GemmTimer(const cluster::Gpu& gpu, double peak, const calibration::GemmProfile& p, cost::Clocks clocks)
    : model(p, peak / gpu.sm_count, static_cast<double>(gpu.l2.value()), clocks),
      device{static_cast<double>(gpu.sm_count), gpu.memory_bandwidth.value()},
      quantise_us(p.quantise_us.value),
      quantise_bandwidth(gpu.memory_bandwidth.value() * p.quantise_bandwidth.value),
      l2_resident(static_cast<double>(gpu.l2.value()) * p.l2_fraction.value),
      l2_saving(1 - 1 / p.l2_bandwidth_factor.value),
      weight_resident(static_cast<double>(gpu.l2.value()) * p.weight_l2_fraction.value) {}

bool quantises(const Point& p) {
  if (!p.quantise.empty()) return p.quantise == "dynamic";
  const DType t = type_of(p.dtype);
  return t == DType::kFp8 || t == DType::kMxfp8 || t == DType::kMxfp6 || t == DType::kFp4 || t == DType::kInt8;
}

double gemm_us(const GemmTimer& timer, const Point& p) {
  workload::Gemm g;
  g.m = p.m;
  g.n = p.n;
  g.k = p.k;
  g.batch = p.batch;
  g.in = type_of(p.dtype);
  g.out = p.accumulate || g.in == DType::kFp32 || g.in == DType::kTf32 ? DType::kFp32 : g.in == DType::kFp16 ? DType::kFp16 : DType::kBf16;
  g.layout = p.layout == "nn" ? workload::GemmLayout::kNN : p.layout == "nt" ? workload::GemmLayout::kNT : workload::GemmLayout::kTN;
  g.accumulate = p.accumulate;
  const double in_bytes = workload::element_bytes(g.in);
  // A benchmark that turns few copies of a small weight finds it in L2; in training a layer's weight was last read many kernels ago. This takes the saving
  // out of what the model is fitted to.
  double operand_bytes = 0;
  if (timer.weight_resident > 0) {
    const double k = static_cast<double>(p.k), batch = static_cast<double>(p.batch), weight = static_cast<double>(p.n) * k * in_bytes * batch;
    operand_bytes = static_cast<double>(p.m) * k * in_bytes * batch + weight * (1 - timer.l2_saving * std::clamp(2 - weight / timer.weight_resident, 0.0, 1.0));
  }
  double us = timer.model.time(g, timer.device, in_bytes, workload::element_bytes(g.out), operand_bytes).total * 1e6;
  if (quantises(p)) {
    const double elements = static_cast<double>(p.m) * static_cast<double>(p.k);
    double bytes = kQuantiseBytes * elements;
    if (timer.l2_resident > 0) bytes *= 1 - timer.l2_saving * std::clamp(2 - 2 * elements / timer.l2_resident, 0.0, 1.0);
    us += timer.quantise_us + bytes / timer.quantise_bandwidth * 1e6;
  }
  return us;
}

workload::Attention attention_of(const Point& p) {
  workload::Attention a;
  a.batch = p.batch;
  a.seq_q = p.seq_q;
  a.seq_kv = p.seq_kv;
  a.heads = p.heads;
  a.kv_heads = p.kv_heads;
  a.dim_qk = a.dim_v = p.head_dim;
  a.causal = p.causal;
  a.backward = p.backward;
  a.dtype = type_of(p.dtype);
  return a;
}

double stream_us(const calibration::StreamProfile& profile, const cluster::Gpu& gpu, const Point& p) {
  workload::Stream s;
  s.read_bytes = p.read_bytes;
  s.write_bytes = p.write_bytes;
  return cost::StreamModel(profile, 0, 1).time(s, {static_cast<double>(gpu.sm_count), gpu.memory_bandwidth.value()}).total * 1e6;
}

double curve_us(const calibration::CollectiveCurve& c, double bytes) {
  if (bytes <= c.bytes.front()) return c.time_us.front();
  if (bytes >= c.bytes.back()) return c.time_us.back() * bytes / c.bytes.back();
  const auto above = static_cast<std::size_t>(std::upper_bound(c.bytes.begin(), c.bytes.end(), bytes) - c.bytes.begin());
  const double x = std::log(bytes / c.bytes[above - 1]) / std::log(c.bytes[above] / c.bytes[above - 1]);
  return c.time_us[above - 1] * std::pow(c.time_us[above] / c.time_us[above - 1], x);
}

}  // namespace orrery::fit
