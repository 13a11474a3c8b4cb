// What the engine does with one or a few ranks, tight on both sides: integers leave no tolerance.
#include "build_input.hpp"
#include "orrery/base/assert.hpp"

using namespace orrery;
using namespace orrery::engine;
using namespace orrery::engine::testing;

TEST_CASE("segments of a stream run one after the other, and their time is their account's") {
  Built b(1);
  b.segment(0, 100);
  b.segment(0, 23);
  const Result r = b.result();
  CHECK(r.end == 123);
  CHECK(r.ranks[0].finish == 123);
  CHECK(r.ranks[0].account_ps[2] == 123);
  CHECK(r.segment_ps[0][0] == 100);
  CHECK(r.segment_ps[0][1] == 23);
}

TEST_CASE("a lone transfer ends at latency + ceil(work/cap), not a picosecond before or after") {
  // work = 10·7 + 1 at cap 10: 8 ps after the latency.
  for (const auto& [work, ps] : std::vector<std::pair<int, SimTime>>{{70, 7}, {71, 8}, {69, 7}, {0, 0}}) {
    Built b(2);
    const std::uint32_t link = b.resource(10);
    const std::uint32_t g = b.group({0, 1}, b.usage({{link, kUnit}}), {transfer(5, 10, work)});
    b.collective(0, 1, g, 0);
    b.collective(1, 1, g, 0);
    CAPTURE(work);
    const Result r = b.result();
    CHECK(r.end == 5 + ps);
    CHECK(r.transfers[0].count == 1);
    CHECK(r.transfers[0].time_ps == 5 + ps);
    CHECK(r.resources[link].load == int128{kUnit} * 1000);
    CHECK(r.resources[link].peak == (work > 0 ? 10 : 0));
  }
}

TEST_CASE("a collective starts when its last member launches it") {
  Built b(2);
  const std::uint32_t g = b.group({0, 1}, {}, {transfer(0, 1, 10)});
  const std::uint32_t e = b.event(1);
  b.collective(0, 1, g, 0);
  b.segment(1, 40, kNone, e);
  b.collective(1, 1, g, 0, e);
  const Result r = b.result();
  CHECK(r.end == 50);
  CHECK(r.transfers[0].time_ps == 10);
}

TEST_CASE("a group of one member runs alone") {
  Built b(1);
  const std::uint32_t g = b.group({0}, {}, {transfer(3, 2, 8), transfer(4, 0, 0)});
  b.collective(0, 0, g, 0);
  b.collective(0, 0, g, 1);
  CHECK(b.result().end == 3 + 4 + 4);
}

TEST_CASE("a transfer without latency or work ends at once, and what waits for it goes on at the same instant") {
  Built b(2);
  const std::uint32_t g = b.group({0, 1}, {}, {transfer(0, 0, 0)});
  const std::uint32_t e0 = b.event(0), e1 = b.event(1);
  b.collective(0, 1, g, 0, kNone, e0);
  b.collective(1, 1, g, 0, kNone, e1);
  b.segment(0, 7, e0);
  b.segment(1, 9, e1);
  CHECK(b.result().end == 9);
}

TEST_CASE("two transfers on one link share it, and the second finishes with all of it") {
  // capacity 10, works 100 and 150: 5 each until 20 ps, then 50 left at 10: 25 ps.
  Built b(2);
  const std::uint32_t link = b.resource(10);
  const std::uint32_t g0 = b.group({0}, b.usage({{link, kUnit}}), {transfer(0, 10, 100)});
  const std::uint32_t g1 = b.group({1}, b.usage({{link, kUnit}}), {transfer(0, 10, 150)});
  b.collective(0, 1, g0, 0);
  b.collective(1, 1, g1, 0);
  const Result r = b.result();
  CHECK(r.transfers[0].time_ps == 20);
  CHECK(r.transfers[1].time_ps == 25);
  CHECK(r.resources[link].peak == 10);
}

TEST_CASE("a faster link can slow the step: capacities 2, 4, 2 end at 1; double link 2 and it ends at 1.25") {
  // Flows on links {1,2}, {1,2}, {0,1} of sizes 1, 1, 2. Link 2 = 2: rates 1, 1, 2, all end at 1. Link 2 = 4: 4/3 each, the first two
  // end at 0.75, when the third has 1 left and gets 2: 0.75 + 0.5. Units: 2^30 rate units and 2^20 ps; ⌊4/3⌋ costs less than 1 ps here.
  const auto end = [](std::int64_t link2) {
    const std::int64_t k = std::int64_t{1} << 30;
    const SimTime unit = SimTime{1} << 20;
    Built b(3);
    const std::uint32_t l0 = b.resource(2 * k), l1 = b.resource(4 * k), l2 = b.resource(link2 * k);
    const auto size = [&](int n) { return int128{n} * k * unit; };
    const UsageRange near = b.usage({{l1, kUnit}, {l2, kUnit}}), far = b.usage({{l0, kUnit}, {l1, kUnit}});
    b.collective(0, 1, b.group({0}, near, {transfer(0, 8 * k, size(1))}), 0);
    b.collective(1, 1, b.group({1}, near, {transfer(0, 8 * k, size(1))}), 0);
    b.collective(2, 1, b.group({2}, far, {transfer(0, 8 * k, size(2))}), 0);
    return b.result().end;
  };
  const SimTime unit = SimTime{1} << 20;
  CHECK(end(2) == unit);
  CHECK(end(4) == unit + unit / 4 + 1);
}
