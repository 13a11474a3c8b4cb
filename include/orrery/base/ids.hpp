#pragma once
// Distinct index types: a RankId is not a LinkId.
#include <compare>
#include <cstddef>
#include <cstdint>

namespace orrery {

template <class Tag>
struct Id {
  std::uint32_t value = UINT32_MAX;  ///< index into the vector that owns the things; UINT32_MAX: none
  constexpr auto operator<=>(const Id&) const = default;
  [[nodiscard]] constexpr std::size_t index() const { return value; }
  [[nodiscard]] constexpr bool valid() const { return value != UINT32_MAX; }
};

using RankId = Id<struct RankTag>;
using NodeId = Id<struct NodeTag>;
using LinkId = Id<struct LinkTag>;  ///< one direction of a port or link

}  // namespace orrery
