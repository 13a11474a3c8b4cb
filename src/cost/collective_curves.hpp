#pragma once
// Measured and published curves of collectives: which one answers, and what it says.
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "orrery/calibration/profile.hpp"

namespace orrery::cost {

struct CurveTime {
  double time_us = 0;
  std::optional<double> floor_us;  ///< none where the curve starts above kLaunchBound
  bool exact = false;              ///< a point of the curve
  bool below = false;              ///< no floor, and smaller than its smallest size: time_us is that of the smallest
  bool beyond = false;             ///< larger than its largest size: time_us is that of the largest
};
/// Up to this size a collective takes its latency.
inline constexpr double kLaunchBound = 65536;

/// Monotone cubic through the points in log-log; below the smallest size its time, which is the latency floor. Curves are convex where
/// bandwidth takes over from latency, so that chords over a factor 4 in size would run 3 % high there (leave-one-out on A100, H100, B200).
CurveTime read_curve(const calibration::CollectiveCurve& curve, double bytes);

/// Of the curves of (kind, algorithm or any, ranks, nodes), the one whose NCCL version is nearest; nullptr: none.
const calibration::CollectiveCurve* find_curve(const std::vector<calibration::CollectiveCurve>& curves, std::string_view kind,
                                               std::string_view algorithm, bool any_algorithm, std::int64_t ranks, std::int64_t nodes, int nccl_version);

}  // namespace orrery::cost
