// orrery/fabric/1: the network between nodes (design 5.3).
#include "document/description.hpp"

namespace orrery::document {

const Type& fabric_type() {
  static const Type ecmp = object({
      member("qps", integer(1, 1 << 16), "queue pairs that a flow is spread over").otherwise(1),
      member("draw", choice({{"per_role"}, {"per_flow"}}), "whether equal flows of equal places share a draw").otherwise("per_role"),
  });
  static const Type dragonfly = object({
      member("groups", integer(1, 1 << 16), "groups of routers").required(),
      member("routers_per_group", integer(1, 1 << 16), "routers with hosts in a group").required(),
      member("hosts_per_router", integer(1, 1 << 16), "NICs on a router").required(),
      member("spines_per_group", integer(0, 1 << 16), "0: the routers of a group are all joined; more: they meet at spines, which have the cables to other groups (dragonfly+)").otherwise(0),
      member("cables", positive(1e6), "between two switches of a group").otherwise(1),
      member("global_cables", integer(1, 1 << 16), "from each group to each other").otherwise(1),
      member("detour", fraction(), "share of traffic that adaptive routing sends through a third group").otherwise(0),
  });
  static const Type torus = object({
      member("shape", array(integer(1, 1 << 16), 1, 6), "NICs in each dimension; node by node, the first dimension counts fastest").required(),
      member("wrap", boolean(), "rows close to rings").otherwise(true),
  });
  static const Type graph = object({
      member("switches", integer(1, 1 << 20), "how many; they are numbered from 0").required(),
      member("links", array(array(number(0, 1 << 20), 3, 3), 0, 1 << 20), "[switch, switch, cables]; cables of link_gbit_per_s each, and parts of one").required(),
      member("hosts", array(array(integer(0, 1 << 20), 1, 4096), 1, 1 << 20), "of each node, the switch of each NIC; one alone stands for all").required(),
      member("names", array(text(), 0, 1 << 20), "of the switches").otherwise(Value::Array()),
      member("host_names", array(text(), 0, 1 << 20), "of the nodes").otherwise(Value::Array()),
  });
  static const Type type = object(document_members("fabric", true, with_sources({
      member("name", text(), "catalogue name").otherwise(""),
      member("title", text(), "what it is").otherwise(""),
      member("kind", choice({{"infiniband"}, {"roce"}, {"tcp"}, {"efa"}, {"gcp"}, {"slingshot"}}), "technology").required(),
      member("link_gbit_per_s", positive(1e9), "line rate of one link and direction").required(),
      member("topology", choice({{"fat_tree"}, {"rail_only"}, {"multi_plane"}, {"dragonfly"}, {"torus"}, {"graph"}}),
             "fat_tree: leaves, spines, cores as far as nodes ask; rail_only: a tree for each NIC of a node, and no link between them; multi_plane: `planes` such trees")
          .otherwise("fat_tree"),
      member("planes", integer(1, 4096), "of multi_plane: NIC j of a node is in plane j mod planes").otherwise(1),
      member("dragonfly", dragonfly, "of topology dragonfly"),
      member("torus", torus, "of topology torus"),
      member("graph", graph, "of topology graph"),
      member("rail_optimised", boolean(), "NIC j of every node of a block meets the same leaf").otherwise(false),
      member("oversubscription", positive(1e6), "bytes/s of hosts over bytes/s of uplinks at a leaf").otherwise(1),
      member("spine_oversubscription", positive(1e6), "the same one tier up").otherwise(1),
      member("leaf_ports", integer(2, 1 << 20), "ports of a switch").required(),
      member("max_nodes", integer(1, 1 << 24), "nodes that the built network joins; null: as many as asked"),
      member("routing", either({choice({{"ideal"}, {"adaptive"}, {"static_rail"}}), just_one_of({member("ecmp", ecmp, "a hash chooses the path of each flow")})}),
             "ideal: fluid split over all paths; static_rail: NIC j keeps to path j")
          .otherwise("ideal"),
      member("adaptive_residual", fraction(), "share of capacity lost to collisions under adaptive routing").otherwise(0),
      member("in_network_reduction", boolean(), "switches reduce (SHARP)").otherwise(false),
      member("latency_same_leaf_us", number(0, 1e9), "one way, host to host under one leaf").required(),
      member("latency_per_tier_us", number(0, 1e9), "more for each further tier").required(),
      member("efficiency", positive(1), "payload over line rate: headers and measured NIC rate").otherwise(1),
      member("host_staged", boolean(), "the host copies every message (TCP): no RDMA").otherwise(false),
  })));
  return type;
}

}  // namespace orrery::document
