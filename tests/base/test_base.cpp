#include <cmath>
#include <type_traits>

#include "catch.h"
#include "orrery/base/assert.hpp"
#include "orrery/base/checked.hpp"
#include "orrery/base/origin.hpp"
#include "orrery/base/random.hpp"
#include "orrery/base/result.hpp"
#include "orrery/base/sim_time.hpp"
#include "orrery/base/text.hpp"
#include "orrery/base/units.hpp"

using namespace orrery;
using namespace orrery::literals;

static_assert(std::is_same_v<decltype(1_MiB / 450_GBps), Seconds>);
static_assert(400_Gbps == 50_GBps);
template <class A, class B>
concept Addable = requires(A a, B b) { a + b; };
static_assert(!Addable<Bytes, Seconds>);
static_assert(!Addable<Flops, Bytes>);
static_assert(1_GiB > Bytes(1'000'000'000));

TEST_CASE("simulated time rounds up once, to the picosecond") {
  CHECK(to_sim_time(Seconds(1e-12)) == 1);
  CHECK(to_sim_time(Seconds(1.5e-12)) == 2);
  CHECK(to_sim_time(Seconds(0)) == 0);
  CHECK_THROWS_AS(to_sim_time(Seconds(-1.0)), InternalError);
  CHECK_THROWS_AS(to_sim_time(Seconds(std::nan(""))), InternalError);
  CHECK_THROWS_AS(to_sim_time(Seconds(1e9)), InternalError);
}

TEST_CASE("random numbers depend on seed, stream and index, and on nothing else") {
  CHECK(random_bits(1, "ecmp", 0) == random_bits(1, "ecmp", 0));
  CHECK(random_bits(1, "ecmp", 0) != random_bits(2, "ecmp", 0));
  CHECK(random_bits(1, "ecmp", 0) != random_bits(1, "jitter", 0));
  CHECK(random_bits(1, "ecmp", 0) != random_bits(1, "ecmp", 1));
  double sum = 0;
  for (std::uint64_t i = 0; i < 4096; ++i) {
    const double u = random_uniform(7, "uniform", i);
    REQUIRE(u >= 0);
    REQUIRE(u < 1);
    sum += u;
  }
  CHECK(std::abs(sum / 4096 - 0.5) < 4 * std::sqrt(1.0 / 12 / 4096));  // four standard errors of the mean
}

TEST_CASE("the normal quantile inverts the normal distribution function") {
  for (const double p : {1e-9, 1e-3, 0.02, 0.1, 0.5, 0.9, 0.999}) {
    const double x = normal_quantile(p);
    CHECK(0.5 * std::erfc(-x / std::sqrt(2.0)) == Approx(p).epsilon(1e-12));
  }
}

TEST_CASE("the nearest name is found by edit distance, and far names are not offered") {
  const std::vector<std::string> names = {"micro_batch", "global_batch", "precision"};
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(nearest_name("micro_bacth", names) == "micro_batch");
  CHECK(nearest_name("zzz", names).empty());
  CHECK(did_you_mean("precison", names) == "; did you mean \"precision\"?");
  CHECK(did_you_mean(std::string(100000, 'x'), names).empty());
}

TEST_CASE("checked arithmetic reports overflow") {
  CHECK(checked_mul(3, 4) == 12);
  CHECK_FALSE(checked_mul(INT64_MAX, 2).has_value());
  CHECK_FALSE(checked_add(INT64_MAX, 1).has_value());
  CHECK(ceil_div(7, 2) == 4);
  CHECK(ceil_div(8, 2) == 4);
}

TEST_CASE("a diagnostic prints file, pointer and text") {
  CHECK(to_string(Diagnostic{"job.json", "/parallelism/pp", "no"}) == "job.json:/parallelism/pp: no");
  CHECK(to_string(Diagnostic{"job.json", "", "no"}) == "job.json: no");
  CHECK(to_string(Diagnostic{"", "", "no"}) == "no");
  CHECK(weaker(Origin::kMeasured, Origin::kDatasheet) == Origin::kDatasheet);
}
