#pragma once
// Inputs written by hand: one program per rank unless told otherwise, the host issuing everything at time 0 for nothing.
#include <map>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "catch.h"
#include "orrery/engine/input.hpp"
#include "orrery/engine/run.hpp"

namespace orrery::engine::testing {

inline constexpr std::int64_t kUnit = std::int64_t{1} << kWeightBits;  // weight 1

/// Durations by (program, segment); a mode takes `percent_slower` per held SM.
struct Times : SegmentTimes {
  std::map<std::pair<std::uint32_t, std::uint32_t>, SimTime> base;
  SimTime percent_per_sm = 0;
  mutable std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::int32_t, std::int64_t>, int> asked;
  SimTime duration(std::uint32_t p, std::uint32_t s, std::uint32_t v, std::int32_t sms, std::int64_t hbm) const override {
    ++asked[{p, s, v, sms, hbm}];
    const SimTime d = base.at({p, s}) * (v + 1);  // variant v is v+1 times as slow
    return d + d * percent_per_sm * sms / 100;
  }
};

struct Built {
  Input in;
  Times times;

  explicit Built(std::uint32_t ranks, std::uint32_t streams = 3) {
    in.accounts = 8;
    in.memory_kinds = 2;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      in.programs.emplace_back().streams.resize(streams);
      in.ranks.push_back({r, 0, {}, {}, 1, r});
    }
  }
  std::uint32_t resource(std::int64_t capacity, bool passive = false) {
    in.resources.push_back({capacity, 1, passive});
    return static_cast<std::uint32_t>(in.resources.size() - 1);
  }
  UsageRange usage(const std::vector<std::pair<std::uint32_t, std::int64_t>>& weights) {
    const auto begin = static_cast<std::uint32_t>(in.usages.size());
    for (const auto& [r, w] : weights) in.usages.push_back({r, w});
    return {begin, static_cast<std::uint32_t>(in.usages.size())};
  }
  /// A group of one transfer per call of `transfers`; slot number per member is its order of groups.
  std::uint32_t group(std::vector<std::uint32_t> members, UsageRange usages, const std::vector<Transfer>& transfers) {
    const auto g = static_cast<std::uint32_t>(in.groups.size());
    for (const std::uint32_t r : members) in.ranks[r].groups.push_back(g);
    in.groups.push_back({std::move(members), {usages}, static_cast<std::uint32_t>(in.transfers.size()), 0, 1});
    in.transfers.insert(in.transfers.end(), transfers.begin(), transfers.end());
    return g;
  }
  std::uint32_t channel(std::uint32_t from, std::uint32_t to, UsageRange usages, const std::vector<Transfer>& transfers) {
    const auto c = static_cast<std::uint32_t>(in.channels.size());
    in.ranks[from].channels.push_back(c);
    if (to != from) in.ranks[to].channels.push_back(c);
    in.channels.push_back({from, to, usages, static_cast<std::uint32_t>(in.transfers.size()), 0, 1});
    in.transfers.insert(in.transfers.end(), transfers.begin(), transfers.end());
    return c;
  }
  std::uint32_t event(std::uint32_t rank) { return in.programs[rank].events++; }

  /// Appends a device instruction and the host's issue of it.
  void put(std::uint32_t rank, std::uint8_t stream, Instruction i, SimTime cost = 0, SimTime lead = 0) {
    in.programs[rank].streams[stream].push_back(i);
    host(rank, {HostOp::kIssue, stream, 0, 1, kNone, cost, lead, 0});
  }
  void host(std::uint32_t rank, HostInstruction h) { in.programs[rank].host.push_back(h); }
  void segment(std::uint32_t rank, SimTime duration, std::uint32_t wait = kNone, std::uint32_t record = kNone, std::uint8_t stream = 0, SimTime wave = 0,
               SimTime cost = 0, SimTime lead = 0) {
    Program& p = in.programs[rank];
    const auto s = static_cast<std::uint32_t>(p.segments.size());
    p.segments.push_back({2, wave});
    times.base[{rank, s}] = duration;
    put(rank, stream, {Op::kSegment, s, wait, record}, cost, lead);
  }
  void collective(std::uint32_t rank, std::uint8_t stream, std::uint32_t group, std::uint32_t transfer, std::uint32_t wait = kNone,
                  std::uint32_t record = kNone) {
    Program& p = in.programs[rank];
    p.collectives.push_back({slot(in.ranks[rank].groups, group), transfer});
    put(rank, stream, {Op::kCollective, static_cast<std::uint32_t>(p.collectives.size() - 1), wait, record});
  }
  struct End {
    bool send;
    std::uint32_t channel, transfer = 0;
  };
  void batch(std::uint32_t rank, std::uint8_t stream, const std::vector<End>& ends, std::uint32_t wait = kNone, std::uint32_t record = kNone) {
    Program& p = in.programs[rank];
    std::vector<PointToPoint>& members = p.batches.emplace_back();
    for (const End& e : ends) members.push_back({e.send, slot(in.ranks[rank].channels, e.channel), e.transfer});
    put(rank, stream, {Op::kBatch, static_cast<std::uint32_t>(p.batches.size() - 1), wait, record});
  }
  static std::uint32_t slot(const std::vector<std::uint32_t>& slots, std::uint32_t id) {
    for (std::uint32_t i = 0; i < slots.size(); ++i) {
      if (slots[i] == id) return i;
    }
    FAIL("the rank does not have it");
    return 0;
  }

  std::variant<Result, Stuck, TooManyEvents, TooLong> play(const Options& options = {}) const {
    const std::vector<std::string> problems = check(in);
    for (const std::string& p : problems) FAIL_CHECK(p);
    REQUIRE(problems.empty());
    return run(in, times, options);
  }
  Result result(const Options& options = {}) const {
    auto out = play(options);
    if (const Stuck* stuck = std::get_if<Stuck>(&out)) {
      for (const std::string& line : stuck->waits) UNSCOPED_INFO(line);
    }
    REQUIRE(std::holds_alternative<Result>(out));
    return std::get<Result>(std::move(out));
  }
};

inline bool same(const Result& a, const Result& b) {
  if (a.end != b.end || a.ranks.size() != b.ranks.size()) return false;
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    if (a.ranks[r].account_ps != b.ranks[r].account_ps || a.ranks[r].finish != b.ranks[r].finish || a.ranks[r].peak_at != b.ranks[r].peak_at) return false;
  }
  return true;
}

/// A transfer of `work` at `cap` after `latency`.
inline Transfer transfer(SimTime latency, std::int64_t cap, int128 work, std::uint32_t account = 3, std::int32_t sms = 0, std::int64_t hbm = 0) {
  return {latency, cap, work, 0, account, 1000, sms, hbm};
}

}  // namespace orrery::engine::testing
