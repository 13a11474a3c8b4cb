#pragma once
// Collectives and pipeline traffic as engine groups, channels and transfers.
#include <cstdint>
#include <string>
#include <vector>

#include "groups.hpp"

namespace orrery::lower {

/// Where a role finds its communicators: per request of the program and stream the group slot and the transfer, per pipeline slot the
/// channel slot.
struct RoleSlots {
  std::vector<std::uint32_t> group_slot, group_transfer;        ///< by place(request, stream); kNone where the role does not use it
  std::array<std::uint32_t, program::kSlots> channel_slot{};    ///< by program::Slot; kNone where unused
  std::uint32_t groups = 0, channels = 0;

  static std::size_t place(std::uint32_t request, program::Stream stream) { return request * program::kStreams + static_cast<std::size_t>(stream); }
};

/// Fills resources, usages, transfers, groups, channels and ranks of `out.input`; rows and accounts beside them.
/// Collectives of a group with one member vanish: request_alone[i] says so per request.
struct Communication {
  std::vector<RoleSlots> roles;
  std::vector<bool> request_alone;
  std::vector<std::int64_t> channel_bytes;  ///< distinct sizes of pipeline traffic: the transfer index of a size
};
Result<Communication> lower_communication(const World& world, Lowered& out, const std::string& file);

}  // namespace orrery::lower
