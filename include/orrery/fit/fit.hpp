#pragma once
// Measurements to profiles through the cost model's own formulas, and profiles held against measurements.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orrery/calibration/measurements.hpp"
#include "orrery/calibration/profile.hpp"
#include "orrery/cluster/parts.hpp"

namespace orrery::fit {

/// Errors of a class of points: |predicted/measured - 1| and the median of predicted/measured - 1.
struct ClassError {
  std::string name;   ///< "gemm/bf16", "gemm/bf16/large", …
  std::size_t points = 0;
  double median = 0, p90 = 0, bias = 0;
};

/// A point that was not used, with the reason.
struct Unusable {
  std::string from, reason;
};

/// A prediction beside its measurement.
struct Pair {
  const calibration::Point* point = nullptr;
  double predicted_us = 0, measured_us = 0;
};

/// Predictions of one profile on one device.
class Predictor {
 public:
  Predictor(const cluster::Gpu& gpu, const calibration::Profile& profile);
  /// Microseconds; a reason where this profile says nothing about such a point.
  [[nodiscard]] Result<double> predict(const calibration::Point& p) const;

 private:
  cluster::Gpu gpu_;
  calibration::Profile profile_;
};

struct Score {
  std::vector<ClassError> classes;   ///< sorted by name; of every class also its larger part
  std::vector<Unusable> unusable;
  std::vector<Pair> pairs;           ///< into the points given
};
/// Predicts every point and fits nothing.
Score score(const std::vector<calibration::Point>& points, const cluster::Gpu& gpu, const calibration::Profile& profile);
/// Errors of pairs, under one name. Requires one pair at least.
ClassError error_of(std::string name, const std::vector<Pair>& pairs);
/// The same by powers of two of an extent ("m", "n", "k", "flops", "seq", "heads", "bytes"); empty buckets are left out.
std::vector<ClassError> buckets(const std::string& class_name, const std::string& extent, const std::vector<Pair>& pairs);

struct Options {
  std::uint64_t seed = 1;
  int folds = 10;                    ///< of cross-validation, >= 2
  int bootstrap = 20;                ///< resamples for intervals
  Origin origin = Origin::kMeasured; ///< of what is fitted: measured or published
  bool residuals = true;             ///< keep what the parameters leave as a table
};

/// Two groups of one class that a single clock does not explain.
struct Modes {
  std::string name;
  double ratio = 1;         ///< time of the slower over the faster
  double share_slow = 0;
  ClassError together, apart;  ///< held out: with one clock for all, and every point in the nearer of the two
};

struct Fitted {
  calibration::Profile profile;
  std::vector<ClassError> held_out;  ///< every point predicted by a fit that did not see its group
  std::vector<ClassError> parameters_only;  ///< the same without residual tables
  std::vector<Modes> modes;
  std::vector<Unusable> unusable;
  std::vector<std::string> notes;    ///< what the data did not determine
};

/// What of `base` the measurements say nothing about stays as it is. Groups: (n, k) of a GEMM, (heads, KV heads) of attention, an octave of bytes
/// of a stream. Deterministic in points, device, base and options.
Result<Fitted> fit(const std::vector<calibration::Point>& points, const cluster::Gpu& gpu, const calibration::Profile& base, const Options& options);

}  // namespace orrery::fit
