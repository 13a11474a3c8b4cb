#include <map>
#include <tuple>

#include "catch.h"
#include "executor.hpp"
#include "plan/schedules/schedules.hpp"

using namespace orrery;
using namespace orrery::plan;
using namespace orrery::plan::testing;

namespace {

constexpr std::int64_t kMostStages = 16, kMostMicrobatches = 32;

template <class Visit>
void every_pipe(Visit visit) {
  for (const ScheduleRow* row : schedules())
    for (std::int64_t stages = row->microbatches_in_rounds ? 2 : 1; stages <= kMostStages; ++stages)
      for (std::int64_t m = 1; m <= kMostMicrobatches; ++m) {
        if (row->microbatches_in_rounds && m % stages != 0) continue;
        for (std::int64_t chunks = row->chunked ? 2 : 1; chunks <= (row->chunked ? 4 : 1); ++chunks) visit(pipe(row->id, stages, chunks), m);
      }
}

}  // namespace

TEST_CASE("the registry names every schedule once") {
  std::map<std::string_view, int> names;
  for (const ScheduleRow* row : schedules()) {
    ++names[row->name];
    CHECK(&row_of(row->id) == row);
    CHECK(to_string(row->id) == row->name);
  }
  CHECK(names.size() == schedules().size());
}

TEST_CASE("every order list holds every pass of every microbatch and chunk once, forward before backward") {
  every_pipe([](const Parallelism& p, std::int64_t m) {
    for (std::int64_t stage = 0; stage < p.pp; ++stage) {
      const auto order = schedule_order(p, stage, m);
      REQUIRE(order.size() == static_cast<std::size_t>(2 * m * p.vp));
      std::map<std::pair<std::int32_t, std::int32_t>, int> passes;  // 1: forward seen, 2: both
      for (const ScheduleEntry& e : order) {
        REQUIRE((e.microbatch >= 0 && e.microbatch < m && e.chunk >= 0 && e.chunk < p.vp));
        int& seen = passes[{e.microbatch, e.chunk}];
        REQUIRE(seen == (e.pass == Pass::kForward ? 0 : 1));
        ++seen;
      }
      REQUIRE(passes.size() == static_cast<std::size_t>(m * p.vp));
    }
  });
}

TEST_CASE("no order list gets stuck, and on equal stages each ends at its closed form") {
  // In units of one chunk's forward F = 1, B = 2: work m v (F+B), bubble (p-1)(F+B) chunk passes (modelling 8.1).
  every_pipe([](const Parallelism& p, std::int64_t m) {
    const Played played = play(p, m, equal_stages(p.pp, 1, 2));
    REQUIRE_FALSE(played.stuck);
    CAPTURE(to_string(p.schedule), p.pp, p.vp, m);
    CHECK(played.makespan == 3 * m * p.vp + 3 * (p.pp - 1));
    CHECK(closed_form_efficiency(p, m) == Approx(static_cast<double>(played.busy[0]) / static_cast<double>(played.makespan)).epsilon(1e-12));
  });
}

TEST_CASE("activations in flight: GPipe m, 1F1B min(m, p-i), interleaved min(vm, 2(p-i-1) + (v-1)p + 1)") {
  every_pipe([](const Parallelism& p, std::int64_t m) {
    const Played played = play(p, m, equal_stages(p.pp, 1, 2));
    for (std::int64_t i = 0; i < p.pp; ++i) {
      CAPTURE(to_string(p.schedule), p.pp, p.vp, m, i);
      const std::int64_t expected = p.schedule == Schedule::kGpipe  ? m
                                    : p.schedule == Schedule::k1F1B ? std::min(m, p.pp - i)
                                                                    : std::min(p.vp * m, 2 * (p.pp - i - 1) + (p.vp - 1) * p.pp + 1);
      CHECK(played.kept[static_cast<std::size_t>(i)] == expected);
    }
  });
}

TEST_CASE("interleaved 1F1B of 2 stages, 2 chunks and 4 microbatches is Megatron's order") {
  // Warm-up of stage 0: 2(2-0-1) + (2-1)2 = 4 passes; groups of 2 microbatches, chunk-major; backward chunks from the last.
  const auto f = [](int mb, int c) { return ScheduleEntry{Pass::kForward, mb, c}; };
  const auto b = [](int mb, int c) { return ScheduleEntry{Pass::kBackward, mb, c}; };
  const std::vector<ScheduleEntry> first = {f(0, 0), f(1, 0), f(0, 1), f(1, 1), f(2, 0), b(0, 1), f(3, 0), b(1, 1),
                                            f(2, 1), b(0, 0), f(3, 1), b(1, 0), b(2, 1), b(3, 1), b(2, 0), b(3, 0)};
  const std::vector<ScheduleEntry> last = {f(0, 0), f(1, 0), f(0, 1), b(0, 1), f(1, 1), b(1, 1), f(2, 0), b(0, 0),
                                           f(3, 0), b(1, 0), f(2, 1), b(2, 1), f(3, 1), b(3, 1), b(2, 0), b(3, 0)};
  CHECK(schedule_order(pipe(Schedule::kInterleaved1F1B, 2, 2), 0, 4) == first);
  CHECK(schedule_order(pipe(Schedule::kInterleaved1F1B, 2, 2), 1, 4) == last);
}

TEST_CASE("a slow last stage sets the period of 1F1B: m max(F+B) + the other stages' sum") {
  for (std::int64_t p = 2; p <= kMostStages; ++p)
    for (std::int64_t m = p; m <= kMostMicrobatches; ++m) {
      PassTimes times = equal_stages(p, 2, 4);
      times.forward.back() = 3;
      times.backward.back() = 6;
      CAPTURE(p, m);
      CHECK(play(pipe(Schedule::k1F1B, p), m, times).makespan == m * 9 + (p - 1) * 6);
    }
}
