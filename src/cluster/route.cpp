// Routes. Inside a node traffic takes the scale-up network where there is one and PCIe where there is none; across nodes
//
//     GPU --pcie--> [switch] --nic--> leaf --up--> spine --up--> core --> ... --> nic --> [switch] --> GPU
//
// What stays under one PCIe switch (peer to peer, GPUDirect RDMA) never touches the switch's uplink; what goes through host memory (no peer
// access, TCP) always does. Ideal and adaptive routing spread a flow over all uplinks, which are one pooled link; ECMP hashes every queue
// pair onto one uplink of the leaf and one of the spine; static routing gives every host port its own.
#include <algorithm>
#include <array>

#include "orrery/base/checked.hpp"
#include "orrery/base/random.hpp"
#include "orrery/cluster/cluster.hpp"

namespace orrery::cluster {
namespace {

// NCCL's own cost of one hop with the LL protocol (src/graph/tuning.cc, hwLat, ring): NVLink 0.6 us, PCIe 1.0 us.
constexpr Seconds kScaleUpLatency{0.6e-6};
constexpr Seconds kPcieLatency{1.0e-6};
// Peer traffic through an Intel root complex takes 6/5 of its bytes (NCCL src/graph/topo.h, INTEL_P2P_OVERHEAD).
constexpr double kIntelRootOverhead = 1.2;

/// Adds to a hop that is there already: queue pairs and NICs of one flow that meet on a link.
void add(Route& r, LinkId link, double share) {
  for (Hop& hop : r.hops) {
    if (hop.link == link) {
      hop.share += share;
      return;
    }
  }
  r.hops.push_back({link, share});
}

/// Uniform in 0 … n-1 from 64 random bits (Lemire's multiplication; the bias for n < 2^20 is below 2^-44).
std::int64_t below(std::uint64_t bits, std::int64_t n) {
  return static_cast<std::int64_t>((static_cast<uint128>(bits) * static_cast<uint128>(n)) >> 64U);
}

}  // namespace

std::vector<std::int32_t> Cluster::nics_at(std::int64_t gpu) const {
  const std::int64_t node = gpu / gpus_per_node_, local = gpu % gpus_per_node_;
  const std::int64_t first = local * node_.nics / node_.gpus;
  const auto dead = [&](std::int64_t nic) {
    return std::binary_search(dead_nics_.begin(), dead_nics_.end(), Dead{node, static_cast<std::int32_t>(nic)});
  };
  std::vector<std::int32_t> nics;
  for (std::int64_t i = first; i < first + nics_per_gpu(); ++i) {
    if (!dead(i)) nics.push_back(static_cast<std::int32_t>(i));
  }
  if (!nics.empty()) return nics;
  // Round a failure: the nearest NIC that works, by PCIe switch, then by socket, then by number.
  const auto g = static_cast<std::size_t>(local);
  const auto distance = [&](std::int64_t nic) {
    const auto n = static_cast<std::size_t>(nic);
    const int tree = node_.nic_numa[n] != node_.gpu_numa[g] ? 2 : node_.pcie_switches > 0 && node_.nic_pcie_switch[n] != node_.gpu_pcie_switch[g] ? 1 : 0;
    return std::pair(tree, nic < first ? first - nic : nic - first);
  };
  std::int64_t best = -1;
  for (std::int64_t nic = 0; nic < nics_per_node_; ++nic) {
    if (!dead(nic) && (best < 0 || distance(nic) < distance(best))) best = nic;
  }
  return {static_cast<std::int32_t>(best)};
}

std::int32_t Cluster::nic_of(std::int64_t gpu) const { return nics_at(place_of(gpu)).front(); }

void Cluster::pcie_path(Route& r, std::int64_t node, std::int64_t from_gpu, std::int64_t to_gpu) const {
  const auto a = static_cast<std::size_t>(from_gpu), b = static_cast<std::size_t>(to_gpu);
  const int switch_a = node_.gpu_pcie_switch[a], switch_b = node_.gpu_pcie_switch[b], numa_a = node_.gpu_numa[a], numa_b = node_.gpu_numa[b];
  const int top = node_.peer_to_peer ? node_.switch_above_both(switch_a, switch_b) : -1;  // below it peers meet
  const bool below_one_switch = top >= 0;
  const double share = !below_one_switch && node_.peer_to_peer && node_.cpu_vendor == "intel" ? kIntelRootOverhead : 1;
  r.latency += kPcieLatency;
  r.hops.push_back({at(node, layout_.pcie, from_gpu, false), switch_a < 0 ? share : 1});
  for (int s = switch_a; s >= 0 && s != top; s = node_.switch_above(s)) {
    r.hops.push_back({at(node, layout_.uplink, s, false), share});
  }
  if (!below_one_switch && numa_a != numa_b) {
    r.hops.push_back({at(node, layout_.host, numa_a, false), share});
    r.hops.push_back({at(node, layout_.host, numa_b, true), share});
  }
  const std::size_t first_down = r.hops.size();
  for (int s = switch_b; s >= 0 && s != top; s = node_.switch_above(s)) {
    r.hops.push_back({at(node, layout_.uplink, s, true), share});
  }
  std::reverse(r.hops.begin() + static_cast<std::ptrdiff_t>(first_down), r.hops.end());
  r.hops.push_back({at(node, layout_.pcie, to_gpu, true), switch_b < 0 ? share : 1});
}

void Cluster::nic_path(Route& r, std::int64_t node, std::int64_t gpu, std::int32_t nic, bool leaving, double share) const {
  const auto g = static_cast<std::size_t>(gpu), n = static_cast<std::size_t>(nic);
  const int gpu_switch = node_.gpu_pcie_switch[g], nic_switch = node_.nic_pcie_switch[n], gpu_numa = node_.gpu_numa[g], nic_numa = node_.nic_numa[n];
  const int top = node_.peer_to_peer && !fabric_->host_staged ? node_.switch_above_both(gpu_switch, nic_switch) : -1;
  // From the GPU outwards when leaving; the same links, in their other direction and order, when arriving: host link, uplinks of at most
  // eight switches (read_node), two socket links, uplinks, NIC.
  std::array<LinkId, 20> way;
  std::size_t n_way = 0;
  way[n_way++] = at(node, layout_.pcie, gpu, !leaving);
  for (int s = gpu_switch; s >= 0 && s != top; s = node_.switch_above(s)) way[n_way++] = at(node, layout_.uplink, s, !leaving);
  if (top < 0 && gpu_numa != nic_numa) {
    way[n_way++] = at(node, layout_.host, gpu_numa, !leaving);
    way[n_way++] = at(node, layout_.host, nic_numa, leaving);
  }
  const auto down = static_cast<std::ptrdiff_t>(n_way);
  for (int s = nic_switch; s >= 0 && s != top; s = node_.switch_above(s)) way[n_way++] = at(node, layout_.uplink, s, leaving);
  std::reverse(way.begin() + down, way.begin() + static_cast<std::ptrdiff_t>(n_way));
  way[n_way++] = at(node, layout_.nic, nic, !leaving);
  for (std::size_t i = 0; i < n_way; ++i) add(r, way[leaving ? i : n_way - 1 - i], share);
}

void Cluster::cable_path(Route& r, std::int64_t from_leaf, std::int64_t to_leaf, std::int64_t place, double share, std::uint64_t pick) const {
  const Tree& t = *tree_;
  const bool fixed = fabric_->routing == Routing::kStaticRail;
  const auto leaf_up_works = [&](std::int64_t up) {
    const auto dead = [&](std::int64_t leaf) {
      return std::binary_search(dead_leaf_ups_.begin(), dead_leaf_ups_.end(), Dead{leaf, static_cast<std::int32_t>(up)});
    };
    return dead_leaf_ups_.empty() || (!dead(from_leaf) && !dead(to_leaf));
  };
  const std::int64_t from_spines = t.pod_of(from_leaf) * t.spines, to_spines = t.pod_of(to_leaf) * t.spines;
  const bool core = t.tiers_between(from_leaf, to_leaf) == 3;
  const auto spine_up_works = [&](std::int64_t spine, std::int64_t up) {
    const auto dead = [&](std::int64_t s) {
      return std::binary_search(dead_spine_ups_.begin(), dead_spine_ups_.end(), Dead{s, static_cast<std::int32_t>(up)});
    };
    return dead_spine_ups_.empty() || (!dead(from_spines + spine) && !dead(to_spines + spine));
  };
  // A path is (uplink of the leaf, uplink of its spine); a switch drops from its group what does not lead there.
  const auto works = [&](std::int64_t path) {
    const std::int64_t up = core ? path / t.spine_up : path;
    return leaf_up_works(up) && (!core || spine_up_works(up, path % t.spine_up));
  };
  const std::int64_t paths = core ? t.up * t.spine_up : t.up;
  const std::int64_t preferred = fixed ? (core ? place % t.up * t.spine_up + place / t.up % t.spine_up : place % t.up) : below(pick, paths);
  std::int64_t path = preferred;
  if (!works(path)) {
    std::vector<std::int64_t> left;
    for (std::int64_t p = 0; p < paths; ++p) {
      if (works(p)) left.push_back(p);
    }
    path = left[static_cast<std::size_t>(fixed ? preferred % static_cast<std::int64_t>(left.size()) : below(pick, static_cast<std::int64_t>(left.size())))];
  }
  const std::int64_t up = core ? path / t.spine_up : path;
  add(r, leaf_link(from_leaf, up, false), share);
  if (core) {
    add(r, spine_link(from_spines + up, path % t.spine_up, false), share);
    add(r, spine_link(to_spines + up, path % t.spine_up, true), share);
  }
  add(r, leaf_link(to_leaf, up, true), share);
}

void Cluster::switch_path(Route& r, std::int64_t from_node, std::int32_t from_nic, std::int64_t to_node, std::int32_t to_nic, double share, std::uint64_t draw) const {
  const std::int32_t from = switches_->switch_of(from_node, from_nic), to = switches_->switch_of(to_node, to_nic);
  const std::int64_t place = from_node * nics_per_node_ + from_nic;
  const int qps = fabric_->routing == Routing::kEcmp ? fabric_->ecmp_qps : 1;
  for (int qp = 0; qp < qps; ++qp) {
    const std::uint64_t bits = qps > 1 || draw != 0 ? random_bits(draw, "ecmp path", static_cast<std::uint64_t>(place * qps + qp)) : 0;
    const Switches::Way way = switches_->way(from, to, place, bits);
    for (const Switches::Hop& hop : way.hops) add(r, switch_link(hop.cable, !hop.forward), share / qps * hop.share);
    r.switch_tiers = std::max(r.switch_tiers, way.switches);
  }
}

void Cluster::fabric_path(Route& r, std::int64_t from_node, std::int32_t from_nic, std::int64_t to_node, std::int32_t to_nic, double share, std::uint64_t draw) const {
  if (switches_) return switch_path(r, from_node, from_nic, to_node, to_nic, share, draw);
  const Tree& t = *tree_;
  const std::int64_t from_leaf = t.leaf_of(from_node, from_nic), to_leaf = t.leaf_of(to_node, to_nic);
  const int tiers = t.tiers_between(from_leaf, to_leaf);
  r.switch_tiers = std::max(r.switch_tiers, tiers);
  if (tiers == 1) return;  // a leaf does not block
  if (layout_.pooled) {
    add(r, leaf_link(from_leaf, 0, false), share);
    if (tiers == 3) {
      add(r, spine_link(t.pod_of(from_leaf) * t.spines, 0, false), share);
      add(r, spine_link(t.pod_of(to_leaf) * t.spines, 0, true), share);
    }
    add(r, leaf_link(to_leaf, 0, true), share);
    return;
  }
  const std::int64_t place = t.place_of(from_node, from_nic);
  if (fabric_->routing == Routing::kStaticRail) return cable_path(r, from_leaf, to_leaf, place, share, 0);
  for (int qp = 0; qp < fabric_->ecmp_qps; ++qp) {
    const auto index = static_cast<std::uint64_t>(place * fabric_->ecmp_qps + qp);
    cable_path(r, from_leaf, to_leaf, place, share / fabric_->ecmp_qps, random_bits(draw, "ecmp path", index));
  }
}

void Cluster::local_path(Route& r, std::int64_t from, std::int64_t to) const {
  const std::int64_t from_node = from / gpus_per_node_, to_node = to / gpus_per_node_, a = from % gpus_per_node_, b = to % gpus_per_node_;
  const bool bridged = node_.scale_up_kind == ScaleUp::kBridge && a / 2 == b / 2;
  const std::size_t before = r.hops.size();
  if (node_.scale_up_kind == ScaleUp::kMesh && mesh_next_[static_cast<std::size_t>(a * gpus_per_node_ + b)] >= 0) {
    mesh_path(r, from_node, a, b);
  } else if (node_.scale_up_kind == ScaleUp::kNvSwitch || bridged) {
    r.hops.push_back({at(from_node, 0, a, false), 1});
    r.hops.push_back({at(to_node, 0, b, true), 1});
  } else {
    pcie_path(r, from_node, a, b);
    return;
  }
  r.latency += kScaleUpLatency * static_cast<double>(std::max<std::size_t>(1, (r.hops.size() - before) / 3));
}

/// Planes do not meet: what is for a NIC of another plane goes inside the node to a GPU beside a NIC of that plane first, as NCCL does (PXN,
/// src/graph/paths.cc). A plane that works at both ends is taken, the receiver's own where it does.
void Cluster::across_planes(Route& r, std::int64_t from, std::int64_t to, std::uint64_t draw) const {
  const std::int64_t from_node = from / gpus_per_node_, to_node = to / gpus_per_node_;
  const auto out = nics_at(from), in = nics_at(to);
  const auto works = [&](std::int64_t node, std::int64_t nic) { return !std::binary_search(dead_nics_.begin(), dead_nics_.end(), Dead{node, static_cast<std::int32_t>(nic)}); };
  const double share = 1 / static_cast<double>(in.size());
  const std::int64_t planes = tree_->planes;
  for (std::size_t k = 0; k < in.size(); ++k) {
    std::int64_t leave = -1, arrive = in[k];
    for (std::int64_t turn = 0; turn < planes && leave < 0; ++turn) {
      const std::int64_t plane = (in[k] + turn) % planes;
      if (out[k % out.size()] % planes == plane) leave = out[k % out.size()];
      for (std::int64_t nic = plane; nic < nics_per_node_ && leave < 0; nic += planes) {
        if (works(from_node, nic)) leave = nic;
      }
      if (turn == 0) continue;
      arrive = -1;
      for (std::int64_t nic = plane; nic < nics_per_node_ && arrive < 0; nic += planes) {
        if (works(to_node, nic)) arrive = nic;
      }
      if (arrive < 0) leave = -1;
    }
    const auto leaving = static_cast<std::int32_t>(leave), arriving = static_cast<std::int32_t>(arrive);
    // The GPU beside that NIC, which the job uses: NICs in use are those of GPUs in use.
    std::int64_t relay = from % gpus_per_node_;
    if (std::find(out.begin(), out.end(), leaving) == out.end()) relay = std::min(gpus_per_node_ - 1, ceil_div(leave * node_.gpus, node_.nics));
    if (relay != from % gpus_per_node_) {
      Route inside;
      local_path(inside, from, from_node * gpus_per_node_ + relay);
      for (const Hop& hop : inside.hops) add(r, hop.link, hop.share * share);
      r.latency = std::max(r.latency, inside.latency);
    }
    nic_path(r, from_node, relay, leaving, true, share);
    fabric_path(r, from_node, leaving, to_node, arriving, share, draw);
    nic_path(r, to_node, to % gpus_per_node_, arriving, false, share);
  }
}

Route Cluster::route(std::int64_t from, std::int64_t to, std::uint64_t salt) const { return from == to ? Route() : between(place_of(from), place_of(to), salt); }

Route Cluster::between(std::int64_t from, std::int64_t to, std::uint64_t salt) const {
  Route r;
  const std::int64_t from_node = from / gpus_per_node_, to_node = to / gpus_per_node_, a = from % gpus_per_node_, b = to % gpus_per_node_;
  if (from_node / node_.nvlink_domain_nodes == to_node / node_.nvlink_domain_nodes) {
    local_path(r, from, to);
    return r;
  }
  const bool hashed = !layout_.pooled && fabric_->routing != Routing::kStaticRail;
  std::uint64_t draw = hashed ? random_bits(seed_, "ecmp", salt) : 0;
  if (hashed && fabric_->ecmp_per_flow) draw = random_bits(random_bits(draw, "from", static_cast<std::uint64_t>(from)), "to", static_cast<std::uint64_t>(to));
  r.hops.reserve(12);
  // A tier climbed adds two switches, so in a fabric without tiers two more switches count as one.
  const auto network_latency = [&] {
    const double tiers = switches_ ? static_cast<double>(r.switch_tiers - 1) / 2 : static_cast<double>(r.switch_tiers - 1);
    return fabric_->latency_same_leaf + fabric_->latency_per_tier * tiers;
  };
  if (tree_ && tree_->planes > 1) {
    across_planes(r, from, to, draw);
    r.latency += network_latency();
    return r;
  }
  // Several NICs a GPU: the k-th sends to the k-th. Where a failure leaves one end fewer, its remaining ones take turns.
  if (nics_per_gpu() == 1 && dead_nics_.empty()) {
    const auto out = static_cast<std::int32_t>(a * node_.nics / node_.gpus), in = static_cast<std::int32_t>(b * node_.nics / node_.gpus);
    nic_path(r, from_node, a, out, true, 1);
    fabric_path(r, from_node, out, to_node, in, 1, draw);
    nic_path(r, to_node, b, in, false, 1);
    r.latency = network_latency();
    return r;
  }
  const auto out = nics_at(from), in = nics_at(to);
  const std::size_t lanes = std::max(out.size(), in.size());
  const double share = 1 / static_cast<double>(lanes);
  for (std::size_t k = 0; k < lanes; ++k) nic_path(r, from_node, a, out[k % out.size()], true, share);
  for (std::size_t k = 0; k < lanes; ++k) fabric_path(r, from_node, out[k % out.size()], to_node, in[k % in.size()], share, draw);
  for (std::size_t k = 0; k < lanes; ++k) nic_path(r, to_node, b, in[k % in.size()], false, share);
  r.latency = network_latency();
  return r;
}

Route Cluster::host_route(std::int64_t gpu, bool to_host) const {
  const std::int64_t node = place_of(gpu) / gpus_per_node_, local = place_of(gpu) % gpus_per_node_;
  const int pcie_switch = node_.gpu_pcie_switch[static_cast<std::size_t>(local)];
  Route r;
  r.latency = kPcieLatency;
  if (node_.c2c.value() > 0) {
    // The outbound side is the processor's.
    r.hops.push_back({at(node, layout_.c2c, node_.gpu_numa[static_cast<std::size_t>(local)], to_host), 1});
    return r;
  }
  r.hops.push_back({at(node, layout_.pcie, local, !to_host), 1});
  for (int s = pcie_switch; s >= 0; s = node_.switch_above(s)) r.hops.push_back({at(node, layout_.uplink, s, !to_host), 1});
  if (!to_host) std::reverse(r.hops.begin(), r.hops.end());
  return r;
}

Route Cluster::drive_route(std::int64_t gpu, bool to_drives, bool from_host) const {
  /// A flash read at queue depth 1 (Micron 7450 product brief: 80 us, writes into its cache 15 us).
  constexpr Seconds kFlash{80e-6}, kCached{15e-6};
  Route r;
  if (!from_host) r = host_route(gpu, to_drives);
  const Hop drives{at(gpu / gpus_per_node_, layout_.drives, 0, to_drives), 1};
  r.hops.insert(to_drives ? r.hops.end() : r.hops.begin(), drives);
  r.latency = r.latency + (to_drives ? kCached : kFlash);
  return r;
}

}  // namespace orrery::cluster
