// Expectations are stated as equations; capacities, caps and rates are in rate units, weights in units of 2^-24.
#include <algorithm>
#include <numeric>

#include <rapidcheck.h>

#include "catch.h"
#include "orrery/base/random.hpp"
#include "orrery/engine/maxmin.hpp"

using namespace orrery;
using namespace orrery::engine;

namespace {

constexpr std::int64_t kOne = std::int64_t{1} << kWeightBits;
constexpr std::int64_t kFree = kMaxCapacity;

struct Problem {
  std::vector<std::int64_t> capacities;
  std::vector<std::int64_t> caps;
  std::vector<std::vector<Usage>> usages;

  [[nodiscard]] std::vector<std::int64_t> dense() const {
    std::vector<Flow> flows;
    for (std::size_t f = 0; f < caps.size(); ++f) flows.push_back({caps[f], usages[f]});
    return solve_dense(capacities, flows);
  }
};

/// Small numbers make ties, large ones make rounding.
Problem draw_problem(std::size_t most) {
  Problem p;
  const bool small = *rc::gen::arbitrary<bool>();
  const auto resources = *rc::gen::inRange<std::size_t>(1, most);
  const auto flows = *rc::gen::inRange<std::size_t>(1, 2 * most);
  for (std::size_t r = 0; r < resources; ++r) p.capacities.push_back(small ? *rc::gen::inRange<std::int64_t>(40, 60) : *rc::gen::inRange<std::int64_t>(1'000'000, kMaxCapacity));
  for (std::size_t f = 0; f < flows; ++f) {
    p.caps.push_back(small ? *rc::gen::inRange<std::int64_t>(1, 40) : *rc::gen::inRange<std::int64_t>(1, kMaxCapacity));
    std::vector<Usage>& u = p.usages.emplace_back();
    const auto crossed = *rc::gen::inRange<std::size_t>(0, std::min<std::size_t>(resources, 4) + 1);
    for (std::size_t i = 0; i < crossed; ++i) {
      const auto r = static_cast<std::uint32_t>(*rc::gen::inRange<std::size_t>(0, resources));
      if (std::any_of(u.begin(), u.end(), [r](const Usage& x) { return x.resource == r; })) continue;
      u.push_back({r, small ? kOne * *rc::gen::inRange<std::int64_t>(1, 3) : *rc::gen::inRange<std::int64_t>(1, 64 * kOne)});
    }
  }
  return p;
}

}  // namespace

TEST_CASE("check net.maxmin.example: links A=10 B=8 C=4 with f1:A f2:AB f3:BC f4:C give f3=f4=2 and f1=f2=5") {
  const std::int64_t k = 1'000'000;
  const Problem p{{10 * k, 8 * k, 4 * k}, {kFree, kFree, kFree, kFree}, {{{0, kOne}}, {{0, kOne}, {1, kOne}}, {{1, kOne}, {2, kOne}}, {{2, kOne}}}};
  CHECK(p.dense() == std::vector<std::int64_t>{5 * k, 5 * k, 2 * k, 2 * k});
}

TEST_CASE("a weight of two takes twice the rate from the resource") {
  // 2θ + θ = 30, equal θ: 10.
  CHECK(Problem{{30}, {kFree, kFree}, {{{0, 2 * kOne}}, {{0, kOne}}}}.dense() == std::vector<std::int64_t>{10, 10});
}

TEST_CASE("a cap frees the rest for the others, and a level is rounded down") {
  // 3 + 2θ = 10: θ = 3.5, rounded to 3; the unit that is lost is not handed out again.
  CHECK(Problem{{10}, {3, kFree, kFree}, {{{0, kOne}}, {{0, kOne}}, {{0, kOne}}}}.dense() == std::vector<std::int64_t>{3, 3, 3});
  CHECK(Problem{{11}, {3, kFree, kFree}, {{{0, kOne}}, {{0, kOne}}, {{0, kOne}}}}.dense() == std::vector<std::int64_t>{3, 4, 4});
}

TEST_CASE("without resources the rate is the cap") { CHECK(Problem{{}, {7}, {{}}}.dense() == std::vector<std::int64_t>{7}); }

