#include "catch.h"
#include "orrery/calibration/measurements.hpp"
#include "orrery/calibration/profile.hpp"
#include "orrery/calibration/residuals.hpp"
#include "orrery/document/document.hpp"

#include <cmath>

using namespace orrery;
using calibration::Point;
using document::Value;

namespace {
Result<calibration::MeasurementSet> read(const std::string& text) {
  const auto value = document::parse(text, "m.json");
  REQUIRE(value.has_value());
  const auto loaded = document::load("measurements", *value, "m.json", "", ".");
  if (!loaded) return fail(loaded.error());
  return calibration::read_measurements(loaded->value, "m.json", "");
}
}  // namespace

TEST_CASE("a measurement set reads back as it was written") {
  calibration::MeasurementSet set;
  set.name = "one";
  set.gpu = "h100-sxm5-80gb";
  set.environment = {{"driver", "580.1"}};
  set.sources = {"here"};
  Point g;
  g.m = 128, g.n = 256, g.k = 512, g.layout = "nt", g.accumulate = true, g.context = "burst", g.time_us = {1.5, 1.25}, g.power_w = 300, g.from = "a:1";
  Point a;
  a.kind = Point::Kind::kAttention, a.seq_q = a.seq_kv = 2048, a.heads = 32, a.kv_heads = 8, a.head_dim = 128, a.kernel = "fa3", a.time_us = {90}, a.from = "a:2";
  Point s;
  s.kind = Point::Kind::kStream, s.stream = "copy", s.read_bytes = s.write_bytes = 1 << 20, s.time_us = {4}, s.from = "a:3";
  Point c;
  c.kind = Point::Kind::kCollective, c.collective = "all_reduce", c.bytes = 1 << 20, c.ranks = 8, c.time_us = {30}, c.from = "a:4";
  set.points = {g, a, s, c};
  const auto back = read(document::dump(calibration::to_value(set)));
  REQUIRE(back.has_value());
  CHECK(*back == set);
}

TEST_CASE("points that leave out what their kind needs are refused, all at once") {
  const auto r = read(R"({"points":[{"kind":"gemm","m":8,"n":8,"time_us":[1]},{"kind":"stream","stream":"copi","read_bytes":1,"time_us":[1]},{"kind":"gemm","dtype":"bf61","m":1,"n":1,"k":1,"time_us":[1]}]})");
  REQUIRE_FALSE(r.has_value());
  REQUIRE(r.error().size() == 3);
  CHECK(to_string(r.error()[0]) == "m.json:/points/0/k: expected a positive integer");
  CHECK(to_string(r.error()[1]) == "m.json:/points/1/stream: unknown kind of stream \"copi\"; did you mean \"copy\"?");
  CHECK(to_string(r.error()[2]) == "m.json:/points/2/dtype: unknown dtype \"bf61\"; did you mean \"bf16\"?");
  CHECK_FALSE(read(R"({"points":[{"kind":"gemm","m":8,"n":8,"k":8,"time_us":[0]}]})").has_value());
}

TEST_CASE("the median is the middle one, or the mean of two") {
  Point p;
  p.time_us = {3, 1, 2};
  CHECK(calibration::median_us(p) == 2);
  p.time_us = {4, 1, 2, 3};
  CHECK(calibration::median_us(p) == 2.5);
}

TEST_CASE("a residual table gives its nodes, runs straight between them in logarithms, and fades beyond them") {
  calibration::ResidualTable t;
  t.axes = {std::vector<double>{128, 512}, std::vector<double>{64}, std::vector<double>{1024, 4096}};
  t.values = {100, 200, 300, 400};
  CHECK(t.complaint().empty());
  CHECK(t.at({128, 64, 1024}) == Approx(0.1));
  CHECK(t.at({512, 64, 4096}) == Approx(0.4));
  CHECK(t.at({256, 64, 1024}) == Approx(0.2));
  CHECK(t.at({256, 64, 2048}) == Approx(0.25));
  CHECK(t.at({1024, 64, 4096}) == Approx(0.4 * std::exp(-std::log(2.0) / 0.7)));
  CHECK(calibration::ResidualTable{}.at({1, 1, 1}) == 0);
  t.values.pop_back();
  CHECK(t.complaint() == "3 values for 4 nodes");
  t.axes[0] = {512, 128};
  CHECK(t.complaint() == "extents are positive and rise");
}

TEST_CASE("every shipped profile reads back as it is written") {
  const auto names = document::catalogue("profile");
  REQUIRE(names.has_value());
  for (const std::string& name : *names) {
    CAPTURE(name);
    const auto loaded = document::load("profile", Value(name), "", "", ".");
    REQUIRE(loaded.has_value());
    const auto profile = calibration::read_profile(loaded->value, name, "");
    REQUIRE(profile.has_value());
    const auto written = document::load("profile", calibration::to_value(*profile), "w.json", "", ".");
    if (!written) FAIL_CHECK(to_string(written.error().front()));
    REQUIRE(written.has_value());
    const auto back = calibration::read_profile(written->value, "w.json", "");
    REQUIRE(back.has_value());
    CHECK(*back == *profile);
  }
}
