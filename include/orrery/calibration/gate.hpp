#pragma once
// The gate of calibration data: a recalibration on the same machine must not silently move. Key by key, never one number for all.
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "orrery/calibration/measurements.hpp"

namespace orrery::calibration {

/// Two-sided p of Mann and Whitney's U test, that samples a and b come from one distribution: exact where neither has ties nor more than 20
/// values, else the normal approximation with correction for ties. 1 where one is empty.
double mann_whitney_p(std::span<const double> a, std::span<const double> b);
/// Slope and intercept of y over x by Theil and Sen: the median of the slopes of all pairs, then of the intercepts. Requires two different x.
std::pair<double, double> theil_sen(std::span<const double> x, std::span<const double> y);
/// The rank, from 1, of the error that split conformal prediction takes of n for a miss rate alpha: ceil((n + 1)(1 - alpha)), at most n.
std::size_t conformal_index(std::size_t n, double alpha);
/// Holm's correction: p_(i) x (m - i), made to rise, at most 1; in the order given.
std::vector<double> holm(std::span<const double> p);
/// Interval of the ratio of medians b / a by bootstrap, percentiles (1 - level)/2 and its complement.
std::pair<double, double> ratio_interval(std::span<const double> a, std::span<const double> b, double level, std::uint64_t seed, const std::string& stream);
/// Share of variance that two groups explain, over what they explain of a normal distribution (2/pi) where one group is all there is; and the
/// two means. 0 of fewer than six values.
struct Split {
  double explained = 0, low = 0, high = 0, share_high = 0;
  bool two = false;  ///< the groups stand apart: Ashman's D over 3
};
Split split(std::span<const double> values);

struct GateOptions {
  double practical = 0.02;        ///< least relative change that matters
  double significance = 0.01;     ///< after Holm
  double level = 0.99;            ///< of the interval of the ratio of medians
  std::uint64_t seed = 1;
  std::vector<MeasurementSet> history;  ///< earlier sets of the same machine, oldest first: how much a key moves by itself, and drift
};

enum class Change : std::uint8_t { kSame, kSlower, kFaster, kLost, kNew, kBimodal, kTooFew, kDrift };
const char* to_string(Change c);

struct KeyChange {
  std::string key;
  Change change = Change::kSame;
  double baseline_us = 0, new_us = 0;      ///< medians
  double ratio = 1, low = 1, high = 1;     ///< new over baseline, and its interval
  double p = 1;                            ///< after Holm
  double threshold = 0;                    ///< practical one in force
  std::string note;
};

struct GateResult {
  std::vector<std::string> environment;  ///< "driver: 570.1 -> 580.2"
  std::vector<std::string> unusable;     ///< why the two sets cannot be compared: another device
  std::vector<KeyChange> keys;           ///< all, by name
  [[nodiscard]] bool failed() const;     ///< slower, lost, bimodal, drifting
  [[nodiscard]] std::size_t count(Change c) const;
};

/// Flags a key where all three agree: the change of medians passes the practical threshold max(2 %, 3 x 1.4826 x MAD of the history's
/// medians), Mann and Whitney's p after Holm over all keys is below 0.01, and the interval of the ratio excludes 1 -/+ 2 %.
GateResult gate(const MeasurementSet& baseline, const MeasurementSet& fresh, const GateOptions& options);

}  // namespace orrery::calibration
