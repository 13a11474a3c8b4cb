// Levenberg-Marquardt of Ceres on transformed residuals. The loss of one row is the pseudo-Huber rho(r) = d^2 (sqrt(1 + (r/d)^2) - 1): a square
// below d, |r| beyond. Ceres minimises sums of squares, so a row's residual is sign(r) sqrt(2 rho(r)). Models are minima over discrete choices
// (tiles, splits) with kinks between: differences over a finite step see across them, and a search along the parameters begins and ends.
#include "fit/solve.hpp"

#include <algorithm>
#include <cmath>

#include <ceres/ceres.h>

namespace orrery::fit {
namespace {

constexpr double kCorner = 0.03;    ///< d: below 3 % an error is noise and squares serve
constexpr int kEvaluations = 12;    ///< of a search, per iteration asked for
constexpr double kStep = 2e-3;      ///< of a parameter's range, for differences

double transformed(double r) {
  const double x = r / kCorner;
  const double rho = kCorner * kCorner * (std::sqrt(1 + x * x) - 1);
  return std::copysign(std::sqrt(2 * rho), r);
}

class Rows : public ceres::CostFunction {
 public:
  Rows(const Model& model, std::span<const double> log_measured, std::span<const std::size_t> rows) : model_(model), measured_(log_measured), rows_(rows) {
    set_num_residuals(static_cast<int>(rows.size()));
    mutable_parameter_block_sizes()->push_back(static_cast<int>(model.start.size()));
  }

  bool Evaluate(double const* const* parameters, double* residuals, double** jacobians) const override {
    const std::size_t n = model_.start.size(), count = rows_.size();
    std::vector<double> at(parameters[0], parameters[0] + n);
    if (!evaluate(at, {residuals, count})) return false;
    if (jacobians == nullptr || jacobians[0] == nullptr) return true;
    std::vector<double> up(count), down(count);
    for (std::size_t j = 0; j < n; ++j) {
      const double step = kStep * (model_.high[j] - model_.low[j]);
      const double high = std::min(at[j] + step, model_.high[j]), low = std::max(at[j] - step, model_.low[j]);
      const double here = at[j];
      at[j] = high;
      const bool ok_up = evaluate(at, up);
      at[j] = low;
      const bool ok = ok_up && evaluate(at, down);
      at[j] = here;
      if (!ok) return false;
      for (std::size_t i = 0; i < count; ++i) jacobians[0][i * n + j] = high > low ? (up[i] - down[i]) / (high - low) : 0;
    }
    return true;
  }

 private:
  bool evaluate(std::span<const double> parameters, std::span<double> out) const {
    model_.log_predicted(parameters, rows_, out);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!std::isfinite(out[i])) return false;
      out[i] = transformed(out[i] - measured_[rows_[i]]);
    }
    return true;
  }
  const Model& model_;
  std::span<const double> measured_;
  std::span<const std::size_t> rows_;
};

double mean_error(const Model& model, std::span<const double> log_measured, std::span<const std::size_t> rows, std::span<const double> at, std::vector<double>& scratch) {
  scratch.resize(rows.size());
  model.log_predicted(at, rows, scratch);
  double sum = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) sum += std::abs(scratch[i] - log_measured[rows[i]]);
  return std::isfinite(sum) ? sum / static_cast<double>(rows.size()) : INFINITY;
}

/// Steps along one parameter at a time, longer after success and shorter after failure: over the kinks between tiles, where a derivative of the
/// one that is best here says nothing about the one that is best there.
void search(const Model& model, std::span<const double> log_measured, std::span<const std::size_t> rows, std::vector<double>& at, int evaluations) {
  std::vector<double> step, scratch;
  for (std::size_t j = 0; j < at.size(); ++j) step.push_back(0.1 * (model.high[j] - model.low[j]));
  double best = mean_error(model, log_measured, rows, at, scratch);
  for (bool moving = true; moving && evaluations > 0;) {
    moving = false;
    for (std::size_t j = 0; j < at.size(); ++j) {
      const double range = model.high[j] - model.low[j];
      if (step[j] < 5e-4 * range || range <= 0) continue;
      moving = true;
      bool better = false;
      for (const double sign : {1.0, -1.0}) {
        const double here = at[j];
        at[j] = std::clamp(here + sign * step[j], model.low[j], model.high[j]);
        const double loss = at[j] == here ? INFINITY : mean_error(model, log_measured, rows, at, scratch);
        --evaluations;
        if (loss < best) {
          best = loss;
          better = true;
          break;
        }
        at[j] = here;
      }
      step[j] *= better ? 1.5 : 0.5;
    }
  }
}

}  // namespace

Solution minimise(const Model& model, std::span<const double> log_measured, std::span<const std::size_t> rows, std::span<const double> start, int iterations) {
  Solution out;
  out.parameters.assign(start.begin(), start.end());
  for (std::size_t j = 0; j < out.parameters.size(); ++j) out.parameters[j] = std::clamp(out.parameters[j], model.low[j], model.high[j]);
  // Search, then least squares, then search again: each leaves what the other cannot improve.
  const auto rounds = [&](int evaluations) {
    if (!rows.empty()) search(model, log_measured, rows, out.parameters, evaluations);
  };
  rounds(kEvaluations * iterations);
  if (!rows.empty() && !out.parameters.empty()) {
    ceres::Problem problem;
    problem.AddResidualBlock(new Rows(model, log_measured, rows), nullptr, out.parameters.data());
    for (std::size_t j = 0; j < out.parameters.size(); ++j) {
      problem.SetParameterLowerBound(out.parameters.data(), static_cast<int>(j), model.low[j]);
      problem.SetParameterUpperBound(out.parameters.data(), static_cast<int>(j), model.high[j]);
    }
    ceres::Solver::Options options;
    options.linear_solver_type = ceres::DENSE_QR;
    options.max_num_iterations = iterations;
    options.num_threads = 1;
    options.logging_type = ceres::SILENT;
    options.function_tolerance = 1e-5;
    ceres::Solver::Summary summary;
    ceres::Solve(options, &problem, &summary);
  }
  rounds(kEvaluations * iterations);
  std::vector<double> scratch;
  if (!rows.empty()) out.loss = mean_error(model, log_measured, rows, out.parameters, scratch);
  return out;
}

}  // namespace orrery::fit
