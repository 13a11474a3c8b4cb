#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "orrery/base/assert.hpp"
#include "orrery/cost/cost.hpp"

namespace orrery::cost {
namespace {

using workload::DType;
using workload::StreamKind;

constexpr std::array kTypes = {DType::kFp32, DType::kTf32, DType::kFp16, DType::kBf16, DType::kFp8, DType::kMxfp8, DType::kMxfp6, DType::kFp4, DType::kInt8};
constexpr std::array kStreamKinds = {StreamKind::kCopy,      StreamKind::kElementwise,  StreamKind::kNorm,      StreamKind::kSoftmax, StreamKind::kPermute,
                                     StreamKind::kEmbedding, StreamKind::kCrossEntropy, StreamKind::kOptimizer, StreamKind::kReduce,  StreamKind::kCast};

std::optional<FlopsPerSecond> peak(const cluster::Gpu& gpu, DType t) {
  switch (t) {
    case DType::kFp32: return gpu.peak.fp32;
    case DType::kTf32: return gpu.peak.tf32;
    case DType::kFp16: return gpu.peak.fp16;
    case DType::kBf16: return gpu.peak.bf16;
    case DType::kFp8:
    case DType::kMxfp8: return gpu.peak.fp8;
    case DType::kMxfp6: return gpu.peak.fp6;
    case DType::kFp4: return gpu.peak.fp4;
    case DType::kInt8: return gpu.peak.int8;
  }
  return std::nullopt;
}

/// Types that a GEMM falls back to, wider and wider, where the device has no unit for its own.
std::vector<DType> wider(DType t) {
  switch (t) {
    case DType::kFp4: return {DType::kFp4, DType::kFp8, DType::kBf16, DType::kFp16, DType::kTf32, DType::kFp32};
    case DType::kMxfp6: return {DType::kMxfp6, DType::kFp8, DType::kBf16, DType::kFp16, DType::kTf32, DType::kFp32};
    case DType::kMxfp8: return {DType::kMxfp8, DType::kBf16, DType::kFp16, DType::kTf32, DType::kFp32};
    case DType::kFp8: return {DType::kFp8, DType::kBf16, DType::kFp16, DType::kTf32, DType::kFp32};
    case DType::kInt8: return {DType::kInt8, DType::kFp16, DType::kBf16, DType::kTf32, DType::kFp32};
    case DType::kFp16: return {DType::kFp16, DType::kBf16, DType::kTf32, DType::kFp32};
    case DType::kBf16: return {DType::kBf16, DType::kTf32, DType::kFp32, DType::kFp16};
    case DType::kTf32: return {DType::kTf32, DType::kFp32, DType::kFp16, DType::kBf16};
    case DType::kFp32: return {DType::kFp32, DType::kTf32, DType::kFp16, DType::kBf16};
  }
  return {};
}

/// Whose fit stands in where the profile has none for this type.
std::vector<std::string> likest(DType t) {
  switch (t) {
    case DType::kFp16: return {"fp16", "bf16"};
    case DType::kBf16: return {"bf16", "fp16"};
    case DType::kFp8: return {"fp8", "bf16", "fp16"};
    case DType::kMxfp8: return {"mxfp8", "fp8", "bf16", "fp16"};
    case DType::kMxfp6: return {"mxfp6", "mxfp8", "fp8", "bf16"};
    case DType::kFp4: return {"fp4", "mxfp8", "fp8", "bf16"};
    case DType::kInt8: return {"int8", "fp8", "bf16", "fp16"};
    case DType::kTf32: return {"tf32", "bf16", "fp16"};
    case DType::kFp32: return {"fp32"};
  }
  return {};
}

/// A parameter taken from another type, kernel or class is an extrapolation at best.
void weaken(calibration::GemmProfile& g) {
  for (calibration::Parameter* p : {&g.efficiency, &g.wave_overhead_us, &g.launch_us, &g.bandwidth_efficiency, &g.wave_hardness, &g.layout_nt_accumulate})
    p->origin = weaker(p->origin, Origin::kExtrapolated);
}

calibration::GemmProfile gemm_profile(const calibration::Profile& profile, DType t) {
  const auto names = likest(t);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = profile.gemm.find(names[i]);
    if (found == profile.gemm.end()) continue;
    calibration::GemmProfile g = found->second;
    if (i > 0) weaken(g);
    return g;
  }
  return {};
}

/// Whether a class of kernels reads what the kernel before it wrote. Parameters, optimizer states, tables and logits come from memory.
bool reads_predecessor(StreamKind k) {
  return k == StreamKind::kCopy || k == StreamKind::kElementwise || k == StreamKind::kNorm || k == StreamKind::kSoftmax || k == StreamKind::kPermute || k == StreamKind::kCast;
}

/// Speed under the limit in force. Source of gamma: power-cap sweeps (profile).
double power_speed(const cluster::Gpu& gpu, double gamma) {
  if (!(gpu.power_limit_w > 0) || !(gpu.tdp_w > 0) || gpu.power_limit_w >= gpu.tdp_w) return 1;
  return std::pow(gpu.power_limit_w / gpu.tdp_w, gamma);
}

}  // namespace

