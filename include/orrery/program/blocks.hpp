#pragma once
// A role's tensors one by one, in the host's order: what its step asks of the allocator. The items of a Role carry the same bytes in sums,
// one allocation and one free per piece, which is all that a timeline needs; how much an allocator reserves depends on the single sizes.
//
// Layers of a kind and microbatches share lists: a call names a list and where its slots begin among the role's handles.
#include <array>
#include <cstdint>
#include <vector>

#include "orrery/program/allocator.hpp"
#include "orrery/program/program.hpp"

namespace orrery::program {

/// What a replay came to.
struct Footprint {
  std::int64_t allocated = 0;  ///< peak of the blocks in use, as torch.cuda.max_memory_allocated
  std::int64_t reserved = 0;   ///< peak of the segments, as torch.cuda.max_memory_reserved
  std::int64_t retries = 0;    ///< times that cached segments had to be given back for want of memory
  std::array<std::int64_t, kMemoryKinds> by_kind{};  ///< of `allocated`, at its first peak in the steady state
  bool operator==(const Footprint&) const = default;
};

/// Plays the start, then steps until one adds nothing to what is reserved. `limit`: bytes that the device has for the allocator.
Footprint replay(const BlockTrace& trace, AllocatorKind kind, std::int64_t limit);

}  // namespace orrery::program
