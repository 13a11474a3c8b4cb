#include "block_recorder.hpp"

#include "orrery/base/assert.hpp"

namespace orrery::program {

std::uint32_t BlockRecorder::list(const Single& single) {
  const auto [at, is_new] = singles_.try_emplace(single, static_cast<std::uint32_t>(trace_.lists.size()));
  if (is_new) trace_.lists.push_back({{{0, single.kind, single.pool, single.bytes}}, single.first_step});
  return at->second;
}

std::uint32_t BlockRecorder::open(std::uint32_t slots) {
  std::vector<std::uint32_t>& ready = closed_[slots];
  if (!ready.empty()) {
    const std::uint32_t base = ready.back();
    ready.pop_back();
    return base;
  }
  const std::uint32_t base = trace_.handles;
  trace_.handles += slots;
  return base;
}

void BlockRecorder::allocate(MemoryKind kind, std::int64_t bytes, std::uint8_t pool, bool first_step) {
  if (bytes == 0) return;
  // What stays has a handle that nothing of the step has used before.
  const std::uint32_t handle = first_step ? trace_.handles++ : open(1);
  call(list({kind, bytes, pool, first_step}), handle);
  if (!first_step) live_[{kind, bytes}].push_back(handle);
}

void BlockRecorder::free(MemoryKind kind, std::int64_t bytes) {
  if (bytes == 0) return;
  std::deque<std::uint32_t>& live = live_[{kind, bytes}];
  ORRERY_ASSERT(!live.empty(), "only a tensor that is there is freed");
  call(list({kind, 0, 0, false}), live.front());
  close(live.front(), 1);
  live.pop_front();
}

}  // namespace orrery::program
