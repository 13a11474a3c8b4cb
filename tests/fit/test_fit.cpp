// Fits of measurements that the cost model itself made, with noise: what went in comes out, and what cannot is said.
#include <algorithm>
#include <cmath>

#include "../cost/devices.hpp"
#include "fit/smooth.hpp"
#include "orrery/base/random.hpp"
#include "orrery/fit/fit.hpp"

using namespace orrery;
using calibration::Point;

namespace {

std::vector<Point> made_by(const cluster::Gpu& gpu, calibration::Profile profile, double noise) {
  for (auto& [type, g] : profile.gemm) g.residual = {};  // what the parameters say, without a real device's picks of kernels
  const fit::Predictor predictor(gpu, profile);
  std::vector<Point> points;
  std::uint64_t index = 0;
  for (const std::int64_t n : {128, 512, 1024, 3072, 8192, 16384})
    for (const std::int64_t k : {128, 512, 1024, 4096, 8192})
      for (const std::int64_t m : {128, 256, 1024, 4096, 16384}) {
        Point p;
        p.m = m, p.n = n, p.k = k, p.context = "burst", p.from = "made";
        p.time_us = {1};
        p.time_us = {*predictor.predict(p) * std::exp(noise * random_normal(7, "made", index++))};
        points.push_back(p);
      }
  return points;
}

fit::Options quick() {
  fit::Options o;
  o.bootstrap = 3;
  o.folds = 3;
  return o;
}

const fit::ClassError& named(const std::vector<fit::ClassError>& all, const std::string& name) {
  for (const auto& c : all)
    if (c.name == name) return c;
  FAIL("no class " + name);
  return all.front();
}

}  // namespace

TEST_CASE("what the model made is fitted to 3 % on shapes that were held out") {
  const auto gpu = test::catalogue_gpu("h100-sxm5-80gb");
  const auto points = made_by(gpu, test::default_profile(gpu), 0.01);
  const auto fitted = fit::fit(points, gpu, {}, quick());
  REQUIRE(fitted.has_value());
  CHECK(named(fitted->held_out, "gemm/bf16/large").points == points.size());
  CHECK(named(fitted->held_out, "gemm/bf16/large").median < 0.03);
  CHECK(std::abs(named(fitted->held_out, "gemm/bf16/large").bias) < 0.01);
  const auto& g = fitted->profile.gemm.at("bf16");
  CHECK(g.efficiency.origin == Origin::kMeasured);
  CHECK(g.efficiency.low <= g.efficiency.value);
  CHECK(g.efficiency.value <= g.efficiency.high);
  CHECK_FALSE(g.residual.empty());
  CHECK(fitted->modes.empty());
  CHECK(fitted->profile.provenance == "measured");
}

TEST_CASE("a fit is the same bytes again, and does not depend on the order of points") {
  const auto gpu = test::catalogue_gpu("a100-sxm4-80gb");
  auto points = made_by(gpu, test::default_profile(gpu), 0.02);
  const auto once = fit::fit(points, gpu, {}, quick());
  REQUIRE(once.has_value());
  std::reverse(points.begin(), points.end());
  const auto again = fit::fit(points, gpu, {}, quick());
  REQUIRE(again.has_value());
  CHECK(calibration::to_text(once->profile) == calibration::to_text(again->profile));
}

TEST_CASE("points faster than the peak and points that scatter are not used, with the reason") {
  const auto gpu = test::catalogue_gpu("h100-sxm5-80gb");
  auto points = made_by(gpu, test::default_profile(gpu), 0.01);
  points[0].m = points[0].n = points[0].k = 65536;
  points[0].time_us = {10};
  points[1].time_us = {1, 2, 3, 4, 5, 6};
  points[2].dtype = "fp4";
  const auto fitted = fit::fit(points, gpu, {}, quick());
  REQUIRE(fitted.has_value());
  REQUIRE(fitted->unusable.size() == 3);
  CHECK(fitted->unusable[0].reason == "it is faster than the device's peak");
  CHECK(fitted->unusable[1].reason == "its repetitions spread by more than 15 % between quartiles");
  CHECK(fitted->unusable[2].reason == "h100-sxm5-80gb has no fp4 peak");
}

TEST_CASE("too few points are no fit") {
  const auto gpu = test::catalogue_gpu("h100-sxm5-80gb");
  Point p;
  p.m = p.n = p.k = 1024;
  p.time_us = {20};
  const auto fitted = fit::fit({p}, gpu, {}, quick());
  REQUIRE_FALSE(fitted.has_value());
  CHECK(fitted.error().front().text == "nothing could be fitted: gemm/bf16: 1 points of forward products are too few to fit");
}

