#pragma once
// What is fitted for each kind of point.
#include <string>
#include <vector>

#include "fit/classes.hpp"

namespace orrery::fit {

void fit_gemm(const std::vector<const calibration::Point*>& points, const cluster::Gpu& gpu, const Options& options, Fitted& out);
void fit_attention(const std::vector<const calibration::Point*>& points, const cluster::Gpu& gpu, const Options& options, Fitted& out);
void fit_streams(const std::vector<const calibration::Point*>& points, const cluster::Gpu& gpu, const Options& options, Fitted& out);
/// A monotone curve for every collective, ranks and nodes.
void fit_collectives(const std::vector<const calibration::Point*>& points, const Options& options, Fitted& out);

/// Adds a class's held-out errors, of its parts too, and its modes.
void report_class(const std::string& name, const Outcome& outcome, Fitted& out);
calibration::Parameter parameter(double value, double low, double high, Origin origin);

}  // namespace orrery::fit
