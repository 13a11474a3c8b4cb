// One training step of a 3D-parallel job on the engine alone: 16 stages, TP 8, as many replicas as asked for, 1F1B, blocking TP
// collectives, pipeline hops over NICs and a bucketed gradient reduction. Prints what a run costs.
//   engine_step [replicas = 16] [microbatches = 75]        ranks = 128 x replicas, about 67 instructions per rank and microbatch
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <variant>

#include "orrery/engine/run.hpp"

namespace {

using namespace orrery;
using namespace orrery::engine;

constexpr std::uint32_t kStages = 16, kTensor = 8, kLayers = 8, kBuckets = 8;
constexpr std::int64_t kWeightOne = std::int64_t{1} << kWeightBits;
constexpr std::int64_t kNic = std::int64_t{1} << 36, kLink = std::int64_t{1} << 39;

struct Times : SegmentTimes {
  SimTime duration(std::uint32_t, std::uint32_t segment, std::uint32_t, std::int32_t sms, std::int64_t) const override {
    return SimTime{segment == 0 ? 500'000'000 : 1'000'000'000} * (132 + sms) / 132;
  }
};

enum Stream : std::uint8_t { kCompute, kTp, kSendUp, kReceiveUp, kSendDown, kReceiveDown, kDp, kStreams };

Program stage_program(std::uint32_t s, std::uint32_t m) {
  Program p;
  p.streams.resize(kStreams);
  p.segments = {{2, 10'000'000}, {3, 10'000'000}};
  p.collectives = {{0, 0}};
  for (std::uint32_t b = 0; b < kBuckets; ++b) p.collectives.push_back({1, 0});
  std::uint32_t slots = 0;
  const std::uint32_t up_in = s > 0 ? slots++ : kNone, up_out = s + 1 < kStages ? slots++ : kNone;
  const std::uint32_t down_in = s + 1 < kStages ? slots++ : kNone, down_out = s > 0 ? slots++ : kNone;
  const auto put = [&](Stream stream, Instruction i) {
    p.streams[stream].push_back(i);
    p.host.push_back({HostOp::kIssue, stream, 0, 1, kNone, 4'000'000, 3'000'000, 0});
  };
  const auto hop = [&](Stream stream, bool send, std::uint32_t slot, std::uint32_t wait, std::uint32_t record) {
    p.batches.push_back({{send, slot, 0}});
    put(stream, {Op::kBatch, static_cast<std::uint32_t>(p.batches.size() - 1), wait, record});
  };
  const auto step = [&](bool forward) {
    const std::uint32_t in = forward ? up_in : down_in, out = forward ? up_out : down_out;
    std::uint32_t ready = kNone;
    if (in != kNone) hop(forward ? kReceiveUp : kReceiveDown, false, in, kNone, ready = p.events++);
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      p.host.push_back({HostOp::kAllocate, 0, 0, 1, kNone, 1'000'000, 0, 1 << 20});
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t computed = p.events++;
        put(kCompute, {Op::kSegment, forward ? 0U : 1U, ready, computed});
        put(kTp, {Op::kCollective, 0, computed, ready = p.events++});
      }
    }
    if (out != kNone) hop(forward ? kSendUp : kSendDown, true, out, ready, kNone);
    return ready;
  };
  std::uint32_t last = kNone;
  const std::uint32_t warm = std::min(kStages - 1 - s, m);
  for (std::uint32_t i = 0; i < warm; ++i) step(true);
  for (std::uint32_t i = warm; i < m; ++i) {
    step(true);
    last = step(false);
  }
  for (std::uint32_t i = 0; i < warm; ++i) last = step(false);
  for (std::uint32_t b = 0; b < kBuckets; ++b) put(kDp, {Op::kCollective, 1 + b, b == 0 ? last : kNone, kNone});
  return p;
}