GpuCost::GpuCost(const cluster::Gpu& gpu, const calibration::Profile& profile, double speed, std::string attention_kernel, Clocks clocks) : gpu_(gpu), speed_(speed) {
  ORRERY_ASSERT(gpu.sm_count > 0 && gpu.memory_bandwidth.value() > 0 && speed > 0, "a device has compute units, memory and a speed");
  const double tensor_clock = power_speed(gpu, profile.power.gamma_tensor.value);
  memory_clock_ = power_speed(gpu, profile.power.gamma_memory.value);
  const double sms = gpu.sm_count, l2 = static_cast<double>(gpu.l2.value());
  bool any = false;
  double half_rate = 0;  // of one SM in 16 bits, what attention runs at
  for (std::size_t i = 0; i < kDTypes; ++i) {
    const DType own = kTypes[i];
    native_[i] = peak(gpu, own).has_value();
    for (const DType t : wider(own)) {
      const auto p = peak(gpu, t);
      if (!p || !(p->value() > 0)) continue;
      calibration::GemmProfile g = gemm_profile(profile, t);
      if (t != own) weaken(g);
      gemm_[i] = GemmModel(g, p->value() / sms * tensor_clock, l2, clocks);
      if (own == DType::kBf16) half_rate = p->value() / sms * tensor_clock;
      any = true;
      break;
    }
  }
  ORRERY_ASSERT(any, "a device has at least one peak");
  if (gpu.peak.fp16 && gpu.peak.fp16->value() > half_rate * sms) half_rate = gpu.peak.fp16->value() / sms * tensor_clock;

  grouped_ = profile.grouped;

  std::vector<calibration::AttentionProfile> kernel;
  const auto named = [&](const std::string& name) {
    for (const auto& a : profile.attention)
      if (a.kernel == name) kernel.push_back(a);
  };
  named(attention_kernel);
  const bool known = !kernel.empty() || attention_kernel.empty();
  if (kernel.empty() && !profile.attention.empty()) named(profile.attention.front().kernel);
  // Special functions: 16 results per clock and SM (CUDA C++ Programming Guide, table of arithmetic throughput, 7.x to 10.x).
  attention_ = AttentionModel(std::move(kernel), half_rate, 16e6 * gpu.clock_mhz * tensor_clock);
  attention_origin_ = known ? attention_.origin() : weaker(attention_.origin(), Origin::kExtrapolated);

  for (std::size_t i = 0; i < kStreams; ++i) {
    const StreamKind kind = kStreamKinds[i];
    const auto found = profile.stream.find(workload::to_string(kind));
    const double resident = reads_predecessor(kind) ? l2 * profile.l2.fraction.value : 0;
    stream_[i] = StreamModel(found == profile.stream.end() ? calibration::StreamProfile{} : found->second, resident, profile.l2.bandwidth_factor.value);
  }
}

