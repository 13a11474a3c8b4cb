#include "orrery/lower/lower.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "orrery/base/assert.hpp"
#include "segments.hpp"
#include "transfers.hpp"

namespace orrery::lower {
namespace {

using engine::kNone;

constexpr std::uint32_t kComputeAccount = 2, kOptimizerAccount = 3;

/// Seconds that one segment, or the host for a whole step, takes at most: 2^60 ps, so that sums of a few stay in 64 bits.
constexpr double kLongest = 0x1p60 / kPicosecondsPerSecond;

SimTime host_ps(double microseconds) { return to_sim_time(Seconds(microseconds * 1e-6)); }

/// One role: the host's list as it is, device items dealt to their streams.
engine::Program lower_role(std::uint32_t index, const World& world, const Communication& comm, const SegmentPricer& pricer) {
  const program::Role& role = world.program.roles[index];
  const RoleSlots& slots = comm.roles[index];
  engine::Program out;
  out.events = role.events;
  out.streams.resize(program::kStreams);
  out.host.reserve(role.items.size());
  struct Launch {
    SimTime lead = 0, host = 0;
    std::uint32_t launches = 0;
  };
  std::vector<Launch> launch_of;  // by segment
  for (std::uint32_t s = 0; s < role.segments.size(); ++s) {
    engine::Segment segment;
    segment.account = role.segments[s].phase == program::Phase::kOptimizer ? kOptimizerAccount : kComputeAccount;
    segment.wave = to_sim_time(pricer.cost(index, s).wave);
    out.segments.push_back(segment);
    launch_of.push_back({to_sim_time(pricer.lead(index, s)), to_sim_time(pricer.host_time(index, s)), pricer.launches(index, s)});
  }
  for (const auto& batch : role.batches) {
    std::vector<engine::PointToPoint>& members = out.batches.emplace_back();
    for (const program::PointToPoint& m : batch) {
      const auto size = std::find(comm.channel_bytes.begin(), comm.channel_bytes.end(), m.bytes) - comm.channel_bytes.begin();
      members.push_back({m.send(), slots.channel_slot[static_cast<std::size_t>(m.slot)], static_cast<std::uint32_t>(size)});
    }
  }
  const auto collective = [&](const program::Item& item) {
    const std::size_t at = RoleSlots::place(item.index, item.stream);
    const engine::Collective c{slots.group_slot[at], slots.group_transfer[at]};
    const auto same = [&](const engine::Collective& other) { return other.group_slot == c.group_slot && other.transfer == c.transfer; };
    const auto found = std::find_if(out.collectives.begin(), out.collectives.end(), same);
    const auto i = static_cast<std::uint32_t>(found - out.collectives.begin());
    if (found == out.collectives.end()) out.collectives.push_back(c);
    return i;
  };
  double host_us = 0;  // of the item before: most are alike
  SimTime host_cost = 0;
  for (const program::Item& item : role.items) {
    if (item.host_us != host_us) {
      host_us = item.host_us;
      host_cost = host_ps(host_us);
    }
    engine::HostInstruction host;
    host.stream = static_cast<std::uint8_t>(item.stream);
    host.cost = host_cost;
    engine::Instruction device;
    device.wait = item.wait == program::kNoEvent ? kNone : item.wait;
    device.record = item.record == program::kNoEvent ? kNone : item.record;
    switch (item.kind) {
      case program::ItemKind::kAllocate:
      case program::ItemKind::kFree:
        host.op = item.kind == program::ItemKind::kAllocate ? engine::HostOp::kAllocate : engine::HostOp::kFree;
        host.memory_kind = static_cast<std::uint8_t>(item.memory);
        host.bytes = item.bytes;
        host.launches = 0;
        out.host.push_back(host);
        continue;
      case program::ItemKind::kHostWork:
        host.op = engine::HostOp::kWork;
        host.launches = 0;
        out.host.push_back(host);
        continue;
      case program::ItemKind::kHostSync:
        host.op = engine::HostOp::kSync;
        host.event = item.wait;
        host.launches = 0;
        out.host.push_back(host);
        continue;
      case program::ItemKind::kSegment:
        device.op = engine::Op::kSegment;
        device.index = item.index;
        host.launches = launch_of[item.index].launches;
        host.lead = host.cost + launch_of[item.index].lead;
        host.cost += launch_of[item.index].host;
        break;
      case program::ItemKind::kCollective:
        if (comm.request_alone[item.index]) {
          // One member: nothing to do, but its events still order streams.
          if (device.wait == kNone && device.record == kNone) continue;
          device.op = device.wait == kNone ? engine::Op::kRecord : engine::Op::kWait;
          host.launches = 0;
          host.cost = 0;
          break;
        }
        device.op = engine::Op::kCollective;
        device.index = collective(item);
        host.lead = host.cost;
        break;
      case program::ItemKind::kBatch:
        device.op = engine::Op::kBatch;
        device.index = item.index;
        host.lead = host.cost;
        break;
      case program::ItemKind::kWait:
        device.op = device.wait == kNone ? engine::Op::kRecord : engine::Op::kWait;
        host.launches = 0;
        break;
    }
    host.op = engine::HostOp::kIssue;
    out.host.push_back(host);
    out.streams[host.stream].push_back(device);
  }
  return out;
}

/// Staging buffers that NCCL keeps per communicator: each channel holds LL, LL128 and Simple buffers (modelling 5.5, NCCL device.h:
/// 512 KiB + 4.69 MiB + 4 MiB).
std::int64_t nccl_staging(std::uint32_t role, const Communication& comm, const Lowered& out) {
  constexpr std::int64_t kPerChannel = 8 * 512 * 8 * 16 + 120 * 640 * 8 * 8 + 4 * kMiB;
  const auto rank = std::find_if(out.input.ranks.begin(), out.input.ranks.end(), [&](const engine::Rank& r) { return r.program == role; });
  if (rank == out.input.ranks.end()) return 0;
  std::int64_t bytes = 0;
  const RoleSlots& slots = comm.roles[role];
  std::vector<int> channels(rank->groups.size(), 0);
  for (std::size_t at = 0; at < slots.group_slot.size(); ++at) {
    if (slots.group_slot[at] == kNone) continue;
    const engine::Group& group = out.input.groups[rank->groups[slots.group_slot[at]]];
    int& most = channels[slots.group_slot[at]];
    most = std::max(most, out.rows[out.transfer_row[group.first_transfer + slots.group_transfer[at]]].choice.channels);
  }
  for (const int c : channels) bytes += c * kPerChannel;
  for (const std::uint32_t c : rank->channels) bytes += out.rows[out.transfer_row[out.input.channels[c].first_transfer]].choice.channels * kPerChannel / 2;
  return bytes;
}

}  // namespace

Result<Lowered> lower(const World& world, const std::string& file) {
  Lowered out;
  out.accounts = {{Account::Kind::kPeer, {}}, {Account::Kind::kHost, {}}, {Account::Kind::kCompute, {}}, {Account::Kind::kOptimizer, {}}};
  std::vector<double> variants = {1.0};
  for (const RankSpeed& s : world.speeds) {
    if (std::find(variants.begin(), variants.end(), s.speed) == variants.end()) variants.push_back(s.speed);
  }
  auto pricer = std::make_unique<SegmentPricer>(world, variants);
  if (const auto longest = pricer->longest(); !(longest.seconds <= kLongest)) {
    return fail(file, "", fmt::format("\"{}\" alone takes {:.3g} s, and at most {:.3g} s (13 days) are played; lower the sizes of the model or /training/sequence_length, or raise the GPU's rates",
                                      longest.segment->name, longest.seconds, kLongest));
  }
  Result<Communication> comm = lower_communication(world, out, file);
  if (!comm) return fail(comm.error());
  for (std::uint32_t role = 0; role < world.program.roles.size(); ++role) {
    out.input.programs.push_back(lower_role(role, world, *comm, *pricer));
    double host = 0;
    for (const engine::HostInstruction& h : out.input.programs.back().host) host += static_cast<double>(h.cost) / kPicosecondsPerSecond;
    if (!(host <= kLongest)) {
      return fail(file, "/stack/host", fmt::format("launching one step takes the host {:.3g} s, and at most {:.3g} s (13 days) are played; lower its times", host, kLongest));
    }
    std::vector<SegmentCost>& costs = out.segments.emplace_back();
    for (std::uint32_t s = 0; s < world.program.roles[role].segments.size(); ++s) costs.push_back(pricer->cost(role, s));
    out.nccl_bytes.push_back(nccl_staging(role, *comm, out));
  }
  for (const RankSpeed& s : world.speeds) {
    ORRERY_ASSERT(s.rank >= 0 && static_cast<std::size_t>(s.rank) < out.input.ranks.size(), "events name ranks of the job");
    out.input.ranks[static_cast<std::size_t>(s.rank)].variant = static_cast<std::uint32_t>(std::find(variants.begin(), variants.end(), s.speed) - variants.begin());
  }
  out.input.accounts = static_cast<std::uint32_t>(out.accounts.size());
  out.input.memory_kinds = program::kMemoryKinds;
  out.input.run_ahead = world.program.run_ahead;
  out.times = std::move(pricer);
  return out;
}

}  // namespace orrery::lower
