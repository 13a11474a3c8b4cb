// Schedules written directly as inputs, against their closed forms. 1,000 ps stand for one F.
#include <algorithm>

#include "build_input.hpp"

using namespace orrery;
using namespace orrery::engine;
using namespace orrery::engine::testing;

namespace {

constexpr std::uint8_t kSendUp = 1, kReceiveUp = 2, kSendDown = 3, kReceiveDown = 4;

/// 1F1B on p stages: each warms up with p − 1 − s forwards, then alternates. Sends leave on their own streams when their microbatch is
/// done, receives are posted at once, and a hop takes c.
Built one_f_one_b(std::uint32_t m, const std::vector<SimTime>& forward, const std::vector<SimTime>& backward, SimTime c) {
  const auto p = static_cast<std::uint32_t>(forward.size());
  Built b(p, 5);
  std::vector<std::uint32_t> up(p), down(p);  // from s to s + 1, and back
  for (std::uint32_t s = 0; s + 1 < p; ++s) {
    up[s] = b.channel(s, s + 1, {}, {transfer(c, 0, 0, 4)});
    down[s] = b.channel(s + 1, s, {}, {transfer(c, 0, 0, 4)});
  }
  for (std::uint32_t s = 0; s < p; ++s) {
    const auto step = [&](bool is_forward) {
      const bool receives = is_forward ? s > 0 : s + 1 < p, sends = is_forward ? s + 1 < p : s > 0;
      const std::uint32_t arrived = receives ? b.event(s) : kNone, done = sends ? b.event(s) : kNone;
      if (receives) b.batch(s, is_forward ? kReceiveUp : kReceiveDown, {{false, is_forward ? up[s - 1] : down[s]}}, kNone, arrived);
      b.segment(s, is_forward ? forward[s] : backward[s], arrived, done);
      if (sends) b.batch(s, is_forward ? kSendUp : kSendDown, {{true, is_forward ? up[s] : down[s - 1]}}, done);
    };
    const std::uint32_t warm = std::min(p - 1 - s, m);
    for (std::uint32_t i = 0; i < warm; ++i) step(true);
    for (std::uint32_t i = warm; i < m; ++i) {
      step(true);
      step(false);
    }
    for (std::uint32_t i = 0; i < warm; ++i) step(false);
  }
  return b;
}

std::vector<SimTime> every(std::size_t n, SimTime t) { return std::vector<SimTime>(n, t); }

}  // namespace

TEST_CASE("1F1B takes its closed form on the engine") {
  struct Case {
    const char* id;
    std::uint32_t m;
    std::vector<SimTime> forward, backward;
    SimTime c;
    SimTime expected;
  };
  const Case cases[] = {
      {"pipe.1f1b.makespan", 32, every(8, 1000), every(8, 2000), 0, 117'000},        // (m+p−1)(F+B)
      {"pipe.1f1b.p2p_exposed", 32, every(8, 1000), every(8, 2000), 50, 120'400},    // + 2c((p−1)m/p + p−2)
      {"pipe.1f1b.uneven_last", 8, {1000, 1000, 1000, 1500}, {2000, 2000, 2000, 3000}, 0, 45'000},  // m·max(F+B) + the others
  };
  for (const Case& c : cases) {
    INFO("check " << c.id);
    CHECK(one_f_one_b(c.m, c.forward, c.backward, c.c).result().end == c.expected);
  }
}

TEST_CASE("check pipe.1f1b.bubble_ratio: every stage waits for its peers (p-1)/m of the ideal time") {
  const Result r = one_f_one_b(32, every(8, 1000), every(8, 2000), 0).result();
  for (const RankResult& rank : r.ranks) {
    CHECK(static_cast<double>(rank.account_ps[kWaitsForPeer]) / (32.0 * 3000) == Approx(0.21875).epsilon(1e-9));
    CHECK(rank.account_ps[2] == 32 * 3000);
  }
}

TEST_CASE("1F1B in closed form for every p up to 8 and m up to 16") {
  for (std::uint32_t p = 1; p <= 8; ++p) {
    for (std::uint32_t m = p; m <= 16; ++m) {
      CAPTURE(p, m);
      CHECK(one_f_one_b(m, every(p, 1000), every(p, 2000), 0).result().end == (m + p - 1) * 3000);
    }
  }
}

TEST_CASE("check fsdp.exposed: gathers prefetched by one expose AG_0 + Σ max(0, AG_i − compute_{i−1}) = 17.5 ms") {
  const SimTime gather = 2'000'000'000, compute = 1'500'000'000;
  Built b(1);
  const std::uint32_t g = b.group({0}, {}, {transfer(gather, 0, 0, 5)});
  std::vector<std::uint32_t> computed;
  for (int layer = 0; layer < 32; ++layer) {
    const std::uint32_t gathered = b.event(0);
    b.collective(0, 1, g, 0, layer >= 2 ? computed[static_cast<std::size_t>(layer) - 2] : kNone, gathered);  // during the layer before
    computed.push_back(b.event(0));
    b.segment(0, compute, gathered, computed.back());
  }
  const Result r = b.result();
  CHECK(r.ranks[0].account_ps[5] == 17'500'000'000);
  CHECK(r.end == 17'500'000'000 + 32 * compute);
}
