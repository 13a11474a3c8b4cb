#include "orrery/calibration/residuals.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace orrery::calibration {

double ResidualTable::at(const std::array<double, 3>& extents) const {
  if (values.empty()) return 0;
  std::array<std::size_t, 3> low{}, high{};
  std::array<double, 3> share{};
  double beyond = 0;
  for (std::size_t d = 0; d < 3; ++d) {
    const std::vector<double>& axis = axes[d];
    const double x = extents[d];
    if (x <= axis.front() || x >= axis.back()) {
      low[d] = high[d] = x <= axis.front() ? 0 : axis.size() - 1;
      beyond += std::abs(std::log(x / axis[low[d]]));
      continue;
    }
    high[d] = static_cast<std::size_t>(std::upper_bound(axis.begin(), axis.end(), x) - axis.begin());
    low[d] = high[d] - 1;
    share[d] = std::log(x / axis[low[d]]) / std::log(axis[high[d]] / axis[low[d]]);
  }
  double sum = 0;
  for (std::size_t corner = 0; corner < 8; ++corner) {
    double weight = 1;
    std::size_t index = 0;
    for (std::size_t d = 0; d < 3; ++d) {
      const bool up = (corner >> d & 1U) != 0;
      weight *= up ? share[d] : 1 - share[d];
      index = index * axes[d].size() + (up ? high[d] : low[d]);
    }
    if (weight > 0) sum += weight * values[index];
  }
  return 1e-3 * sum * std::exp(-beyond / kFade);
}

std::string ResidualTable::complaint() const {
  std::size_t nodes = 1;
  for (const auto& axis : axes) {
    for (std::size_t i = 0; i < axis.size(); ++i)
      if (!(axis[i] > 0) || (i > 0 && !(axis[i] > axis[i - 1]))) return "extents are positive and rise";
    if (axis.size() > 1000) return "an axis holds at most 1000 extents";
    nodes *= axis.size();
  }
  if (nodes != values.size()) return fmt::format("{} values for {} nodes", values.size(), nodes);
  // A residual beyond a factor of e^2 is no correction of a model, it is another model.
  if (std::any_of(values.begin(), values.end(), [](int v) { return v < -2000 || v > 2000; })) return "a value is ln(measured/predicted) in thousandths, from -2000 to 2000";
  return "";
}

}  // namespace orrery::calibration
