// Properties over random inputs. Seeds are printed where one fails.
#include <algorithm>

#include "interpreter.hpp"
#include "random_input.hpp"

using namespace orrery;
using namespace orrery::engine;
using namespace orrery::engine::testing;

namespace {

void compare(const Result& a, const Result& b) {
  REQUIRE(a.end == b.end);
  REQUIRE(a.segment_ps == b.segment_ps);
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    CAPTURE(r);
    REQUIRE(a.ranks[r].finish == b.ranks[r].finish);
    REQUIRE(a.ranks[r].account_ps == b.ranks[r].account_ps);
    REQUIRE(a.ranks[r].peak_bytes == b.ranks[r].peak_bytes);
    REQUIRE(a.ranks[r].peak_at == b.ranks[r].peak_at);
    REQUIRE(a.ranks[r].peak_kind_bytes == b.ranks[r].peak_kind_bytes);
  }
  for (std::size_t t = 0; t < a.transfers.size(); ++t) {
    REQUIRE(a.transfers[t].count == b.transfers[t].count);
    REQUIRE((a.transfers[t].time_ps == b.transfers[t].time_ps));
  }
  for (std::size_t l = 0; l < a.resources.size(); ++l) REQUIRE((a.resources[l].load == b.resources[l].load));
}

}  // namespace

TEST_CASE("the engine and a plain interpreter agree on random inputs, to the picosecond") {
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    CAPTURE(seed);
    const Built b = random_input(seed, {}, in_place(static_cast<std::uint32_t>(1 + seed % 6)));
    const Result engine = b.result();
    compare(engine, interpret(b.in, b.times));
  }
}

TEST_CASE("relabelling ranks changes nothing") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    const std::uint32_t ranks = 5;
    std::vector<std::uint32_t> place = {3, 0, 4, 2, 1};
    std::rotate(place.begin(), place.begin() + static_cast<std::ptrdiff_t>(seed % ranks), place.end());
    const Result a = random_input(seed, {}, in_place(ranks)).result(), b = random_input(seed, {}, place).result();
    REQUIRE(a.end == b.end);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      REQUIRE(a.ranks[r].account_ps == b.ranks[place[r]].account_ps);
      REQUIRE(a.ranks[r].finish == b.ranks[place[r]].finish);
      REQUIRE(a.segment_ps[r] == b.segment_ps[place[r]]);
    }
    for (std::size_t l = 0; l < a.resources.size(); ++l) REQUIRE(a.resources[l].peak == b.resources[l].peak);
  }
}

TEST_CASE("scaling all rates by two with zero latencies halves the end, to one ps per event") {
  // Rates are scaled up so that rounding them is below a picosecond; segments are scaled down as their own rates would.
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Knobs slow, fast;
    slow.latencies = fast.latencies = slow.modes = fast.modes = false;
    slow.rate = std::int64_t{1} << 30;
    fast.rate = std::int64_t{1} << 31;
    const auto make = [&](const Knobs& k, SimTime scale) {
      Built b = random_input(seed, k, in_place(4));
      for (auto& [key, d] : b.times.base) d *= scale;
      for (Transfer& t : b.in.transfers) t.work <<= 30;
      return b.result();
    };
    const Result one = make(slow, 2), two = make(fast, 1);
    const SimTime slack = static_cast<SimTime>(one.events + two.events);
    REQUIRE(std::abs(one.end - 2 * two.end) <= slack);
    REQUIRE(one.end >= two.end);
  }
}

TEST_CASE("a run is never shorter than the work of any rank's segments or of any resource") {
  for (std::uint64_t seed = 2000; seed < 2300; ++seed) {
    CAPTURE(seed);
    const Built b = random_input(seed, {}, in_place(4));
    const Result r = b.result();
    for (std::size_t p = 0; p < r.segment_ps.size(); ++p) {
      SimTime compute = 0;
      for (const Instruction& i : b.in.programs[p].streams[0]) {
        if (i.op == Op::kSegment) compute += b.times.base.at({static_cast<std::uint32_t>(p), i.index});
      }
      REQUIRE(r.end >= compute);
    }
    for (std::size_t l = 0; l < b.in.resources.size(); ++l) {
      if (b.in.resources[l].passive) continue;
      REQUIRE(r.resources[l].peak <= b.in.resources[l].capacity);
      int128 work = 0;  // Σ weight x work of what crossed it
      for (std::size_t g = 0; g < b.in.groups.size(); ++g) {
        for (std::uint32_t u = b.in.groups[g].usage_sets[0].begin; u < b.in.groups[g].usage_sets[0].end; ++u) {
          if (b.in.usages[u].resource != l) continue;
          for (std::uint32_t t = b.in.groups[g].first_transfer; t < b.in.groups[g].first_transfer + 3; ++t) {
            work += b.in.transfers[t].work * b.in.usages[u].weight * r.transfers[t].count;
          }
        }
      }
      REQUIRE((int128{r.end} * b.in.resources[l].capacity * kUnit >= work));
    }
  }
}
