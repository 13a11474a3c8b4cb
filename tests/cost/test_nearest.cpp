// What was measured nearest to a size.
#include "catch.h"
#include "orrery/cost/nearest.hpp"

using namespace orrery;
using namespace orrery::collective;

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
