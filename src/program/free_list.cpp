#include "orrery/program/free_list.hpp"

#include <algorithm>

#include "orrery/base/assert.hpp"

namespace orrery::program {
namespace {

bool before(const FreeBlock& x, std::int64_t size, std::int64_t address) { return x.size != size ? x.size < size : x.address < address; }

/// Of the first entry that is not before; branchless halving, for the outcome of a comparison cannot be foretold.
std::size_t first_from(const FreeBlock* entries, std::size_t count, std::int64_t size, std::int64_t address) {
  const FreeBlock* base = entries;
  while (count > 1) {
    const std::size_t half = count / 2;
    base += before(base[half - 1], size, address) ? half : 0;
    count -= half;
  }
  return static_cast<std::size_t>(base - entries) + (count == 1 && before(*base, size, address) ? 1 : 0);
}

}  // namespace

std::size_t FreeList::row_of(std::int64_t size, std::int64_t address) const { return first_from(last_.data(), last_.size(), size, address); }

void FreeList::insert(const FreeBlock& entry) {
  if (rows_.empty()) {
    rows_.emplace_back();
    last_.push_back(entry);
  }
  std::size_t r = std::min(row_of(entry.size, entry.address), rows_.size() - 1);
  if (rows_[r].count == kRow) {
    constexpr std::size_t kept = kRow / 2;
    Row upper;
    upper.count = kRow - kept;
    std::copy(rows_[r].entries + kept, rows_[r].entries + kRow, upper.entries);
    rows_[r].count = kept;
    rows_.insert(rows_.begin() + static_cast<std::ptrdiff_t>(r) + 1, upper);
    last_.insert(last_.begin() + static_cast<std::ptrdiff_t>(r), rows_[r].entries[kept - 1]);
    if (before(last_[r], entry.size, entry.address)) ++r;
  }
  Row& row = rows_[r];
  const std::size_t at = first_from(row.entries, row.count, entry.size, entry.address);
  std::copy_backward(row.entries + at, row.entries + row.count, row.entries + row.count + 1);
  row.entries[at] = entry;
  ++row.count;
  last_[r] = row.entries[row.count - 1];
}

void FreeList::erase(Place place) {
  Row& row = rows_[place.row];
  std::copy(row.entries + place.at + 1, row.entries + row.count, row.entries + place.at);
  --row.count;
  if (row.count > 0) {
    last_[place.row] = row.entries[row.count - 1];
    return;
  }
  rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(place.row));
  last_.erase(last_.begin() + static_cast<std::ptrdiff_t>(place.row));
}

FreeList::Place FreeList::place_of(const FreeBlock& entry) const {
  const std::size_t r = row_of(entry.size, entry.address);
  ORRERY_ASSERT(r < rows_.size(), "a free block stands in its pool's list");
  const Place place{r, first_from(rows_[r].entries, rows_[r].count, entry.size, entry.address)};
  ORRERY_ASSERT(at(place).block == entry.block, "a free block stands in its pool's list");
  return place;
}

FreeList::Place FreeList::at_least(std::int64_t size) const {
  const std::size_t r = row_of(size, INT64_MIN);
  return {r, r == rows_.size() ? 0 : first_from(rows_[r].entries, rows_[r].count, size, INT64_MIN)};
}

FreeList::Place FreeList::next(Place place) const {
  if (++place.at < rows_[place.row].count) return place;
  return {place.row + 1, 0};
}

std::vector<FreeBlock> FreeList::all() const {
  std::vector<FreeBlock> out;
  for (const Row& row : rows_) out.insert(out.end(), row.entries, row.entries + row.count);
  return out;
}

}  // namespace orrery::program