TEST_CASE("a collective's curve is the median of its times made monotone") {
  const auto gpu = test::catalogue_gpu("h100-sxm5-80gb");
  std::vector<Point> points;
  const auto add = [&](std::int64_t bytes, double us) {
    Point p;
    p.kind = Point::Kind::kCollective, p.collective = "all_reduce", p.ranks = 8, p.bytes = bytes, p.time_us = {us};
    points.push_back(p);
  };
  add(1024, 10), add(1024, 12), add(1024, 11), add(2048, 20), add(4096, 5), add(8192, 40);
  const auto fitted = fit::fit(points, gpu, {}, quick());
  REQUIRE(fitted.has_value());
  REQUIRE(fitted->profile.collectives.size() == 1);
  const auto& c = fitted->profile.collectives.front();
  CHECK(c.bytes == std::vector<double>{1024, 2048, 4096, 8192});
  CHECK(c.time_us[0] == Approx(10.3228));  // 11, 20 and 5 are pooled: the geometric mean of falling neighbours
  CHECK(c.time_us[1] == c.time_us[2]);
  CHECK(c.time_us[3] == Approx(40));
}

TEST_CASE("a smoothed table is the middle of its neighbours, and 0 where there are none") {
  std::vector<fit::Residual> residuals;
  for (const double m : {128.0, 181.0, 256.0, 362.0, 512.0}) residuals.push_back({{m, 1024, 1024}, m == 256 ? 2.0 : 0.1});
  const std::array<std::vector<double>, 3> axes = {std::vector<double>{128, 256}, std::vector<double>{1024, 1e9}, std::vector<double>{1024}};
  const auto table = fit::smooth(residuals, axes, fit::Reach{10, 1, 1});
  CHECK(table.values == std::vector<int>{100, 0, 100, 0});
}

TEST_CASE("a second stage smooths what the first left") {
  // A level over octaves, and one shape beside it.
  std::vector<fit::Residual> residuals;
  for (const double m : {128.0, 512.0, 2048.0, 8192.0}) residuals.push_back({{m, 1024, 1024}, m == 8192 ? 0.5 : 0.1});
  const std::array<std::vector<double>, 3> axes = {std::vector<double>{128, 1000, 8192}, std::vector<double>{1024}, std::vector<double>{1024}};
  const std::vector<fit::Reach> stages = {{10, 1, 1}, {0.1, 1, 1}};
  const auto near = fit::smooth(residuals, axes, stages.back()), both = fit::smooth(residuals, axes, stages);
  CHECK(near.values[1] == 0);  // no shape within its reach
  CHECK(both.values[1] == Approx(150).margin(60));
  CHECK(both.values[2] == Approx(500).margin(20));
}

TEST_CASE("what rows of one kind cannot tell apart keeps what the base knows") {
  const auto gpu = test::catalogue_gpu("h100-sxm5-80gb");
  calibration::Profile truth = test::default_profile(gpu);
  truth.gemm["fp8"].quantise_us.value = 9;
  truth.gemm["fp8"].residual = {};
  auto points = made_by(gpu, truth, 0.01);
  for (Point& p : points) p.dtype = "fp8", p.quantise = "dynamic", p.time_us = {*fit::Predictor(gpu, truth).predict(p)};
  calibration::Profile base;
  base.gemm["bf16"].launch_us = {2.5, 2, 3, Origin::kPublished};
  base.gemm["fp8"].burst_flops = {3e12, 2e12, 4e12, Origin::kPublished};
  const auto fitted = fit::fit(points, gpu, base, quick());
  REQUIRE(fitted.has_value());
  const auto& g = fitted->profile.gemm.at("fp8");
  CHECK(g.launch_us == base.gemm.at("bf16").launch_us);      // the start of a quantisation is in every row as well
  CHECK(g.burst_flops == base.gemm.at("fp8").burst_flops);   // long kernels of one clock
  CHECK(g.quantise_us.value > 4);
  CHECK(named(fitted->held_out, "gemm/fp8/large").median < 0.03);
}

TEST_CASE("a weight that a benchmark finds in L2 costs a step its memory") {
  const auto gpu = test::catalogue_gpu("l40s");
  calibration::Profile profile = test::default_profile(gpu);
  auto& g = profile.gemm["bf16"];
  g.residual = {};
  g.l2_bandwidth_factor.value = 2;
  g.weight_l2_fraction.value = 0.2;
  Point p;
  p.m = 128, p.n = 4096, p.k = 1024, p.context = "burst";
  const double in_cache = *fit::Predictor(gpu, profile).predict(p);
  g.weight_l2_fraction.value = 0;
  CHECK(*fit::Predictor(gpu, profile).predict(p) > 1.2 * in_cache);
}
