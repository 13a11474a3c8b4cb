#pragma once
// What a parametric model leaves: ln(measured / predicted) over three extents of a shape, on a grid of the extents that were measured.
#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace orrery::calibration {

/// values[(i x |axis 1| + j) x |axis 2| + l] is ln(measured/predicted) x 1000 at (axis 0 [i], axis 1 [j], axis 2 [l]). Between nodes it is
/// interpolated linearly in the logarithms of the extents; beyond the ends it fades to 0 as exp(-distance/kFade), so that the model alone
/// extrapolates. Axes ascend strictly and are positive; empty: no table.
struct ResidualTable {
  static constexpr double kFade = 0.7;  ///< in ln of an extent (modelling 1.6: shrinkage by distance)
  std::array<std::vector<double>, 3> axes;
  std::vector<int> values;
  [[nodiscard]] bool empty() const { return values.empty(); }
  /// ln(measured/predicted) at a shape; 0 of an empty table. Requires positive extents.
  [[nodiscard]] double at(const std::array<double, 3>& extents) const;
  /// What is wrong with it, in words; "" where nothing is.
  [[nodiscard]] std::string complaint() const;
  bool operator==(const ResidualTable&) const = default;
};

}  // namespace orrery::calibration
