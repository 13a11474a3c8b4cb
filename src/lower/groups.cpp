#include "groups.hpp"

#include <algorithm>

#include "orrery/base/assert.hpp"

namespace orrery::lower {
namespace {

using workload::Axis;

/// Parent of a rank in NCCL's binary tree of n ranks (trees.cc, ncclGetBtree: leaves are odd, the parent clears the lowest set bit and
/// sets the next); -1 for the root.
std::int64_t tree_parent(std::int64_t n, std::int64_t rank) {
  if (rank == 0) return -1;
  std::int64_t bit = 1;
  while ((bit & rank) == 0) bit <<= 1;
  const std::int64_t up = (rank ^ bit) | (bit << 1);
  return up < n ? up : (rank ^ bit);
}

/// The rank whose coordinates are 0 along the axis: one name for all members of a group.
std::int64_t lowest_member(Axis axis, std::int64_t rank, const plan::Grid& grid, std::int64_t stages) {
  if (axis == Axis::kEp || axis == Axis::kEtp || axis == Axis::kExpertDp) {
    plan::ExpertCoordinates c = grid.expert_coordinates(rank);
    (axis == Axis::kEp ? c.ep : axis == Axis::kEtp ? c.etp : c.expert_dp) = 0;
    return grid.rank(c);
  }
  plan::Coordinates c = grid.coordinates(rank);
  if (axis == Axis::kTp || axis == Axis::kModel || axis == Axis::kWorld) c.tp = 0;
  if (axis == Axis::kCp || axis == Axis::kDp || axis == Axis::kWorld) c.cp = 0;
  if (axis == Axis::kDp || axis == Axis::kWorld) c.dp = 0;
  if (axis == Axis::kMirror) c.pp = std::min(c.pp, stages - 1 - c.pp);
  if (axis == Axis::kPp || axis == Axis::kEmbedding || axis == Axis::kModel || axis == Axis::kWorld) c.pp = 0;
  return grid.rank(c);
}

/// NICs that the GPUs use, and how many of them share the busiest.
std::int64_t most_per_nic(std::span<const std::uint32_t> gpus, const World& world) {
  if (gpus.size() == 1 || !world.cluster.fabric()) return 1;
  // A domain may span nodes (NVL72), each with NICs of its own.
  std::vector<std::pair<std::int64_t, std::int32_t>> nics;
  nics.reserve(gpus.size());
  for (const std::uint32_t gpu : gpus) nics.emplace_back(gpu / world.cluster.gpus_per_node(), world.cluster.nic_of(gpu));
  std::sort(nics.begin(), nics.end());
  std::int64_t most = 0, run = 0;
  for (std::size_t i = 0; i < nics.size(); ++i) {
    run = i > 0 && nics[i] == nics[i - 1] ? run + 1 : 1;
    most = std::max(most, run);
  }
  return most;
}

}  // namespace

GroupLayout lay_out(std::vector<std::uint32_t> members, const World& world) {
  GroupLayout g;
  g.members = std::move(members);
  // A placement may part neighbours: a domain's members stand together here, as NCCL orders its rings by node.
  std::stable_sort(g.members.begin(), g.members.end(), [&](std::uint32_t a, std::uint32_t b) { return world.cluster.domain_of(a) < world.cluster.domain_of(b); });
  std::int64_t last = -1;
  for (const std::uint32_t m : g.members) {
    const std::int64_t domain = world.cluster.domain_of(m);
    if (domain != last) g.domain_end.push_back(g.domain_end.empty() ? 0 : g.domain_end.back());
    last = domain;
    ++g.domain_end.back();
  }
  g.per_nic = most_per_nic(g.domain(0), world);
  return g;
}

namespace {
/// Groups of dp cut into replicas of neighbours, which lie inside nodes where they can; across them the ranks of one place in a replica
/// (PyTorch HSDP's device mesh, replicas outermost; Megatron-LM partial data-parallel groups).
std::vector<GroupLayout> cut(Axis axis, const World& world) {
  std::vector<GroupLayout> out;
  for (const GroupLayout& group : make_groups(Axis::kDp, world)) {
    const std::size_t replicas = static_cast<std::size_t>(world.parallelism.replicas), shards = group.members.size() / replicas;
    const bool inside = axis == Axis::kDpShard;
    std::vector<std::vector<std::uint32_t>> parts(inside ? replicas : shards);
    for (std::size_t i = 0; i < group.members.size(); ++i) parts[inside ? i / shards : i % shards].push_back(group.members[i]);
    for (std::vector<std::uint32_t>& part : parts) {
      if (part.size() >= 2) out.push_back(lay_out(std::move(part), world));
    }
  }
  return out;
}
}  // namespace

std::vector<GroupLayout> make_groups(Axis axis, const World& world) {
  if (axis == Axis::kDpShard || axis == Axis::kDpReplicas) return cut(axis, world);
  const auto ranks = static_cast<std::size_t>(world.grid.ranks());
  std::vector<std::uint32_t> group_at(ranks, UINT32_MAX);  // by the group's lowest rank
  std::vector<std::uint32_t> group_of(ranks, UINT32_MAX);
  std::vector<std::size_t> sizes;
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto rank = static_cast<std::int64_t>(r);
    if (axis == Axis::kEmbedding) {
      const std::int64_t stage = world.grid.coordinates(rank).pp;
      if (stage != 0 && stage != world.parallelism.pp - 1) continue;
    }
    std::uint32_t& group = group_at[static_cast<std::size_t>(lowest_member(axis, rank, world.grid, world.parallelism.pp))];
    if (group == UINT32_MAX) {
      group = static_cast<std::uint32_t>(sizes.size());
      sizes.push_back(0);
    }
    group_of[r] = group;
    ++sizes[group];
  }
  std::vector<std::vector<std::uint32_t>> by_lowest(sizes.size());
  for (std::size_t g = 0; g < sizes.size(); ++g) {
    if (sizes[g] >= 2) by_lowest[g].reserve(sizes[g]);
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    if (group_of[r] != UINT32_MAX && sizes[group_of[r]] >= 2) by_lowest[group_of[r]].push_back(static_cast<std::uint32_t>(r));
  }
  std::vector<GroupLayout> groups;
  for (std::vector<std::uint32_t>& members : by_lowest) {
    if (!members.empty()) groups.push_back(lay_out(std::move(members), world));
  }
  return groups;
}

