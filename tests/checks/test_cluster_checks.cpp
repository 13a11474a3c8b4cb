// Capacities of built networks.
#include "catch.h"
#include "orrery/cluster/cluster.hpp"
#include "orrery/document/document.hpp"

using namespace orrery;

TEST_CASE("a 7:1 oversubscribed core leaves 57 Gb/s of its 400 to every host port of a pod") {
  INFO("net.oversub.llama3_core");
  const auto node_document = document::load("node", document::Value("dgx-h100"), "job.json", "/cluster/node", ORRERY_SOURCE_DIR);
  const document::Value text = document::Value::Object{{"extends", "roce-400g"}, {"spine_oversubscription", 7}, {"efficiency", 1.0}, {"routing", "ideal"}, {"leaf_ports", 16}};
  const auto fabric_document = document::load("fabric", text, "job.json", "/cluster/fabric", ORRERY_SOURCE_DIR);
  REQUIRE(node_document.has_value());
  REQUIRE(fabric_document.has_value());
  const auto node = cluster::read_node(node_document->value, "job.json", "/cluster/node");
  const auto fabric = cluster::read_fabric(fabric_document->value, "job.json", "/cluster/fabric");
  REQUIRE(node.has_value());
  REQUIRE(fabric.has_value());
  const auto built = cluster::Cluster::build(*node, 64, std::nullopt, *fabric, {}, 1, "job.json");
  REQUIRE(built.has_value());
  REQUIRE(built->tree()->tiers == 3);
  double up = 0;
  for (const cluster::Link& link : built->links()) {
    if (link.kind == cluster::LinkKind::kSpineUp && !link.inbound) up += link.nominal.value();
  }
  const double hosts = static_cast<double>(built->tree()->leaves_per_pod * built->tree()->down * built->tree()->pods);
  CHECK(up * 8 / 1e9 / hosts == Approx(57.1428571429).epsilon(1e-9));
}
