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

std::vector<std::int32_t> Cluster::nics_of(std::int64_t gpu) const {
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

std::int32_t Cluster::nic_of(std::int64_t gpu) const { return nics_of(gpu).front(); }

void Cluster::pcie_path(Route& r, std::int64_t node, std::int64_t from_gpu, std::int64_t to_gpu) const {
  const auto a = static_cast<std::size_t>(from_gpu), b = static_cast<std::size_t>(to_gpu);
  const int switch_a = node_.gpu_pcie_switch[a], switch_b = node_.gpu_pcie_switch[b], numa_a = node_.gpu_numa[a], numa_b = node_.gpu_numa[b];
  const bool below_one_switch = switch_a >= 0 && switch_a == switch_b && node_.peer_to_peer;
  const double share = !below_one_switch && node_.peer_to_peer && node_.cpu_vendor == "intel" ? kIntelRootOverhead : 1;
  r.latency += kPcieLatency;
  r.hops.push_back({at(node, layout_.pcie, from_gpu, false), switch_a < 0 ? share : 1});
  if (!below_one_switch) {
    if (switch_a >= 0) r.hops.push_back({at(node, layout_.uplink, switch_a, false), share});
    if (numa_a != numa_b) {
      r.hops.push_back({at(node, layout_.host, numa_a, false), share});
      r.hops.push_back({at(node, layout_.host, numa_b, true), share});
    }
    if (switch_b >= 0) r.hops.push_back({at(node, layout_.uplink, switch_b, true), share});
  }
  r.hops.push_back({at(node, layout_.pcie, to_gpu, true), switch_b < 0 ? share : 1});
}

void Cluster::nic_path(Route& r, std::int64_t node, std::int64_t gpu, std::int32_t nic, bool leaving, double share) const {
  const auto g = static_cast<std::size_t>(gpu), n = static_cast<std::size_t>(nic);
  const int gpu_switch = node_.gpu_pcie_switch[g], nic_switch = node_.nic_pcie_switch[n], gpu_numa = node_.gpu_numa[g], nic_numa = node_.nic_numa[n];
  const bool direct = node_.peer_to_peer && !fabric_->host_staged && gpu_switch >= 0 && gpu_switch == nic_switch;
  // From the GPU outwards when leaving; the same links, in their other direction and order, when arriving. At most six of them: host link,
  // uplink, two socket links, uplink, NIC.
  std::array<LinkId, 6> way;
  std::size_t n_way = 0;
  way[n_way++] = at(node, layout_.pcie, gpu, !leaving);
  if (!direct) {
    if (gpu_switch >= 0) way[n_way++] = at(node, layout_.uplink, gpu_switch, !leaving);
    if (gpu_numa != nic_numa) {
      way[n_way++] = at(node, layout_.host, gpu_numa, !leaving);
      way[n_way++] = at(node, layout_.host, nic_numa, leaving);
    }
    if (nic_switch >= 0) way[n_way++] = at(node, layout_.uplink, nic_switch, leaving);
  }
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

void Cluster::fabric_path(Route& r, std::int64_t from_node, std::int32_t from_nic, std::int64_t to_node, std::int32_t to_nic, double share, std::uint64_t draw) const {
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

Route Cluster::route(std::int64_t from, std::int64_t to, std::uint64_t salt) const {
  Route r;
  if (from == to) return r;
  const std::int64_t from_node = from / gpus_per_node_, to_node = to / gpus_per_node_, a = from % gpus_per_node_, b = to % gpus_per_node_;
  if (domain_of(from) == domain_of(to)) {
    const bool bridged = node_.scale_up_kind == ScaleUp::kBridge && a / 2 == b / 2;
    if (node_.scale_up_kind == ScaleUp::kMesh && mesh_next_[static_cast<std::size_t>(a * gpus_per_node_ + b)] >= 0) {
      mesh_path(r, from_node, a, b);
    } else if (node_.scale_up_kind == ScaleUp::kNvSwitch || bridged) {
      r.hops = {{at(from_node, 0, a, false), 1}, {at(to_node, 0, b, true), 1}};
    } else {
      pcie_path(r, from_node, a, b);
      return r;
    }
    r.latency = kScaleUpLatency * static_cast<double>(std::max<std::size_t>(1, r.hops.size() / 3));
    return r;
  }
  const bool hashed = !layout_.pooled && fabric_->routing != Routing::kStaticRail;
  std::uint64_t draw = hashed ? random_bits(seed_, "ecmp", salt) : 0;
  if (hashed && fabric_->ecmp_per_flow) draw = random_bits(random_bits(draw, "from", static_cast<std::uint64_t>(from)), "to", static_cast<std::uint64_t>(to));
  // Several NICs a GPU: the k-th sends to the k-th. Where a failure leaves one end fewer, its remaining ones take turns.
  r.hops.reserve(12);
  if (nics_per_gpu() == 1 && dead_nics_.empty()) {
    const auto out = static_cast<std::int32_t>(a * node_.nics / node_.gpus), in = static_cast<std::int32_t>(b * node_.nics / node_.gpus);
    nic_path(r, from_node, a, out, true, 1);
    fabric_path(r, from_node, out, to_node, in, 1, draw);
    nic_path(r, to_node, b, in, false, 1);
    r.latency = fabric_->latency_same_leaf + fabric_->latency_per_tier * static_cast<double>(r.switch_tiers - 1);
    return r;
  }
  const auto out = nics_of(from), in = nics_of(to);
  const std::size_t lanes = std::max(out.size(), in.size());
  const double share = 1 / static_cast<double>(lanes);
  for (std::size_t k = 0; k < lanes; ++k) nic_path(r, from_node, a, out[k % out.size()], true, share);
  for (std::size_t k = 0; k < lanes; ++k) fabric_path(r, from_node, out[k % out.size()], to_node, in[k % in.size()], share, draw);
  for (std::size_t k = 0; k < lanes; ++k) nic_path(r, to_node, b, in[k % in.size()], false, share);
  r.latency = fabric_->latency_same_leaf + fabric_->latency_per_tier * static_cast<double>(r.switch_tiers - 1);
  return r;
}

Route Cluster::host_route(std::int64_t gpu, bool to_host) const {
  const std::int64_t node = gpu / gpus_per_node_, local = gpu % gpus_per_node_;
  const int pcie_switch = node_.gpu_pcie_switch[static_cast<std::size_t>(local)];
  Route r;
  r.latency = kPcieLatency;
  if (node_.c2c.value() > 0) {
    // The outbound side is the processor's.
    r.hops.push_back({at(node, layout_.c2c, node_.gpu_numa[static_cast<std::size_t>(local)], to_host), 1});
    return r;
  }
  r.hops.push_back({at(node, layout_.pcie, local, !to_host), 1});
  if (pcie_switch >= 0) r.hops.push_back({at(node, layout_.uplink, pcie_switch, !to_host), 1});
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
