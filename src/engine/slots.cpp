#include "engine/slots.hpp"

#include <algorithm>

namespace orrery::engine {
namespace {

SlotUse& use(std::vector<SlotUse>& slots, std::uint32_t slot, std::uint32_t stream, std::uint32_t transfer) {
  if (slots.size() <= slot) slots.resize(std::size_t{slot} + 1);
  SlotUse& u = slots[slot];
  if (u.stream == kNone) u.stream = stream;
  u.several_streams = u.several_streams || u.stream != stream;
  u.transfers.push_back(transfer);
  return u;
}

}  // namespace

Slots find_slots(const Program& program) {
  Slots slots;
  std::vector<std::uint32_t> sent;  // in this batch, by slot
  for (std::uint32_t s = 0; s < program.streams.size(); ++s) {
    for (const Instruction& i : program.streams[s]) {
      if (i.op == Op::kCollective) {
        const Collective& c = program.collectives[i.index];
        use(slots.groups, c.group_slot, s, c.transfer);
      } else if (i.op == Op::kBatch) {
        sent.assign(slots.sends.size(), 0);
        for (const PointToPoint& p : program.batches[i.index]) {
          SlotUse& u = use(p.send ? slots.sends : slots.receives, p.channel_slot, s, p.transfer);
          if (!p.send) continue;
          sent.resize(slots.sends.size(), 0);
          u.most_in_a_batch = std::max(u.most_in_a_batch, ++sent[p.channel_slot]);
        }
      }
    }
  }
  return slots;
}

const SlotUse* find_slot(const std::vector<SlotUse>& uses, std::size_t slot) {
  return slot < uses.size() && uses[slot].stream != kNone ? &uses[slot] : nullptr;
}

}  // namespace orrery::engine
