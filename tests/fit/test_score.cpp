#include "../cost/devices.hpp"
#include "orrery/fit/fit.hpp"

using namespace orrery;
using calibration::Point;

namespace {
Point gemm_point(std::int64_t m, std::int64_t n, std::int64_t k, double us) {
  Point p;
  p.m = m, p.n = n, p.k = k, p.time_us = {us};
  return p;
}
}  // namespace

TEST_CASE("a profile scores nothing but zeros on its own predictions, and the factor by which times are off") {
  const auto gpu = test::catalogue_gpu("h100-sxm5-80gb");
  const auto profile = test::default_profile(gpu);
  const fit::Predictor predictor(gpu, profile);
  std::vector<Point> points;
  for (const std::int64_t m : {64, 128, 4096})
    for (const std::int64_t n : {256, 8192}) points.push_back(gemm_point(m, n, 1024, 1));
  for (Point& p : points) p.time_us = {*predictor.predict(p)};
  const auto exact = fit::score(points, gpu, profile);
  REQUIRE(exact.classes.size() == 2);
  CHECK(exact.classes[0].name == "gemm/bf16");
  CHECK(exact.classes[0].points == 6);
  CHECK(exact.classes[0].median == Approx(0).margin(1e-12));
  CHECK(exact.classes[1].name == "gemm/bf16/large");
  CHECK(exact.classes[1].points == 4);
  for (Point& p : points) p.time_us.front() *= 1.25;
  const auto fast = fit::score(points, gpu, profile);
  CHECK(fast.classes[0].median == Approx(0.2));
  CHECK(fast.classes[0].p90 == Approx(0.2));
  CHECK(fast.classes[0].bias == Approx(-0.2));
}

TEST_CASE("points that a profile says nothing about are listed with the reason") {
  const auto gpu = test::catalogue_gpu("a100-sxm4-80gb");
  const auto profile = test::default_profile(gpu);
  Point fp8 = gemm_point(128, 128, 128, 5);
  fp8.dtype = "fp8";
  Point kernel;
  kernel.kind = Point::Kind::kAttention, kernel.seq_q = kernel.seq_kv = 128, kernel.heads = kernel.kv_heads = 8, kernel.head_dim = 128, kernel.kernel = "fa9", kernel.time_us = {1};
  Point curve;
  curve.kind = Point::Kind::kCollective, curve.collective = "all_reduce", curve.bytes = 1024, curve.ranks = 7, curve.time_us = {1};
  const std::vector<Point> points = {fp8, kernel, curve};
  const auto s = fit::score(points, gpu, profile);
  REQUIRE(s.unusable.size() == 3);
  CHECK(s.unusable[0].reason == "a100-sxm4-80gb has no fp8 peak");
  CHECK(s.unusable[1].reason == "the profile has no attention kernel \"fa9\"");
  CHECK(s.unusable[2].reason == "the profile has no curve of all_reduce over 7 ranks on 1 nodes");
  CHECK(s.pairs.empty());
}

TEST_CASE("a class falls apart into buckets by powers of two") {
  const auto gpu = test::catalogue_gpu("h100-sxm5-80gb");
  const auto profile = test::default_profile(gpu);
  const std::vector<Point> points = {gemm_point(128, 128, 128, 5), gemm_point(255, 128, 128, 5), gemm_point(256, 128, 128, 5)};
  const auto s = fit::score(points, gpu, profile);
  const auto b = fit::buckets("gemm/bf16", "m", s.pairs);
  REQUIRE(b.size() == 2);
  CHECK(b[0].name == "gemm/bf16 m from 128");
  CHECK(b[0].points == 2);
  CHECK(b[1].points == 1);
}
