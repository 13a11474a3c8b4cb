// GEMM on tensor cores by tiles and waves.
//
// The output is cut into tiles, one CTA each. An SM works through its CTAs; the slowest SM ends the kernel, so time goes in waves: w = CTAs /
// SMs of tile work, rounded up on kernels that start one CTA per tile, hardly rounded on persistent (stream-K-like) ones. wave_hardness is
// where between the two a library lies: W = max(1, phi ceil(w) + (1 - phi) w). A kernel with too few tiles may split K among S CTAs and pays
// for reducing S partial sums. The library picks from a menu; we take the minimum. Memory traffic runs beside the math: a p-norm with p = 6
// joins the two, which is their maximum with a rounded corner.
//
// Why every term may only rise with work: for each (tile, S) the time is nondecreasing in m, n, k and batch, and S > 1 is allowed only while
// CTAs fit on the SMs, a set that shrinks as work grows. A minimum of such functions over shrinking sets is nondecreasing. The one exception
// is measured: a contiguous dimension that is no multiple of 16 bytes costs more than the next one that is.
//
// What no formula holds (which kernel the library picks for this very shape) is a table of residuals over m, n and k where shapes were measured;
// it bends the time by what was seen, so that with a table more work may take less time, as it does on the device.
//
// Sources: tile and wave quantisation, NVIDIA "Matrix Multiplication Background User's Guide"; soft waves and small tiles, fits to public
// aiconfigurator GEMM tables (docs/calibration-profiles.md).
#include <algorithm>
#include <cmath>

#include "orrery/base/checked.hpp"
#include "orrery/cost/models.hpp"

