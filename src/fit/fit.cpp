#include "orrery/fit/fit.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "fit/classes.hpp"
#include "fit/kinds.hpp"
#include "fit/quantile.hpp"
#include "fit/shapes.hpp"

namespace orrery::fit {
namespace {

using calibration::Point;

constexpr double kNoisy = 0.15;           ///< spread of repetitions over their median beyond which a point says nothing
constexpr std::size_t kFewRepetitions = 5;
constexpr double kRounding = 1.02;        ///< published times have few digits, and clocks boost over the datasheet's by a little

/// Why a point cannot be used; "" where it can.
std::string refusal(const Point& p, const cluster::Gpu& gpu) {
  if (p.time_us.size() >= kFewRepetitions) {
    const double spread = (quantile(p.time_us, 0.75) - quantile(p.time_us, 0.25)) / calibration::median_us(p);
    if (spread > kNoisy) return "its repetitions spread by more than 15 % between quartiles";
  }
  // What says something about the machine and nothing about a class that a profile has.
  if (p.kind == Point::Kind::kStream && p.read_bytes + p.write_bytes == 0) return "a launch alone is not fitted: rows of kernels hold it";
  if (p.kind == Point::Kind::kStream && (p.stream == "to_host" || p.stream == "from_host")) return "copies over the host's link are not fitted: the node says its rate";
  if (p.kind == Point::Kind::kCollective && (p.algorithm == "beside_gemm" || p.algorithm.starts_with("copy_"))) return "it is no collective on an idle device";
  double flops = 0;
  std::optional<double> peak;
  if (p.kind == Point::Kind::kGemm) {
    peak = peak_of(gpu, p.dtype);
    if (!peak) return fmt::format("{} has no {} peak", gpu.name, p.dtype);
    flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) * static_cast<double>(p.batch);
  } else if (p.kind == Point::Kind::kAttention) {
    peak = peak_of(gpu, "bf16");
    if (!peak) peak = peak_of(gpu, "fp16");
    flops = attention_of(p).flops().value();
  }
  if (peak && flops / *peak * 1e6 > kRounding * calibration::median_us(p)) return "it is faster than the device's peak";
  return "";
}

}  // namespace

Result<Fitted> fit(const std::vector<Point>& points, const cluster::Gpu& gpu, const calibration::Profile& base, const Options& options) {
  Fitted out;
  out.profile = base;
  std::vector<const Point*> usable;
  for (const Point& p : points) {
    const std::string why = refusal(p, gpu);
    if (why.empty()) usable.push_back(&p);
    else out.unusable.push_back({p.from, why});
  }
  if (usable.empty()) return fail("", "", fmt::format("no point can be used: {}", out.unusable.empty() ? "there is none" : out.unusable.front().reason));
  fit_gemm(usable, gpu, options, out);
  fit_attention(usable, gpu, options, out);
  fit_streams(usable, gpu, options, out);
  fit_collectives(usable, options, out);
  if (out.held_out.empty() && out.profile.collectives.size() == base.collectives.size())
    return fail("", "", fmt::format("nothing could be fitted: {}", out.notes.empty() ? out.unusable.front().reason : out.notes.front()));
  // The profile's own error: the largest class of what was fitted.
  const ClassError* largest = nullptr;
  for (const ClassError& c : out.held_out)
    if (c.name.ends_with("/large") && (largest == nullptr || c.points > largest->points)) largest = &c;
  if (largest == nullptr && !out.held_out.empty()) largest = &out.held_out.front();
  if (largest != nullptr) {
    out.profile.expected_error_median = std::round(largest->median * 1e4) / 1e4;
    out.profile.expected_error_p90 = std::round(largest->p90 * 1e4) / 1e4;
  }
  out.profile.provenance = options.origin == Origin::kMeasured ? "measured" : "published";
  return out;
}

void report_class(const std::string& name, const Outcome& o, Fitted& out) {
  const auto add = [&](const std::vector<Pair>& pairs, std::vector<ClassError>& to) {
    if (pairs.empty()) return;
    to.push_back(error_of(name, pairs));
    std::vector<Pair> large, few;
    for (const Pair& p : pairs) {
      if (calibration::is_large(*p.point)) large.push_back(p);
      if (p.point->kind == Point::Kind::kAttention && p.point->batch * p.point->heads <= 16) few.push_back(p);
    }
    if (!few.empty()) to.push_back(error_of(name + "/few_heads", few));
    if (!large.empty()) to.push_back(error_of(name + "/large", large));
  };
  add(o.held_out, out.held_out);
  add(o.held_out_parameters, out.parameters_only);
  std::vector<Pair> large;
  for (const Pair& p : o.held_out)
    if (calibration::is_large(*p.point)) large.push_back(p);
  for (Modes& m : modes_of(name + "/large", large)) out.modes.push_back(std::move(m));
}

calibration::Parameter parameter(double value, double low, double high, Origin origin) {
  const auto rounded = [](double v) {  // four digits: more is noise
    if (v == 0) return 0.0;
    const double scale = std::pow(10, 3 - std::floor(std::log10(std::abs(v))));
    return std::round(v * scale) / scale;
  };
  calibration::Parameter p{rounded(value), rounded(low), rounded(high), origin};
  p.low = std::min(p.low, p.value);
  p.high = std::max(p.high, p.value);
  return p;
}

}  // namespace orrery::fit
