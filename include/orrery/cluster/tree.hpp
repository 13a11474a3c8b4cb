#pragma once
// A folded-Clos fabric as arithmetic: who hangs under which leaf, and how many tiers that takes. Nothing is stored per switch.
#include <cstdint>
#include <string>

#include "orrery/base/result.hpp"
#include "orrery/cluster/parts.hpp"

namespace orrery::cluster {

/// All switches have `radix` ports of one rate. With k ports and no oversubscription a leaf has k/2 hosts, two tiers join k^2/2 hosts, three
/// k^3/4 (Al-Fares, Loukissas, Vahdat, SIGCOMM 2008). Oversubscription o moves ports from spines to hosts: k o/(1+o) down, the rest up.
///
///   rail-optimised: leaf (unit u, rail r) = u x rails + r joins NIC r of the nodes of unit u
///   planes:         NIC j is in plane j mod planes; the leaves of plane 0 come first, then those of plane 1, …; each plane is a tree by itself
///   plain:          a leaf joins all NICs of consecutive nodes; a node with more NICs than a leaf has host ports takes several leaves
struct Tree {
  std::int64_t radix = 0;
  std::int64_t nodes = 0, nics = 0;       ///< NICs of one node
  bool rail_optimised = false;
  std::int64_t planes = 1, leaves_per_plane = 0;
  std::int64_t down = 0, up = 0;          ///< ports of a leaf to hosts and to spines
  double up_rate = 1;                     ///< share of the line rate that an uplink carries, so that oversubscription is exact
  std::int64_t leaves = 0, nodes_per_leaf = 0, leaves_per_node = 1;
  int tiers = 1;
  std::int64_t pods = 1, leaves_per_pod = 0, spines = 0;  ///< a pod is what the second tier joins; spines of one pod
  std::int64_t spine_up = 0;              ///< ports of a spine to cores; 0 with fewer than three tiers
  double spine_up_rate = 1;

  [[nodiscard]] std::int64_t leaf_of(std::int64_t node, std::int64_t nic) const;
  /// The host port of a NIC under its leaf, 0 … down-1.
  [[nodiscard]] std::int64_t place_of(std::int64_t node, std::int64_t nic) const;
  [[nodiscard]] std::int64_t plane_of(std::int64_t leaf) const { return leaf / leaves_per_plane; }
  [[nodiscard]] std::int64_t pod_of(std::int64_t leaf) const { return leaf / leaves_per_pod; }
  /// Tiers that a path between two leaves climbs: 1 under one leaf, 2 in one pod, 3 across.
  [[nodiscard]] int tiers_between(std::int64_t leaf_a, std::int64_t leaf_b) const;
};

/// Refuses what three tiers cannot join, and switches too small to be a leaf.
Result<Tree> make_tree(const Fabric& fabric, std::int64_t nodes, std::int64_t nics, const std::string& file);

}  // namespace orrery::cluster
