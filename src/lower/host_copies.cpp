#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "communicators.hpp"

namespace orrery::lower {

using workload::Axis;

/// Copies between a rank and its host, and the host's own work for it: a group of one each. A copy takes what the slowest link on its way
/// carries, and shares switch uplinks with its neighbours' copies; the host's memory bandwidth is shared evenly, since all ranks of a node
/// update at once.
void lower_host_copies(std::uint32_t index, const Communicator& communicator, const World& world, Resources& resources, Communication& comm, Lowered& out,
                       std::vector<std::uint32_t>& group_of_rank) {
  /// Streams reach this share of the memory bandwidth of a host (McCalpin, STREAM, on two-socket servers).
  constexpr double kHostStream = 0.8;
  const cluster::Node& node = world.cluster.node();
  const auto first_transfer = static_cast<std::uint32_t>(out.input.transfers.size());
  const bool updates = communicator.axis == Axis::kHostUpdate, drives = workload::with_drives(communicator.axis);
  const bool stays_on_host = communicator.axis == Axis::kSwapOut || communicator.axis == Axis::kSwapIn;
  const bool out_of_device = communicator.axis == Axis::kToHost || communicator.axis == Axis::kToDrives || communicator.axis == Axis::kSwapOut;
  Slowest slowest;
  Seconds latency{};
  const Users users(communicator, world);
  for (std::uint32_t r = 0; r < group_of_rank.size(); ++r) {
    if (!users.has(r)) continue;
    engine::Group group;
    group.members = {r};
    group.first_transfer = first_transfer;
    group.kind = index;
    engine::UsageRange range;
    if (!updates) {
      const cluster::Route route = drives ? world.cluster.drive_route(r, out_of_device, stays_on_host) : world.cluster.host_route(r, out_of_device);
      std::vector<LinkLoad> loads;
      for (const cluster::Hop& hop : route.hops) loads.push_back({hop.link, hop.share});
      range = add_usage(loads, 1, resources, out);
      const Slowest s = slowest_link(loads, world);
      if (s.seconds_per_byte > slowest.seconds_per_byte) slowest = s;
      latency = std::max(latency, route.latency);
    }
    group.usage_sets.push_back(range);
    group_of_rank[r] = static_cast<std::uint32_t>(out.input.groups.size());
    out.input.groups.push_back(std::move(group));
  }
  for (const std::uint32_t request : communicator.requests) {
    comm.request_alone[request] = false;
    const auto bytes = static_cast<double>(world.program.requests[request].bytes);
    TransferRow row{workload::CommKind::kSendRecv, communicator.axis, 1, world.program.requests[request].bytes, {}, "", Origin::kDatasheet, 0};
    row.choice.algorithm = collective::Algorithm::kPairs;
    row.choice.channels = 0;
    if (updates) {
      row.limited_by = "host memory";
      row.origin = Origin::kDefault;
      const double rate = node.host_bandwidth.value() * kHostStream / static_cast<double>(world.cluster.gpus_per_node());
      add_transfer(Seconds(bytes / rate), Seconds(0), 0, 0, 0, 0, world, std::move(row), out);
    } else {
      row.limited_by = std::string(cluster::to_string(slowest.kind));
      if (drives && !node.drive_rates_stated) row.origin = Origin::kDefault;
      // A copy reads or writes device memory once for each byte.
      const double device_bytes = stays_on_host ? 0 : bytes / world.profile.overlap.hbm_per_wire_byte.value;
      add_transfer(latency, Seconds(bytes * slowest.seconds_per_byte), bytes, device_bytes, 0, 0, world, std::move(row), out);
    }
  }
}

}  // namespace orrery::lower
