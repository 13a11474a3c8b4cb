// Hosts: when issues take effect, run-ahead, synchronisations, memory.
#include "build_input.hpp"

using namespace orrery;
using namespace orrery::engine;
using namespace orrery::engine::testing;

namespace {

HostInstruction allocate(std::int64_t bytes, std::uint8_t kind = 0, SimTime cost = 0) { return {HostOp::kAllocate, 0, kind, 1, kNone, cost, 0, bytes}; }
HostInstruction release(std::int64_t bytes, std::uint8_t kind = 0, SimTime cost = 0) { return {HostOp::kFree, 0, kind, 1, kNone, cost, 0, bytes}; }
HostInstruction work(SimTime cost) { return {HostOp::kWork, 0, 0, 1, kNone, cost, 0, 0}; }
HostInstruction sync(std::uint32_t event, SimTime cost = 0) { return {HostOp::kSync, 0, 0, 1, event, cost, 0, 0}; }

}  // namespace

TEST_CASE("an instruction starts when its issue takes effect: the host's clock before it plus the lead") {
  Built b(1);
  b.host(0, work(30));
  b.segment(0, 5, kNone, kNone, 0, 0, 10, 4);  // issued 30 … 40, may start at 34
  b.segment(0, 5, kNone, kNone, 0, 0, 10, 10); // issued 40 … 50, may start at 50
  const Result r = b.result();
  CHECK(r.end == 55);
  CHECK(r.ranks[0].account_ps[kWaitsForHost] == 34 + 11);
  CHECK(r.ranks[0].account_ps[2] == 10);
}

