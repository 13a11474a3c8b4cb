#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "fit/quantile.hpp"
#include "fit/shapes.hpp"
#include "orrery/base/assert.hpp"
#include "orrery/fit/fit.hpp"

namespace orrery::fit {
namespace {

using calibration::Point;

/// A value that a bucket is a range of; 0 where the kind has none.
double extent_of(const Point& p, const std::string& extent) {
  const bool gemm = p.kind == Point::Kind::kGemm, attention = p.kind == Point::Kind::kAttention;
  if (extent == "m" && gemm) return static_cast<double>(p.m);
  if (extent == "n" && gemm) return static_cast<double>(p.n);
  if (extent == "k" && gemm) return static_cast<double>(p.k);
  if (extent == "flops" && gemm) return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) * static_cast<double>(p.batch);
  if (extent == "seq" && attention) return static_cast<double>(p.seq_q);
  if (extent == "heads" && attention) return static_cast<double>(p.heads * p.batch);
  if (extent == "bytes") {
    if (p.kind == Point::Kind::kStream) return static_cast<double>(p.read_bytes + p.write_bytes);
    if (p.kind == Point::Kind::kCollective) return static_cast<double>(p.bytes);
  }
  return 0;
}

}  // namespace

ClassError error_of(std::string name, const std::vector<Pair>& pairs) {
  ORRERY_ASSERT(!pairs.empty(), "an error is of something");
  std::vector<double> error, sign;
  for (const Pair& p : pairs) {
    sign.push_back(p.predicted_us / p.measured_us - 1);
    error.push_back(std::abs(sign.back()));
  }
  return {std::move(name), pairs.size(), quantile(error, 0.5), quantile(error, 0.9), quantile(sign, 0.5)};
}

std::vector<ClassError> buckets(const std::string& class_name, const std::string& extent, const std::vector<Pair>& pairs) {
  std::map<int, std::vector<Pair>> by;
  const int step = extent == "flops" ? 3 : 1;  // FLOPs span thirty octaves
  for (const Pair& p : pairs) {
    const double x = calibration::class_of(*p.point) == class_name ? extent_of(*p.point, extent) : 0;
    if (x > 0) by[static_cast<int>(std::floor(std::log2(x))) / step * step].push_back(p);
  }
  std::vector<ClassError> out;
  for (const auto& [octave, some] : by) out.push_back(error_of(fmt::format("{} {} from {:.3g}", class_name, extent, std::exp2(octave)), some));
  return out;
}

Score score(const std::vector<Point>& points, const cluster::Gpu& gpu, const calibration::Profile& profile) {
  Score out;
  const Predictor predictor(gpu, profile);
  std::map<std::string, std::vector<Pair>> by;
  std::string first_kernel = profile.attention.empty() ? "any" : profile.attention.front().kernel;
  for (const Point& p : points) {
    const auto us = predictor.predict(p);
    if (!us) {
      out.unusable.push_back({p.from, us.error().front().text});
      continue;
    }
    const Pair pair{&p, *us, calibration::median_us(p)};
    out.pairs.push_back(pair);
    std::string name = calibration::class_of(p);
    if (name == "attention/any") name = "attention/" + first_kernel;
    by[name].push_back(pair);
    if (calibration::is_large(p)) by[name + "/large"].push_back(pair);
    // Few heads leave SMs idle: what tensor parallelism does to attention is seen here first (modelling 3.3).
    if (p.kind == Point::Kind::kAttention && p.batch * p.heads <= 16) by[name + "/few_heads"].push_back(pair);
  }
  for (const auto& [name, pairs] : by) out.classes.push_back(error_of(name, pairs));
  return out;
}

}  // namespace orrery::fit
