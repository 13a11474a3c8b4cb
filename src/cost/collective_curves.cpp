#include "cost/collective_curves.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace orrery::cost {
namespace {

/// Slope of log time over log bytes between points i and i+1.
double chord(const calibration::CollectiveCurve& c, std::size_t i) {
  return std::log(c.time_us[i + 1] / c.time_us[i]) / std::log(c.bytes[i + 1] / c.bytes[i]);
}

/// Slope at point i that keeps the cubic monotone: weighted harmonic mean of the chords beside it, zero at a flat one; one-sided at the
/// ends. Source: Fritsch and Butland, SIAM J. Sci. Stat. Comput. 5(2), 1984.
double slope(const calibration::CollectiveCurve& c, std::size_t i) {
  const std::size_t last = c.bytes.size() - 1;
  if (last == 1) return chord(c, 0);
  const auto width = [&](std::size_t k) { return std::log(c.bytes[k + 1] / c.bytes[k]); };
  if (i == 0 || i == last) {
    const std::size_t near = i == 0 ? 0 : last - 1, next = i == 0 ? 1 : last - 2;
    const double s = ((2 * width(near) + width(next)) * chord(c, near) - width(near) * chord(c, next)) / (width(near) + width(next));
    return std::clamp(s, 0.0, 3 * chord(c, near));
  }
  const double before = chord(c, i - 1), after = chord(c, i);
  if (before <= 0 || after <= 0) return 0;
  const double a = 2 * width(i) + width(i - 1), b = width(i) + 2 * width(i - 1);
  return (a + b) / (a / before + b / after);
}

}  // namespace

CurveTime read_curve(const calibration::CollectiveCurve& curve, double bytes) {
  CurveTime out;
  if (curve.bytes.front() <= kLaunchBound) out.floor_us = curve.time_us.front();
  const auto above = std::lower_bound(curve.bytes.begin(), curve.bytes.end(), bytes);
  if (above == curve.bytes.end()) {
    out.time_us = curve.time_us.back();
    out.beyond = true;
    return out;
  }
  const auto i = static_cast<std::size_t>(above - curve.bytes.begin());
  out.exact = *above == bytes;
  out.below = i == 0 && !out.exact && !out.floor_us;
  if (out.exact || i == 0) {
    out.time_us = curve.time_us[i];
    return out;
  }
  const double width = std::log(curve.bytes[i] / curve.bytes[i - 1]), x = std::log(bytes / curve.bytes[i - 1]) / width;
  const double rise = std::log(curve.time_us[i] / curve.time_us[i - 1]);
  const double log_time = (3 - 2 * x) * x * x * rise + x * (1 - x) * width * ((1 - x) * slope(curve, i - 1) - x * slope(curve, i));
  out.time_us = curve.time_us[i - 1] * std::exp(log_time);
  return out;
}

const calibration::CollectiveCurve* find_curve(const std::vector<calibration::CollectiveCurve>& curves, std::string_view kind,
                                               std::string_view algorithm, bool any_algorithm, std::int64_t ranks, std::int64_t nodes, int nccl_version) {
  const calibration::CollectiveCurve* best = nullptr;
  // A curve of the algorithm itself before one of whatever NCCL chose; then the nearest version (they differ by 2x at some sizes).
  const auto distance = [&](const calibration::CollectiveCurve& c) {
    const int version = c.nccl_version == 0 ? 1000 : std::abs(c.nccl_version - nccl_version);
    return std::pair(c.algorithm.empty() ? 1 : 0, version);
  };
  for (const calibration::CollectiveCurve& c : curves) {
    if (c.kind != kind || c.ranks != ranks || c.nodes != nodes || c.bytes.empty()) continue;
    if (c.algorithm.empty() ? !any_algorithm : c.algorithm != algorithm) continue;
    if (best == nullptr || distance(c) < distance(*best)) best = &c;
  }
  return best;
}

}  // namespace orrery::cost
