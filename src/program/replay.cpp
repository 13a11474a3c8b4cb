// A block trace played against the allocator, step after step until nothing changes.
//
// The first step differs from the rest: torch.optim and its like make their states in the first update, into whatever segments the first
// step's activations left in the cache, and the second step's activations find less room there. So what a job reserves shows after two or
// three steps. Within a step a pipeline or an accumulation loop repeats itself: where the handles, the blocks and the segments are as they
// were at an earlier microbatch and the calls that follow are those that followed then, the same changes follow, and are not played again.
#include <algorithm>
#include <utility>

#include "orrery/base/assert.hpp"
#include "orrery/program/blocks.hpp"

namespace orrery::program {
namespace {

/// Steps after which the walk ends even where segments are still added; three is what lazily made states need.
constexpr int kMostSteps = 8;
/// Earlier microbatches that one is compared with: more than a pipeline holds in flight.
constexpr std::size_t kLookBack = 256;

std::uint64_t mixed(std::uint32_t handle, std::int64_t address) {
  std::uint64_t x = (static_cast<std::uint64_t>(handle) << 40U) ^ static_cast<std::uint64_t>(address) ^ 0x2545f4914f6cdd1dULL;
  x = (x ^ (x >> 33U)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33U)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33U);
}

class Replay {
 public:
  Replay(const BlockTrace& trace, AllocatorKind kind, std::int64_t limit) : trace_(trace), allocator_(kind, limit), held_(trace.handles) {}

  Footprint run() {
    for (const BlockTrace::Call& call : trace_.start) play(call);
    for (int step = 0; step < kMostSteps; ++step) {
      const std::int64_t before = out_.reserved;
      out_.allocated = 0;
      play_step(step == 0);
      if (step > 0 && out_.reserved == before) break;
      // A job that lives from what it gives back does so in every step.
      if (step > 1 && allocator_.retries() > 0) break;
    }
    out_.retries = allocator_.retries();
    return out_;
  }

 private:
  struct Held {
    CachingAllocator::Block block = 0;
    bool live = false;
  };

  void play(const BlockTrace::Call& call) {
    for (const BlockEvent& e : trace_.lists[call.list].events) {
      const std::uint32_t handle = call.base + e.slot;
      Held& held = held_[handle];
      const auto kind = static_cast<std::size_t>(e.memory);
      if (e.bytes > 0) {
        ORRERY_ASSERT(!held.live, "a slot holds one tensor at a time");
        held = {allocator_.allocate(e.bytes, e.pool), true};
        by_kind_[kind] += allocator_.size(held.block);
        state_ ^= mixed(handle, allocator_.address(held.block));
        out_.reserved = std::max(out_.reserved, allocator_.reserved());
        if (allocator_.allocated() > out_.allocated) {
          out_.allocated = allocator_.allocated();
          out_.by_kind = by_kind_;
        }
      } else {
        ORRERY_ASSERT(held.live, "only a tensor that is there is freed");
        by_kind_[kind] -= allocator_.size(held.block);
        state_ ^= mixed(handle, allocator_.address(held.block));
        allocator_.free(held.block);
        held.live = false;
      }
    }
  }

  void play_step(bool first) {
    const std::vector<BlockTrace::Call>& calls = trace_.step;
    std::vector<std::pair<std::uint64_t, std::size_t>> seen;  // state at a mark, and where it stands
    std::size_t mark = 0;
    for (std::size_t i = 0; i < calls.size();) {
      while (mark < trace_.marks.size() && trace_.marks[mark] < i) ++mark;
      if (mark < trace_.marks.size() && trace_.marks[mark] == i) {
        const std::uint64_t state = state_ ^ allocator_.segments_hash();
        const std::size_t skip = repeats(seen, state, i);
        seen.emplace_back(state, i);
        if (skip > 0) {
          i += skip;
          continue;
        }
      }
      if (first || !trace_.lists[calls[i].list].first_step) play(calls[i]);
      ++i;
    }
  }

  /// Calls that may be left out at `at`: as many as were played since the state was the same, where they come again.
  [[nodiscard]] std::size_t repeats(const std::vector<std::pair<std::uint64_t, std::size_t>>& seen, std::uint64_t state, std::size_t at) const {
    const std::vector<BlockTrace::Call>& calls = trace_.step;
    for (std::size_t back = 0; back < std::min(seen.size(), kLookBack); ++back) {
      const auto& [then, from] = seen[seen.size() - 1 - back];
      const std::size_t length = at - from;
      if (then != state || length > calls.size() - at) continue;
      const auto begin = calls.begin() + static_cast<std::ptrdiff_t>(from), now = calls.begin() + static_cast<std::ptrdiff_t>(at);
      if (std::equal(begin, now, now)) return length;
    }
    return 0;
  }

  const BlockTrace& trace_;
  CachingAllocator allocator_;
  std::vector<Held> held_;
  std::array<std::int64_t, kMemoryKinds> by_kind_{};
  std::uint64_t state_ = 0;
  Footprint out_;
};

}  // namespace

Footprint replay(const BlockTrace& trace, AllocatorKind kind, std::int64_t limit) { return Replay(trace, kind, limit).run(); }

}  // namespace orrery::program
