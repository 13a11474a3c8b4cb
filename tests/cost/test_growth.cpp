// What grows with the number of domains, and what was measured nearest.
#include <cmath>

#include "catch.h"
#include "orrery/cost/cost.hpp"
#include "orrery/cost/nearest.hpp"

using namespace orrery;
using namespace orrery::collective;
using namespace orrery::literals;

namespace {

Shape two_nodes(std::int64_t per_node, double nic_gb_per_s) {
  Shape s;
  s.ranks = 2 * per_node;
  s.nodes = 2;
  s.scale_up = 450_GBps;
  s.nic_per_gpu = gb_per_s(nic_gb_per_s);
  return s;
}
cost::CollectiveTime time_of(Kind kind, Bytes bytes, const Shape& shape, const calibration::Profile& profile = {}) {
  return cost::collective_time(kind, bytes, choose(kind, bytes, shape, {}), shape, {}, profile);
}
double us(const cost::CollectiveTime& t) { return (t.latency + t.transfer).value() * 1e6; }

}  // namespace

TEST_CASE("a curve on two nodes answers for more, grown as steps and bytes grow, and says that it is extrapolated") {
  calibration::Profile p;
  const Shape two = two_nodes(8, 50);
  Shape four = two;
  four.ranks = 32;
  four.nodes = 4;
  calibration::CollectiveCurve curve{"all_reduce", "", 16, 2, {}, {}, 0, 450, 50, Origin::kMeasured};
  for (double bytes = 1024; bytes < 1e10; bytes *= 4) {
    curve.bytes.push_back(bytes);
    curve.time_us.push_back(1.5 * us(time_of(Kind::kAllReduce, Bytes(static_cast<std::int64_t>(bytes)), two)));  // a cluster half as slow again as the model
  }
  p.collectives.push_back(curve);
  for (const Bytes bytes : {1_KiB, 1_MiB, 64_MiB, 1_GiB}) {
    CAPTURE(bytes.value());
    CHECK(us(time_of(Kind::kAllReduce, bytes, four, p)) == Approx(1.5 * us(time_of(Kind::kAllReduce, bytes, four))).epsilon(0.02));
    CHECK(time_of(Kind::kAllReduce, bytes, four, p).origin == Origin::kExtrapolated);
  }
  CHECK(time_of(Kind::kAllReduce, 1_MiB, two_nodes(4, 50), p).origin == Origin::kDefault);  // four GPUs a node are another cluster
}

TEST_CASE("the nearest measurement is the point of the curve that is nearest by factor") {
  calibration::Profile p;
  p.collectives.push_back({"all_reduce", "", 8, 1, {1024, 1048576, 16777216}, {15, 25, 122}, 22900, 450, 0, Origin::kPublished});
  const auto near = cost::nearest_measured(Kind::kAllReduce, 5e6, "nvls", 8, 1, 22900, p);
  REQUIRE(near);
  CHECK(near->bytes == 16777216);
  CHECK(near->time_us == 122);
  CHECK(cost::nearest_measured(Kind::kAllReduce, 2e6, "nvls", 8, 1, 22900, p)->bytes == 1048576);
  CHECK_FALSE(cost::nearest_measured(Kind::kAllGather, 5e6, "ring", 8, 1, 22900, p));
  CHECK_FALSE(cost::nearest_measured(Kind::kAllReduce, 5e6, "nvls", 16, 2, 22900, p));
}
