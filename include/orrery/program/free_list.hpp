#pragma once
// The free blocks of one pool of the caching allocator, in order of (size, address).
//
// A training step allocates and frees tens of thousands of tensors per role while some hundreds of blocks are free, so the order is kept in
// rows of at most 32 entries: what is moved for one change fits a few cache lines, and a search halves over rows, then within one.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace orrery::program {

struct FreeBlock {
  std::int64_t size = 0, address = 0;
  std::uint32_t block = UINT32_MAX;
};

class FreeList {
 public:
  /// Where an entry stands; valid until the next change.
  struct Place {
    std::size_t row = 0, at = 0;
  };

  /// Not there yet.
  void insert(const FreeBlock& entry);
  /// Requires an entry at `place`.
  void erase(Place place);
  /// Of an entry that is there.
  [[nodiscard]] Place place_of(const FreeBlock& entry) const;
  /// The first of at least `size` bytes, or the end.
  [[nodiscard]] Place at_least(std::int64_t size) const;
  [[nodiscard]] bool is_end(Place place) const { return place.row == rows_.size(); }
  [[nodiscard]] const FreeBlock& at(Place place) const { return rows_[place.row].entries[place.at]; }
  [[nodiscard]] Place next(Place place) const;
  [[nodiscard]] std::vector<FreeBlock> all() const;

 private:
  static constexpr std::size_t kRow = 32;
  struct Row {
    std::size_t count = 0;
    FreeBlock entries[kRow];
  };
  [[nodiscard]] std::size_t row_of(std::int64_t size, std::int64_t address) const;

  std::vector<Row> rows_;          // none is empty
  std::vector<FreeBlock> last_;    // of each row
};

}  // namespace orrery::program
