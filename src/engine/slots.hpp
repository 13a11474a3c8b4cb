#pragma once
// In which stream a program uses its groups and channels, and how often; check() refuses what does not fit, the tables rely on it.
#include <vector>

#include "orrery/engine/input.hpp"

namespace orrery::engine {

struct SlotUse {
  std::uint32_t stream = kNone;         ///< the first that uses it
  bool several_streams = false;
  std::uint32_t most_in_a_batch = 0;    ///< channels only
  std::vector<std::uint32_t> transfers; ///< in launch order
};
struct Slots {
  std::vector<SlotUse> groups, sends, receives;  ///< by slot, as far as the program names them
};

Slots find_slots(const Program& program);
/// The use of a slot, or nullptr where the program never names it.
const SlotUse* find_slot(const std::vector<SlotUse>& uses, std::size_t slot);

}  // namespace orrery::engine
