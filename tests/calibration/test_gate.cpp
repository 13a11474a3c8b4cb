#include <algorithm>

#include "catch.h"
#include "orrery/base/random.hpp"
#include "orrery/calibration/gate.hpp"

using namespace orrery;
using namespace orrery::calibration;

namespace {

/// `keys` GEMMs of 20 repetitions with 1 % noise; `slower` of them by `factor`.
MeasurementSet synthetic(std::uint64_t seed, int keys, int repetitions, double noise, int slower = -1, double factor = 1) {
  MeasurementSet set;
  set.gpu = "h100-sxm5-80gb";
  for (int i = 0; i < keys; ++i) {
    Point p;
    p.m = 128 * (i + 1), p.n = 1024, p.k = 1024;
    for (int r = 0; r < repetitions; ++r)
      p.time_us.push_back(100 * (i == slower ? factor : 1) * (1 + noise * random_normal(seed, "history", static_cast<std::uint64_t>(i * repetitions + r))));
    set.points.push_back(std::move(p));
  }
  return set;
}

const KeyChange& key(const GateResult& r, std::size_t i) { return r.keys.at(i); }

}  // namespace

TEST_CASE("stat.mannwhitney.5v5: fully separated samples of five have p = 2/252") {
  const std::vector<double> a = {1.0, 1.01, 1.02, 1.03, 1.04}, b = {1.05, 1.06, 1.07, 1.08, 1.09};
  CHECK(mann_whitney_p(a, b) == Approx(0.00793650793651).epsilon(1e-9));
  CHECK(mann_whitney_p(b, a) == Approx(0.00793650793651).epsilon(1e-9));
}

TEST_CASE("the exact distribution of U is that of counting: samples of two and three") {
  // Ten arrangements; U <= 0 has one, U <= 1 two, U <= 2 four (by hand).
  const std::vector<double> a = {1, 2}, b = {3, 4, 5};
  CHECK(mann_whitney_p(a, b) == Approx(0.2));
  const std::vector<double> c = {1, 3}, d = {2, 4, 5};
  CHECK(mann_whitney_p(c, d) == Approx(0.4));
  const std::vector<double> same = {1, 1, 1};
  CHECK(mann_whitney_p(same, same) == 1);
}

TEST_CASE("stat.theil_sen: an outlier does not move the slope") {
  const std::vector<double> x = {1, 2, 3, 4, 5}, y = {1.1, 2.0, 2.9, 4.2, 50.0};
  CHECK(theil_sen(x, y).first == Approx(1.2).epsilon(1e-9));
}

TEST_CASE("stat.conformal_index: of 100 errors, the 91st for a miss rate of 0.1") {
  CHECK(conformal_index(100, 0.1) == 91);
  CHECK(conformal_index(5, 0.01) == 5);
}

TEST_CASE("Holm's correction multiplies the smallest p by all, the next by one less, and never falls") {
  CHECK(holm(std::vector<double>{0.01, 0.04, 0.03}) == std::vector<double>{0.03, 0.06, 0.06});
  CHECK(holm(std::vector<double>{0.9, 0.8}) == std::vector<double>{1, 1});
}

TEST_CASE("on 100 runs of 500 keys with 1 % noise at most one gives a false alarm", "[slow]") {
  int alarms = 0;
  for (std::uint64_t run = 0; run < 100; ++run)
    alarms += gate(synthetic(2 * run + 1, 500, 20, 0.01), synthetic(2 * run + 2, 500, 20, 0.01), {}).failed() ? 1 : 0;
  CHECK(alarms <= 1);
}

TEST_CASE("a slow-down of 5 % in one key of 500 with 1 % noise is found in at least 95 of 100 runs, and no other key is blamed", "[slow]") {
  int found = 0, blamed = 0;
  for (std::uint64_t run = 0; run < 100; ++run) {
    const int which = static_cast<int>(run * 5 % 500);
    const auto r = gate(synthetic(1000 + 2 * run, 500, 20, 0.01), synthetic(1001 + 2 * run, 500, 20, 0.01, which, 1.05), {});
    for (const KeyChange& k : r.keys) {
      if (k.change == Change::kSame) continue;
      (k.key.find(" " + std::to_string(128 * (which + 1)) + "x") != std::string::npos && k.change == Change::kSlower ? found : blamed) += 1;
    }
  }
  CHECK(found >= 95);
  CHECK(blamed <= 1);
}

TEST_CASE("noise of ten keys passes; 5 % in one key fails, and 5 % less is told as faster") {
  const auto baseline = synthetic(1, 10, 20, 0.01);
  CHECK_FALSE(gate(baseline, synthetic(2, 10, 20, 0.01), {}).failed());
  const auto slow = gate(baseline, synthetic(3, 10, 20, 0.01, 4, 1.05), {});
  CHECK(slow.failed());
  CHECK(slow.count(Change::kSlower) == 1);
  const auto fast = gate(baseline, synthetic(3, 10, 20, 0.01, 4, 0.95), {});
  CHECK_FALSE(fast.failed());
  CHECK(fast.count(Change::kFaster) == 1);
}

