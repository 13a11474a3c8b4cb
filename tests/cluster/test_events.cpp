// Degraded links, failures, background load: what they leave, and what is refused in which words.
#include "shipped.hpp"

using namespace shipped;

namespace {

std::vector<LinkEvent> degraded(const std::string& link, double capacity) { return {{link, capacity, {}, "/events/0/link"}}; }
std::vector<LinkEvent> background(const std::string& link, double gb) { return {{link, 1, gb_per_s(gb), "/events/0/link"}}; }

Fabric routed(const std::string& name, Routing routing) {
  Fabric f = fabric(name);
  f.routing = routing;
  f.adaptive_residual = 0;
  return f;
}

/// Capacity left of what it was, of the hop that has this name.
double left(const Cluster& c, const std::string& name) {
  for (std::size_t i = 0; i < c.links().size(); ++i) {
    if (c.name(LinkId{static_cast<std::uint32_t>(i)}) == name) return c.links()[i].capacity.value() / c.links()[i].nominal.value();
  }
  FAIL("no link " + name);
  return -1;
}

std::string why(const std::vector<LinkEvent>& events, const std::string& node_name = "dgx-h100", std::int64_t nodes = 4, const std::optional<Fabric>& f = fabric("infiniband-ndr-rail")) {
  const auto c = Cluster::build(node(node_name), nodes, std::nullopt, f, events, 1, "job.json");
  REQUIRE_FALSE(c.has_value());
  return to_string(c.error().front());
}

}  // namespace

TEST_CASE("a degraded link loses its share in both directions, and nothing else does") {
  const Fabric f = fabric("infiniband-ndr-rail");
  const Cluster c = built(node("dgx-h100"), 4, f, degraded("node3/nic2", 0.5));
  CHECK(left(c, "node3/nic2:in") == 0.5);
  CHECK(left(c, "node3/nic2:out") == 0.5);
  const Cluster healthy = built(node("dgx-h100"), 4, f);
  int changed = 0;
  for (std::size_t i = 0; i < c.links().size(); ++i) changed += c.links()[i].capacity != healthy.links()[i].capacity ? 1 : 0;
  CHECK(changed == 2);
  CHECK(left(built(node("dgx-h100"), 1, std::nullopt, degraded("node0/gpu5/nvlink", 0.25)), "node0/gpu5/nvlink:out") == 0.25);
  CHECK(left(built(node("dgx-h100"), 1, std::nullopt, degraded("node0/pcie3", 0.25)), "node0/pcie3:in") == 0.25);
  CHECK(left(built(node("box-8x-rtx4090"), 1, std::nullopt, degraded("node0/pcie7", 0.25)), "node0/pcie7:in") == 0.25);
}

TEST_CASE("an uplink that degrades or fails takes its part of the pooled bundle") {
  const Fabric f = routed("infiniband-ndr-rail", Routing::kIdeal);
  CHECK(left(built(node("dgx-h100"), 64, f, degraded("leaf0/up3", 0.5)), "leaf0/up0:out") == Approx(1 - 0.5 / 32));
  CHECK(left(built(node("dgx-h100"), 64, f, degraded("leaf0/up3", 0)), "leaf0/up0:in") == Approx(31.0 / 32));
  const double line = 50e9 * f.efficiency;
  CHECK(left(built(node("dgx-h100"), 64, f, background("leaf0/up3", 10)), "leaf0/up0:out") == Approx(1 - 10e9 / (32 * line)));
}

TEST_CASE("several events on one link add up") {
  std::vector<LinkEvent> events = degraded("node0/nic0", 0.5);
  events.push_back({"node0/nic0", 0.5, {}, "/events/1/link"});
  events.push_back({"node0/nic0", 1, gb_per_s(5), "/events/2/link"});
  const Fabric f = fabric("infiniband-ndr-rail");
  CHECK(left(built(node("dgx-h100"), 4, f, events), "node0/nic0:out") == Approx(0.25 - 5e9 / (50e9 * f.efficiency)));
}

