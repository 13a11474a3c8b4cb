#pragma once
// Writes a role's block trace beside its items.
#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "orrery/program/program.hpp"

namespace orrery::program {

class BlockRecorder {
 public:
  explicit BlockRecorder(BlockTrace& trace) : trace_(trace), calls_(&trace.start) {}

  /// What follows belongs to every step; before, to what happens once, and stays.
  void begin_steps() {
    calls_ = &trace_.step;
    live_.clear();
  }
  /// A pass of a microbatch begins.
  void mark() { trace_.marks.push_back(trace_.step.size()); }

  /// One tensor. `first_step`: only the first step makes it, and nothing frees it.
  void allocate(MemoryKind kind, std::int64_t bytes, std::uint8_t pool = 0, bool first_step = false);
  /// The oldest tensor of that kind and size.
  void free(MemoryKind kind, std::int64_t bytes);

  void call(std::uint32_t list, std::uint32_t base) { calls_->push_back({list, base}); }
  /// Handles for `slots` tensors; those of a microbatch that ended are used again, so that a loop repeats itself exactly.
  std::uint32_t open(std::uint32_t slots);
  void close(std::uint32_t base, std::uint32_t slots) { closed_[slots].push_back(base); }

 private:
  struct Single {
    MemoryKind kind;
    std::int64_t bytes;  ///< 0: a free
    std::uint8_t pool;
    bool first_step;
    auto operator<=>(const Single&) const = default;
  };
  std::uint32_t list(const Single& single);

  BlockTrace& trace_;
  std::vector<BlockTrace::Call>* calls_;
  std::map<Single, std::uint32_t> singles_;
  std::map<std::pair<MemoryKind, std::int64_t>, std::deque<std::uint32_t>> live_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> closed_;
};

}  // namespace orrery::program