namespace orrery::cost {
namespace {

constexpr double kMicro = 1e-6;
constexpr double kReductionBytes = 8;  ///< an fp32 partial sum is written and read once
constexpr double kPositionBytes = 0.125;  ///< of a 2:4 operand, per element of the dense one: two bits for each that is kept
constexpr double kAlignBytes = 16;     ///< of a vectorised global load; cuBLAS asks for it to use the fast kernels
/// Rows and columns that one wave covers: about 130 SMs x (128 x 256) in a near-square raster.
constexpr double kWaveExtent = 2048;

bool aligned(std::int64_t extent, double element_bytes) {
  const double bytes = static_cast<double>(extent) * element_bytes;
  return bytes == kAlignBytes * std::floor(bytes / kAlignBytes);
}

}  // namespace

GemmModel::GemmModel(const calibration::GemmProfile& p, double sm_rate, double l2, Clocks clocks)
    : overhead_(p.wave_overhead_us.value * kMicro),
      launch_(p.launch_us.value * kMicro),
      bandwidth_efficiency_(p.bandwidth_efficiency.value),
      hardness_(p.wave_hardness.value),
      // A layout faster than TN still cannot pass the peak.
      nn_(1 / std::min(p.layout_nn.value, 1 / p.efficiency.value)),
      nt_accumulate_(1 / std::min(p.layout_nt_accumulate.value, 1 / p.efficiency.value)),
      align_(p.align_penalty.value),
      sparse_(0.5 / p.sparse_efficiency.value),
      throttle_(p.sustained_ratio.value - 1),
      throttle_flops_(clocks == Clocks::kSustained ? p.sustained_flops.value : p.burst_flops.value),
      l2_(l2),
      l2_resident_(l2 * p.l2_fraction.value),
      l2_saving_(1 - 1 / p.l2_bandwidth_factor.value),
      sm_rate_(sm_rate),
      residual_(p.residual) {
  for (const calibration::Tile& t : p.tiles) {
    if (tile_count_ == kMaxTiles) break;
    const double rate = sm_rate * p.efficiency.value * t.factor;
    tiles_[tile_count_++] = Tile{t.m, t.n, 2.0 * t.m * t.n / rate, static_cast<double>(t.per_sm)};
  }
  split_count_ = 0;
  for (const double s : {1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0})
    if (s <= p.split_k_max) splits_[split_count_++] = s;
  origin_ = p.efficiency.origin;
  for (const Origin o : {p.wave_overhead_us.origin, p.launch_us.origin, p.bandwidth_efficiency.origin, p.wave_hardness.origin}) origin_ = weaker(origin_, o);
  origin_accumulate_ = weaker(origin_, p.layout_nt_accumulate.origin);
  origin_sparse_ = p.sparse_efficiency.origin;
}

KernelTime GemmModel::time(const workload::Gemm& g, const Available& device, double in_bytes, double out_bytes, double operand_bytes) const {
  if (g.m <= 0 || g.n <= 0 || g.k <= 0 || g.batch <= 0) return {};
  const double m = static_cast<double>(g.m), n = static_cast<double>(g.n), k = static_cast<double>(g.k), batch = static_cast<double>(g.batch);
  const double outputs = m * n * batch;
  const double bandwidth = device.bandwidth * bandwidth_efficiency_;

  double factor = 1;
  if (g.layout == workload::GemmLayout::kNN) factor = nn_;
  if (g.layout == workload::GemmLayout::kNT && g.accumulate) factor = nt_accumulate_;
  const std::int64_t contiguous = g.layout == workload::GemmLayout::kNT ? g.m : g.k;
  if (!aligned(contiguous, in_bytes) || !aligned(g.n, in_bytes)) factor *= align_;
  // Matrix units multiply half the elements of a 2:4 operand (Mishra et al., arXiv:2104.08378); never less than half the dense time.
  if (g.sparse) factor *= sparse_;
  const double flops = 2 * outputs * k;
  factor *= 1 + throttle_ * flops / (flops + throttle_flops_);

  double best = INFINITY, wave = 0;
  for (std::size_t i = 0; i < tile_count_; ++i) {
    const Tile& t = tiles_[i];
    const double tiles = static_cast<double>(ceil_div(g.m, t.m)) * static_cast<double>(ceil_div(g.n, t.n)) * batch;
    const double unit = t.seconds_per_k * k * factor;
    for (std::size_t j = 0; j < split_count_; ++j) {
      const double split = splits_[j], ctas = tiles * split;
      if (j > 0 && ctas > device.sms) break;
      const double w = ctas / device.sms;
      const double whole = w <= 1 ? 1 : t.per_sm * std::ceil(w / t.per_sm);  // co-resident CTAs share the SM and end together
      const double waves = std::max(1.0, hardness_ * whole + (1 - hardness_) * w);
      const double rounds = std::max(1.0, waves / t.per_sm);                  // their prologues overlap
      double seconds = waves * unit / split + rounds * overhead_;
      if (j > 0) seconds += split * outputs * kReductionBytes / bandwidth;
      if (seconds < best) {
        best = seconds;
        wave = seconds / std::max(1.0, waves);
      }
    }
  }

  // Operands come from memory once while the panel of a wave stays in L2; a longer panel is fetched again by later waves, at most once each.
  const double b_bytes = g.sparse ? in_bytes / 2 + kPositionBytes : in_bytes;
  double operands = operand_bytes > 0 ? operand_bytes : (m * in_bytes + n * b_bytes) * k * batch;
  if (l2_ > 0) {
    const double panel = (std::min(m, kWaveExtent) + std::min(n, kWaveExtent)) * k * in_bytes;
    const double every_wave = 2 * m * n * k * batch * in_bytes / kWaveExtent;
    operands = std::max(operands, std::min(operands * panel / l2_, every_wave));
  }
  const double written = outputs * out_bytes * (g.accumulate ? 2 : 1);
  // Activation and output of a small product stay in L2 between the kernels that write and read them; the weight comes from memory. The saving
  // fades from l2_resident to twice that, so that the time stays continuous and rising.
  double saved = 0;
  if (l2_saving_ > 0 && l2_resident_ > 0) {
    const double passing = m * k * batch * in_bytes + outputs * out_bytes;
    saved = passing * l2_saving_ * std::clamp(2 - passing / l2_resident_, 0.0, 1.0);
  }
  const double memory = (operands + written - saved) / bandwidth;

  const double a = best / kMicro, b = memory / kMicro;  // microseconds keep sixth powers far from the ends of double
  const double a3 = a * a * a, b3 = b * b * b;
  const double joined = std::cbrt(std::sqrt(a3 * a3 + b3 * b3)) * kMicro;
  const double modelled = launch_ + std::max(joined, std::max(best, memory));
  if (residual_.empty() || batch > 1) return {modelled, wave};
  // What this shape was measured to take over what the parameters say; still never faster than the device can be.
  const double least = (operand_bytes > 0 ? operand_bytes : (m * in_bytes + n * b_bytes) * k) + written - saved;
  const double roofline = std::max(flops / (g.sparse ? 2 * sm_rate_ : sm_rate_) / device.sms, least / device.bandwidth);
  return {std::max(modelled * std::exp(residual_.at({m, n, k})), roofline), wave};
}

}  // namespace orrery::cost
