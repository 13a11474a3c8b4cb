#pragma once
// The cluster as one resource graph: every direction of a port or link is a resource with a capacity; routes are resources with shares.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/ids.hpp"
#include "orrery/cluster/parts.hpp"
#include "orrery/cluster/placement.hpp"
#include "orrery/cluster/switches.hpp"
#include "orrery/cluster/tree.hpp"

namespace orrery::cluster {

/// kScaleUp: a GPU's port to NVSwitch or mesh. kPeer: the cables between two GPUs of a mesh. kPcie: a GPU's host link. kPcieUplink: a PCIe
/// switch to its root complex. kHost: a socket's link to the others. kLeafUp, kSpineUp: towards spines and cores. kC2c: a host processor's
/// coherent link to its GPUs. kDrives: the local drives of a node as one, in: writes, out: reads. kSwitch: between switches of a fabric that is no tree.
enum class LinkKind : std::uint8_t { kScaleUp, kPcie, kPcieUplink, kNic, kLeafUp, kSpineUp, kHost, kPeer, kC2c, kDrives, kSwitch };
std::string_view to_string(LinkKind k);

/// One direction of a link.
struct Link {
  LinkKind kind = LinkKind::kScaleUp;
  bool inbound = false;            ///< towards the owner's devices
  std::int32_t port = 0;           ///< GPU, PCIe switch, NIC, socket or uplink number; of kPeer: from GPU x GPUs used + to GPU; of kSwitch: the cable
  BytesPerSecond capacity{};       ///< what is left after degradation and background; 0: failed, and no route crosses it
  BytesPerSecond nominal{};        ///< undegraded: what cost and caps are made from
  std::int64_t owner = 0;          ///< node, leaf or spine number
  std::int64_t bundle = 1;         ///< parallel cables pooled into it (ideal and adaptive routing)
};

/// A share of a flow that crosses a link. 1.2 where an Intel root complex carries GPU peer traffic (NCCL src/graph/topo.h,
/// INTEL_P2P_OVERHEAD); otherwise the shares over parallel links sum to 1.
struct Hop {
  LinkId link;
  double share = 1;
  bool operator==(const Hop&) const = default;
};
struct Route {
  std::vector<Hop> hops;
  Seconds latency{};       ///< wire and switches, one way
  int switch_tiers = 0;    ///< tiers of fabric switches climbed; 0: inside a scale-up domain or node
  bool operator==(const Route&) const = default;
};

/// A degradation, failure or background load (design 5.5), by link name: node3/nic2, leaf0/up3, …
struct LinkEvent {
  std::string link;
  double capacity = 1;                   ///< 0: failed
  BytesPerSecond background{};
  std::string pointer;                   ///< for messages
};
/// The degraded_link and background entries of a scenario's `events`; other kinds are not the network's. pointer: of the array.
Result<std::vector<LinkEvent>> read_link_events(const document::Value& events, const std::string& file, const std::string& pointer);

/// Built once per scenario; immutable.
class Cluster {
 public:
  /// `nodes` nodes of one kind, of which the job uses GPUs 0 … gpus_per_node-1 each. fabric may be absent where the job stays in one
  /// scale-up domain. Refuses unknown or out-of-range link names, background >= capacity, a failed link with no way round, more nodes
  /// than the fabric's switches can join.
  static Result<Cluster> build(const Node& node, std::int64_t nodes, std::optional<std::int64_t> gpus_per_node, const std::optional<Fabric>& fabric,
                               const std::vector<LinkEvent>& events, std::uint64_t seed, const std::string& file, const Placement& placement = {});

  [[nodiscard]] const Node& node() const { return node_; }
  [[nodiscard]] const std::optional<Fabric>& fabric() const { return fabric_; }
  [[nodiscard]] std::int64_t nodes() const { return nodes_; }
  [[nodiscard]] std::int64_t gpus_per_node() const { return gpus_per_node_; }
  [[nodiscard]] std::int64_t nics_per_node() const { return nics_per_node_; }    ///< of the GPUs in use; 0 without a fabric
  [[nodiscard]] const std::optional<Tree>& tree() const { return tree_; }          ///< of a fat tree
  [[nodiscard]] const std::optional<Switches>& switches() const { return switches_; }  ///< of any other fabric
  /// Where a rank's GPU stands, node by node. All functions below take ranks; where no placement is given the two are one.
  [[nodiscard]] std::int64_t place_of(std::int64_t gpu) const { return gpu_of_rank_.empty() ? gpu : gpu_of_rank_[static_cast<std::size_t>(gpu)]; }
  [[nodiscard]] std::int64_t domain_of(std::int64_t gpu) const;  ///< scale-up domain
  [[nodiscard]] std::int64_t gpus_per_domain() const;            ///< of a full domain
  [[nodiscard]] const std::vector<Link>& links() const { return links_; }
  [[nodiscard]] std::string name(LinkId link) const;             ///< design 5.5, with ":in" or ":out"

