#pragma once
// One class of points (a GEMM type, an attention kernel and head dim, a kind of stream) as a problem for the solver.
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fit/smooth.hpp"
#include "fit/solve.hpp"
#include "orrery/fit/fit.hpp"

namespace orrery::fit {

struct Problem {
  std::string name;
  std::vector<const calibration::Point*> points;       ///< usable ones
  std::vector<std::array<double, 3>> extents;
  std::vector<double> log_measured;
  std::vector<std::string> group;                      ///< what is held out together
  std::vector<bool> core;                              ///< rows that the parameters are fitted on; residuals are of all
  std::vector<bool> table;                             ///< rows that the residual table may stand on
  std::vector<Model> models;                           ///< alternatives of one meaning (tile menus): the best is taken
};

/// What came out of a class.
struct Outcome {
  std::size_t model = 0;                               ///< of the alternatives
  std::vector<double> value, low, high;                ///< parameters with their 90 % intervals
  calibration::ResidualTable residual;
  std::vector<Pair> held_out, held_out_parameters;     ///< with the residual table and without
  bool determined = false;                             ///< false: too few points, nothing was fitted
};

/// Fits, holds out and resamples one class.
Outcome solve(const Problem& problem, const Options& options);

/// Two clocks in one class, if held-out predictions fall into two groups.
std::vector<Modes> modes_of(const std::string& name, const std::vector<Pair>& held_out);

}  // namespace orrery::fit