TEST_CASE("traffic goes round a failed NIC by the nearest that works: its switch's other one, then its socket's") {
  const Fabric f = fabric("infiniband-ndr-rail");
  const Cluster c = built(node("dgx-h100"), 4, f, degraded("node1/nic2", 0));
  CHECK(c.nic_of(8 + 2) == 3);
  CHECK(c.nic_of(2) == 2);
  CHECK(path(c, c.route(2, 8 + 2)) == "node0/gpu2/pcie:out node0/nic2:out leaf2/up0:out leaf3/up0:in node1/nic3:in node1/gpu2/pcie:in");
  auto two = degraded("node1/nic2", 0);
  two.push_back({"node1/nic3", 0, {}, "/events/1/link"});
  CHECK(built(node("dgx-h100"), 4, f, two).nic_of(8 + 2) == 1);
  const Cluster p5 = built(node("p5.48xlarge"), 2, fabric("roce-100g"), degraded("node0/nic1", 0));
  const Route r = p5.route(0, 8);
  CHECK(crossing(p5, r, LinkKind::kNic, false) == Approx(1));
  CHECK(std::none_of(r.hops.begin(), r.hops.end(), [&](const Hop& h) { return p5.links()[h.link.index()].capacity.value() == 0; }));
}

TEST_CASE("no route crosses a failed uplink, and its ECMP group hashes over the rest") {
  for (const Routing routing : {Routing::kEcmp, Routing::kStaticRail}) {
    Fabric f = routed("roce-400g", routing);
    f.leaf_ports = 16;  // three tiers at 100 nodes
    std::vector<LinkEvent> events = degraded("leaf0/up3", 0);
    events.push_back({"spine2/up1", 0, {}, "/events/1/link"});
    const Cluster c = built(node("dgx-h100"), 100, f, events);
    REQUIRE(c.tree()->tiers == 3);
    int crossed = 0;
    for (std::int64_t to = 8; to < 800; ++to) {
      for (std::int64_t from = 0; from < 8; ++from) {
        const Route out = c.route(from, to, 3), in = c.route(to, from, 3);
        for (const Route* r : {&out, &in}) {
          for (const Hop& h : r->hops) crossed += c.links()[h.link.index()].capacity.value() == 0 ? 1 : 0;
          CHECK(crossing(c, *r, LinkKind::kLeafUp, true) == Approx(r->switch_tiers > 1 ? 1 : 0));
        }
      }
    }
    CHECK(crossed == 0);
  }
}

TEST_CASE("links that do not exist are refused with what there is") {
  CHECK(why(degraded("nodes3/nic2", 0.5)) ==
        "job.json:/events/0/link: nodes3/nic2: no such link; links are named node{i}/gpu{j}/nvlink, node{i}/pcie{k}, node{i}/nic{j}, leaf{i}/up{j}, spine{i}/up{j} and switch{i}/to{j}");
  for (const char* name : {"", "/", "node0", "node0/nic", "node/nic0", "node0/nic00", "node0/nic0/", "node0/nic-1", "node0/nic0x", "leaf0/up99999999999999999999", "node0/gpu1/nvlink2"}) {
    INFO(name);
    CHECK(why(degraded(name, 0.5)).find(": no such link; links are named") != std::string::npos);
  }
  CHECK(why(degraded("node4/nic2", 0.5)) == "job.json:/events/0/link: node4/nic2: node 4 is out of range; 0 to 3");
  CHECK(why(degraded("node3/nic8", 0.5)) == "job.json:/events/0/link: node3/nic8: NIC 8 is out of range; 0 to 7");
  CHECK(why(degraded("node3/gpu8/nvlink", 0.5)) == "job.json:/events/0/link: node3/gpu8/nvlink: GPU 8 is out of range; 0 to 7");
  CHECK(why(degraded("node3/pcie4", 0.5)) == "job.json:/events/0/link: node3/pcie4: PCIe switch 4 is out of range; 0 to 3");
  CHECK(why(degraded("node0/pcie8", 0.5), "box-8x-rtx4090", 1, std::nullopt) == "job.json:/events/0/link: node0/pcie8: PCIe root port 8 is out of range; 0 to 7");
  CHECK(why(degraded("node0/gpu0/nvlink", 0.5), "box-8x-rtx4090", 1, std::nullopt) ==
        "job.json:/events/0/link: node0/gpu0/nvlink: a box-8x-rtx4090 has no scale-up ports");
  CHECK(why(degraded("node0/nic0", 0.5), "dgx-h100", 1, std::nullopt) == "job.json:/events/0/link: node0/nic0: there is no NIC here");
  CHECK(why(degraded("leaf8/up0", 0.5)) == "job.json:/events/0/link: leaf8/up0: leaf 8 is out of range; 0 to 7");
  CHECK(why(degraded("leaf0/up32", 0.5)) == "job.json:/events/0/link: leaf0/up32: uplink of a leaf 32 is out of range; 0 to 31");
  CHECK(why(degraded("leaf0/up0", 0.5), "dgx-h100", 1, std::nullopt) == "job.json:/events/0/link: leaf0/up0: there is no leaf here");
  CHECK(why(degraded("leaf0/up0", 0.5), "dgx-h100", 4, fabric("infiniband-ndr")) == "job.json:/events/0/link: leaf0/up0: there is no uplink of a leaf here");
  CHECK(why(degraded("spine0/up0", 0.5)) == "job.json:/events/0/link: spine0/up0: there is no uplink of a spine here");
}

