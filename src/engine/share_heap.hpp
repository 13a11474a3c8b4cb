#pragma once
// Resources by rising level, each at most once: a binary heap that knows where each of them stands, so that a key can change.
// Invariants: (1) no entry's level is below its parent's; (2) position_[r] is where r stands, kNone if it does not; (3) entries are never
// more than resources, so nothing is allocated after reserve().
#include <cstdint>
#include <vector>

#include "engine/level.hpp"
#include "orrery/engine/input.hpp"

namespace orrery::engine {

class ShareHeap {
 public:
  void reserve(std::size_t resources) {
    position_.assign(resources, kNone);
    entries_.reserve(resources);
  }
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] const Share& lowest() const { return entries_.front().key; }
  void clear() {
    for (const Entry& e : entries_) position_[e.resource] = kNone;
    entries_.clear();
  }
  void set(std::uint32_t resource, const Share& key) {
    std::size_t hole = position_[resource];
    if (hole == kNone) {
      hole = entries_.size();
      entries_.emplace_back();
    }
    settle(hole, {key, resource});
  }
  void erase(std::uint32_t resource) {
    const std::size_t hole = position_[resource];
    if (hole == kNone) return;
    position_[resource] = kNone;
    const Entry last = entries_.back();
    entries_.pop_back();
    if (hole < entries_.size()) settle(hole, last);
  }
  std::uint32_t pop() {
    const std::uint32_t first = entries_.front().resource;
    erase(first);
    return first;
  }

 private:
  struct Entry {
    Share key;
    std::uint32_t resource = 0;
  };
  /// Puts the entry where the hole leads, up or down.
  void settle(std::size_t hole, const Entry& entry) {
    while (hole > 0 && entry.key < entries_[(hole - 1) / 2].key) {
      put(hole, entries_[(hole - 1) / 2]);
      hole = (hole - 1) / 2;
    }
    for (std::size_t child = 2 * hole + 1; child < entries_.size(); child = 2 * hole + 1) {
      if (child + 1 < entries_.size() && entries_[child + 1].key < entries_[child].key) ++child;
      if (!(entries_[child].key < entry.key)) break;
      put(hole, entries_[child]);
      hole = child;
    }
    put(hole, entry);
  }
  void put(std::size_t at, const Entry& entry) {
    entries_[at] = entry;
    position_[entry.resource] = static_cast<std::uint32_t>(at);
  }

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> position_;
};

}  // namespace orrery::engine
