// Max-min sharing and its dynamics against an independent simulator: every flow of a set ends when SimGrid says it does.
#include <algorithm>
#include <cmath>

#include "catch.h"
#include "crosscheck/simgrid_flows.hpp"

namespace orrery::test {
namespace {

/// Both are exact but for rounding: ours below 1 rate unit in 1e9 and 1 ps an event, SimGrid's 1e-9 in rate and time.
constexpr double kTolerance = 1e-5;

double largest_difference(const FlowSet& set) {
  const engine::Input input = flow_input(set);
  REQUIRE(engine::check(input).empty());
  const auto outcome = engine::run(input, NoSegments());
  REQUIRE(std::holds_alternative<engine::Result>(outcome));
  const std::vector<double> ours = finish_times(std::get<engine::Result>(outcome));
  const SimgridRun theirs = play_in_simgrid(set);
  REQUIRE(ours.size() == theirs.finish.size());
  double largest = 0;
  for (std::size_t f = 0; f < ours.size(); ++f) largest = std::max(largest, std::abs(ours[f] / theirs.finish[f] - 1));
  return largest;
}

TEST_CASE("two flows on a link of 50 GB/s end in SimGrid when arithmetic says so") {
  // 10 MB and 30 MB: both at 25 GB/s until 0.4 ms, then the other 20 MB at 50 GB/s: 0.8 ms.
  FlowSet set;
  const std::int64_t rate = (std::int64_t{1} << engine::kRateBits) / 20;
  set.capacities = {rate, rate, rate};
  set.flows = {{{0, 1}, rate, 10'000'000}, {{0, 2}, rate, 30'000'000}};
  const SimgridRun run = play_in_simgrid(set);
  CHECK(run.finish[0] == Approx(0.4e-3).epsilon(1e-6));
  CHECK(run.finish[1] == Approx(0.8e-3).epsilon(1e-6));
  CHECK(largest_difference(set) < kTolerance);
}

TEST_CASE("random flows, capped and not, end when SimGrid's do") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    const auto size = static_cast<std::uint32_t>(seed);
    CHECK(largest_difference(random_flows(seed, 3 + 2 * size, 5 + 10 * size)) < kTolerance);
  }
}

TEST_CASE("flows on a fat tree of 4,096 hosts end when SimGrid's do") { CHECK(largest_difference(fat_tree_random(7, 600)) < kTolerance); }

TEST_CASE("2,000 flows and a permutation on the fat tree end when SimGrid's do", "[slow]") {
  CHECK(largest_difference(fat_tree_random(8, 2000)) < kTolerance);
  CHECK(largest_difference(fat_tree_permutation(9)) < kTolerance);
}

}  // namespace
}  // namespace orrery::test
