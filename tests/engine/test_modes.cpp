// Footprints: what communication holds slows segments, and running segments hold launches up.
#include "build_input.hpp"

using namespace orrery;
using namespace orrery::engine;
using namespace orrery::engine::testing;

TEST_CASE("a segment runs at the pace of the mode, and what remains is scaled when the mode changes") {
  // Held from 0: 10 SMs make 1,000 take 1,100. The collective ends at 550, half way: what remains is 550·1000/1100 = 500.
  Built b(1);
  b.times.percent_per_sm = 1;
  const std::uint32_t g = b.group({0}, {}, {transfer(0, 1, 550, 3, 10)});
  b.collective(0, 1, g, 0);
  b.segment(0, 1000);
  CHECK(b.result().end == 1050);
}

TEST_CASE("what remains is rounded up once per change") {
  // 3 of 1,000 ps pass; 997 at +1 % is 1,006.97.
  Built b(1);
  b.times.percent_per_sm = 1;
  const std::uint32_t g = b.group({0}, {}, {transfer(0, 1, 5000, 3, 1)});
  b.segment(0, 1000);
  const std::uint32_t e = b.event(0);
  b.segment(0, 3, kNone, e, 2);
  b.collective(0, 1, g, 0, e);
  const Result r = b.result();
  CHECK(r.segment_ps[0][0] == 3 + 1007);
}

TEST_CASE("SMs are held from a rank's own launch, HBM from the common start") {
  // Rank 0 launches at 0 and its peer at 400: +10 % for SMs all along on rank 0.
  Built b(2);
  b.times.percent_per_sm = 1;
  const std::uint32_t g = b.group({0, 1}, {}, {transfer(0, 1, 50, 3, 10, 77)});
  b.collective(0, 1, g, 0);
  b.segment(0, 300);
  const std::uint32_t e = b.event(1);
  b.segment(1, 400, kNone, e);
  b.collective(1, 1, g, 0, e);
  b.segment(1, 100);
  const Result r = b.result();
  CHECK(r.segment_ps[0][0] == 330);
  CHECK(r.end == 450 + 55);  // 50 ps are 50/110 of the segment; 60 ps remain, ⌈60·100/110⌉ = 55
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::int32_t, std::int64_t>;
  CHECK(b.times.asked.count(Key{0, 0, 0, 10, 0}) == 1);
  CHECK(b.times.asked.count(Key{1, 1, 0, 10, 77}) == 1);
  for (const auto& [key, times] : b.times.asked) CHECK(times == 1);
}

TEST_CASE("a launch while a segment runs waits for its wave, or for what remains if that is less") {
  for (const auto& [wave, start] : std::vector<std::pair<SimTime, SimTime>>{{0, 60}, {25, 85}, {40, 100}, {1000, 100}}) {
    Built b(1);
    const std::uint32_t g = b.group({0}, {}, {transfer(0, 1, 500, 3, 8)});
    const std::uint32_t e = b.event(0);
    b.segment(0, 100, kNone, kNone, 0, wave);
    b.segment(0, 60, kNone, e, 2);
    b.collective(0, 1, g, 0, e);
    CAPTURE(wave);
    CHECK(b.result().end == start + 500);
  }
}

TEST_CASE("a launch that needs no SMs waits for no wave") {
  Built b(1);
  const std::uint32_t g = b.group({0}, {}, {transfer(0, 1, 500, 3, 0)});
  const std::uint32_t e = b.event(0);
  b.segment(0, 100, kNone, kNone, 0, 30);
  b.segment(0, 60, kNone, e, 2);
  b.collective(0, 1, g, 0, e);
  CHECK(b.result().end == 560);
}

TEST_CASE("a launch at the instant at which a segment starts comes before it") {
  Built b(1);
  const std::uint32_t g = b.group({0}, {}, {transfer(0, 1, 500, 3, 8)});
  const std::uint32_t e = b.event(0);
  b.segment(0, 60, kNone, e);
  b.segment(0, 1000, kNone, kNone, 0, 1000);
  b.collective(0, 1, g, 0, e);
  const Result r = b.result();
  CHECK(r.transfers[0].time_ps == 500);
  CHECK(r.end == 1060);
  Built late(1);
  const std::uint32_t h = late.group({0}, {}, {transfer(0, 1, 2000, 3, 8)});
  const std::uint32_t f = late.event(0);
  late.segment(0, 60, kNone, f);
  late.segment(0, 1000, kNone, kNone, 0, 1000);
  late.collective(0, 1, h, 0, f);
  CHECK(late.result().end == 60 + 2000);
}

TEST_CASE("a batch holds the most SMs of its pairs until all have ended") {
  // Pairs of 100 and 300 ps with 4 and 9 SMs: 9 all along, so 1,000 ps at +9 % lose the 300 ps at 1/1.09.
  Built b(3);
  b.times.percent_per_sm = 1;
  const std::uint32_t c1 = b.channel(0, 1, {}, {transfer(0, 1, 100, 3, 4)}), c2 = b.channel(0, 2, {}, {transfer(0, 1, 300, 3, 9)});
  b.batch(0, 1, {{true, c1}, {true, c2}});
  b.batch(1, 1, {{false, c1}});
  b.batch(2, 1, {{false, c2}});
  b.segment(0, 1000);
  CHECK(b.result().end == 300 + (790 * 1000 + 1089) / 1090);
}

TEST_CASE("a segment without duration ends at the instant at which it starts") {
  Built b(1);
  b.segment(0, 0);
  b.segment(0, 0);
  b.segment(0, 5);
  CHECK(b.result().end == 5);
}

TEST_CASE("a slower variant of the hardware asks for its own durations") {
  Built b(1);
  b.in.ranks[0].variant = 2;
  b.segment(0, 10);
  CHECK(b.result().end == 30);
}
