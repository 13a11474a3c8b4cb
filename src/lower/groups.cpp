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

/// Adds up what flows put on links.
class Loads {
 public:
  Loads(const World& world, std::uint64_t role) : world_(world), role_(role) {}
  void add(LinkId link, double bytes) {
    if (bytes > 0) raw_.push_back({link, bytes});
  }
  void flow(std::uint32_t from, std::uint32_t to, double bytes) {
    if (bytes <= 0) return;
    for (const cluster::Hop& hop : world_.cluster.route(from, to, role_).hops) raw_.push_back({hop.link, bytes * hop.share});
  }
  std::vector<LinkLoad> take() {
    std::stable_sort(raw_.begin(), raw_.end(), [](const LinkLoad& a, const LinkLoad& b) { return a.link < b.link; });
    std::vector<LinkLoad> out;
    for (const LinkLoad& load : raw_) {
      if (!out.empty() && out.back().link == load.link) {
        out.back().bytes += load.bytes;
      } else {
        out.push_back(load);
      }
    }
    return out;
  }

 private:
  const World& world_;
  std::uint64_t role_;
  std::vector<LinkLoad> raw_;
};

/// The rank whose coordinates are 0 along the axis: one name for all members of a group.
std::int64_t lowest_member(Axis axis, std::int64_t rank, const plan::Grid& grid) {
  if (axis == Axis::kEp || axis == Axis::kEtp || axis == Axis::kExpertDp) {
    plan::ExpertCoordinates c = grid.expert_coordinates(rank);
    (axis == Axis::kEp ? c.ep : axis == Axis::kEtp ? c.etp : c.expert_dp) = 0;
    return grid.rank(c);
  }
  plan::Coordinates c = grid.coordinates(rank);
  if (axis == Axis::kTp || axis == Axis::kModel || axis == Axis::kWorld) c.tp = 0;
  if (axis == Axis::kCp || axis == Axis::kDp || axis == Axis::kWorld) c.cp = 0;
  if (axis == Axis::kDp || axis == Axis::kWorld) c.dp = 0;
  if (axis == Axis::kPp || axis == Axis::kEmbedding || axis == Axis::kModel || axis == Axis::kWorld) c.pp = 0;
  return grid.rank(c);
}

}  // namespace

std::vector<GroupLayout> make_groups(Axis axis, const World& world) {
  const plan::Parallelism& p = world.parallelism;
  const std::int64_t ranks = world.grid.ranks();
  std::vector<std::uint32_t> group_of(static_cast<std::size_t>(ranks), UINT32_MAX);  // by the group's lowest rank
  std::vector<std::vector<std::uint32_t>> by_lowest;
  for (std::int64_t r = 0; r < ranks; ++r) {
    if (axis == Axis::kEmbedding) {
      const std::int64_t stage = world.grid.coordinates(r).pp;
      if (stage != 0 && stage != p.pp - 1) continue;
    }
    std::uint32_t& group = group_of[static_cast<std::size_t>(lowest_member(axis, r, world.grid))];
    if (group == UINT32_MAX) {
      group = static_cast<std::uint32_t>(by_lowest.size());
      by_lowest.emplace_back();
    }
    by_lowest[group].push_back(static_cast<std::uint32_t>(r));
  }
  std::vector<GroupLayout> groups;
  for (std::vector<std::uint32_t>& members : by_lowest) {
    if (members.size() < 2) continue;
    GroupLayout g;
    g.members = std::move(members);
    std::int64_t last = -1;
    for (const std::uint32_t m : g.members) {
      const std::int64_t domain = world.cluster.domain_of(m);
      if (domain != last) {
        // Members are ascending and GPUs are numbered domain by domain, so a domain's members are neighbours.
        g.domains.emplace_back();
        last = domain;
      }
      g.domains.back().push_back(m);
    }
    groups.push_back(std::move(g));
  }
  return groups;
}