Input job(std::uint32_t replicas, std::uint32_t m) {
  Input in;
  in.accounts = 8;
  in.memory_kinds = 1;
  for (std::uint32_t s = 0; s < kStages; ++s) in.programs.push_back(stage_program(s, m));
  const auto rank = [&](std::uint32_t d, std::uint32_t s, std::uint32_t t) { return (d * kStages + s) * kTensor + t; };
  const std::uint32_t ranks = replicas * kStages * kTensor;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    in.ranks.push_back({r / kTensor % kStages, 0, {}, {}, 1, r});
    for (const bool passive : {true, false}) in.resources.insert(in.resources.end(), 2, {passive ? kLink : kNic, 1, passive});  // NVLink, NIC; out, in
  }
  in.transfers = {{5'000'000, kLink / 2, int128{kLink} * 50'000'000, 0, 4, 1 << 24, 16, kLink},
                  {20'000'000, kNic, int128{kNic} * 300'000'000, 0, 5, 1 << 24, 2, kNic},
                  {40'000'000, kNic, int128{kNic} * 20'000'000'000, 0, 6, 1 << 28, 16, kNic}};
  const auto ring = [&](const std::vector<std::uint32_t>& members, std::uint32_t port, std::uint32_t transfer) {
    const auto begin = static_cast<std::uint32_t>(in.usages.size());
    for (const std::uint32_t r : members) {
      in.usages.push_back({4 * r + port, kWeightOne});
      in.usages.push_back({4 * r + port + 1, kWeightOne});
      in.ranks[r].groups.push_back(static_cast<std::uint32_t>(in.groups.size()));
    }
    in.groups.push_back({members, {{begin, static_cast<std::uint32_t>(in.usages.size())}}, transfer, 0, 1});
  };
  std::vector<std::uint32_t> members;
  for (std::uint32_t d = 0; d < replicas; ++d) {
    for (std::uint32_t s = 0; s < kStages; ++s) {
      members.clear();
      for (std::uint32_t t = 0; t < kTensor; ++t) members.push_back(rank(d, s, t));
      ring(members, 0, 0);
    }
  }
  for (std::uint32_t s = 0; s < kStages; ++s) {
    for (std::uint32_t t = 0; t < kTensor; ++t) {
      members.clear();
      for (std::uint32_t d = 0; d < replicas; ++d) members.push_back(rank(d, s, t));
      ring(members, 2, 2);
    }
  }
  const auto channel = [&](std::uint32_t from, std::uint32_t to) {
    const auto begin = static_cast<std::uint32_t>(in.usages.size());
    in.usages.push_back({4 * from + 2, kWeightOne});
    in.usages.push_back({4 * to + 3, kWeightOne});
    in.channels.push_back({from, to, {begin, begin + 2}, 1, 0, 1});
    return static_cast<std::uint32_t>(in.channels.size() - 1);
  };
  for (std::uint32_t d = 0; d < replicas; ++d) {
    for (std::uint32_t t = 0; t < kTensor; ++t) {
      std::vector<std::uint32_t> up, down;
      for (std::uint32_t s = 0; s + 1 < kStages; ++s) {
        up.push_back(channel(rank(d, s, t), rank(d, s + 1, t)));
        down.push_back(channel(rank(d, s + 1, t), rank(d, s, t)));
      }
      for (std::uint32_t s = 0; s < kStages; ++s) {  // slots as stage_program numbers them
        std::vector<std::uint32_t>& slots = in.ranks[rank(d, s, t)].channels;
        if (s > 0) slots.push_back(up[s - 1]);
        if (s + 1 < kStages) slots.insert(slots.end(), {up[s], down[s]});
        if (s > 0) slots.push_back(down[s - 1]);
      }
    }
  }
  return in;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  const auto replicas = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 16);
  const auto m = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 75);
  const Input in = job(replicas, m);
  std::int64_t instructions = 0;
  for (const Rank& r : in.ranks) {
    for (const auto& stream : in.programs[r.program].streams) instructions += static_cast<std::int64_t>(stream.size());
  }
  auto start = std::chrono::steady_clock::now();
  for (const std::string& p : check(in)) std::printf("%s\n", p.c_str());
  const double checking = seconds_since(start);
  start = std::chrono::steady_clock::now();
  const auto out = run(in, Times());
  const double running = seconds_since(start);
  const Result* result = std::get_if<Result>(&out);
  if (result == nullptr) return 1;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%zu ranks, %.2f M instructions, %.2f M events, step %.6f s\n", in.ranks.size(), static_cast<double>(instructions) * 1e-6,
              static_cast<double>(result->events) * 1e-6, static_cast<double>(result->end) * 1e-12);
  std::printf("check %.2f s, run %.2f s: %.2f M events/s, %.2f M instructions/s, peak memory %.2f GiB\n", checking, running,
              static_cast<double>(result->events) * 1e-6 / running, static_cast<double>(instructions) * 1e-6 / running,
              static_cast<double>(usage.ru_maxrss) / (1 << 20));
  return 0;
}