  /// From one GPU to another: over the scale-up network inside a domain, else over `from`'s NICs (its own where NICs are per GPU), the
  /// fabric, and `to`'s NICs. `salt` chooses the ECMP path (plan role); ignored by other routings. Empty from a GPU to itself.
  [[nodiscard]] Route route(std::int64_t from, std::int64_t to, std::uint64_t salt = 0) const;
  /// Between a GPU and the memory of its own socket: what offload crosses. Over the coherent link where there is one, else PCIe.
  [[nodiscard]] Route host_route(std::int64_t gpu, bool to_host) const;
  /// Between the memory of a GPU's node, or of its host (staged), and the node's drives; through host memory, where blocks are put together.
  /// The node has drives.
  [[nodiscard]] Route drive_route(std::int64_t gpu, bool to_drives, bool from_host) const;
  /// The links of one GPU's scale-up port, out and in; for collectives that load every port alike. Its host link where the GPUs of a node
  /// meet over PCIe.
  [[nodiscard]] LinkId scale_up_port(std::int64_t gpu, bool inbound) const;
  /// NIC that a GPU uses for scale-out (the first of several), and how many used GPUs share it.
  [[nodiscard]] std::int32_t nic_of(std::int64_t gpu) const;
  [[nodiscard]] std::int64_t gpus_per_nic() const;
  [[nodiscard]] std::int64_t nics_per_gpu() const;               ///< 1, or more where the node has several NICs a GPU
  /// Nominal scale-out rate of one GPU: least of its share of NICs, fabric link and PCIe path, when all used GPUs talk; or when `sharing`
  /// of those on each NIC do, 1 to gpus_per_nic().
  [[nodiscard]] BytesPerSecond nic_per_gpu() const { return nic_per_gpu(gpus_per_nic()); }
  [[nodiscard]] BytesPerSecond nic_per_gpu(std::int64_t sharing) const;

 private:
  /// Where the links of a node lie, as offsets from node x per_node; two per device (out, in).
  struct Layout {
    std::int64_t pcie = 0, uplink = 0, nic = 0, host = 0, c2c = 0, drives = 0, peer = 0, per_node = 0, leaf_first = 0, spine_first = 0, switch_first = 0;
    bool ports = false, pooled = true;
  };
  struct Dead { std::int64_t owner = 0; std::int32_t port = 0; auto operator<=>(const Dead&) const = default; };
  struct Target { LinkId out; double cable = 1; LinkKind kind = LinkKind::kNic; std::int64_t owner = 0; std::int32_t port = 0; };

  void lay_out();
  void fill_links();
  void link_mesh();
  Result<Target> find(const LinkEvent& event, const std::string& file) const;
  Diagnostics apply(const std::vector<LinkEvent>& events, const std::string& file);
  std::string no_way_round(const Target& failed) const;
  [[nodiscard]] LinkId at(std::int64_t node, std::int64_t offset, std::int64_t device, bool inbound) const;
  [[nodiscard]] LinkId leaf_link(std::int64_t leaf, std::int64_t up, bool inbound) const;
  [[nodiscard]] LinkId spine_link(std::int64_t spine, std::int64_t up, bool inbound) const;
  [[nodiscard]] LinkId switch_link(std::int64_t cable, bool inbound) const;
  [[nodiscard]] std::vector<std::int32_t> nics_at(std::int64_t place) const;
  [[nodiscard]] Route between(std::int64_t from, std::int64_t to, std::uint64_t salt) const;
  void local_path(Route& r, std::int64_t from, std::int64_t to) const;
  void across_planes(Route& r, std::int64_t from, std::int64_t to, std::uint64_t draw) const;
  void switch_path(Route& r, std::int64_t from_node, std::int32_t from_nic, std::int64_t to_node, std::int32_t to_nic, double share, std::uint64_t draw) const;
  Result<Target> find_cable(const LinkEvent& event, std::int64_t a, std::int64_t b, std::int64_t twin, const std::string& file) const;
  void pcie_path(Route& r, std::int64_t node, std::int64_t from_gpu, std::int64_t to_gpu) const;
  void nic_path(Route& r, std::int64_t node, std::int64_t gpu, std::int32_t nic, bool leaving, double share) const;
  void mesh_path(Route& r, std::int64_t node, std::int64_t from_gpu, std::int64_t to_gpu) const;
  void fabric_path(Route& r, std::int64_t from_node, std::int32_t from_nic, std::int64_t to_node, std::int32_t to_nic, double share, std::uint64_t draw) const;
  void cable_path(Route& r, std::int64_t from_leaf, std::int64_t to_leaf, std::int64_t place, double share, std::uint64_t pick) const;

  Node node_;
  std::optional<Fabric> fabric_;
  std::optional<Tree> tree_;
  std::optional<Switches> switches_;
  std::vector<std::int64_t> gpu_of_rank_;            ///< empty: rank r is GPU r
  std::int64_t nodes_ = 0, gpus_per_node_ = 0, nics_per_node_ = 0;
  std::vector<Link> links_;
  Layout layout_;
  std::vector<std::int32_t> mesh_next_;              ///< of a mesh: next GPU on the way, [from x GPUs + to]; -1: none
  std::vector<BytesPerSecond> mesh_rate_;            ///< of a mesh: between neighbours, [from x GPUs + to]
  std::vector<Dead> dead_nics_, dead_leaf_ups_, dead_spine_ups_;  ///< sorted
  std::uint64_t seed_ = 1;
};

/// A member of the catalogue in use that no source confirms, for the report's warnings: ("gpu", "h100-sxm5-96gb", "memory_capacity_gib").
struct Unconfirmed {
  std::string kind, name, member;
  bool operator==(const Unconfirmed&) const = default;
};
std::vector<Unconfirmed> unconfirmed(const Node& node, const std::optional<Fabric>& fabric);
/// What the report prints of the hardware in use: names and unconfirmed members, as {"gpu": {...}, "node": {...}, "fabric": {...} | null}.
document::Value catalogue(const Node& node, const std::optional<Fabric>& fabric);

}  // namespace orrery::cluster
