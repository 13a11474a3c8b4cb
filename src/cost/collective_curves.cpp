#include "cost/collective_curves.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace orrery::cost {

CurveTime read_curve(const calibration::CollectiveCurve& curve, double bytes) {
  CurveTime out;
  out.floor_us = curve.time_us.front();
  const auto above = std::lower_bound(curve.bytes.begin(), curve.bytes.end(), bytes);
  if (above == curve.bytes.end()) {
    out.time_us = curve.time_us.back();
    out.beyond = true;
    return out;
  }
  const auto i = static_cast<std::size_t>(above - curve.bytes.begin());
  out.exact = *above == bytes;
  if (out.exact || i == 0) {
    out.time_us = curve.time_us[i];
    return out;
  }
  const double x = std::log(bytes / curve.bytes[i - 1]) / std::log(curve.bytes[i] / curve.bytes[i - 1]);
  out.time_us = curve.time_us[i - 1] * std::pow(curve.time_us[i] / curve.time_us[i - 1], x);
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
