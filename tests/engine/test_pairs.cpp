// Batches of sends and receives, accounts, and runs that get stuck.
#include "build_input.hpp"

using namespace orrery;
using namespace orrery::engine;
using namespace orrery::engine::testing;

TEST_CASE("the k-th send meets the k-th receive, whatever else the batches hold") {
  // 0 sends three times to 1 in one batch; 1 receives in batches of one and two, with 10 ps between.
  Built b(2);
  const std::uint32_t c = b.channel(0, 1, {}, {transfer(0, 1, 4), transfer(0, 1, 8), transfer(0, 1, 16)});
  b.batch(0, 1, {{true, c, 0}, {true, c, 1}, {true, c, 2}});
  const std::uint32_t e = b.event(1), f = b.event(1);
  b.batch(1, 1, {{false, c, 0}}, kNone, e);
  b.segment(1, 10, e, f);
  b.batch(1, 1, {{false, c, 1}, {false, c, 2}}, f);
  const Result r = b.result();
  CHECK(r.end == 4 + 10 + 16);
  CHECK(r.transfers[0].time_ps == 4);
  CHECK(r.transfers[1].time_ps == 8);
  CHECK(r.transfers[2].time_ps == 16);
}

TEST_CASE("crossing sends in one batch pass, and in separate batches of one stream they are stuck, by name") {
  Built good(2);
  const std::uint32_t a = good.channel(0, 1, {}, {transfer(1, 1, 4)}), z = good.channel(1, 0, {}, {transfer(1, 1, 4)});
  good.batch(0, 1, {{true, a}, {false, z}});
  good.batch(1, 1, {{true, z}, {false, a}});
  CHECK(good.result().end == 5);

  Built bad(2);
  const std::uint32_t up = bad.channel(0, 1, {}, {transfer(1, 1, 4)}), down = bad.channel(1, 0, {}, {transfer(1, 1, 4)});
  bad.segment(0, 1'234'000'000, kNone, bad.event(0));
  bad.batch(0, 1, {{true, up}}, 0);
  bad.batch(0, 1, {{false, down}});
  bad.batch(1, 1, {{true, down}});
  bad.batch(1, 1, {{false, up}});
  const auto out = bad.play();
  const Stuck* stuck = std::get_if<Stuck>(&out);
  REQUIRE(stuck != nullptr);
  CHECK(stuck->at == 1'234'000'000);
  CHECK(stuck->waits == std::vector<std::string>{"rank 0 stream 1 instruction 0 waits for rank 1 to launch receive 0 of channel 0, since 1.234 ms",
                                                 "rank 1 stream 1 instruction 0 waits for rank 0 to launch receive 0 of channel 1, since 0 ps"});
}

TEST_CASE("whoever is stuck is named with what it waits for: peers, events, hosts") {
  Built b(2);
  const std::uint32_t g = b.group({0, 1}, {}, {transfer(0, 1, 1), transfer(0, 1, 1)});
  const std::uint32_t e = b.event(0), never = b.event(0);
  b.in.run_ahead = 0;
  b.collective(0, 1, g, 0);
  b.collective(0, 1, g, 1, kNone, e);
  b.segment(0, 5, e);
  b.segment(0, 5);
  b.put(0, 2, {Op::kWait, 0, never, kNone});
  b.collective(1, 1, g, 0);
  b.host(1, {HostOp::kSync, 0, 0, 1, b.event(1), 0, 0, 0});
  b.collective(1, 1, g, 1);
  const auto out = b.play();
  const Stuck* stuck = std::get_if<Stuck>(&out);
  REQUIRE(stuck != nullptr);
  CHECK(stuck->waits ==
        std::vector<std::string>{"rank 0 host instruction 3 waits for an older launch to start (run-ahead limit 0), since 1 ps",
                                 "rank 0 stream 0 instruction 0 waits for event 0 of stream 1 instruction 1, since 0 ps",
                                 "rank 0 stream 1 instruction 1 waits for rank 1 to launch collective 1 of group 0, since 1 ps",
                                 "rank 0 stream 2 instruction 0 waits for event 1, which nothing records, since 0 ps",
                                 "rank 1 host instruction 1 waits for event 0, since 0 ps",
                                 "rank 1 stream 1 instruction 1 waits for the host to issue it, since 1 ps"});
}

TEST_CASE("more than twenty waits are counted, not listed") {
  Built b(30, 1);
  std::vector<std::uint32_t> all;
  for (std::uint32_t r = 0; r < 30; ++r) all.push_back(r);
  const std::uint32_t g = b.group(all, {}, {transfer(0, 1, 1)});
  for (std::uint32_t r = 0; r < 29; ++r) b.collective(r, 0, g, 0);
  const auto out = b.play();
  const Stuck* stuck = std::get_if<Stuck>(&out);
  REQUIRE(stuck != nullptr);
  CHECK(stuck->waits.size() == 20);
  CHECK(stuck->waits.front() == "rank 0 stream 0 instruction 0 waits for rank 29 to launch collective 0 of group 0, since 0 ps");
  CHECK(stuck->waits.back() == "and 10 more");
}

TEST_CASE("a run over its limit of events says so") {
  Built b(1);
  for (int i = 0; i < 100; ++i) b.segment(0, 1);
  Options options;
  options.max_events = b.result().events;
  CHECK(b.result(options).end == 100);
  options.max_events -= 1;
  const auto out = b.play(options);
  REQUIRE(std::holds_alternative<TooManyEvents>(out));
  CHECK(std::get<TooManyEvents>(out).limit == options.max_events);
}

TEST_CASE("waiting for a transfer in flight is its account's time, latency included, and before its start the peer's") {
  // Rank 1 computes 40 before it launches; rank 0's compute stream waits for the collective from 10 on. Latency 5, work 20.
  Built b(2);
  const std::uint32_t g = b.group({0, 1}, {}, {transfer(5, 1, 20, 6)});
  const std::uint32_t e = b.event(0), f = b.event(1);
  b.collective(0, 1, g, 0, kNone, e);
  b.segment(0, 10);
  b.segment(0, 10, e);
  b.segment(1, 40, kNone, f);
  b.collective(1, 1, g, 0, f);
  const Result r = b.result();
  CHECK(r.end == 75);
  CHECK(r.ranks[0].account_ps == std::vector<SimTime>{30, 0, 20, 0, 0, 0, 25, 0});
  CHECK(r.ranks[1].account_ps == std::vector<SimTime>{10, 0, 40, 0, 0, 0, 25, 0});  // finished: what is in flight, then nothing
}

TEST_CASE("a wait is followed over streams to what is in flight") {
  // compute waits for stream 2, whose head waits for stream 1, whose collective is in flight for 30
  Built b(1);
  const std::uint32_t g = b.group({0}, {}, {transfer(0, 1, 30, 5)}), h = b.group({0}, {}, {transfer(0, 1, 20, 6)});
  const std::uint32_t e = b.event(0), f = b.event(0);
  b.collective(0, 1, g, 0, kNone, e);
  b.collective(0, 2, h, 0, e, f);
  b.segment(0, 10, f);
  CHECK(b.result().ranks[0].account_ps == std::vector<SimTime>{0, 0, 10, 0, 0, 30, 20, 0});
}

TEST_CASE("a blocking batch on the compute stream is in flight when one of its pairs is, else it waits for its peer") {
  Built b(3);
  const std::uint32_t c1 = b.channel(1, 0, {}, {transfer(0, 1, 20, 5)}), c2 = b.channel(2, 0, {}, {transfer(0, 1, 20, 6)});
  b.batch(0, 0, {{false, c1}, {false, c2}});
  const std::uint32_t e1 = b.event(1), e2 = b.event(2);
  b.segment(1, 10, kNone, e1);
  b.batch(1, 1, {{true, c1}}, e1);
  b.segment(2, 25, kNone, e2);
  b.batch(2, 1, {{true, c2}}, e2);
  // 0–10 peer, 10–30 the first, 30–45 the second
  CHECK(b.result().ranks[0].account_ps == std::vector<SimTime>{10, 0, 0, 0, 0, 20, 15, 0});
}

TEST_CASE("multiplicities multiply what is counted and change no time") {
  const auto make = [](std::int64_t m) {
    Built b(2);
    const std::uint32_t link = b.resource(10);
    const std::uint32_t g = b.group({0, 1}, b.usage({{link, kUnit}}), {transfer(5, 10, 70)});
    const std::uint32_t c = b.channel(0, 1, {}, {transfer(1, 1, 3)});
    for (std::uint32_t r : {0U, 1U}) {
      b.segment(r, 10);
      b.collective(r, 1, g, 0);
      b.batch(r, 2, {{r == 0, c}});
      b.in.ranks[r].multiplicity = m;
    }
    b.in.groups[0].multiplicity = m;
    b.in.channels[0].multiplicity = m;
    return b.result();
  };
  const Result one = make(1), many = make(1000);
  CHECK(same(one, many));
  CHECK(many.transfers[0].count == 1000);
  CHECK(many.transfers[0].time_ps == 1000 * one.transfers[0].time_ps);
  CHECK(many.transfers[1].time_ps == 4000);
  CHECK(many.segment_ps[0][0] == 10'000);
  CHECK(many.resources[0].load == one.resources[0].load);
  CHECK(many.resources[0].peak == one.resources[0].peak);
}

TEST_CASE("a passive resource shares nothing, and its load and peak are still counted") {
  Built b(2);
  const std::uint32_t link = b.resource(10, true);
  const UsageRange u = b.usage({{link, 2 * kUnit}});
  b.collective(0, 1, b.group({0}, u, {transfer(0, 10, 100)}), 0);
  b.collective(1, 1, b.group({1}, u, {transfer(0, 10, 100)}), 0);
  const Result r = b.result();
  CHECK(r.end == 10);
  CHECK(r.resources[link].peak == 40);
  CHECK(r.resources[link].load == int128{4} * kUnit * 1000);
}
