#include "orrery/program/allocator.hpp"

#include <algorithm>
#include <limits>

#include "orrery/base/assert.hpp"
#include "orrery/base/units.hpp"

namespace orrery::program {
namespace {

// PyTorch's names and values.
constexpr std::int64_t kMinBlockSize = 512;
constexpr std::int64_t kSmallSize = kMiB;
constexpr std::int64_t kSmallBuffer = 2 * kMiB;
constexpr std::int64_t kLargeBuffer = 20 * kMiB;
constexpr std::int64_t kMinLargeAlloc = 10 * kMiB;
constexpr std::int64_t kRoundLarge = 2 * kMiB;
/// Addresses of one pool's expandable segment: more than any device has.
constexpr std::int64_t kRange = std::int64_t{1} << 50;

std::int64_t round_up(std::int64_t bytes, std::int64_t unit) { return (bytes + unit - 1) / unit * unit; }

std::int64_t segment_size(std::int64_t size) {
  if (size <= kSmallSize) return kSmallBuffer;
  return size < kMinLargeAlloc ? kLargeBuffer : round_up(size, kRoundLarge);
}

std::uint64_t mixed(std::int64_t address, std::int64_t size) {
  std::uint64_t x = static_cast<std::uint64_t>(address) * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(size);
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  return x ^ (x >> 27U);
}

bool is_small(std::uint32_t pool) { return (pool & 1U) != 0; }

}  // namespace

CachingAllocator::Block CachingAllocator::record(const Record& r) {
  if (unused_.empty()) {
    blocks_.push_back(r);
    return static_cast<Block>(blocks_.size() - 1);
  }
  const Block b = unused_.back();
  unused_.pop_back();
  blocks_[b] = r;
  return b;
}

void CachingAllocator::list(Block b) {
  const Record& r = blocks_[b];
  pools_[r.pool].free.insert({r.size, r.address, b});
}

void CachingAllocator::unlist(Block b) {
  const Record& r = blocks_[b];
  FreeList& free = pools_[r.pool].free;
  free.erase(free.place_of({r.size, r.address, b}));
}

/// Best fit, taken from its list. An expandable block counts as what it could grow to, so one that can grow is the last choice.
CachingAllocator::Block CachingAllocator::take(std::uint32_t pool, std::int64_t size) {
  FreeList& free = pools_[pool].free;
  FreeList::Place place = free.at_least(size);
  if (free.is_end(place)) return kNone;
  if (kind_ == AllocatorKind::kExpandableSegments) {
    const auto could_be = [&](const FreeBlock& f) {
      const Block after = blocks_[f.block].after;
      return f.size + (after != kNone && blocks_[after].state == State::kUnmapped ? blocks_[after].size : 0);
    };
    for (FreeList::Place next = free.next(place); !free.is_end(next) && could_be(free.at(next)) < could_be(free.at(place)); next = free.next(next)) {
      place = next;
    }
  }
  const Block b = free.at(place).block;
  free.erase(place);
  return b;
}

void CachingAllocator::reserve(std::int64_t address, std::int64_t bytes) {
  reserved_ += bytes;
  segments_hash_ ^= mixed(address, bytes);
}

/// A new segment for a request; cached ones go back first where the driver has too little left.
CachingAllocator::Block CachingAllocator::segment(std::uint32_t pool, std::int64_t size) {
  const std::int64_t bytes = segment_size(size);
  make_room(bytes);
  const Block b = record({next_address_, bytes, kNone, kNone, pool, State::kFree});
  next_address_ += bytes;
  pools_[pool].first.push_back(b);
  reserve(blocks_[b].address, bytes);
  return b;
}

/// Expandable: maps pages behind the lowest free block before an unmapped stretch that is large enough with it.
CachingAllocator::Block CachingAllocator::extend(std::uint32_t pool, std::int64_t size) {
  const std::int64_t page = is_small(pool) ? kSmallBuffer : kLargeBuffer;
  Pool& p = pools_[pool];
  if (p.first.empty()) {
    p.first.push_back(record({kRange * static_cast<std::int64_t>(pool), kRange, kNone, kNone, pool, State::kUnmapped}));
  }
  Block hole = p.first.front();
  Block have = kNone;  // the free block before the hole
  for (;; hole = blocks_[hole].after) {
    ORRERY_ASSERT(hole != kNone, "a pool's range is larger than what is asked of it");
    if (blocks_[hole].state != State::kUnmapped) continue;
    const Block before = blocks_[hole].before;
    have = before != kNone && blocks_[before].state == State::kFree ? before : kNone;
    // A free block behind the hole counts as well, and so does a hole behind that one; a pool has few of them.
    std::int64_t reach = have == kNone ? 0 : blocks_[have].size;
    for (Block b = hole; b != kNone && blocks_[b].state != State::kInUse; b = blocks_[b].after) reach += blocks_[b].size;
    if (reach >= size) break;
  }
  for (;;) {
    const std::int64_t missing = size - (have == kNone ? 0 : blocks_[have].size);
    if (missing <= 0) return have;
    const Block behind = have == kNone ? hole : blocks_[have].after;
    if (blocks_[behind].state == State::kFree) {
      unlist(behind);
      if (have != kNone) {
        unlist(have);
        have = merge(have, behind);
      } else {
        have = behind;
      }
      list(have);
      continue;
    }
    const std::int64_t bytes = std::min(round_up(missing, page), blocks_[behind].size);
    if (make_room(bytes)) return extend(pool, size);  // what was found may have been given back
    if (bytes < blocks_[behind].size) split(behind, bytes, State::kUnmapped);
    blocks_[behind].state = State::kFree;
    for (std::int64_t at = 0; at < bytes; at += page) reserve(blocks_[behind].address + at, page);
    if (have != kNone) {
      unlist(have);
      have = merge(have, behind);
    } else {
      have = behind;
    }
    list(have);
  }
}

/// Cuts `block` to `size`; what is left becomes a block of its own behind it (to be listed by the caller where free).
void CachingAllocator::split(Block block, std::int64_t size, State rest) {
  const Record r = blocks_[block];
  const Block b = record({r.address + size, r.size - size, block, r.after, r.pool, rest});
  if (r.after != kNone) blocks_[r.after].before = b;
  blocks_[block].size = size;
  blocks_[block].after = b;
}

/// Two neighbours, neither in a list, become the lower one.
CachingAllocator::Block CachingAllocator::merge(Block low, Block high) {
  blocks_[low].size += blocks_[high].size;
  blocks_[low].after = blocks_[high].after;
  if (blocks_[high].after != kNone) blocks_[blocks_[high].after].before = low;
  unused_.push_back(high);
  return low;
}

/// Gives back what is cached and whole: segments without a block in use, or whole pages of expandable ones.
bool CachingAllocator::release(std::uint32_t pool) {
  Pool& p = pools_[pool];
  const std::int64_t before = reserved_;
  if (kind_ == AllocatorKind::kExpandableSegments) {
    const std::int64_t page = is_small(pool) ? kSmallBuffer : kLargeBuffer;
    const std::int64_t base = kRange * static_cast<std::int64_t>(pool);
    for (const FreeBlock& f : p.free.all()) {
      const std::int64_t from = base + round_up(f.address - base, page), to = base + (f.address + f.size - base) / page * page;
      if (from >= to) continue;
      unlist(f.block);
      Block b = f.block;
      if (from > f.address) {
        split(b, from - f.address, State::kFree);
        list(b);
        b = blocks_[b].after;
      }
      if (to < f.address + f.size) {
        split(b, to - from, State::kFree);
        list(blocks_[b].after);
      }
      blocks_[b].state = State::kUnmapped;
      for (std::int64_t at = from; at < to; at += page) {
        reserved_ -= page;
        segments_hash_ ^= mixed(at, page);
      }
      if (const Block after = blocks_[b].after; after != kNone && blocks_[after].state == State::kUnmapped) merge(b, after);
      if (const Block low = blocks_[b].before; low != kNone && blocks_[low].state == State::kUnmapped) merge(low, b);
    }
    return reserved_ < before;
  }
  std::erase_if(p.first, [&](Block b) {
    const Record r = blocks_[b];
    if (r.state != State::kFree || r.after != kNone) return false;
    unlist(b);
    reserved_ -= r.size;
    segments_hash_ ^= mixed(r.address, r.size);
    unused_.push_back(b);
    return true;
  });
  return reserved_ < before;
}

bool CachingAllocator::make_room(std::int64_t bytes) {
  if (reserved_ + bytes <= limit_) return false;
  bool released = false;
  for (std::uint32_t pool = 0; pool < pools_.size(); ++pool) released = release(pool) || released;
  if (released) ++retries_;
  // Out of memory: from here on the question is only how much there would have to be.
  if (reserved_ + bytes > limit_) limit_ = std::numeric_limits<std::int64_t>::max() / 2;
  return released;
}

CachingAllocator::Block CachingAllocator::allocate(std::int64_t bytes, std::uint32_t stream) {
  ORRERY_ASSERT(bytes > 0 && stream < 256, "a tensor has bytes and a stream");
  if (kind_ == AllocatorKind::kExact) {
    allocated_ += bytes;
    reserved_ = std::max(reserved_, allocated_);
    return record({0, bytes, kNone, kNone, 0, State::kInUse});
  }
  const std::int64_t size = round_up(bytes, kMinBlockSize);
  const std::uint32_t pool = 2 * stream + (size <= kSmallSize ? 1 : 0);
  if (pools_.size() <= pool) pools_.resize(pool + 1);
  Block b = take(pool, size);
  if (b != kNone) {
    // a cached block serves
  } else if (kind_ == AllocatorKind::kExpandableSegments) {
    b = extend(pool, size);
    unlist(b);
  } else {
    b = segment(pool, size);
  }
  const std::int64_t rest = blocks_[b].size - size;
  const bool splits = is_small(pool) || kind_ == AllocatorKind::kExpandableSegments ? rest >= kMinBlockSize : rest > kSmallSize;
  if (splits) {
    split(b, size, State::kFree);
    list(blocks_[b].after);
  }
  blocks_[b].state = State::kInUse;
  allocated_ += blocks_[b].size;
  return b;
}

void CachingAllocator::free(Block b) {
  ORRERY_ASSERT(b < blocks_.size() && blocks_[b].state == State::kInUse, "only a block in use is freed");
  allocated_ -= blocks_[b].size;
  if (kind_ == AllocatorKind::kExact) {
    blocks_[b].state = State::kFree;
    unused_.push_back(b);
    return;
  }
  blocks_[b].state = State::kFree;
  if (const Block after = blocks_[b].after; after != kNone && blocks_[after].state == State::kFree) {
    unlist(after);
    merge(b, after);
  }
  if (const Block low = blocks_[b].before; low != kNone && blocks_[low].state == State::kFree) {
    unlist(low);
    b = merge(low, b);
  }
  list(b);
}

}  // namespace orrery::program
