#pragma once
// Communicators: the groups of one axis on one stream, and the copies between a rank and its host, which are groups of one.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "transfers.hpp"
#include "usage.hpp"

namespace orrery::lower {

/// A communicator: the groups of one axis on one stream. A stream of its own is a communicator of its own, as in the frameworks, for
/// NCCL settles the order of operations within one.
struct Communicator {
  workload::Axis axis = workload::Axis::kTp;
  program::Stream stream = program::Stream::kCompute;
  std::vector<std::uint32_t> requests;
};

/// The communicators that programs use, by axis and stream.
std::vector<Communicator> communicators(const program::Program& program);

/// Which ranks' programs use a communicator. Stages without anything to train reduce nothing, and a group that no member meets in a slot
/// would join ranks of different classes.
class Users {
 public:
  Users(const Communicator& communicator, const World& world) : world_(world) {
    for (const program::Role& role : world.program.roles) {
      role_uses_.push_back(std::any_of(role.items.begin(), role.items.end(), [&](const program::Item& item) {
        return item.kind == program::ItemKind::kCollective && item.stream == communicator.stream && world.program.requests[item.index].axis == communicator.axis;
      }));
    }
    all_ = std::all_of(role_uses_.begin(), role_uses_.end(), [](bool uses) { return uses; });
  }
  [[nodiscard]] bool has(std::uint32_t rank) const {
    if (all_) return true;
    const plan::Coordinates at = world_.grid.coordinates(rank);
    return role_uses_[world_.program.role_of(at.pp, at.cp, world_.grid.expert_coordinates(rank).ep)];
  }
  [[nodiscard]] bool any_of(const GroupLayout& group) const {
    return all_ || std::any_of(group.members.begin(), group.members.end(), [&](std::uint32_t rank) { return has(rank); });
  }

 private:
  const World& world_;
  std::vector<bool> role_uses_;
  bool all_ = true;
};

/// Copies between a rank and its host or drives, and the host's own work for it.
void lower_host_copies(std::uint32_t index, const Communicator& communicator, const World& world, Resources& resources, Communication& comm, Lowered& out,
                       std::vector<std::uint32_t>& group_of_rank);

}  // namespace orrery::lower
