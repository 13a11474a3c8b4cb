#pragma once
// A program on the engine in unit times: a chunk's forward pass takes 1 unit, its whole backward pass 2, the halves of it 1 each, messages
// and everything else nothing. What remains is the schedule.
#include <algorithm>
#include <array>
#include <string_view>
#include <variant>
#include <vector>

#include "catch.h"
#include "orrery/engine/run.hpp"
#include "orrery/program/build.hpp"

namespace orrery::test {

inline constexpr SimTime kUnit = 12'000;  ///< ps; divides by the layers of a chunk

/// Of the decoder layers' first kernels, so that a pass of `layers` of them takes its units.
class UnitTimes : public engine::SegmentTimes {
 public:
  UnitTimes(const program::Program& program, std::int64_t layers) : program_(program), layer_(kUnit / layers) {}
  SimTime duration(std::uint32_t role, std::uint32_t segment, std::uint32_t, std::int32_t, std::int64_t) const override {
    const std::string& name = program_.roles[role].segments[segment].name;
    if (name == "decoder forward 0" || name == "decoder input gradients 0" || name == "decoder weight gradients 0") return layer_;
    return name == "decoder backward 0" ? 2 * layer_ : 0;
  }

 private:
  const program::Program& program_;
  SimTime layer_;
};

/// One rank per stage; every group of stages is one group of the engine.
inline engine::Input unit_input(const program::Program& program) {
  engine::Input in;
  in.accounts = 3;
  in.memory_kinds = program::kMemoryKinds;
  in.run_ahead = 1U << 30;
  in.transfers.push_back({});
  const auto stages = static_cast<std::uint32_t>(program.stages());
  std::vector<std::array<std::uint32_t, program::kSlots>> channel(stages);
  for (std::uint32_t s = 0; s < stages; ++s) {
    for (std::uint8_t slot = 0; slot < program::kSlots; slot += 2) {
      const auto out = static_cast<program::Slot>(slot);
      const std::uint32_t to = (s + (program::meets_next(out) ? 1 : stages - 1)) % stages;
      channel[s][slot] = channel[to][slot + 1U] = static_cast<std::uint32_t>(in.channels.size());
      engine::Channel c;
      c.sender = s;
      c.receiver = to;
      in.channels.push_back(c);
    }
  }
  engine::Group world, mirror;
  world.usage_sets = mirror.usage_sets = {engine::UsageRange{}};
  for (std::uint32_t s = 0; s < stages; ++s) world.members.push_back(s);
  in.groups.push_back(world);
  for (std::uint32_t s = 0; s < stages / 2; ++s) {
    mirror.members = {s, stages - 1 - s};
    in.groups.push_back(mirror);
  }
  for (std::uint32_t s = 0; s < stages; ++s) {
    const program::Role& role = program.roles[s];
    engine::Program out;
    out.events = role.events;
    out.streams.resize(program::kStreams);
    for (std::size_t i = 0; i < role.segments.size(); ++i) out.segments.push_back({2, 0});
    for (const auto& batch : role.batches) {
      std::vector<engine::PointToPoint>& members = out.batches.emplace_back();
      for (const program::PointToPoint& m : batch) members.push_back({m.send(), static_cast<std::uint32_t>(m.slot), 0});
    }
    out.collectives = {{0, 0}, {1, 0}};
    for (const program::Item& item : role.items) {
      engine::HostInstruction host;
      host.stream = static_cast<std::uint8_t>(item.stream);
      host.memory_kind = static_cast<std::uint8_t>(item.memory);
      host.bytes = item.bytes;
      engine::Instruction device{engine::Op::kWait, item.index, item.wait == program::kNoEvent ? engine::kNone : item.wait,
                                 item.record == program::kNoEvent ? engine::kNone : item.record};
      bool on_device = true;
      switch (item.kind) {
        case program::ItemKind::kSegment: device.op = engine::Op::kSegment; break;
        case program::ItemKind::kBatch: device.op = engine::Op::kBatch; break;
        case program::ItemKind::kCollective:
          if (stages > 1) {
            device.op = engine::Op::kCollective;
            device.index = program.requests[item.index].axis == workload::Axis::kMirror ? 1 : 0;
          }
          break;
        case program::ItemKind::kWait: break;
        case program::ItemKind::kAllocate: host.op = engine::HostOp::kAllocate; on_device = false; break;
        case program::ItemKind::kFree: host.op = engine::HostOp::kFree; on_device = false; break;
        case program::ItemKind::kHostWork: host.op = engine::HostOp::kWork; on_device = false; break;
        case program::ItemKind::kHostSync:
          host.op = engine::HostOp::kSync;
          host.event = item.wait;
          on_device = false;
          break;
      }
      if (!on_device) host.launches = 0;
      out.host.push_back(host);
      if (on_device) out.streams[host.stream].push_back(device);
    }
    in.programs.push_back(std::move(out));
    engine::Rank rank;
    rank.program = s;
    rank.lowest = s;
    rank.groups = {0};
    if (stages > 1) rank.groups.push_back(1 + std::min(s, stages - 1 - s));
    rank.channels.assign(channel[s].begin(), channel[s].end());
    in.ranks.push_back(rank);
  }
  if (stages % 2 != 0) {  // the middle stage has no mirror: its second slot is the first one's
    in.ranks[stages / 2].groups.resize(1);
    in.programs[stages / 2].collectives.resize(1);
  }
  return in;
}

inline engine::Result unit_play(const program::Program& program, std::int64_t layers) {
  const engine::Input in = unit_input(program);
  const auto broken = engine::check(in);
  INFO((broken.empty() ? std::string() : broken.front()));
  REQUIRE(broken.empty());
  auto played = engine::run(in, UnitTimes(program, layers));
  if (const auto* stuck = std::get_if<engine::Stuck>(&played)) FAIL(stuck->waits.front());
  REQUIRE(std::holds_alternative<engine::Result>(played));
  return std::get<engine::Result>(std::move(played));
}

}  // namespace orrery::test
