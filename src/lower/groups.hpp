#pragma once
// The communicators of a plan: who is in them, how they lie on the cluster, and what a collective puts on every link.
#include <cstdint>
#include <vector>

#include "orrery/lower/lower.hpp"

namespace orrery::lower {

/// One process group: its ranks ascending, and the same ranks by scale-up domain.
struct GroupLayout {
  std::vector<std::uint32_t> members;
  std::vector<std::vector<std::uint32_t>> domains;
};

/// All groups of an axis, by lowest member. Empty for an axis whose groups have one member only.
std::vector<GroupLayout> make_groups(workload::Axis axis, const World& world);

/// Members of one scale-up domain that share the busiest NIC.
std::int64_t members_per_nic(const GroupLayout& group, const World& world);

/// What NCCL's topology search would say of the group.
collective::Shape make_shape(const GroupLayout& group, const World& world);

/// Bytes that a collective of one byte puts on a link, per link; several flows on one link are added. role: what ECMP draws are made from,
/// beside the source's place under its leaf; equal for groups that play the same part, so that equal leaves fold.
struct LinkLoad {
  LinkId link;
  double bytes = 0;
};
std::vector<LinkLoad> link_loads(const GroupLayout& group, const collective::Hops& hops, std::uint64_t role, const World& world);

}  // namespace orrery::lower
