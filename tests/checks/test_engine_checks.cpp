// Small steps whose end can be written down, played by the engine.
#include "catch.h"
#include "orrery/engine/maxmin.hpp"
#include "orrery/engine/run.hpp"

using namespace orrery;
using namespace orrery::engine;

namespace {

/// Every segment takes the same time in every mode.
class Constant : public SegmentTimes {
 public:
  explicit Constant(SimTime each) : each_(each) {}
  SimTime duration(std::uint32_t, std::uint32_t, std::uint32_t, std::int32_t, std::int64_t) const override { return each_; }

 private:
  SimTime each_;
};

Result play(const Input& input, SimTime segment) {
  REQUIRE(check(input).empty());
  auto played = run(input, Constant(segment));
  REQUIRE(std::holds_alternative<Result>(played));
  return std::move(std::get<Result>(played));
}

HostInstruction issue(std::uint8_t stream, SimTime cost) {
  HostInstruction h;
  h.stream = stream;
  h.cost = cost;
  return h;
}

Input one_rank(Program program) {
  Input input;
  input.accounts = 4;
  input.programs.push_back(std::move(program));
  input.ranks.push_back({});
  return input;
}

constexpr SimTime kMillisecond = 1'000'000'000, kMicrosecond = 1'000'000;

}  // namespace

TEST_CASE("60 kernels a layer, 32 layers, 5 us a launch: the host needs 9.6 ms where the GPU needs 8") {
  INFO("sw.launch_bound");
  constexpr int kKernels = 60 * 32;
  Program p;
  p.streams.resize(1);
  p.segments.push_back({2, 0});
  for (int i = 0; i < kKernels; ++i) {
    p.streams[0].push_back({Op::kSegment, 0});
    p.host.push_back(issue(0, 5 * kMicrosecond));
  }
  const Result r = play(one_rank(p), 8 * kMillisecond / kKernels);
  CHECK(to_seconds(r.end).value() * 1e3 == Approx(9.6).epsilon(1e-9));
  // The other side of the maximum: with 3 us a launch the GPU is what is waited for, after the first launch.
  for (HostInstruction& h : p.host) h.cost = 3 * kMicrosecond;
  CHECK(to_seconds(play(one_rank(p), 8 * kMillisecond / kKernels).end).value() * 1e3 == Approx(8).epsilon(1e-3));
}

TEST_CASE("a forward pass gathers ahead: exposed are the first gather and what each later one takes longer than the layer before it") {
  INFO("fsdp.exposed");
  constexpr int kLayers = 32;
  Program p;
  p.streams.resize(2);
  p.segments.push_back({2, 0});
  p.collectives.push_back({0, 0});
  p.events = kLayers;
  for (std::uint32_t i = 0; i < kLayers; ++i) {
    p.streams[1].push_back({Op::kCollective, 0, kNone, i});
    p.host.push_back(issue(1, 0));
    p.streams[0].push_back({Op::kSegment, 0, i, kNone});
    p.host.push_back(issue(0, 0));
  }
  Input input = one_rank(p);
  Transfer gather;
  gather.latency = 2 * kMillisecond;
  gather.account = 3;
  input.transfers.push_back(gather);
  Group alone;
  alone.members = {0};
  alone.usage_sets.push_back({});
  input.groups.push_back(alone);
  input.ranks[0].groups = {0};
  const Result r = play(input, kMillisecond * 3 / 2);
  CHECK(to_seconds(r.ranks[0].account_ps[3]).value() * 1e3 == Approx(17.5).epsilon(1e-9));
  CHECK(r.end == kLayers * (kMillisecond * 3 / 2) + r.ranks[0].account_ps[3]);
}

TEST_CASE("a product and its collective in four pieces take the longer one and a quarter of the shorter") {
  INFO("overlap.tp_pipelined");
  constexpr std::uint32_t kPieces = 4;
  const SimTime product = kMillisecond, collective = kMillisecond * 6 / 10;
  for (const bool gather : {true, false}) {
    for (const bool swapped : {false, true}) {
      Program p;
      p.streams.resize(2);
      p.segments.push_back({2, 0});
      p.collectives.push_back({0, 0});
      p.events = kPieces;
      for (std::uint32_t i = 0; i < kPieces; ++i) {
        // A gather brings what the product reads; a scatter sends what it made.
        p.streams[1].push_back({Op::kCollective, 0, gather ? kNone : i, gather ? i : kNone});
        p.streams[0].push_back({Op::kSegment, 0, gather ? i : kNone, gather ? kNone : i});
        p.host.push_back(issue(gather ? 1 : 0, 0));
        p.host.push_back(issue(gather ? 0 : 1, 0));
      }
      Input input = one_rank(p);
      Transfer transfer;
      transfer.latency = (swapped ? product : collective) / kPieces;
      transfer.account = 3;
      input.transfers.push_back(transfer);
      Group alone;
      alone.members = {0};
      alone.usage_sets.push_back({});
      input.groups.push_back(alone);
      input.ranks[0].groups = {0};
      CHECK(play(input, (swapped ? collective : product) / kPieces).end == kMillisecond * 115 / 100);
    }
  }
}

TEST_CASE("progressive filling of four flows on three links: 5, 5, 2, 2") {
  INFO("net.maxmin.example");
  constexpr std::int64_t kUnit = 1 << 20, kOne = std::int64_t{1} << kWeightBits;
  const std::vector<std::int64_t> capacities = {10 * kUnit, 8 * kUnit, 4 * kUnit};  // A, B, C
  const std::vector<std::vector<Usage>> crosses = {{{0, kOne}}, {{0, kOne}, {1, kOne}}, {{1, kOne}, {2, kOne}}, {{2, kOne}}};
  const std::vector<std::int64_t> expected = {5 * kUnit, 5 * kUnit, 2 * kUnit, 2 * kUnit};
  std::vector<Flow> flows;
  MaxMin incremental(capacities);
  incremental.reserve(4, 6);
  for (std::uint32_t f = 0; f < 4; ++f) {
    flows.push_back({100 * kUnit, crosses[f]});
    incremental.add(f, 100 * kUnit, crosses[f]);
  }
  incremental.solve();
  CHECK(solve_dense(capacities, flows) == expected);
  for (std::uint32_t f = 0; f < 4; ++f) CHECK(incremental.rate(f) == expected[f]);
}