TEST_CASE("check sw.launch_bound: a step of small kernels takes max(gpu, kernels x t_launch) = 9.6 ms") {
  const std::int64_t kernels = 60 * 32;
  const SimTime launch = 5'000'000, gpu = 8'000'000'000;
  Built b(1);
  // the run ends when the host has passed its list, at 1,920 x 5 us; the last kernel, issued 5 us earlier, is shorter than that
  for (std::int64_t k = 0; k < kernels; ++k) b.segment(0, (k + 1) * gpu / kernels - k * gpu / kernels, kNone, kNone, 0, 0, launch, 0);
  CHECK(b.result().end == 9'600'000'000);
  for (HostInstruction& h : b.in.programs[0].host) h.cost = 1'000'000;  // now the GPU is the bound
  CHECK(b.result().end == 8'000'000'000);
}

TEST_CASE("the run lasts until the host has passed its list, which is host time") {
  Built b(1);
  b.segment(0, 10);
  b.host(0, work(25));
  const Result r = b.result();
  CHECK(r.end == 25);
  CHECK(r.ranks[0].finish == 25);
  CHECK(r.ranks[0].account_ps[2] == 10);
  CHECK(r.ranks[0].account_ps[kWaitsForHost] == 15);
}

TEST_CASE("the host may be run_ahead launches beyond the oldest one that has not started, and no further") {
  // Segments of 100, launches cost 1. With run-ahead 2, segment 0 starts at 0, so 1, 2 and 3 may be issued; the issue of 4 waits for the
  // start of 1 at 100. What follows on the host moves with it.
  const auto peak_at = [](std::uint32_t run_ahead) {
    Built b(1);
    b.in.run_ahead = run_ahead;
    for (int i = 0; i < 5; ++i) b.segment(0, 100, kNone, kNone, 0, 0, 1, 0);
    b.host(0, allocate(8));
    return b.result().ranks[0].peak_at;
  };
  CHECK(peak_at(1000) == 5);
  CHECK(peak_at(3) == 5);
  CHECK(peak_at(2) == 101);
  CHECK(peak_at(1) == 201);
  CHECK(peak_at(0) == 301);  // 4 is issued only when it is the oldest itself: at the start of 3
}

TEST_CASE("a captured graph counts its launches as it says, and one larger than the run-ahead still goes when it is the oldest") {
  Built b(1);
  b.in.run_ahead = 10;
  for (int i = 0; i < 3; ++i) {
    b.segment(0, 100);
    b.in.programs[0].host.back().launches = 50;
  }
  b.host(0, allocate(8));
  const Result r = b.result();
  CHECK(r.end == 300);
  CHECK(r.ranks[0].peak_at == 100);  // the third goes when the second has started
}

TEST_CASE("a host that runs ahead of the device is not set back by it") {
  // The block lifts at 100 but the host's clock is 500 already.
  Built b(1);
  b.in.run_ahead = 0;
  b.segment(0, 100);
  b.host(0, work(500));
  b.segment(0, 10);
  CHECK(b.result().end == 510);
}

TEST_CASE("a synchronisation holds the host until the event is recorded") {
  Built b(1);
  const std::uint32_t e = b.event(0);
  b.segment(0, 100, kNone, e);
  b.host(0, sync(e, 3));
  b.segment(0, 10);
  CHECK(b.result().end == 113);
  Built late(1);  // recorded before the host gets there: no wait
  const std::uint32_t f = late.event(0);
  late.segment(0, 100, kNone, f);
  late.host(0, work(150));
  late.host(0, sync(f, 3));
  late.segment(0, 10);
  CHECK(late.result().end == 163);
}

TEST_CASE("the compute stream waits for the host while a synchronisation starves it") {
  Built b(1);
  const std::uint32_t g = b.group({0}, {}, {transfer(0, 1, 50)});
  const std::uint32_t e = b.event(0);
  b.collective(0, 1, g, 0, kNone, e);
  b.host(0, sync(e));
  b.segment(0, 10);
  const Result r = b.result();
  CHECK(r.ranks[0].account_ps[kWaitsForHost] == 50);
  CHECK(r.ranks[0].account_ps[2] == 10);
}

TEST_CASE("memory peaks are those of the host's order, with the kinds of that moment and the host's time") {
  Built b(1);
  b.host(0, allocate(100, 0, 2));
  b.segment(0, 10, kNone, kNone, 0, 0, 5, 0);
  b.host(0, allocate(50, 1, 3));
  b.host(0, allocate(7, 1, 3));   // 157 at 2 + 5 + 3 = 10
  b.host(0, release(60, 0, 1));
  b.host(0, allocate(60, 1, 1));  // 157 again: the first counts
  const Result r = b.result();
  CHECK(r.ranks[0].peak_bytes == 157);
  CHECK(r.ranks[0].peak_at == 10);
  CHECK(r.ranks[0].peak_kind_bytes == std::vector<std::int64_t>{100, 57});
}

TEST_CASE("a sink hears of memory by kind and of what ran, for the ranks it wants") {
  struct Tape : Sink {
    std::vector<std::array<std::int64_t, 4>> memories;
    std::vector<std::array<std::int64_t, 6>> runs;
    bool wants(std::uint32_t rank) const override { return rank == 1; }
    void ran(std::uint32_t r, std::uint32_t s, std::uint32_t i, SimTime launched, SimTime started, SimTime ended) override {
      runs.push_back({r, s, i, launched, started, ended});
    }
    void memory(std::uint32_t r, SimTime at, std::uint32_t kind, std::int64_t bytes) override { memories.push_back({r, at, kind, bytes}); }
  } tape;
  Built b(2);
  const std::uint32_t g = b.group({0, 1}, {}, {transfer(1, 1, 4)});
  b.segment(0, 20, kNone, b.event(0));
  b.collective(0, 1, g, 0, 0);
  b.host(1, allocate(3, 0, 2));
  b.segment(1, 25);
  b.host(1, release(3, 0, 2));
  b.host(1, allocate(5, 1, 2));
  b.collective(1, 1, g, 0);
  b.put(1, 2, {Op::kRecord, 0, kNone, b.event(1)});
  Options options;
  options.sink = &tape;
  CHECK(b.result(options).end == 27);
  CHECK(tape.memories == std::vector<std::array<std::int64_t, 4>>{{1, 0, 0, 3}, {1, 2, 0, 0}, {1, 4, 1, 5}});
  CHECK(tape.runs == std::vector<std::array<std::int64_t, 6>>{{1, 1, 0, 6, 20, 25}, {1, 0, 0, 2, 2, 27}});
}