std::int64_t members_per_nic(const GroupLayout& group, const World& world) {
  const std::vector<std::uint32_t>& domain = group.domains.front();
  if (domain.size() == 1 || !world.cluster.fabric()) return 1;
  std::vector<std::int32_t> nics;
  for (const std::uint32_t m : domain) nics.push_back(world.cluster.nic_of(m));
  std::sort(nics.begin(), nics.end());
  std::int64_t most = 0, run = 0;
  for (std::size_t i = 0; i < nics.size(); ++i) {
    run = i > 0 && nics[i] == nics[i - 1] ? run + 1 : 1;
    most = std::max(most, run);
  }
  return most;
}

collective::Shape make_shape(const GroupLayout& group, const World& world) {
  const cluster::Node& node = world.cluster.node();
  collective::Shape s;
  s.ranks = static_cast<std::int64_t>(group.members.size());
  s.nodes = static_cast<std::int64_t>(group.domains.size());
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
  s.gpus_per_nic = members_per_nic(group, world);
  if (world.cluster.fabric()) s.nic_per_gpu = world.cluster.nic_per_gpu(s.gpus_per_nic);
  s.net_overhead_us = s.cpu == collective::CpuVendor::kAmd ? 2.0 : 1.0;
  return s;
}

std::vector<LinkLoad> link_loads(const GroupLayout& group, const collective::Hops& hops, std::uint64_t role, const World& world) {
  Loads loads(world, role);
  const std::size_t k = group.domains.size();
  if (world.cluster.node().scale_up_kind == cluster::ScaleUp::kNvSwitch || world.cluster.node().scale_up_kind == cluster::ScaleUp::kMesh) {
    for (const auto& domain : group.domains) {
      if (domain.size() < 2) continue;
      for (const std::uint32_t m : domain) {
        loads.add(world.cluster.scale_up_port(m, false), hops.intra_out);
        loads.add(world.cluster.scale_up_port(m, true), hops.intra_in);
      }
    }
  } else {
    // No switch: the ring inside a domain goes from neighbour to neighbour over whatever lies between.
    for (const auto& domain : group.domains) {
      if (domain.size() < 2) continue;
      for (std::size_t i = 0; i < domain.size(); ++i) loads.flow(domain[i], domain[(i + 1) % domain.size()], hops.intra_out);
    }
  }
  const auto exchange = [&](std::size_t from, std::size_t to, double bytes_per_member) {
    const auto& a = group.domains[from];
    const auto& b = group.domains[to];
    for (std::size_t i = 0; i < a.size(); ++i) loads.flow(a[i], b[i % b.size()], bytes_per_member);
  };
  if (k > 1) {
    switch (hops.pattern) {
      case collective::Hops::Pattern::kNone: break;
      case collective::Hops::Pattern::kRingOfNodes:
        for (std::size_t d = 0; d < k; ++d) exchange(d, (d + 1) % k, hops.inter_out);
        break;
      case collective::Hops::Pattern::kTreeOfNodes: {
        // Two complementary trees, each with half of the data up and down every edge (modelling 6.2). The second one is the first,
        // shifted by one domain (odd k) or mirrored (even k), so that leaves of one are inner in the other.
        const double half = 0.5 / static_cast<double>(group.domains.front().size());
        for (int tree = 0; tree < 2; ++tree) {
          const auto place = [&](std::int64_t i) {
            if (tree == 0) return static_cast<std::size_t>(i);
            return k % 2 == 1 ? (static_cast<std::size_t>(i) + 1) % k : k - 1 - static_cast<std::size_t>(i);
          };
          for (std::int64_t i = 1; i < static_cast<std::int64_t>(k); ++i) {
            const std::int64_t parent = tree_parent(static_cast<std::int64_t>(k), i);
            exchange(place(i), place(parent), half);
            exchange(place(parent), place(i), half);
          }
        }
        break;
      }
      case collective::Hops::Pattern::kAllPairs: {
        const double share = hops.inter_out / static_cast<double>(group.members.size() - group.domains.front().size());
        for (std::size_t a = 0; a < k; ++a) {
          for (std::size_t b = 0; b < k; ++b) {
            if (a == b) continue;
            for (const std::uint32_t from : group.domains[a]) {
              for (const std::uint32_t to : group.domains[b]) loads.flow(from, to, share);
            }
          }
        }
        break;
      }
    }
  }
  return loads.take();
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
