#pragma once
// Robust fits in log space within physical bounds: the one place that knows the solver.
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace orrery::fit {

/// A positive model of a positive quantity over rows of data.
struct Model {
  std::vector<double> start, low, high;  ///< of every parameter; low <= start <= high
  /// ln(predicted) of the rows named, for these parameters.
  std::function<void(std::span<const double> parameters, std::span<const std::size_t> rows, std::span<double> out)> log_predicted;
};

struct Solution {
  std::vector<double> parameters;
  double loss = 0;  ///< mean |ln(predicted/measured)|
};

/// Minimises the sum of a smooth |x| over ln(predicted) - ln(measured) of the rows named: errors are multiplicative and one-sided, so that
/// squares would follow the outliers (modelling 14.1). Deterministic.
Solution minimise(const Model& model, std::span<const double> log_measured, std::span<const std::size_t> rows, std::span<const double> start, int iterations);

}  // namespace orrery::fit
