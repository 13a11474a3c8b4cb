#include <algorithm>
#include <string>
#include <vector>

#include "orrery/base/assert.hpp"
#include "orrery/plan/plan.hpp"

namespace orrery::plan {

namespace {
// Slots of the coordinate arrays: tp, cp, dp, pp of the dense grid; etp, ep, expert_dp, pp of the experts'.
constexpr std::size_t kNoSlot = 4;

constexpr std::size_t slot_of(GridAxis axis) {
  switch (axis) {
    case GridAxis::kTp: return 0;
    case GridAxis::kCp: return 1;
    case GridAxis::kDp: return 2;
    case GridAxis::kPp: return 3;
    case GridAxis::kEp: break;
  }
  return kNoSlot;
}

constexpr std::size_t expert_slot_of(GridAxis axis) {
  switch (axis) {
    case GridAxis::kTp: return 0;
    case GridAxis::kEp: return 1;
    case GridAxis::kDp: return 2;
    case GridAxis::kPp: return 3;
    case GridAxis::kCp: break;
  }
  return kNoSlot;
}

std::array<std::int64_t, 4> strides(const std::array<GridAxis, 5>& order, const std::array<std::int64_t, 4>& size, std::size_t (*slot_of_axis)(GridAxis)) {
  std::array<std::int64_t, 4> strides{};
  std::int64_t stride = 1;
  for (const GridAxis axis : order) {
    const std::size_t slot = slot_of_axis(axis);
    if (slot == kNoSlot) continue;
    ORRERY_ASSERT(strides[slot] == 0, "the order names every axis once");
    strides[slot] = stride;
    stride *= size[slot];
  }
  return strides;
}
}  // namespace

std::string_view to_string(GridAxis a) {
  constexpr std::array<std::string_view, 5> names = {"tp", "cp", "ep", "dp", "pp"};
  return names[static_cast<std::size_t>(a)];
}

std::optional<std::array<GridAxis, 5>> read_order(const document::Value& order) {
  std::vector<std::string> names(1);
  if (order.is_string()) {
    for (const char c : order.as_string()) {
      if (c == '-') {
        names.emplace_back();
      } else {
        names.back() += c;
      }
    }
  } else if (order.is_array()) {
    names.clear();
    for (const document::Value& name : order.items()) names.push_back(name.is_string() ? name.as_string() : "");
  }
  constexpr std::array<GridAxis, 5> kAxes = {GridAxis::kTp, GridAxis::kCp, GridAxis::kEp, GridAxis::kDp, GridAxis::kPp};
  if (names.size() != kAxes.size()) return std::nullopt;
  std::array<GridAxis, 5> out{};
  for (const GridAxis a : kAxes) {
    const auto found = std::find(names.begin(), names.end(), to_string(a));
    if (found == names.end()) return std::nullopt;
    out[static_cast<std::size_t>(found - names.begin())] = a;
  }
  return out;
}

Grid::Grid(const Parallelism& p)
    : size_{p.tp, p.cp, p.dp, p.pp},
      stride_(strides(p.order, size_, [](GridAxis a) { return slot_of(a); })),
      expert_size_{p.etp, p.ep, p.expert_dp(), p.pp},
      expert_stride_(strides(p.order, expert_size_, [](GridAxis a) { return expert_slot_of(a); })) {}

std::int64_t Grid::ranks() const { return size_[0] * size_[1] * size_[2] * size_[3]; }

Coordinates Grid::coordinates(std::int64_t rank) const {
  ORRERY_ASSERT(rank >= 0 && rank < ranks(), "the rank is in the grid");
  const auto along = [&](std::size_t slot) { return rank / stride_[slot] % size_[slot]; };
  return {along(0), along(1), along(2), along(3)};
}

std::int64_t Grid::rank(const Coordinates& c) const { return c.tp * stride_[0] + c.cp * stride_[1] + c.dp * stride_[2] + c.pp * stride_[3]; }

ExpertCoordinates Grid::expert_coordinates(std::int64_t rank) const {
  ORRERY_ASSERT(rank >= 0 && rank < ranks(), "the rank is in the grid");
  const auto along = [&](std::size_t slot) { return rank / expert_stride_[slot] % expert_size_[slot]; };
  return {along(0), along(1), along(2), along(3)};
}

std::int64_t Grid::rank(const ExpertCoordinates& c) const {
  return c.etp * expert_stride_[0] + c.ep * expert_stride_[1] + c.expert_dp * expert_stride_[2] + c.pp * expert_stride_[3];
}

}  // namespace orrery::plan
