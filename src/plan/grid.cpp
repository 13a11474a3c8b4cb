#include "orrery/base/assert.hpp"
#include "orrery/plan/plan.hpp"

namespace orrery::plan {

namespace {
// Slots of the coordinate arrays. The ep axis has no extent here: experts use a second grid over the same ranks (design 5.1), whose
// place in the order matters only there.
constexpr std::size_t kTpSlot = 0, kCpSlot = 1, kDpSlot = 2, kPpSlot = 3, kNoSlot = 4;

constexpr std::size_t slot_of(GridAxis axis) {
  switch (axis) {
    case GridAxis::kTp: return kTpSlot;
    case GridAxis::kCp: return kCpSlot;
    case GridAxis::kDp: return kDpSlot;
    case GridAxis::kPp: return kPpSlot;
    case GridAxis::kEp: break;
  }
  return kNoSlot;
}
}  // namespace

std::string_view to_string(GridAxis a) {
  constexpr std::array<std::string_view, 5> names = {"tp", "cp", "ep", "dp", "pp"};
  return names[static_cast<std::size_t>(a)];
}

Grid::Grid(const Parallelism& p) : size_{p.tp, p.cp, p.dp, p.pp} {
  std::int64_t stride = 1;
  for (GridAxis axis : p.order) {
    const std::size_t slot = slot_of(axis);
    if (slot == kNoSlot) continue;
    ORRERY_ASSERT(stride_[slot] == 0, "the order names every axis once");
    stride_[slot] = stride;
    stride *= size_[slot];
  }
}

std::int64_t Grid::ranks() const { return size_[0] * size_[1] * size_[2] * size_[3]; }

Coordinates Grid::coordinates(std::int64_t rank) const {
  ORRERY_ASSERT(rank >= 0 && rank < ranks(), "the rank is in the grid");
  const auto along = [&](std::size_t slot) { return rank / stride_[slot] % size_[slot]; };
  return {along(kTpSlot), along(kCpSlot), along(kDpSlot), along(kPpSlot)};
}

std::int64_t Grid::rank(const Coordinates& c) const {
  return c.tp * stride_[kTpSlot] + c.cp * stride_[kCpSlot] + c.dp * stride_[kDpSlot] + c.pp * stride_[kPpSlot];
}

}  // namespace orrery::plan
