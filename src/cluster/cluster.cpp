// Building the graph. Links lie node by node in one vector, then leaves, then spines; a link's index is arithmetic (at, leaf_link,
// spine_link), its name is made when somebody asks. Of each pair the outbound direction comes first.
#include "orrery/cluster/cluster.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "orrery/base/assert.hpp"
#include "orrery/base/checked.hpp"

namespace orrery::cluster {
namespace {

// 48 bytes each: what a laptop still holds. 16,384 nodes of 8 GPUs make about a million.
constexpr std::int64_t kMaxLinks = std::int64_t{1} << 26;

bool has_ports(ScaleUp kind) { return kind == ScaleUp::kNvSwitch || kind == ScaleUp::kMesh || kind == ScaleUp::kBridge; }

BytesPerSecond least(BytesPerSecond a, BytesPerSecond b) { return std::min(a, b); }

/// NICs in use when GPUs 0 … used-1 are: those that nics_of gives them.
std::int64_t nics_in_use(const Node& node, std::int64_t used) {
  if (node.nics == 0) return 0;
  if (node.nics < node.gpus) return (used - 1) * node.nics / node.gpus + 1;
  return (used - 1) * node.nics / node.gpus + node.nics / node.gpus;
}

}  // namespace

LinkId Cluster::at(std::int64_t node, std::int64_t offset, std::int64_t device, bool inbound) const {
  return LinkId{static_cast<std::uint32_t>(node * layout_.per_node + offset + 2 * device + (inbound ? 1 : 0))};
}

LinkId Cluster::leaf_link(std::int64_t leaf, std::int64_t up, bool inbound) const {
  const std::int64_t pair = layout_.pooled ? leaf : leaf * tree_->up + up;
  return LinkId{static_cast<std::uint32_t>(layout_.leaf_first + 2 * pair + (inbound ? 1 : 0))};
}

LinkId Cluster::spine_link(std::int64_t spine, std::int64_t up, bool inbound) const {
  const std::int64_t pair = layout_.pooled ? spine / tree_->spines : spine * tree_->spine_up + up;
  return LinkId{static_cast<std::uint32_t>(layout_.spine_first + 2 * pair + (inbound ? 1 : 0))};
}

LinkId Cluster::switch_link(std::int64_t cable, bool inbound) const {
  return LinkId{static_cast<std::uint32_t>(layout_.switch_first + 2 * cable + (inbound ? 1 : 0))};
}

void Cluster::lay_out() {
  Layout& l = layout_;
  l.ports = has_ports(node_.scale_up_kind);
  l.pooled = !fabric_ || fabric_->routing == Routing::kIdeal || fabric_->routing == Routing::kAdaptive;
  std::int64_t offset = l.ports ? 2 * gpus_per_node_ : 0;
  const auto take = [&offset](std::int64_t& first, std::int64_t pairs) {
    first = offset;
    offset += 2 * pairs;
  };
  take(l.pcie, gpus_per_node_);
  take(l.uplink, node_.pcie_switches);
  take(l.nic, nics_per_node_);
  take(l.host, node_.numa_domains > 1 ? node_.numa_domains : 0);
  take(l.c2c, node_.c2c.value() > 0 ? node_.numa_domains : 0);
  take(l.drives, node_.drive_read.value() > 0 ? 1 : 0);
  l.peer = offset;  // one directed link per ordered pair of neighbours, after the pairs
  if (node_.scale_up_kind == ScaleUp::kMesh) offset += gpus_per_node_ * gpus_per_node_;
  l.per_node = offset;
  l.leaf_first = nodes_ * l.per_node;
  l.spine_first = l.leaf_first;
  l.switch_first = l.leaf_first;
  if (tree_ && tree_->tiers > 1) l.spine_first += 2 * tree_->leaves * (l.pooled ? 1 : tree_->up);
}

void Cluster::fill_links() {
  const Layout& l = layout_;
  std::vector<Link> one(static_cast<std::size_t>(l.per_node));
  const auto put = [&one](std::int64_t first, std::int64_t devices, LinkKind kind, BytesPerSecond rate) {
    for (std::int64_t d = 0; d < 2 * devices; ++d) {
      Link& link = one[static_cast<std::size_t>(first + d)];
      link.kind = kind;
      link.inbound = d % 2 == 1;
      link.port = static_cast<std::int32_t>(d / 2);
      link.capacity = link.nominal = rate;
    }
  };
  if (l.ports) put(0, gpus_per_node_, LinkKind::kScaleUp, node_.scale_up);
  // Without peer access every byte is copied through host memory, which is slower than the slot (host_bounce).
  put(l.pcie, gpus_per_node_, LinkKind::kPcie, node_.peer_to_peer ? node_.pcie : least(node_.pcie, node_.host_bounce));
  put(l.uplink, node_.pcie_switches, LinkKind::kPcieUplink, node_.pcie_uplink);
  // A torus joins the NICs themselves: a NIC puts on its router what all of the router's cables take.
  const bool torus = fabric_ && fabric_->topology == Topology::kTorus;
  if (fabric_) put(l.nic, nics_per_node_, LinkKind::kNic, (torus ? node_.nic : least(node_.nic, fabric_->link)) * fabric_->efficiency);
  if (node_.numa_domains > 1) put(l.host, node_.numa_domains, LinkKind::kHost, node_.numa_link);
  if (node_.c2c.value() > 0) put(l.c2c, node_.numa_domains, LinkKind::kC2c, node_.c2c);
  if (node_.drive_read.value() > 0) {
    put(l.drives, 1, LinkKind::kDrives, node_.drive_read);
    Link& in = one[static_cast<std::size_t>(l.drives + 1)];  // into the drives: writes
    in.capacity = in.nominal = node_.drive_write;
  }
  for (std::size_t i = 0; i < mesh_rate_.size(); ++i) {
    Link& link = one[static_cast<std::size_t>(l.peer) + i];
    link.kind = LinkKind::kPeer;
    link.port = static_cast<std::int32_t>(i);
    link.capacity = link.nominal = mesh_rate_[i];
  }

  std::int64_t total = l.spine_first;
  const bool spine_ups = tree_ && tree_->tiers == 3;
  if (spine_ups) total += 2 * tree_->pods * (l.pooled ? 1 : tree_->spines * tree_->spine_up);
  links_.reserve(static_cast<std::size_t>(total));
  for (std::int64_t n = 0; n < nodes_; ++n) {
    links_.insert(links_.end(), one.begin(), one.end());
    for (std::int64_t i = 0; i < l.per_node; ++i) links_[static_cast<std::size_t>(n * l.per_node + i)].owner = n;
  }
  if (!fabric_ || (!switches_ && (!tree_ || tree_->tiers == 1))) return;
  const BytesPerSecond line = fabric_->link * fabric_->efficiency * (fabric_->routing == Routing::kAdaptive ? 1 - fabric_->adaptive_residual : 1);
  const auto put_ups = [this](std::int64_t owners, std::int64_t owner_step, std::int64_t ups, std::int64_t bundle, LinkKind kind, BytesPerSecond cable) {
    for (std::int64_t owner = 0; owner < owners; ++owner) {
      for (std::int64_t i = 0; i < 2 * ups; ++i) {
        const BytesPerSecond rate = cable * static_cast<double>(bundle);
        links_.push_back({kind, i % 2 == 1, static_cast<std::int32_t>(i / 2), rate, rate, owner * owner_step, bundle});
      }
    }
  };
  if (switches_) {
    std::int32_t number = 0;
    for (const Switches::Cable& c : switches_->cables()) {
      for (const bool inbound : {false, true}) links_.push_back({LinkKind::kSwitch, inbound, number, line * c.lines, line * c.lines, c.a, c.bundle});
      ++number;
    }
    return;
  }
  const Tree& t = *tree_;
  if (l.pooled) {
    put_ups(t.leaves, 1, 1, t.up, LinkKind::kLeafUp, line * t.up_rate);
    if (spine_ups) put_ups(t.pods, t.spines, 1, t.spines * t.spine_up, LinkKind::kSpineUp, line * t.spine_up_rate);
  } else {
    put_ups(t.leaves, 1, t.up, 1, LinkKind::kLeafUp, line * t.up_rate);
    if (spine_ups) put_ups(t.pods * t.spines, 1, t.spine_up, 1, LinkKind::kSpineUp, line * t.spine_up_rate);
  }
  ORRERY_ASSERT(static_cast<std::int64_t>(links_.size()) == total, "the layout and the links must agree");
}

Result<Cluster> Cluster::build(const Node& node, std::int64_t nodes, std::optional<std::int64_t> gpus_per_node, const std::optional<Fabric>& fabric,
                               const std::vector<LinkEvent>& events, std::uint64_t seed, const std::string& file, const Placement& placement) {
  if (nodes < 1) return fail(file, "/cluster/nodes", fmt::format("{} nodes hold no job; use 1 or more", nodes));
  const std::int64_t used = gpus_per_node.value_or(node.gpus);
  if (used < 1 || used > node.gpus) {
    return fail(file, "/cluster/gpus_per_node", fmt::format("{} of the {} GPUs of a {} cannot be used; give 1 to {}", used, node.gpus, node.name, node.gpus));
  }
  Cluster c;
  c.node_ = node;
  c.nodes_ = nodes;
  c.gpus_per_node_ = used;
  c.seed_ = seed;
  c.gpu_of_rank_ = placement.gpu_of_rank;
  const bool one_domain = nodes <= node.nvlink_domain_nodes;
  if (!fabric && !one_domain) {
    return fail(file, "/cluster/fabric", fmt::format("{} nodes of {} do not share one scale-up domain; name a fabric", nodes, node.name));
  }
  if (fabric) {
    c.fabric_ = fabric;
    c.nics_per_node_ = nics_in_use(node, used);
    if (c.nics_per_node_ == 0 && !one_domain) {
      return fail(file, "/cluster/node/nics", fmt::format("a {} without NICs cannot reach the other nodes; give it nics and nic_gbit_per_s", node.name));
    }
  }
  c.lay_out();
  const auto links = checked_mul(nodes, c.layout_.per_node);
  if (!links || *links > kMaxLinks) {
    return fail(file, "/cluster/nodes", fmt::format("{} nodes with {} links each are more than the {} links that are simulated; use {} nodes or fewer", nodes,
                                                    c.layout_.per_node, kMaxLinks, kMaxLinks / c.layout_.per_node));
  }
  if (c.nics_per_node_ > 0 && fabric->topology != Topology::kFatTree) {
    auto switches = Switches::build(*fabric, nodes, c.nics_per_node_, c.layout_.pooled, file);
    if (!switches) return fail(std::move(switches.error()));
    c.switches_ = *std::move(switches);
  } else if (c.nics_per_node_ > 0) {
    auto tree = make_tree(*fabric, nodes, c.nics_per_node_, file);
    if (!tree) return fail(std::move(tree.error()));
    c.tree_ = *tree;
    c.lay_out();
  }
  if (node.scale_up_kind == ScaleUp::kMesh) c.link_mesh();
  c.fill_links();
  if (Diagnostics problems = c.apply(events, file); !problems.empty()) return fail(std::move(problems));
  return c;
}

std::int64_t Cluster::gpus_per_domain() const { return gpus_per_node_ * std::min<std::int64_t>(node_.nvlink_domain_nodes, nodes_); }
std::int64_t Cluster::domain_of(std::int64_t gpu) const { return place_of(gpu) / gpus_per_node_ / node_.nvlink_domain_nodes; }

LinkId Cluster::scale_up_port(std::int64_t gpu, bool inbound) const {
  const std::int64_t place = place_of(gpu);
  return at(place / gpus_per_node_, layout_.ports ? 0 : layout_.pcie, place % gpus_per_node_, inbound);
}

std::int64_t Cluster::nics_per_gpu() const { return std::max(1, node_.nics / node_.gpus); }

std::int64_t Cluster::gpus_per_nic() const {
  if (node_.nics == 0) return gpus_per_node_;
  return std::min<std::int64_t>(gpus_per_node_, ceil_div(node_.gpus, node_.nics));
}

BytesPerSecond Cluster::nic_per_gpu(std::int64_t sharing) const {
  if (!fabric_ || nics_per_node_ == 0) return {};
  ORRERY_ASSERT(sharing >= 1, "a NIC that nobody uses has no rate per GPU");
  const BytesPerSecond nic = links_[at(0, layout_.nic, 0, false).index()].nominal;
  BytesPerSecond rate = nic * (static_cast<double>(nics_per_gpu()) / static_cast<double>(sharing));
  // Every link on the way from GPU 0's socket, switch and slot is shared by the GPUs that hang under it alike.
  Route way;
  nic_path(way, 0, 0, nics_at(0).front(), true, 1);
  for (const Hop& hop : way.hops) {
    const Link& link = links_[hop.link.index()];
    std::int64_t sharers = 1;
    if (link.kind == LinkKind::kPcieUplink) {
      sharers = std::count_if(node_.gpu_pcie_switch.begin(), node_.gpu_pcie_switch.begin() + gpus_per_node_,
                              [&](int s) { return node_.switch_above_both(s, link.port) == link.port; });
    } else if (link.kind == LinkKind::kHost) {
      sharers = std::count(node_.gpu_numa.begin(), node_.gpu_numa.begin() + gpus_per_node_, link.port);
    } else if (link.kind == LinkKind::kNic) {
      continue;
    }
    const std::int64_t talking = std::max<std::int64_t>(1, sharers * sharing / gpus_per_nic());
    rate = least(rate, link.nominal / static_cast<double>(talking));
  }
  return rate;
}

}  // namespace orrery::cluster
