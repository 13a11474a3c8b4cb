// The hold model: so many events are pending; the earliest is taken out and one is put in, later by a random time (Jones, "An empirical
// comparison of priority-queue and event-set implementations", CACM 29(4), 1986). Three things in one run: a bare std::priority_queue of
// 24-byte events, the engine's queue with a dispatch on the kind, and the engine itself, whose ranks run one segment after another.
#include <benchmark/benchmark.h>

#include <queue>
#include <variant>
#include <vector>

#include "engine/event_queue.hpp"
#include "orrery/engine/run.hpp"

namespace orrery {
namespace {

/// A cheap stream of random increments, 1 … 2^20 ps.
class Increments {
 public:
  SimTime next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<SimTime>(state_ & 0xfffff) + 1;
  }

 private:
  std::uint64_t state_ = 88172645463325252ULL;  // xorshift64: Marsaglia, J. Stat. Soft. 8(14), 2003
};

struct Later {
  bool operator()(const engine::Event& a, const engine::Event& b) const { return engine::before(b, a); }
};

void priority_queue_hold(benchmark::State& state) {
  Increments increments;
  std::priority_queue<engine::Event, std::vector<engine::Event>, Later> queue;
  std::uint64_t sequence = 0;
  for (std::int64_t i = 0; i < state.range(0); ++i) queue.push({increments.next(), ++sequence, engine::EventKind::kSegmentEnd, 0});
  for (auto _ : state) {
    engine::Event event = queue.top();
    queue.pop();
    event.at += increments.next();
    event.order = ++sequence;
    queue.push(event);
  }
  state.SetItemsProcessed(state.iterations());
}

void engine_queue_hold(benchmark::State& state) {
  Increments increments;
  engine::EventQueue queue;
  queue.reserve(static_cast<std::size_t>(state.range(0)));
  std::uint64_t sequence = 0;
  std::vector<std::int64_t> dealt_with(6, 0);
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    queue.push({increments.next(), ++sequence, static_cast<engine::EventKind>(i % 6), static_cast<std::uint32_t>(i % 6)});
  }
  for (auto _ : state) {
    engine::Event event = queue.pop();
    switch (event.kind) {
      case engine::EventKind::kSegmentEnd: ++dealt_with[0]; break;
      case engine::EventKind::kTransferEnd: ++dealt_with[1]; break;
      case engine::EventKind::kIssued: ++dealt_with[2]; break;
      case engine::EventKind::kHostStands: ++dealt_with[3]; break;
      case engine::EventKind::kLaunch: ++dealt_with[4]; break;
      case engine::EventKind::kFlow: ++dealt_with[5]; break;
    }
    event.at += increments.next();
    event.order = ++sequence;
    queue.push(event);
  }
  benchmark::DoNotOptimize(dealt_with.data());
  state.SetItemsProcessed(state.iterations());
}

constexpr std::uint32_t kVariants = 1024;

/// As random as the increments above, and pure.
class RandomTimes final : public engine::SegmentTimes {
 public:
  SimTime duration(std::uint32_t, std::uint32_t segment, std::uint32_t variant, std::int32_t, std::int64_t) const override {
    std::uint64_t x = (std::uint64_t{segment} << 32 | variant) * 0x9e3779b97f4a7c15ULL;
    x ^= x >> 29;
    return static_cast<SimTime>((x * 0xbf58476d1ce4e5b9ULL) >> 44) + 1;
  }
};

/// Ranks of one program: a chain of segments. One timed event is pending for each rank; an item is one segment, run from start to end,
/// which is several events for the engine (counter "events").
void engine_run_hold(benchmark::State& state) {
  const auto ranks = static_cast<std::uint32_t>(state.range(0));
  const std::uint32_t segments = ranks >= 1'000'000 ? 8 : 100;
  engine::Input in;
  in.programs.resize(1);
  engine::Program& program = in.programs[0];
  program.streams.resize(1);
  for (std::uint32_t s = 0; s < segments; ++s) {
    program.segments.push_back({0, 0});
    program.streams[0].push_back({engine::Op::kSegment, s, engine::kNone, engine::kNone});
    program.host.push_back({engine::HostOp::kIssue, 0, 0, 1, engine::kNone, 0, 0, 0});
  }
  in.ranks.resize(ranks);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    in.ranks[r].lowest = r;
    in.ranks[r].variant = r % kVariants;
  }
  const RandomTimes times;
  std::int64_t events = 0;
  for (auto _ : state) events += std::get<engine::Result>(engine::run(in, times)).events;
  state.SetItemsProcessed(state.iterations() * ranks * segments);
  state.counters["events"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
}

BENCHMARK(priority_queue_hold)->Arg(100)->Arg(10'000)->Arg(1'000'000)->MinTime(1);
BENCHMARK(engine_queue_hold)->Arg(100)->Arg(10'000)->Arg(1'000'000)->MinTime(1);
BENCHMARK(engine_run_hold)->Arg(100)->Arg(10'000)->Arg(1'000'000)->MinTime(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery

BENCHMARK_MAIN();
