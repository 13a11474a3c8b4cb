#pragma once
// From a partition into classes to the engine input that stands for the full one, and the proof that it does (fold.cpp says why).
#include <cstdint>
#include <vector>

#include "lower/incidence.hpp"
#include "orrery/engine/input.hpp"

namespace orrery::lower {

/// The classes of one kind of vertex, numbered by lowest member.
struct Partition {
  std::vector<std::uint32_t> of;      ///< class of every member
  std::vector<std::uint32_t> lowest;  ///< lowest member of every class
};
struct Classes {
  Partition ranks, groups, channels, resources;
};

engine::Input make_quotient(const engine::Input& full, const Incidence& incidence, const Classes& classes);

/// Asserts, member by member and without hashes, that the partition is equitable and that the quotient's usages are its column sums.
void verify_quotient(const engine::Input& full, const Incidence& incidence, const Classes& classes, const engine::Input& quotient);

}  // namespace orrery::lower
