// The caching allocator against its rules, one by one, and against a plain model of them on random requests.
#include <algorithm>
#include <map>
#include <optional>

#include <rapidcheck.h>

#include "catch.h"
#include "orrery/base/units.hpp"
#include "orrery/program/allocator.hpp"

using namespace orrery;
using namespace orrery::program;

namespace {

constexpr std::int64_t kPlenty = std::int64_t{1} << 50;

/// The same rules without lists, neighbours or hashes: segments as rows of cells, searched from end to end.
class PlainAllocator {
 public:
  struct Cell {
    std::int64_t size = 0;
    bool used = false;
  };
  struct Segment {
    std::int64_t address = 0;
    bool small = false;
    std::uint32_t stream = 0;
    std::vector<Cell> cells;
  };

  std::int64_t allocate(std::int64_t bytes, std::uint32_t stream) {
    const std::int64_t size = (bytes + 511) / 512 * 512;
    const bool small = size <= kMiB;
    std::int64_t best = INT64_MAX;
    Segment* in = nullptr;
    std::size_t at = 0;
    for (Segment& s : segments_) {
      if (s.small != small || s.stream != stream) continue;
      for (std::size_t i = 0; i < s.cells.size(); ++i) {
        if (s.cells[i].used || s.cells[i].size < size || s.cells[i].size >= best) continue;
        best = s.cells[i].size;
        in = &s;
        at = i;
      }
    }
    if (in == nullptr) {
      const std::int64_t whole = small ? 2 * kMiB : size < 10 * kMiB ? 20 * kMiB : (size + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
      segments_.push_back({next_, small, stream, {{whole, false}}});
      next_ += whole;
      in = &segments_.back();
      at = 0;
    }
    Cell& cell = in->cells[at];
    cell.used = true;
    const std::int64_t rest = cell.size - size;
    if (small ? rest >= 512 : rest > kMiB) {
      cell.size = size;
      in->cells.insert(in->cells.begin() + static_cast<std::ptrdiff_t>(at) + 1, {rest, false});
    }
    std::int64_t address = in->address;
    for (std::size_t i = 0; i < at; ++i) address += in->cells[i].size;
    return address;
  }

  void free(std::int64_t address) {
    for (Segment& s : segments_) {
      std::int64_t here = s.address;
      for (std::size_t i = 0; i < s.cells.size(); here += s.cells[i].size, ++i) {
        if (here != address || !s.cells[i].used) continue;
        s.cells[i].used = false;
        if (i + 1 < s.cells.size() && !s.cells[i + 1].used) join(s, i);
        if (i > 0 && !s.cells[i - 1].used) join(s, i - 1);
        return;
      }
    }
  }

  std::int64_t total(bool used_alone) const {
    std::int64_t sum = 0;
    for (const Segment& s : segments_) {
      for (const Cell& c : s.cells) sum += c.used || !used_alone ? c.size : 0;
    }
    return sum;
  }

 private:
  static void join(Segment& s, std::size_t i) {
    s.cells[i].size += s.cells[i + 1].size;
    s.cells.erase(s.cells.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  std::vector<Segment> segments_;
  std::int64_t next_ = 0;
};

}  // namespace

TEST_CASE("a request takes multiples of 512 bytes of a 2 MiB segment up to 1 MiB, and of one of 20 MiB or its own above") {
  struct Row {
    std::int64_t bytes, allocated, reserved;
  };
  // What is left of a large block stays with it up to 1 MiB, and of a small one below 512 bytes.
  for (const Row& row : {Row{1, 512, 2 * kMiB}, Row{513, 1024, 2 * kMiB}, Row{kMiB, kMiB, 2 * kMiB}, Row{kMiB + 1, kMiB + 512, 20 * kMiB},
                         Row{10 * kMiB - 512, 10 * kMiB - 512, 20 * kMiB}, Row{10 * kMiB, 10 * kMiB, 10 * kMiB}, Row{10 * kMiB + 1, 12 * kMiB - (kMiB * 2 - 512), 12 * kMiB},
                         Row{11 * kMiB, 12 * kMiB, 12 * kMiB}}) {
    CachingAllocator a(AllocatorKind::kCaching, kPlenty);
    CAPTURE(row.bytes);
    a.allocate(row.bytes, 0);
    CHECK(a.allocated() == row.allocated);
    CHECK(a.reserved() == row.reserved);
  }
}

TEST_CASE("the smallest free block that is large enough serves a request") {
  CachingAllocator a(AllocatorKind::kCaching, kPlenty);
  const auto big = a.allocate(64 * kMiB, 0), middle = a.allocate(32 * kMiB, 0), small = a.allocate(24 * kMiB, 0);
  const std::int64_t place = a.address(middle);
  a.free(big);
  a.free(middle);
  a.free(small);
  CHECK(a.address(a.allocate(30 * kMiB, 0)) == place);
  CHECK(a.reserved() == 120 * kMiB);
}

TEST_CASE("freed neighbours become one block, and a block freed on one stream does not serve another") {
  CachingAllocator a(AllocatorKind::kCaching, kPlenty);
  const auto whole = a.allocate(40 * kMiB, 0);
  a.free(whole);
  const auto low = a.allocate(15 * kMiB, 0), high = a.allocate(25 * kMiB, 0);
  CHECK(a.reserved() == 40 * kMiB);
  a.free(low);
  a.free(high);
  const auto again = a.allocate(40 * kMiB, 0);
  CHECK(a.reserved() == 40 * kMiB);
  a.free(again);
  a.allocate(40 * kMiB, 1);
  CHECK(a.reserved() == 80 * kMiB);
}

TEST_CASE("where the device is full, segments without a block in use are given back, and only those") {
  CachingAllocator a(AllocatorKind::kCaching, 100 * kMiB);
  const auto first = a.allocate(60 * kMiB, 0), second = a.allocate(40 * kMiB, 0);
  a.free(first);
  CHECK(a.reserved() == 100 * kMiB);
  a.allocate(60 * kMiB, 1);  // another stream: the cached 60 MiB go back first
  CHECK(a.retries() == 1);
  CHECK(a.reserved() == 100 * kMiB);
  a.allocate(20 * kMiB, 0);  // nothing is cached: served beyond the limit, which is lifted, so that what is missing shows
  CHECK(a.retries() == 1);
  CHECK(a.reserved() == 120 * kMiB);
  a.free(second);
}

TEST_CASE("expandable segments grow in pages behind what is free, so a larger tensor uses the place of a smaller one") {
  CachingAllocator caching(AllocatorKind::kCaching, kPlenty), expandable(AllocatorKind::kExpandableSegments, kPlenty);
  for (CachingAllocator* a : {&caching, &expandable}) {
    for (std::int64_t mib = 40; mib <= 400; mib += 40) a->free(a->allocate(mib * kMiB, 0));
  }
  CHECK(caching.reserved() == 2200 * kMiB);
  CHECK(expandable.reserved() == 400 * kMiB);
}

TEST_CASE("expandable segments give back whole pages between blocks in use") {
  CachingAllocator a(AllocatorKind::kExpandableSegments, 100 * kMiB);
  const auto low = a.allocate(10 * kMiB, 0), middle = a.allocate(70 * kMiB, 0), high = a.allocate(20 * kMiB, 0);
  CHECK(a.reserved() == 100 * kMiB);
  a.free(middle);  // 10 … 80: pages 20 … 80 are whole
  a.allocate(60 * kMiB, 1);
  CHECK(a.retries() == 1);
  CHECK(a.reserved() == 100 * kMiB);
  CHECK(a.allocated() == 90 * kMiB);
  a.free(low);
  a.free(high);
}

TEST_CASE("an exact allocator takes what tensors use") {
  CachingAllocator a(AllocatorKind::kExact, kPlenty);
  const auto b = a.allocate(1'000'001, 0);
  a.allocate(7, 3);
  a.free(b);
  CHECK(a.allocated() == 7);
  CHECK(a.reserved() == 1'000'008);
}

TEST_CASE("the allocator is its plain model on random requests") {
  CHECK(rc::check("addresses, allocated and reserved", [] {
    CachingAllocator a(AllocatorKind::kCaching, kPlenty);
    PlainAllocator plain;
    std::vector<std::pair<CachingAllocator::Block, std::int64_t>> live;
    const auto steps = *rc::gen::container<std::vector<std::pair<std::uint32_t, std::uint32_t>>>(60, rc::gen::arbitrary<std::pair<std::uint32_t, std::uint32_t>>());
    for (const auto& [what, size] : steps) {
      if (what % 5 < 2 && !live.empty()) {
        const std::size_t i = size % live.size();
        a.free(live[i].first);
        plain.free(live[i].second);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        const std::int64_t bytes = 1 + size % ((what & 1U) != 0 ? 2 * kMiB : 60 * kMiB);
        const auto block = a.allocate(bytes, what % 2);
        const std::int64_t address = plain.allocate(bytes, what % 2);
        RC_ASSERT(a.address(block) == address);
        live.emplace_back(block, address);
      }
      RC_ASSERT(a.allocated() == plain.total(true));
      RC_ASSERT(a.reserved() == plain.total(false));
    }
  }));
}

TEST_CASE("expandable segments hold every block apart and never more than a page beside what a pool ever needed") {
  CHECK(rc::check("disjoint, reserved covers allocated", [] {
    CachingAllocator a(AllocatorKind::kExpandableSegments, *rc::gen::element(kPlenty, 300 * kMiB));
    std::map<std::int64_t, CachingAllocator::Block> live;  // by address
    const auto steps = *rc::gen::container<std::vector<std::pair<std::uint32_t, std::uint32_t>>>(80, rc::gen::arbitrary<std::pair<std::uint32_t, std::uint32_t>>());
    std::int64_t sum = 0;
    for (const auto& [what, size] : steps) {
      if (what % 5 < 2 && !live.empty()) {
        const auto at = std::next(live.begin(), static_cast<std::ptrdiff_t>(size % live.size()));
        sum -= a.size(at->second);
        a.free(at->second);
        live.erase(at);
      } else {
        const auto block = a.allocate(1 + size % ((what & 1U) != 0 ? 2 * kMiB : 60 * kMiB), what % 2);
        RC_ASSERT(live.emplace(a.address(block), block).second);
        sum += a.size(block);
      }
      RC_ASSERT(a.allocated() == sum);
      RC_ASSERT(a.reserved() >= sum);
      for (auto it = live.begin(); it != live.end() && std::next(it) != live.end(); ++it) RC_ASSERT(it->first + a.size(it->second) <= std::next(it)->first);
    }
  }));
}