TEST_CASE("the largest sizes that are let in do not overflow") {
  // C = 2^50 and Σw = 2^52 units: θ = 2^50·2^24 / 2^52 = 2^22.
  const Problem p{{kMaxCapacity}, {kFree, kFree}, {{{0, kMaxWeights / 2}}, {{0, kMaxWeights / 2}}}};
  CHECK(p.dense() == std::vector<std::int64_t>{1 << 22, 1 << 22});
  MaxMin m(p.capacities);
  m.add(0, p.caps[0], p.usages[0]);
  m.add(1, p.caps[1], p.usages[1]);
  CHECK(m.solve().size() == 2);
  CHECK(m.rate(0) == 1 << 22);
}

TEST_CASE("certificate: every flow is at its cap or has a saturated resource where no other gets more") {
  CHECK(rc::check([] {
    const Problem p = draw_problem(12);
    const std::vector<std::int64_t> rates = p.dense();
    std::vector<int128> left(p.capacities.size());
    std::vector<std::int64_t> weights(p.capacities.size(), 0), highest(p.capacities.size(), 0);
    for (std::size_t r = 0; r < left.size(); ++r) left[r] = int128{p.capacities[r]} << kWeightBits;
    for (std::size_t f = 0; f < rates.size(); ++f) {
      RC_ASSERT(rates[f] > 0);
      RC_ASSERT(rates[f] <= p.caps[f]);
      for (const Usage& u : p.usages[f]) {
        left[u.resource] -= int128{u.weight} * rates[f];
        weights[u.resource] += u.weight;
        highest[u.resource] = std::max(highest[u.resource], rates[f]);
      }
    }
    for (const int128 l : left) RC_ASSERT(l >= 0);
    for (std::size_t f = 0; f < rates.size(); ++f) {
      bool held = rates[f] == p.caps[f];
      // saturated: less than one rate unit per crossing flow is left, each unit weighing what its flow weighs
      for (const Usage& u : p.usages[f]) held = held || (left[u.resource] < weights[u.resource] && highest[u.resource] == rates[f]);
      RC_ASSERT(held);
    }
  }));
}

TEST_CASE("incremental and dense solutions are equal to the unit while flows come and go") {
  CHECK(rc::check([] {
    const Problem p = draw_problem(14);
    MaxMin m(p.capacities);
    m.reserve(p.caps.size(), 64);
    std::vector<bool> there(p.caps.size(), false);
    std::vector<std::int64_t> before(p.caps.size(), 0);
    for (int step = 0; step < 12; ++step) {
      std::vector<bool> came(p.caps.size(), false);
      const auto changes = *rc::gen::inRange(1, 6);
      for (int i = 0; i < changes; ++i) {
        const auto f = static_cast<std::uint32_t>(*rc::gen::inRange<std::size_t>(0, p.caps.size()));
        if (there[f]) m.remove(f);
        else m.add(f, p.caps[f], p.usages[f]);
        there[f] = !there[f];
        came[f] = there[f];
      }
      std::vector<Flow> flows;
      std::vector<std::uint32_t> ids;
      for (std::uint32_t f = 0; f < p.caps.size(); ++f) {
        if (!there[f]) continue;
        flows.push_back({p.caps[f], p.usages[f]});
        ids.push_back(f);
      }
      const std::span<const std::uint32_t> changed = m.solve();
      RC_ASSERT(std::is_sorted(changed.begin(), changed.end()));
      const std::vector<std::int64_t> dense = solve_dense(p.capacities, flows);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        RC_ASSERT(m.rate(ids[i]) == dense[i]);
        const bool told = std::binary_search(changed.begin(), changed.end(), ids[i]);
        RC_ASSERT(told == (came[ids[i]] || before[ids[i]] != dense[i]));
        before[ids[i]] = dense[i];
      }
    }
  }));
}

