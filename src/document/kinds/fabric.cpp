// orrery/fabric/1: the network between nodes (design 5.3).
#include "document/description.hpp"

namespace orrery::document {

const Type& fabric_type() {
  static const Type ecmp = object({
      member("qps", integer(1, 1 << 16), "queue pairs that a flow is spread over").otherwise(1),
      member("draw", choice({{"per_role"}, {"per_flow"}}), "whether equal flows of equal places share a draw").otherwise("per_role"),
  });
  static const Type type = object(document_members("fabric", true, with_sources({
      member("name", text(), "catalogue name").otherwise(""),
      member("title", text(), "what it is").otherwise(""),
      member("kind", choice({{"infiniband"}, {"roce"}, {"tcp"}, {"efa"}, {"gcp"}, {"slingshot"}}), "technology").required(),
      member("link_gbit_per_s", positive(1e9), "line rate of one link and direction").required(),
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
