#pragma once
// From a partition into classes to the engine input that stands for the full one, and the proof that it does (fold.cpp says why).
#include <cstdint>
#include <vector>

#include "lower/incidence.hpp"
#include "orrery/engine/input.hpp"

namespace orrery::lower {

/// The class of every vertex, numbered by lowest member within its kind.
struct Classes {
  std::vector<std::uint32_t> of_rank, of_group, of_channel, of_resource;
};

engine::Input make_quotient(const engine::Input& full, const Incidence& incidence, const Classes& classes);

/// Asserts, member by member and without hashes, that the partition is equitable and that the quotient's usages are its column sums.
void verify_quotient(const engine::Input& full, const Incidence& incidence, const Classes& classes, const engine::Input& quotient);

}  // namespace orrery::lower