namespace {

/// Problems of every kind in which levels tie or round: what the solution is repaired by must not depend on it.
Problem draw_hard_problem() {
  const auto kind = *rc::gen::inRange(0, 5);
  const auto draw = [](std::int64_t low, std::int64_t high) { return *rc::gen::inRange<std::int64_t>(low, high); };
  Problem p;
  const auto resources = static_cast<std::size_t>(draw(1, 40));
  const auto flows = static_cast<std::size_t>(draw(1, 120));
  for (std::size_t r = 0; r < resources; ++r) {
    const std::int64_t capacity[] = {draw(40, 60), 100, draw(1'000'000, kMaxCapacity), 1000 * draw(1, 4), draw(200, 100'000)};
    p.capacities.push_back(capacity[kind]);
  }
  for (std::size_t f = 0; f < flows; ++f) {
    const std::int64_t cap[] = {draw(1, 40), 100, draw(1, kMaxCapacity), 500 * draw(1, 5), kFree};
    p.caps.push_back(cap[kind]);
    std::vector<Usage>& u = p.usages.emplace_back();
    const std::int64_t most = kind == 3 ? 41 : 7;  // long flows, as collectives are
    for (std::int64_t i = draw(0, std::min<std::int64_t>(most, static_cast<std::int64_t>(resources) + 1)); i > 0; --i) {
      const auto r = static_cast<std::uint32_t>(draw(0, static_cast<std::int64_t>(resources)));
      if (std::any_of(u.begin(), u.end(), [r](const Usage& x) { return x.resource == r; })) continue;
      const std::int64_t weight[] = {kOne * draw(1, 3), kOne, draw(1, 64 * kOne), kOne * draw(1, 5), draw(1, kMaxWeights / 256)};
      u.push_back({r, weight[kind]});
    }
  }
  return p;
}

}  // namespace

TEST_CASE("after hundreds of repairs, with ties, tiny capacities and huge weights, every rate is still that of the dense solution") {
  CHECK(rc::check([] {
    const Problem p = draw_hard_problem();
    const std::size_t n = p.caps.size();
    MaxMin m(p.capacities);
    m.reserve(n, n * p.capacities.size());
    std::vector<bool> there(n, false);
    const std::uint64_t seed = *rc::gen::arbitrary<std::uint64_t>();
    std::uint64_t drawn = 0;
    for (int step = 0; step < 150; ++step) {
      // Now and then everything at once, which is filled and not repaired.
      const std::size_t changes = step % 50 == 0 ? n : 1 + random_bits(seed, "changes", drawn++) % 3;
      for (std::size_t i = 0; i < changes; ++i) {
        const auto f = static_cast<std::uint32_t>(random_bits(seed, "flow", drawn++) % n);
        if (there[f]) m.remove(f);
        else m.add(f, p.caps[f], p.usages[f]);
        there[f] = !there[f];
      }
      m.solve();
      std::vector<Flow> flows;
      for (std::uint32_t f = 0; f < n; ++f) {
        if (there[f]) flows.push_back({p.caps[f], p.usages[f]});
      }
      const std::vector<std::int64_t> dense = solve_dense(p.capacities, flows);
      for (std::uint32_t f = 0, i = 0; f < n; ++f) {
        if (there[f]) RC_ASSERT(m.rate(f) == dense[i++]);
      }
    }
  }));
}

TEST_CASE("the order in which flows come does not change their rates") {
  CHECK(rc::check([] {
    const Problem p = draw_problem(10);
    MaxMin forward(p.capacities), backward(p.capacities);
    const auto n = static_cast<std::uint32_t>(p.caps.size());
    for (std::uint32_t f = 0; f < n; ++f) {
      forward.add(f, p.caps[f], p.usages[f]);
      backward.add(n - 1 - f, p.caps[n - 1 - f], p.usages[n - 1 - f]);
    }
    forward.solve();
    backward.solve();
    for (std::uint32_t f = 0; f < n; ++f) RC_ASSERT(forward.rate(f) == backward.rate(f));
  }));
}

TEST_CASE("rates of one component do not depend on another") {
  CHECK(rc::check([] {
    const Problem a = draw_problem(6), b = draw_problem(6);
    Problem both = a;
    both.capacities.insert(both.capacities.end(), b.capacities.begin(), b.capacities.end());
    both.caps.insert(both.caps.end(), b.caps.begin(), b.caps.end());
    for (std::vector<Usage> u : b.usages) {
      for (Usage& x : u) x.resource += static_cast<std::uint32_t>(a.capacities.size());
      both.usages.push_back(u);
    }
    std::vector<std::int64_t> expected = a.dense();
    const std::vector<std::int64_t> second = b.dense();
    expected.insert(expected.end(), second.begin(), second.end());
    RC_ASSERT(both.dense() == expected);
  }));
}
