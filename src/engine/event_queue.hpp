#pragma once
// The pending timed events: a binary heap of flat 24-byte values behind four functions, so that another structure can be tried.
// Invariants: (1) the parent of every entry comes before it; (2) no two entries have the same order, so the order of pops is total;
// (3) an entry whose ticket is no longer its target's is stale and is dropped by the caller when it comes up.
#include <cstdint>
#include <type_traits>
#include <vector>

#include "orrery/base/sim_time.hpp"

namespace orrery::engine {

/// Classes of one instant, in the order in which they are dealt with (design section 2): what releases comes before what acquires, and a
/// communication that is launched at the instant at which a segment starts comes before the segment.
enum class EventClass : std::uint8_t { kFinish, kFree, kRecord, kWake, kHost, kLaunch, kStart };

enum class EventKind : std::uint8_t {
  kSegmentEnd,   ///< kFinish; target: stream
  kTransferEnd,  ///< kFinish; target: activity
  kIssued,       ///< kWake: the host's issue takes effect; target: stream
  kHostStands,      ///< kHost: the host's clock reaches the point where it stopped; target: rank
  kLaunch,       ///< kLaunch: a delayed launch is due; target: stream
  kFlow,         ///< kStart: the latency is over, bandwidth is used from here; target: activity
};

struct Event {
  SimTime at = 0;
  std::uint64_t order = 0;  ///< class << 56 | sequence; the whole of it is the ticket
  EventKind kind = EventKind::kSegmentEnd;
  std::uint32_t target = 0;
};
static_assert(sizeof(Event) == 24 && std::is_trivially_copyable_v<Event>);

inline bool before(const Event& a, const Event& b) { return a.at != b.at ? a.at < b.at : a.order < b.order; }

class EventQueue {
 public:
  void reserve(std::size_t events) { heap_.reserve(events); }
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] const Event& top() const { return heap_.front(); }

  void push(const Event& event) {
    std::size_t hole = heap_.size();
    heap_.push_back(event);
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / 2;
      if (!before(event, heap_[parent])) break;
      heap_[hole] = heap_[parent];
      hole = parent;
    }
    heap_[hole] = event;
  }

  /// Requires !empty(). The hole goes down to a leaf first and the last entry is sifted up from there: it nearly always belongs there.
  Event pop() {
    const Event first = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    const std::size_t size = heap_.size();
    if (size == 0) return first;
    std::size_t hole = 0;
    for (std::size_t child = 1; child < size; child = 2 * hole + 1) {
      if (child + 1 < size && before(heap_[child + 1], heap_[child])) ++child;
      heap_[hole] = heap_[child];
      hole = child;
    }
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / 2;
      if (!before(last, heap_[parent])) break;
      heap_[hole] = heap_[parent];
      hole = parent;
    }
    heap_[hole] = last;
    return first;
  }

 private:
  std::vector<Event> heap_;
};

}  // namespace orrery::engine
