#pragma once
// PyTorch's caching allocator as a value: what it would reserve from the driver for a sequence of allocations and frees.
//
// Between a program's tensors and the driver stands a cache. A request is rounded up to 512 bytes and served from the smallest free block
// of its pool that is large enough (best fit; at equal sizes the lowest address); the rest of that block stays free where it is worth
// keeping. Only where no block serves is a new segment taken from the driver: 2 MiB for requests up to 1 MiB, 20 MiB for those below
// 10 MiB, else the request rounded up to 2 MiB. A freed block merges with free neighbours of its segment and is never given back, until
// the driver refuses a segment: then every segment without a block in use goes back, and the request is made once more. Small and large
// requests have pools of their own, and so has every stream: a block freed on one stream serves only that stream.
// With expandable segments a pool is one range of addresses, mapped at its end in pages of 20 MiB (2 MiB in the small pool).
//
// Invariants: 1. the blocks of a segment tile it in address order; 2. no two neighbours are both free; 3. a free block stands in exactly
// its pool's list, ordered by (size, address); 4. reserved is the sum of the segments, allocated that of the blocks in use.
//
// Source: PyTorch c10/cuda/CUDACachingAllocator.cpp, v2.8.0 (round_size, get_allocation_size, get_free_block, should_split,
// try_merge_blocks, release_cached_blocks, try_allocate_expandable_block). max_split_size_mb, roundup_power2_divisions and
// garbage_collection_threshold are at their defaults, which are off.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "orrery/program/free_list.hpp"

namespace orrery::program {

/// caching: segments by cudaMalloc. expandable_segments: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. exact: every tensor has its own
/// bytes and gives them back (not PyTorch's).
enum class AllocatorKind : std::uint8_t { kCaching, kExpandableSegments, kExact };

class CachingAllocator {
 public:
  using Block = std::uint32_t;

  /// `limit`: bytes that the driver has for segments.
  CachingAllocator(AllocatorKind kind, std::int64_t limit) : kind_(kind), limit_(limit) {}

  /// bytes > 0, stream < 256. Where the limit does not hold even once nothing cached is left, it is lifted, and reserved() says what it takes.
  Block allocate(std::int64_t bytes, std::uint32_t stream);
  /// A block in use.
  void free(Block block);

  [[nodiscard]] std::int64_t allocated() const { return allocated_; }
  [[nodiscard]] std::int64_t reserved() const { return reserved_; }
  /// What the block takes: the rounded request, or all of a block that was not worth splitting.
  [[nodiscard]] std::int64_t size(Block block) const { return blocks_[block].size; }
  [[nodiscard]] std::int64_t address(Block block) const { return blocks_[block].address; }
  /// A number of the segments (addresses and sizes) alone: equal segments give equal numbers.
  [[nodiscard]] std::uint64_t segments_hash() const { return segments_hash_; }
  /// Times that the driver had nothing left and cached segments were given back.
  [[nodiscard]] std::int64_t retries() const { return retries_; }

 private:
  static constexpr Block kNone = UINT32_MAX;
  enum class State : std::uint8_t { kFree, kInUse, kUnmapped };
  struct Record {
    std::int64_t address = 0, size = 0;
    Block before = kNone, after = kNone;  ///< neighbours in the segment
    std::uint32_t pool = 0;
    State state = State::kFree;
  };
  struct Pool {
    FreeList free;
    std::vector<Block> first;              ///< of each segment
  };

  Block record(const Record& r);
  void list(Block block);
  void unlist(Block block);
  Block take(std::uint32_t pool, std::int64_t size);
  Block segment(std::uint32_t pool, std::int64_t size);
  Block extend(std::uint32_t pool, std::int64_t size);
  void split(Block block, std::int64_t size, State rest);
  Block merge(Block low, Block high);
  void reserve(std::int64_t address, std::int64_t bytes);
  bool release(std::uint32_t pool);
  bool make_room(std::int64_t bytes);

  AllocatorKind kind_;
  std::int64_t limit_ = 0, allocated_ = 0, reserved_ = 0, next_address_ = 0, retries_ = 0;
  std::uint64_t segments_hash_ = 0;
  std::vector<Record> blocks_;
  std::vector<Block> unused_;              ///< records to use again
  std::vector<Pool> pools_;                ///< 2 x stream, + 1 for small requests
};

}  // namespace orrery::program
