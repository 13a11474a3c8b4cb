#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

namespace orrery::fit {

/// Quantile of values by linear interpolation between order statistics. Requires one at least.
inline double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

}  // namespace orrery::fit