bool GpuCost::supports(DType type) const { return native_[static_cast<std::size_t>(type)]; }

Available GpuCost::available(const Mode& mode) const {
  // Communication never takes all: at least one SM and a tenth of the memory bandwidth stay (the arbiter of a memory channel is fair).
  constexpr double kLeastShare = 0.1;
  const double full = gpu_.memory_bandwidth.value() * memory_clock_;
  return {static_cast<double>(std::max(1, gpu_.sm_count - std::max(0, mode.sms))), std::max(full - mode.hbm.value(), kLeastShare * full)};
}

KernelTime GpuCost::gemm_kernel(const workload::Gemm& g, const Mode& mode) const {
  return gemm_[static_cast<std::size_t>(g.in)].time(g, available(mode), workload::element_bytes(g.in), workload::element_bytes(g.out));
}

KernelTime GpuCost::grouped_kernel(const workload::GroupedGemm& g, const Mode& mode) const {
  return gemm_[static_cast<std::size_t>(g.one.in)].grouped(g, available(mode), workload::element_bytes(g.one.in), workload::element_bytes(g.one.out), grouped_.efficiency.value);
}

Duration GpuCost::grouped(const workload::GroupedGemm& g, const Mode& mode) const {
  const Origin of_one = gemm_[static_cast<std::size_t>(g.one.in)].origin(g.one);
  return {Seconds(grouped_kernel(g, mode).total / speed_), g.launch == workload::GroupLaunch::kOneByOne ? of_one : weaker(of_one, grouped_.efficiency.origin)};
}

Duration GpuCost::gemm(const workload::Gemm& g, const Mode& mode) const {
  return {Seconds(gemm_kernel(g, mode).total / speed_), gemm_[static_cast<std::size_t>(g.in)].origin(g)};
}

Duration GpuCost::attention(const workload::Attention& a, const Mode& mode) const { return {Seconds(attention_.time(a, available(mode)).total / speed_), attention_origin_}; }

Duration GpuCost::stream(const workload::Stream& s, const Mode& mode) const {
  const StreamModel& model = stream_[static_cast<std::size_t>(s.kind)];
  return {Seconds(model.time(s, available(mode)).total / speed_), model.origin()};
}

Duration GpuCost::operation(const workload::Operation& op, const Mode& mode) const {
  if (const auto* g = std::get_if<workload::Gemm>(&op.work)) return gemm(*g, mode);
  if (const auto* a = std::get_if<workload::Attention>(&op.work)) return attention(*a, mode);
  if (const auto* e = std::get_if<workload::GroupedGemm>(&op.work)) return grouped(*e, mode);
  if (const auto* c = std::get_if<workload::Convolution>(&op.work)) return convolution(*c, mode);
  const auto* s = std::get_if<workload::Stream>(&op.work);
  ORRERY_ASSERT(s != nullptr, "communication is timed by collective_time");
  return stream(*s, mode);
}

Seconds GpuCost::wave(const workload::Operation& op) const {
  const Available all = available({});
  if (const auto* g = std::get_if<workload::Gemm>(&op.work)) return Seconds(gemm_kernel(*g, {}).wave / speed_);
  if (const auto* e = std::get_if<workload::GroupedGemm>(&op.work)) return Seconds(grouped_kernel(*e, {}).wave / speed_);
  if (const auto* a = std::get_if<workload::Attention>(&op.work)) return Seconds(attention_.time(*a, all).wave / speed_);
  if (const auto* c = std::get_if<workload::Convolution>(&op.work)) return Seconds(convolution_kernel(*c, all).wave / speed_);
  const auto* s = std::get_if<workload::Stream>(&op.work);
  ORRERY_ASSERT(s != nullptr, "communication has no waves of its own");
  return Seconds(stream_[static_cast<std::size_t>(s->kind)].time(*s, all).wave / speed_);
}

}  // namespace orrery::cost