collective::Shape make_shape(const GroupLayout& group, const World& world) {
  const cluster::Node& node = world.cluster.node();
  collective::Shape s;
  s.ranks = static_cast<std::int64_t>(group.members.size());
  s.nodes = static_cast<std::int64_t>(group.domains());
  const std::string& arch = node.gpu.architecture;
  s.arch = arch.starts_with("Volta")       ? collective::Arch::kVolta
           : arch.starts_with("Ampere")    ? collective::Arch::kAmpere
           : arch.starts_with("Ada")       ? collective::Arch::kAmpere
           : arch.starts_with("Hopper")    ? collective::Arch::kHopper
           : arch.starts_with("Blackwell") ? collective::Arch::kBlackwell
                                           : collective::Arch::kOther;
  s.cpu = node.cpu_vendor == "amd" ? collective::CpuVendor::kAmd : node.cpu_vendor == "arm" ? collective::CpuVendor::kArm : collective::CpuVendor::kIntel;
  s.nvswitch = node.scale_up_kind == cluster::ScaleUp::kNvSwitch;
  s.nvlink = s.nvswitch || node.scale_up_kind == cluster::ScaleUp::kMesh || (node.scale_up_kind == cluster::ScaleUp::kBridge && s.ranks <= 2);
  s.nvls = s.nvswitch && node.nvswitch_generation >= 3;
  s.scale_up = node.scale_up;
  if (world.cluster.fabric()) {
    s.sharp = world.cluster.fabric()->in_network_reduction;
    s.net_is_ib = world.cluster.fabric()->kind == "infiniband";
  }
  s.gpus_per_nic = group.per_nic;
  if (world.cluster.fabric()) s.nic_per_gpu = world.cluster.nic_per_gpu(s.gpus_per_nic);
  s.net_overhead_us = s.cpu == collective::CpuVendor::kAmd ? 2.0 : 1.0;
  return s;
}

void LinkLoads::add(LinkId link, double bytes) {
  if (bytes <= 0) return;
  double& sum = bytes_[link.index()];
  if (sum == 0) touched_.push_back(link);
  sum += bytes;
}

void LinkLoads::flow(std::uint32_t from, std::uint32_t to, double bytes) {
  if (bytes <= 0) return;
  for (const cluster::Hop& hop : world_.cluster.route(from, to, role_).hops) add(hop.link, bytes * hop.share);
}

void LinkLoads::exchange(std::span<const std::uint32_t> from, std::span<const std::uint32_t> to, double bytes_per_member) {
  for (std::size_t i = 0; i < from.size(); ++i) flow(from[i], to[i % to.size()], bytes_per_member);
}