TEST_CASE("a change below the practical threshold passes however sure it is") {
  CHECK(gate(synthetic(1, 1, 100, 0.001), synthetic(2, 1, 100, 0.001, 0, 1.015), {}).count(Change::kSame) == 1);
}

TEST_CASE("a key that is gone fails, one that is new does not") {
  const auto two = synthetic(1, 2, 20, 0.01), one = synthetic(2, 1, 20, 0.01);
  const auto lost = gate(two, one, {});
  CHECK(lost.failed());
  CHECK(key(lost, 1).change == Change::kLost);
  CHECK(key(lost, 1).note == "the new set does not have it");
  CHECK_FALSE(gate(one, two, {}).failed());
  CHECK(gate(one, two, {}).count(Change::kNew) == 1);
}

TEST_CASE("a swapped type is a lost key that names the other one") {
  auto swapped = synthetic(2, 1, 20, 0.01);
  swapped.points.front().dtype = "fp16";
  const auto r = gate(synthetic(1, 1, 20, 0.01), swapped, {});
  CHECK(r.failed());
  const auto lost = std::find_if(r.keys.begin(), r.keys.end(), [](const KeyChange& k) { return k.change == Change::kLost; });
  REQUIRE(lost != r.keys.end());
  CHECK(lost->note == "the new set has this shape as fp16: was the type swapped?");
}

TEST_CASE("times in another unit are told as such, with many repetitions and with one") {
  const auto many = gate(synthetic(1, 1, 20, 0.01), synthetic(2, 1, 20, 0.01, 0, 1000), {});
  CHECK(key(many, 0).change == Change::kSlower);
  CHECK(key(many, 0).note == "about 1000 times the baseline: was the unit changed?");
  const auto one = gate(synthetic(1, 1, 1, 0.01), synthetic(2, 1, 1, 0.01, 0, 1000), {});
  CHECK(one.failed());
}

TEST_CASE("another device cannot be compared; another driver is listed first") {
  auto other = synthetic(2, 1, 20, 0.01);
  other.gpu = "a100-sxm4-80gb";
  CHECK(gate(synthetic(1, 1, 20, 0.01), other, {}).unusable ==
        std::vector<std::string>{"the baseline was measured on h100-sxm5-80gb, the new set on a100-sxm4-80gb: other devices have other times"});
  auto a = synthetic(1, 1, 20, 0.01), b = synthetic(2, 1, 20, 0.01);
  a.environment = {{"driver", "570"}, {"cuda", "13.0"}};
  b.environment = {{"driver", "580"}, {"cuda", "13.0"}};
  CHECK(gate(a, b, {}).environment == std::vector<std::string>{"driver: 570 -> 580"});
}

TEST_CASE("repetitions that fall into two groups where they were one are bimodal, and fail") {
  auto two = synthetic(2, 1, 20, 0.002);
  for (std::size_t i = 0; i < 20; i += 3) two.points.front().time_us[i] *= 1.3;
  const auto r = gate(synthetic(1, 1, 20, 0.002), two, {});
  CHECK(r.failed());
  CHECK(key(r, 0).change == Change::kBimodal);
}

TEST_CASE("a key that moves by itself has a wider threshold, and a slow drift over many runs is found") {
  GateOptions o;
  for (std::uint64_t i = 0; i < 5; ++i) o.history.push_back(synthetic(100 + i, 1, 20, 0.001, 0, i % 2 == 0 ? 1.0 : 1.05));
  CHECK(gate(synthetic(1, 1, 20, 0.001), synthetic(2, 1, 20, 0.001, 0, 1.04), o).count(Change::kSlower) == 1);
  for (std::uint64_t i = 0; i < 5; ++i) o.history[i] = synthetic(100 + i, 1, 20, 0.001, 0, 0.97 + 0.02 * static_cast<double>(i));
  CHECK(gate(synthetic(1, 1, 20, 0.001), synthetic(2, 1, 20, 0.001, 0, 1.04), o).count(Change::kSlower) == 0);
  o.history.clear();
  for (std::uint64_t i = 0; i < 9; ++i) o.history.push_back(synthetic(200 + i, 1, 20, 0.001, 0, i < 4 ? 0.975 : 1.0));
  const auto drift = gate(synthetic(1, 1, 20, 0.001), synthetic(2, 1, 20, 0.001, 0, 1.01), o);
  CHECK(drift.count(Change::kDrift) == 1);
  CHECK(drift.failed());
}

TEST_CASE("samples that are too few for the test say so and pass") {
  const auto r = gate(synthetic(1, 1, 3, 0.01), synthetic(2, 1, 3, 0.01, 0, 1.05), {});
  CHECK(key(r, 0).change == Change::kTooFew);
  CHECK(key(r, 0).note == "3 and 3 repetitions; the test needs 5 of each");
  CHECK_FALSE(r.failed());
}
