#pragma once
// Residuals of scattered shapes to a table on a grid.
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "orrery/calibration/residuals.hpp"

namespace orrery::fit {

/// A shape and what the parameters leave of its time, ln(measured/predicted).
struct Residual {
  std::array<double, 3> extents{};
  double value = 0;
};

/// How far a residual reaches along each axis, in ln of the extent.
using Reach = std::array<double, 3>;

/// Grid extents: those that were measured; two within 2 % are one, and an axis of very many is thinned.
std::array<std::vector<double>, 3> axes_of(std::span<const std::array<double, 3>> shapes);

/// At every node the mean of the middle half of the residuals, each with weight exp(-sum |ln distance| / reach), and a vote for 0 that decides where no
/// shape is near. Sorted input gives the same table in any order.
calibration::ResidualTable smooth(std::span<const Residual> residuals, const std::array<std::vector<double>, 3>& axes, const Reach& reach);

/// Far first, then near: each stage smooths what those before left, so that a trend over octaves reaches shapes that have no near neighbour.
calibration::ResidualTable smooth(std::vector<Residual> residuals, const std::array<std::vector<double>, 3>& axes, const std::vector<Reach>& stages);

}  // namespace orrery::fit