void LinkLoads::inside_domains(const GroupLayout& group, const collective::Hops& hops) {
  const cluster::ScaleUp kind = world_.cluster.node().scale_up_kind;
  const bool ports = kind == cluster::ScaleUp::kNvSwitch || kind == cluster::ScaleUp::kMesh;
  for (std::size_t d = 0; d < group.domains(); ++d) {
    const std::span<const std::uint32_t> domain = group.domain(d);
    if (domain.size() < 2) continue;
    for (std::size_t i = 0; i < domain.size(); ++i) {
      if (ports) {
        add(world_.cluster.scale_up_port(domain[i], false), hops.intra_out);
        add(world_.cluster.scale_up_port(domain[i], true), hops.intra_in);
      } else {
        // No switch: the ring inside a domain goes from neighbour to neighbour over whatever lies between.
        flow(domain[i], domain[(i + 1) % domain.size()], hops.intra_out);
      }
    }
  }
}

void LinkLoads::between_domains(const GroupLayout& group, const collective::Hops& hops) {
  const std::size_t k = group.domains();
  switch (hops.pattern) {
    case collective::Hops::Pattern::kNone:
    case collective::Hops::Pattern::kNextRank: break;
    case collective::Hops::Pattern::kRingOfNodes:
      for (std::size_t d = 0; d < k; ++d) exchange(group.domain(d), group.domain((d + 1) % k), hops.inter_out);
      break;
    case collective::Hops::Pattern::kTreeOfNodes: {
      // Two complementary trees, each with half of the data up and down every edge (modelling 6.2). The second one is the first,
      // shifted by one domain (odd k) or mirrored (even k), so that leaves of one are inner in the other.
      const double half = 0.5 / static_cast<double>(group.domain(0).size());
      for (int tree = 0; tree < 2; ++tree) {
        const auto place = [&](std::int64_t i) {
          if (tree == 0) return static_cast<std::size_t>(i);
          return k % 2 == 1 ? (static_cast<std::size_t>(i) + 1) % k : k - 1 - static_cast<std::size_t>(i);
        };
        for (std::int64_t i = 1; i < static_cast<std::int64_t>(k); ++i) {
          const auto child = group.domain(place(i)), parent = group.domain(place(tree_parent(static_cast<std::int64_t>(k), i)));
          exchange(child, parent, half);
          exchange(parent, child, half);
        }
      }
      break;
    }
    case collective::Hops::Pattern::kRails:
      for (std::size_t a = 0; a < k; ++a) {
        for (std::size_t b = 0; b < k; ++b) {
          if (a != b) exchange(group.domain(a), group.domain(b), hops.inter_out / static_cast<double>(k - 1));
        }
      }
      break;
    case collective::Hops::Pattern::kAllPairs: {
      const double share = hops.inter_out / static_cast<double>(group.members.size() - group.domain(0).size());
      for (std::size_t a = 0; a < k; ++a) {
        for (std::size_t b = 0; b < k; ++b) {
          if (a == b) continue;
          for (const std::uint32_t from : group.domain(a)) {
            for (const std::uint32_t to : group.domain(b)) flow(from, to, share);
          }
        }
      }
      break;
    }
  }
}

std::span<const LinkLoad> LinkLoads::of(const GroupLayout& group, const collective::Hops& hops, std::uint64_t role) {
  role_ = role;
  if (hops.pattern == collective::Hops::Pattern::kNextRank) {
    const std::size_t n = group.members.size();
    for (std::size_t i = 0; i < n; ++i) flow(group.members[i], group.members[(i + 1) % n], 1.0);
  } else {
    inside_domains(group, hops);
    if (group.domains() > 1) between_domains(group, hops);
  }
  std::sort(touched_.begin(), touched_.end());
  loads_.clear();
  for (const LinkId link : touched_) {
    loads_.push_back({link, bytes_[link.index()]});
    bytes_[link.index()] = 0;
  }
  touched_.clear();
  return loads_;
}

collective::Kind to_kind(workload::CommKind kind) {
  switch (kind) {
    case workload::CommKind::kAllReduce: return collective::Kind::kAllReduce;
    case workload::CommKind::kAllGather: return collective::Kind::kAllGather;
    case workload::CommKind::kReduceScatter: return collective::Kind::kReduceScatter;
    case workload::CommKind::kAllToAll: return collective::Kind::kAllToAll;
    case workload::CommKind::kBroadcast: return collective::Kind::kBroadcast;
    case workload::CommKind::kReduce: return collective::Kind::kReduce;
    case workload::CommKind::kSendRecv: return collective::Kind::kSendRecv;
  }
  return collective::Kind::kAllReduce;
}

}  // namespace orrery::lower
