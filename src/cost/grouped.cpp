// One product per expert (modelling 1.8).
//
// A persistent kernel works through the tiles of all groups, so a wave is shared by groups and only the last one is partly empty; what costs is
// the sum of ceilings: every group's rows are rounded up to whole tiles. The weight gradient groups over its reduction, which is short, so a tile's
// fixed cost weighs more. GEMMs dealt to several streams fill each other's tails in the same way. One after another, each pays its own.
// Against one product of as many tiles a grouped kernel loses some rate to the look-up of its group and to short panels: `share`.
#include <algorithm>
#include <cmath>

#include "orrery/base/checked.hpp"
#include "orrery/cost/models.hpp"

namespace orrery::cost {
namespace {

constexpr double kMicro = 1e-6;

}  // namespace

KernelTime GemmModel::grouped(const workload::GroupedGemm& g, const Available& device, double in_bytes, double out_bytes, double share) const {
  if (g.launch == workload::GroupLaunch::kOneByOne) {
    KernelTime sum;
    for (std::size_t i = 0; i < g.tokens.size(); ++i) {
      const KernelTime one = time(g.group(i), device, in_bytes, out_bytes);
      sum.total += one.total;
      sum.wave = std::max(sum.wave, one.wave);
    }
    return sum;
  }
  const bool reduces_tokens = g.one.layout == workload::GemmLayout::kNT;
  double flops = 0, bytes = 0;
  std::size_t groups = 0;
  for (std::size_t i = 0; i < g.tokens.size(); ++i) {
    const workload::Gemm one = g.group(i);
    const double m = static_cast<double>(one.m), n = static_cast<double>(one.n), k = static_cast<double>(one.k);
    if (g.tokens[i] <= 0) {
      // A group without tokens reads nothing; with accumulation its gradient stays as it is.
      continue;
    }
    ++groups;
    flops += 2 * m * n * k;
    bytes += (m + n) * k * in_bytes + m * n * out_bytes * (one.accumulate ? 2 : 1);
  }
  if (groups == 0) return {};
  double factor = 1;
  if (g.one.layout == workload::GemmLayout::kNN) factor = nn_;
  if (reduces_tokens && g.one.accumulate) factor = nt_accumulate_;
  factor *= (1 + throttle_ * flops / (flops + throttle_flops_)) / share;

  double best = INFINITY, wave = 0;
  for (std::size_t i = 0; i < tile_count_; ++i) {
    const Tile& t = tiles_[i];
    double tiles = 0, work = 0;  // tile seconds of all groups
    for (std::size_t e = 0; e < g.tokens.size(); ++e) {
      if (g.tokens[e] <= 0) continue;
      const workload::Gemm one = g.group(e);
      const double here = static_cast<double>(ceil_div(one.m, t.m)) * static_cast<double>(ceil_div(one.n, t.n));
      tiles += here;
      work += here * (t.seconds_per_k * static_cast<double>(one.k) * factor);
    }
    const double w = tiles / device.sms;
    const double whole = w <= 1 ? 1 : t.per_sm * std::ceil(w / t.per_sm);
    const double waves = std::max(1.0, hardness_ * whole + (1 - hardness_) * w);
    const double seconds = waves * (work / tiles) + std::max(1.0, waves / t.per_sm) * overhead_;
    if (seconds < best) {
      best = seconds;
      wave = seconds / waves;
    }
  }
  const double memory = bytes / (device.bandwidth * bandwidth_efficiency_);
  const double a = best / kMicro, b = memory / kMicro;
  const double a3 = a * a * a, b3 = b * b * b;
  const double joined = std::cbrt(std::sqrt(a3 * a3 + b3 * b3)) * kMicro;
  return {launch_ + std::max(joined, std::max(best, memory)), wave};
}

}  // namespace orrery::cost
