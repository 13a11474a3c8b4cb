#include "orrery/cluster/tree.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "orrery/base/checked.hpp"

namespace orrery::cluster {
namespace {

constexpr double kPortSlack = 1e-9;  // k o/(1+o) is a whole number of ports in exact arithmetic for the usual k and o

std::int64_t ports_down(std::int64_t radix, double oversubscription) {
  const double exact = static_cast<double>(radix) * oversubscription / (1 + oversubscription);
  return std::clamp(static_cast<std::int64_t>(std::floor(exact + kPortSlack)), std::int64_t{1}, radix - 1);
}

double uplink_rate(std::int64_t down, std::int64_t up, double oversubscription) {
  return static_cast<double>(down) / (oversubscription * static_cast<double>(up));
}

}  // namespace

std::int64_t Tree::leaf_of(std::int64_t node, std::int64_t nic) const {
  if (planes > 1) {
    // The plane is a tree of the NICs that each node has in it.
    Tree one = *this;
    one.planes = 1;
    one.nics = nics / planes;
    return nic % planes * leaves_per_plane + one.leaf_of(node, nic / planes);
  }
  if (rail_optimised) return node / nodes_per_leaf * nics + nic;
  if (leaves_per_node > 1) return node * leaves_per_node + nic / down;
  return node / nodes_per_leaf;
}

std::int64_t Tree::place_of(std::int64_t node, std::int64_t nic) const {
  if (planes > 1) {
    Tree one = *this;
    one.planes = 1;
    one.nics = nics / planes;
    return one.place_of(node, nic / planes);
  }
  if (rail_optimised) return node % nodes_per_leaf;
  if (leaves_per_node > 1) return nic % down;
  return node % nodes_per_leaf * nics + nic;
}

int Tree::tiers_between(std::int64_t leaf_a, std::int64_t leaf_b) const {
  if (leaf_a == leaf_b) return 1;
  return pod_of(leaf_a) == pod_of(leaf_b) ? 2 : 3;
}

Result<Tree> make_tree(const Fabric& fabric, std::int64_t nodes, std::int64_t nics, const std::string& file) {
  if (fabric.leaf_ports < 2) {
    return fail(file, "/cluster/fabric/leaf_ports", fmt::format("a switch of {} ports has no room for a host and an uplink; use 2 or more", fabric.leaf_ports));
  }
  if (fabric.max_nodes && nodes > *fabric.max_nodes) {
    return fail(file, "/cluster/nodes", fmt::format("{} joins {} nodes and {} are asked for; use fewer nodes or another fabric", fabric.name, *fabric.max_nodes, nodes));
  }
  const std::int64_t planes = fabric.planes == 0 ? nics : std::min<std::int64_t>(fabric.planes, nics);
  if (planes > 1) {
    if (nics % planes != 0) {
      return fail(file, "/cluster/fabric/planes", fmt::format("{} NICs of a node cannot be shared evenly among {} planes; use a divisor of {}", nics, planes, nics));
    }
    Fabric plane = fabric;
    plane.planes = 1;
    auto one = make_tree(plane, nodes, nics / planes, file);
    if (!one) return one;
    one->nics = nics;
    one->planes = planes;
    one->leaves_per_plane = one->pods * one->leaves_per_pod;  // a last pod that is not full keeps its numbers
    one->leaves = planes * one->leaves_per_plane;
    one->pods *= planes;
    return one;
  }
  Tree t;
  t.radix = fabric.leaf_ports;
  t.nodes = nodes;
  t.nics = nics;
  t.rail_optimised = fabric.rail_optimised;
  t.down = ports_down(t.radix, fabric.oversubscription);
  t.up = t.radix - t.down;
  t.up_rate = uplink_rate(t.down, t.up, fabric.oversubscription);
  if (t.rail_optimised) {
    t.nodes_per_leaf = t.down;
    t.leaves = ceil_div(nodes, t.nodes_per_leaf) * nics;
  } else if (nics > t.down) {
    t.nodes_per_leaf = 1;
    t.leaves_per_node = ceil_div(nics, t.down);
    t.leaves = nodes * t.leaves_per_node;
  } else {
    t.nodes_per_leaf = t.down / nics;
    t.leaves = ceil_div(nodes, t.nodes_per_leaf);
  }
  t.leaves_per_pod = t.leaves_per_plane = t.leaves;
  if (t.leaves == 1) return t;
  if (t.leaves <= t.radix) {
    t.tiers = 2;
    t.spines = ceil_div(t.leaves * t.up, t.radix);
    return t;
  }
  t.tiers = 3;
  t.leaves_per_pod = ports_down(t.radix, fabric.spine_oversubscription);
  t.spine_up = t.radix - t.leaves_per_pod;
  t.spine_up_rate = uplink_rate(t.leaves_per_pod, t.spine_up, fabric.spine_oversubscription);
  t.spines = t.up;  // one cable from every leaf of the pod to each of its spines
  t.pods = ceil_div(t.leaves, t.leaves_per_pod);
  t.leaves_per_plane = t.leaves;
  if (t.pods > t.radix) {  // a core switch has one port for each pod
    return fail(file, "/cluster/nodes",
                fmt::format("{} nodes with {} NICs need {} leaves, and three tiers of {}-port switches join {}; use fewer nodes or larger switches (leaf_ports)",
                            nodes, nics, t.leaves, t.radix, t.radix * t.leaves_per_pod));
  }
  return t;
}

}  // namespace orrery::cluster