TEST_CASE("a background that leaves nothing is refused") {
  const Fabric f = fabric("infiniband-ndr-rail");
  CHECK(why(background("node3/nic2", 49.685)) == "job.json:/events/0/link: node3/nic2: a background of 49.685 GB/s leaves nothing of its 49.685 GB/s; use less");
  CHECK(left(built(node("dgx-h100"), 4, f, background("node3/nic2", 49.684)), "node3/nic2:in") > 0);
  auto failed = background("node3/nic2", 1);
  failed[0].capacity = 0;
  CHECK(why(failed) == "job.json:/events/0/link: node3/nic2: a background of 1 GB/s leaves nothing of its 0 GB/s; use less");
  // one cable of a pooled bundle, not the bundle
  const Fabric ideal = routed("infiniband-ndr-rail", Routing::kIdeal);
  CHECK(why(background("leaf0/up3", 60), "dgx-h100", 64, ideal) == "job.json:/events/0/link: leaf0/up3: a background of 60 GB/s leaves nothing of its 49.685 GB/s; use less");
}

TEST_CASE("a failure with no way round is refused") {
  CHECK(why(degraded("node0/gpu3/nvlink", 0)) == "job.json:/events/0/link: node0/gpu3/nvlink: a GPU's scale-up port is its only way to its domain; give it a capacity above 0");
  CHECK(why(degraded("node0/pcie1", 0)) ==
        "job.json:/events/0/link: node0/pcie1: a PCIe switch's uplink is its GPUs' only way to the host; give it a capacity above 0");
  CHECK(why(degraded("node0/pcie1", 0), "box-8x-rtx4090", 1, std::nullopt) ==
        "job.json:/events/0/link: node0/pcie1: a root port is its GPU's only way to the host; give it a capacity above 0");
  CHECK(why(degraded("node1/nic0", 0), "box-8x-rtx4090", 2, fabric("roce-200g")) ==
        "job.json:/events/0/link: node1/nic0: node 1 has no other NIC in use; give it a capacity above 0");
  for (const Routing routing : {Routing::kIdeal, Routing::kEcmp}) {
    const Fabric f = routed("infiniband-ndr-rail", routing);
    std::vector<LinkEvent> all, halves;
    for (int up = 0; up < 32; ++up) {
      all.push_back({"leaf5/up" + std::to_string(up), 0, {}, "/events/" + std::to_string(up) + "/link"});
      halves.push_back({"leaf" + std::to_string(up % 2) + "/up" + std::to_string(up), 0, {}, "/events/" + std::to_string(up) + "/link"});
    }
    CHECK(why(all, "dgx-h100", 64, f) == "job.json:/events/0/link: leaf5/up0: no path is left from leaf 5 to leaf 0; give it a capacity above 0");
    CHECK(why(halves, "dgx-h100", 64, f) == "job.json:/events/0/link: leaf0/up0: no path is left from leaf 0 to leaf 1; give it a capacity above 0");
    all.pop_back();
    CHECK(Cluster::build(node("dgx-h100"), 64, std::nullopt, f, all, 1, "job.json").has_value());
  }
}

