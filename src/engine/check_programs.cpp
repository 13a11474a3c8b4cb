// Programs by themselves, and ranks with the groups and channels that they bring to their slots.
#include <algorithm>

#include "engine/check.hpp"
#include "engine/slots.hpp"

namespace orrery::engine {
namespace {

constexpr std::size_t kMostStreams = 64;        // a rank keeps a bit per stream
constexpr SimTime kLongest = SimTime{1} << 60;  // ps of all the host's costs together

void check_host(const Input& in, std::size_t p, Problems& problems) {
  const Program& program = in.programs[p];
  std::vector<std::size_t> issued(program.streams.size(), 0);
  std::vector<std::int64_t> kinds(in.memory_kinds, 0);
  std::int64_t sum = 0;
  SimTime cost = 0;
  bool overflow = false;
  for (std::size_t i = 0; i < program.host.size(); ++i) {
    const HostInstruction& h = program.host[i];
    if (h.cost < 0 || h.lead < 0 || h.lead > kLongest) problems.add("program {} host instruction {}: cost and lead are not within 0 … 2^60 ps", p, i);
    overflow = __builtin_add_overflow(cost, h.cost, &cost) || overflow;
    if (h.op == HostOp::kIssue) {
      if (h.stream >= issued.size()) problems.add("program {} host instruction {}: there is no stream {}", p, i, h.stream);
      else ++issued[h.stream];
    } else if (h.op == HostOp::kSync) {
      if (h.event >= program.events) problems.add("program {} host instruction {}: there is no event {}", p, i, h.event);
    } else if (h.op != HostOp::kWork) {
      if (h.memory_kind >= kinds.size() || h.bytes < 0) {
        problems.add("program {} host instruction {}: memory has a kind below {} and no negative size", p, i, in.memory_kinds);
        continue;
      }
      const std::int64_t change = h.op == HostOp::kAllocate ? h.bytes : -h.bytes;
      overflow = __builtin_add_overflow(sum, change, &sum) || overflow;
      overflow = __builtin_add_overflow(kinds[h.memory_kind], change, &kinds[h.memory_kind]) || overflow;
    }
  }
  if (overflow || cost > kLongest) problems.add("program {}: memory or host time does not fit (2^63 bytes, 2^60 ps)", p);
  for (std::size_t s = 0; s < issued.size(); ++s) {
    if (issued[s] != program.streams[s].size()) {
      problems.add("program {}: the host issues {} of the {} instructions of stream {}", p, issued[s], program.streams[s].size(), s);
    }
  }
}

bool check_instruction(const Program& program, const Instruction& i) {
  switch (i.op) {
    case Op::kSegment: return i.index < program.segments.size();
    case Op::kCollective: return i.index < program.collectives.size();
    case Op::kBatch: return i.index < program.batches.size();
    case Op::kRecord: return i.record != kNone;
    case Op::kWait: return i.wait != kNone;
  }
  return false;
}

/// Where the slots of a rank's program lead, and whether the transfers named there exist.
void check_uses(const Input& in, std::size_t r, const std::vector<SlotUse>& uses, bool groups, Problems& problems) {
  const Rank& rank = in.ranks[r];
  const char* what = groups ? "group" : "channel";
  for (std::size_t slot = 0; slot < uses.size(); ++slot) {
    const SlotUse& use = uses[slot];
    if (use.stream == kNone) continue;
    const std::vector<std::uint32_t>& mine = groups ? rank.groups : rank.channels;
    if (slot >= mine.size()) {
      problems.add("rank {}: it has no {} in slot {}", r, what, slot);
      continue;
    }
    if (mine[slot] >= (groups ? in.groups.size() : in.channels.size())) continue;  // said elsewhere
    if (use.several_streams) problems.add("rank {}: {} {} is used in more than one stream, so its order is not settled", r, what, mine[slot]);
    const std::uint64_t first = groups ? in.groups[mine[slot]].first_transfer : in.channels[mine[slot]].first_transfer;
    const std::uint64_t last = first + *std::max_element(use.transfers.begin(), use.transfers.end());
    if (last >= in.transfers.size()) {
      problems.add("rank {}: {} {} names transfer {} of {}", r, what, mine[slot], last, in.transfers.size());
    } else if (groups) {
      for (const std::uint32_t t : use.transfers) {
        if (in.transfers[first + t].usage_set < in.groups[mine[slot]].usage_sets.size()) continue;
        problems.add("rank {}: transfer {} takes usage set {} of {} of group {}", r, first + t, in.transfers[first + t].usage_set,
                     in.groups[mine[slot]].usage_sets.size(), mine[slot]);
        break;
      }
    }
  }
}

}  // namespace

bool check_programs(const Input& in, Problems& problems) {
  const std::size_t before = problems.count();
  for (std::size_t p = 0; p < in.programs.size(); ++p) {
    const Program& program = in.programs[p];
    if (program.streams.size() > kMostStreams) problems.add("program {}: more than {} streams", p, kMostStreams);
    std::vector<bool> recorded(program.events, false);
    for (std::size_t s = 0; s < program.streams.size(); ++s) {
      for (std::size_t n = 0; n < program.streams[s].size(); ++n) {
        const Instruction& i = program.streams[s][n];
        if (!check_instruction(program, i)) problems.add("program {} stream {} instruction {}: what it names does not exist", p, s, n);
        if (i.wait != kNone && i.wait >= program.events) problems.add("program {} stream {} instruction {}: there is no event {}", p, s, n, i.wait);
        if (i.record == kNone) continue;
        if (i.record >= program.events) problems.add("program {} stream {} instruction {}: there is no event {}", p, s, n, i.record);
        else if (recorded[i.record]) problems.add("program {} stream {} instruction {}: event {} is recorded twice", p, s, n, i.record);
        else recorded[i.record] = true;
      }
    }
    for (std::size_t s = 0; s < program.segments.size(); ++s) {
      if (program.segments[s].account >= in.accounts) problems.add("program {} segment {}: there is no account {}", p, s, program.segments[s].account);
      if (program.segments[s].wave < 0) problems.add("program {} segment {}: the wave is negative", p, s);
    }
    check_host(in, p, problems);
  }
  for (std::size_t r = 0; r < in.ranks.size(); ++r) {
    const Rank& rank = in.ranks[r];
    if (rank.program >= in.programs.size()) problems.add("rank {}: there is no program {}", r, rank.program);
    if (rank.multiplicity < 1) problems.add("rank {}: the multiplicity is below 1", r);
    for (const std::uint32_t g : rank.groups) {
      if (g >= in.groups.size()) problems.add("rank {}: there is no group {}", r, g);
      else if (!std::binary_search(in.groups[g].members.begin(), in.groups[g].members.end(), r)) problems.add("rank {}: it is no member of group {}", r, g);
    }
    for (const std::uint32_t c : rank.channels) {
      if (c >= in.channels.size()) problems.add("rank {}: there is no channel {}", r, c);
    }
  }
  return problems.count() == before;
}

void check_ranks(const Input& in, std::vector<std::uint32_t>& pairs, Problems& problems) {
  std::vector<Slots> slots;
  for (const Program& program : in.programs) slots.push_back(find_slots(program));
  std::vector<const SlotUse*> agreed(in.groups.size(), nullptr), sends(in.channels.size(), nullptr), receives(in.channels.size(), nullptr);
  for (std::size_t r = 0; r < in.ranks.size(); ++r) {
    const Rank& rank = in.ranks[r];
    const Slots& used = slots[rank.program];
    check_uses(in, r, used.groups, true, problems);
    check_uses(in, r, used.sends, false, problems);
    check_uses(in, r, used.receives, false, problems);
    for (std::size_t slot = 0; slot < rank.groups.size(); ++slot) {
      const SlotUse* use = find_slot(used.groups, slot);
      const SlotUse*& first = agreed[rank.groups[slot]];
      if (use == nullptr) continue;
      if (first != nullptr && first != use && first->transfers != use->transfers) {
        problems.add("rank {}: its collectives of group {} are not those of the other members", r, rank.groups[slot]);
      }
      if (first == nullptr) first = use;
    }
    for (std::size_t slot = 0; slot < rank.channels.size(); ++slot) {
      const std::uint32_t c = rank.channels[slot];
      if (const SlotUse* use = find_slot(used.sends, slot)) {
        if (in.channels[c].sender != r) problems.add("rank {}: it sends on channel {}, whose sender is rank {}", r, c, in.channels[c].sender);
        sends[c] = use;
        pairs[c] = use->most_in_a_batch;
      }
      if (const SlotUse* use = find_slot(used.receives, slot)) {
        if (in.channels[c].receiver != r) problems.add("rank {}: it receives on channel {}, whose receiver is rank {}", r, c, in.channels[c].receiver);
        receives[c] = use;
      }
    }
  }
  for (std::size_t c = 0; c < in.channels.size(); ++c) {
    const bool both = sends[c] != nullptr && receives[c] != nullptr;
    if (both ? sends[c]->transfers != receives[c]->transfers : sends[c] != receives[c]) problems.add("channel {}: its sends are not its receives", c);
  }
}

}  // namespace orrery::engine
