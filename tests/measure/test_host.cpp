#include <set>

#include "catch.h"
#include "orrery/measure/run.hpp"

using namespace orrery;

TEST_CASE("the host measures its own products and streams, or says what it lacks", "[slow]") {
  measure::RunOptions options;
  options.repetitions = 5;
  std::size_t calls = 0;
  options.progress = [&](std::size_t done, std::size_t all, double left) {
    ++calls;
    CHECK(done <= all);
    CHECK(left >= 0);
  };
  const auto ran = measure::run(options);
  if (!measure::has_host_backend()) {
    REQUIRE_FALSE(ran.has_value());
    CHECK(ran.error().front().text == "this build has no host back end: OpenBLAS was not found when it was configured ('apt-get install libopenblas-dev' brings it)");
    return;
  }
  REQUIRE(ran.has_value());
  CHECK(ran->failed.empty());
  CHECK(ran->first);
  const auto* set = &ran->set;
  CHECK(calls == set->points.size());
  std::set<std::string> layouts, streams;
  for (const auto& p : set->points) {
    CHECK(p.time_us.size() == 5);
    CHECK(calibration::median_us(p) > 0);
    if (p.kind == calibration::Point::Kind::kGemm) layouts.insert(p.layout + (p.accumulate ? "+" : ""));
    else streams.insert(p.stream);
  }
  CHECK(layouts == std::set<std::string>{"tn", "nn", "nt+"});
  CHECK(streams == std::set<std::string>{"copy", "elementwise", "reduce"});
}
