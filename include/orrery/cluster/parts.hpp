#pragma once
// GPUs, nodes and fabrics as values, read from catalogue files or objects (design 5.3). Members that people override are flat.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "orrery/base/origin.hpp"
#include "orrery/base/result.hpp"
#include "orrery/base/units.hpp"
#include "orrery/document/value.hpp"

namespace orrery::cluster {

/// orrery/gpu/1. A CPU server can be a device too (xeon-8380-2s).
struct Gpu {
  std::string name, vendor, architecture;  ///< "Hopper", "Ampere", …
  int sm_count = 0;                        ///< SMs, CUs or cores: the compute quantum
  double clock_mhz = 0;                    ///< of the tensor peak
  Bytes memory_capacity{};
  BytesPerSecond memory_bandwidth{};
  Bytes l2{};
  double power_limit_w = 0, tdp_w = 0;     ///< limit in force; the part's own
  std::optional<double> idle_w;            ///< without work, where somebody read it
  BytesPerSecond scale_up{};               ///< per direction; 0: none
  BytesPerSecond pcie{};                   ///< host link per direction
  bool structured_sparsity = false;        ///< matrix units skip half of a 2:4 operand
  struct Peaks { std::optional<FlopsPerSecond> fp32, tf32, fp16, bf16, fp8, fp6, fp4, int8; } peak;  ///< dense
  std::vector<std::string> default_origin;  ///< members that no source confirms
};

enum class ScaleUp : std::uint8_t { kNone, kNvSwitch, kMesh, kBridge, kPcie };

/// orrery/node/1: a graph of GPUs, switches, NICs and the host.
struct Node {
  std::string name;
  Gpu gpu;
  int gpus = 0;                     ///< per node
  ScaleUp scale_up_kind = ScaleUp::kNone;
  int nvswitch_generation = 0;      ///< >= 3 reduces in the switch (NVLS)
  BytesPerSecond scale_up{};        ///< min of node port and GPU, per GPU and direction
  int nvlink_domain_nodes = 1;
  int nics = 0;
  BytesPerSecond nic{};             ///< each, per direction
  int pcie_switches = 0;            ///< 0: every device on its own root port
  BytesPerSecond pcie{};            ///< what one GPU's host link carries: min of slot and GPU, times the share that is payload
  BytesPerSecond pcie_uplink{};     ///< the same of one PCIe switch to its root
  std::vector<int> gpu_pcie_switch, nic_pcie_switch;  ///< of every GPU and NIC, as stated or by even division; -1 without switches
  std::vector<int> pcie_switch_parent;  ///< of every PCIe switch: the switch that it hangs on; -1: a root port
  std::vector<int> gpu_host_bridge, nic_host_bridge;  ///< root complexes; what stays on one is PHB, not NODE. As the socket unless stated
  int numa_domains = 1;             ///< sockets, in effect: what one crosses on the way to another
  BytesPerSecond numa_link{};       ///< between two of them, per direction
  std::vector<int> gpu_numa, nic_numa;
  struct MeshLink { int a = 0, b = 0, cables = 1; };  ///< cables of equal rate between two GPUs
  std::vector<MeshLink> mesh;       ///< of scale_up_kind mesh; empty: every pair alike
  bool peer_to_peer = true;         ///< false: through host memory at host_bounce
  BytesPerSecond host_bounce{};
  std::string cpu_vendor;           ///< "intel", "amd", "arm"
  Bytes host_memory{};              ///< 0: not known
  BytesPerSecond host_bandwidth{};  ///< of the host's memory, all sockets
  bool host_bandwidth_stated = false;
  double drive_bytes = 0;           ///< what the node's drives hold; 0: not known
  BytesPerSecond drive_read{}, drive_write{};  ///< of all drives together; 0: none, or nobody states how many
  bool drive_rates_stated = false;
  BytesPerSecond c2c{};             ///< coherent link of a host processor to its GPUs, payload; 0: none
  double max_w = 0;
  std::vector<std::string> default_origin;

  /// The PCIe switch that one hangs on, and the nearest that both are or hang on; -1: none, a root port. -1 is no switch.
  [[nodiscard]] int switch_above(int s) const { return static_cast<std::size_t>(s) < pcie_switch_parent.size() ? pcie_switch_parent[static_cast<std::size_t>(s)] : -1; }
  [[nodiscard]] int switch_above_both(int a, int b) const;
};

/// kFatTree: a folded Clos, of one or more planes (tree.hpp). The others: switches.hpp.
enum class Topology : std::uint8_t { kFatTree, kDragonfly, kTorus, kGraph };
struct Dragonfly {
  int groups = 0, routers_per_group = 0, hosts_per_router = 0;
  int spines_per_group = 0;   ///< 0: the routers of a group are all joined; more: they meet at spines (dragonfly+)
  double cables = 1;          ///< between two switches of a group, in line rates
  int global_cables = 1;      ///< from each group to each other
  double detour = 0;          ///< share of traffic through a third group under adaptive routing
};
struct Torus {
  std::vector<int> shape;     ///< NICs in each dimension, the first counting fastest
  bool wrap = true;
};
/// Switches by number, cables between them, and the switch of every node's NICs.
struct SwitchList {
  struct Link { int a = 0, b = 0; double cables = 1; };
  int switches = 0;
  std::vector<Link> links;
  std::vector<std::vector<int>> hosts;  ///< by node: the switch of each NIC; one for all of them
};

enum class Routing : std::uint8_t { kIdeal, kAdaptive, kEcmp, kStaticRail };

/// orrery/fabric/1.
struct Fabric {
  std::string name, kind;           ///< "infiniband", "roce", …
  BytesPerSecond link{};
  Topology topology = Topology::kFatTree;
  int planes = 1;                   ///< separate trees: NIC j joins plane j mod planes; 0: as many as NICs (rail-only)
  Dragonfly dragonfly;
  Torus torus;
  SwitchList graph;
  bool rail_optimised = false;
  double oversubscription = 1;      ///< of the leaf tier: bytes/s from hosts over bytes/s towards spines
  double spine_oversubscription = 1;  ///< of the tier above, where there are three
  int leaf_ports = 0;               ///< radix of the switches
  std::optional<std::int64_t> max_nodes;  ///< what the built network joins; absent: as many as asked
  Routing routing = Routing::kIdeal;
  int ecmp_qps = 1;
  bool ecmp_per_flow = false;
  double adaptive_residual = 0;     ///< share of capacity lost to residual collisions
  bool in_network_reduction = false;
  Seconds latency_same_leaf{}, latency_per_tier{};  ///< one way, host to host; a tier climbed adds two switches
  double efficiency = 1;            ///< payload share of the line rate (protocol headers)
  bool host_staged = false;         ///< bytes pass through host memory (TCP): no GPUDirect
  std::vector<std::string> default_origin;
};

// Read from documents that passed their descriptions. Lists over GPUs or NICs that are absent or of another length than `gpus` or `nics`
// (an override changed the count) are made by even division. Errors: a mapping to a switch or domain that does not exist, no GPU.
Result<Gpu> read_gpu(const document::Value& gpu, const std::string& file, const std::string& pointer);
Result<Node> read_node(const document::Value& node, const std::string& file, const std::string& pointer);
Result<Fabric> read_fabric(const document::Value& fabric, const std::string& file, const std::string& pointer);

}  // namespace orrery::cluster