TEST_CASE("events are read from a scenario: links of the network's kinds, with their pointers; shares outside 0 to 1 are refused") {
  const auto events = document::parse(R"([{"kind":"slow_gpu","rank":17,"speed":0.8},{"kind":"degraded_link","link":"node3/nic2","capacity":0.5},
                                         {"kind":"background","link":"leaf0/up3","gb_per_s":10}])", "job.json");
  REQUIRE(events.has_value());
  const auto read = good(read_link_events(*events, "job.json", "/events"));
  REQUIRE(read.size() == 2);
  CHECK(read[0].link == "node3/nic2");
  CHECK(read[0].capacity == 0.5);
  CHECK(read[0].pointer == "/events/1/link");
  CHECK(read[1].background == gb_per_s(10));
  CHECK(good(read_link_events({}, "job.json", "/events")).empty());
  const auto bad = document::parse(R"([{"kind":"degraded_link","link":"node3/nic2","capacity":1.5},{"kind":"background","link":"leaf0/up3","gb_per_s":-1}])", "job.json");
  REQUIRE(bad.has_value());
  const auto refused = read_link_events(*bad, "job.json", "/events");
  REQUIRE_FALSE(refused.has_value());
  CHECK(to_string(refused.error().at(0)) == "job.json:/events/0/capacity: 1.5 is no share of a link's capacity; use 0 (failed) to 1");
  CHECK(to_string(refused.error().at(1)) == "job.json:/events/1/gb_per_s: -1 GB/s is no load; use 0 or more");
}

TEST_CASE("clusters that cannot be are refused") {
  const auto refuse = [](const Node& n, std::int64_t nodes, std::optional<std::int64_t> used, const std::optional<Fabric>& f) {
    const auto c = Cluster::build(n, nodes, used, f, {}, 1, "job.json");
    REQUIRE_FALSE(c.has_value());
    return to_string(c.error().front());
  };
  const Node n = node("dgx-h100");
  const Fabric f = fabric("infiniband-ndr-rail");
  CHECK(refuse(n, 0, std::nullopt, f) == "job.json:/cluster/nodes: 0 nodes hold no job; use 1 or more");
  CHECK(refuse(n, 4, 9, f) == "job.json:/cluster/gpus_per_node: 9 of the 8 GPUs of a dgx-h100 cannot be used; give 1 to 8");
  CHECK(refuse(n, 4, std::nullopt, std::nullopt) == "job.json:/cluster/fabric: 4 nodes of dgx-h100 do not share one scale-up domain; name a fabric");
  CHECK(refuse(node("dgx-h100", {{"nics", 0}}), 4, std::nullopt, f) ==
        "job.json:/cluster/node/nics: a dgx-h100 without NICs cannot reach the other nodes; give it nics and nic_gbit_per_s");
  CHECK(refuse(n, INT64_MAX, std::nullopt, f) ==
        "job.json:/cluster/nodes: 9223372036854775807 nodes with 62 links each are more than the 67108864 links that are simulated; use 1082401 nodes or fewer");
  CHECK(refuse(n, 9000, std::nullopt, f).find("job.json:/cluster/nodes: 9000 nodes with 8 NICs need 2256 leaves") == 0);
  Fabric small = f;
  small.max_nodes = 3;
  CHECK(refuse(n, 4, std::nullopt, small) == "job.json:/cluster/nodes: infiniband-ndr-rail joins 3 nodes and 4 are asked for; use fewer nodes or another fabric");
  Fabric tiny = f;
  tiny.leaf_ports = 1;
  CHECK(refuse(n, 4, std::nullopt, tiny) == "job.json:/cluster/fabric/leaf_ports: a switch of 1 ports has no room for a host and an uplink; use 2 or more");
}
