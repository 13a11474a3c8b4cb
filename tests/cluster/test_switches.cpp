// Fabrics that are no single tree: where traffic goes, and that every byte that leaves arrives.
#include <map>

#include "shipped.hpp"

using namespace shipped;

namespace {

Fabric with(Topology topology, Routing routing = Routing::kIdeal) {
  Fabric f = fabric("infiniband-ndr");
  f.topology = topology;
  f.routing = routing;
  return f;
}
Fabric dragonfly(int groups, int routers, int hosts, int spines = 0) {
  Fabric f = with(Topology::kDragonfly);
  f.dragonfly = {groups, routers, hosts, spines, 1, 1, 0};
  return f;
}
Fabric torus(std::vector<int> shape, bool wrap = true) {
  Fabric f = with(Topology::kTorus);
  f.torus = {std::move(shape), wrap};
  return f;
}
Node one_nic() {
  Node n = node("dgx-h100");
  n.gpus = 1;
  n.nics = 1;
  n.gpu_pcie_switch = {-1};
  n.nic_pcie_switch = {-1};
  n.pcie_switches = 0;
  n.gpu_numa = n.nic_numa = {0};
  return n;
}
Cluster build(const Node& n, std::int64_t nodes, const Fabric& f, const std::vector<LinkEvent>& events = {}) {
  auto c = Cluster::build(n, nodes, std::nullopt, f, events, 1, "job.json");
  INFO((c ? std::string() : to_string(c.error().front())));
  REQUIRE(c);
  return *std::move(c);
}
/// Links of the fabric on a route, with shares.
std::map<std::string, double> fabric_links(const Cluster& c, std::int64_t from, std::int64_t to) {
  std::map<std::string, double> out;
  for (const Hop& hop : c.route(from, to).hops) {
    const LinkKind kind = c.links()[hop.link.index()].kind;
    if (kind == LinkKind::kSwitch || kind == LinkKind::kLeafUp || kind == LinkKind::kSpineUp) out[c.name(hop.link)] += hop.share;
  }
  return out;
}
/// What flows into every switch less what flows out: 1 at the end, -1 at the start, 0 elsewhere.
void check_conserved(const Cluster& c, std::int64_t from, std::int64_t to) {
  const Switches& s = *c.switches();
  std::vector<double> net(static_cast<std::size_t>(s.count()), 0);
  for (const Hop& hop : c.route(from, to).hops) {
    const Link& l = c.links()[hop.link.index()];
    if (l.kind != LinkKind::kSwitch) continue;
    const Switches::Cable& cable = s.cables()[static_cast<std::size_t>(l.port)];
    net[static_cast<std::size_t>(l.inbound ? cable.a : cable.b)] += hop.share;
    net[static_cast<std::size_t>(l.inbound ? cable.b : cable.a)] -= hop.share;
  }
  net[static_cast<std::size_t>(s.switch_of(from, 0))] += 1;
  net[static_cast<std::size_t>(s.switch_of(to, 0))] -= 1;
  for (const double n : net) CHECK(std::abs(n) < 1e-12);
}

}  // namespace

TEST_CASE("a torus goes dimension by dimension the shorter way round, and both ways where they are as long") {
  const Cluster c = build(one_nic(), 16, torus({4, 4}));
  CHECK(c.switches()->cables().size() == 32);
  CHECK(fabric_links(c, 0, 1) == std::map<std::string, double>{{"switch0/to1:out", 1}});
  CHECK(fabric_links(c, 0, 3) == std::map<std::string, double>{{"switch3/to0:in", 1}});
  CHECK(fabric_links(c, 0, 5) == std::map<std::string, double>{{"switch0/to1:out", 1}, {"switch1/to5:out", 1}});
  CHECK(fabric_links(c, 0, 2) == std::map<std::string, double>{{"switch0/to1:out", 0.5}, {"switch1/to2:out", 0.5}, {"switch3/to0:in", 0.5}, {"switch2/to3:in", 0.5}});
  const Cluster open = build(one_nic(), 16, torus({4, 4}, false));
  CHECK(open.switches()->cables().size() == 24);
  CHECK(fabric_links(open, 0, 3).size() == 3);
}

TEST_CASE("a dragonfly goes to the router with the cable out, over it and on; with spines through one of each group") {
  // Four groups of four routers, two hosts each: three cables out of a group, of routers 0, 1 and 2.
  const Cluster c = build(one_nic(), 32, dragonfly(4, 4, 2));
  CHECK(fabric_links(c, 0, 2) == std::map<std::string, double>{{"switch0/to1:out", 1}});
  const auto far = fabric_links(c, 0, 31);
  CHECK(far == std::map<std::string, double>{{"switch0/to2:out", 1}, {"switch2/to12:out", 1}, {"switch12/to15:out", 1}});
  const Cluster plus = build(one_nic(), 32, dragonfly(4, 4, 2, 3));
  CHECK(fabric_links(plus, 0, 2).size() == 6);
  CHECK(fabric_links(plus, 0, 31).size() == 3);
}

TEST_CASE("a dragonfly's detour goes evenly through the other groups") {
  Fabric f = dragonfly(6, 2, 1);
  f.routing = Routing::kAdaptive;
  f.dragonfly.detour = 0.4;
  const Cluster c = build(one_nic(), 12, f);
  check_conserved(c, 0, 11);
  double direct = 0;
  for (const auto& [name, share] : fabric_links(c, 0, 11)) {
    if (name.starts_with("switch1/to10") || name.starts_with("switch0/to10") || name.starts_with("switch1/to11")) direct += share;
  }
  CHECK(direct == Approx(0.6));
}

TEST_CASE("every byte that leaves arrives, in every shape and under every routing") {
  std::vector<Fabric> fabrics{torus({4, 3, 2}), torus({5, 5}, false), dragonfly(3, 4, 2), dragonfly(5, 2, 3, 2)};
  Fabric graph = with(Topology::kGraph);
  graph.graph.switches = 6;
  graph.graph.links = {{0, 4, 2}, {1, 4, 2}, {2, 5, 1}, {3, 5, 1}, {0, 5, 1}, {1, 5, 2}, {2, 4, 0.5}, {3, 4, 2}};
  for (int n = 0; n < 24; ++n) graph.graph.hosts.push_back({n / 6});
  fabrics.push_back(graph);
  for (const Fabric& shape : fabrics) {
    for (const Routing routing : {Routing::kIdeal, Routing::kAdaptive, Routing::kEcmp, Routing::kStaticRail}) {
      Fabric f = shape;
      f.routing = routing;
      f.ecmp_qps = 3;
      const Cluster c = build(one_nic(), 24, f);
      for (std::int64_t from = 0; from < 24; from += 5) {
        for (std::int64_t to = 0; to < 24; ++to) {
          if (from != to) check_conserved(c, from, to);
        }
      }
    }
  }
}

TEST_CASE("a failed cable is gone round where there is a way, and refused where there is none") {
  const Cluster c = build(one_nic(), 8, torus({8}), {{"switch0/to1", 0, {}, "/events/0/link"}});
  CHECK(fabric_links(c, 0, 1).size() == 7);
  check_conserved(c, 0, 1);
  const auto cut = Cluster::build(one_nic(), 8, std::nullopt, torus({8}, false), {{"switch3/to4", 0, {}, "/events/0/link"}}, 1, "job.json");
  REQUIRE_FALSE(cut);
  CHECK(to_string(cut.error().front()) == "job.json:/events/0/link: switch3/to4: no path is left from switch 0 to switch 4; give it a capacity above 0");
  const auto unknown = Cluster::build(one_nic(), 8, std::nullopt, torus({8}), {{"switch0/to5", 0.5, {}, "/events/0/link"}}, 1, "job.json");
  REQUIRE_FALSE(unknown);
  CHECK(to_string(unknown.error().front()) == "job.json:/events/0/link: switch0/to5: no such cable among the 8 switches");
}

TEST_CASE("rails that do not meet send what is for another rail over NVLink first") {
  Fabric f = fabric("infiniband-ndr-rail");
  f.planes = 0;
  f.leaf_ports = 4;
  const Cluster c = build(node("dgx-h100"), 8, f);
  CHECK(c.tree()->planes == 8);
  // Two nodes a leaf, so four leaves a rail.
  CHECK(c.tree()->leaf_of(7, 3) == 3 * 4 + 3);
  std::vector<std::string> names;
  for (const Hop& hop : c.route(0, 8 * 7 + 5).hops) names.push_back(c.name(hop.link));
  CHECK(std::find(names.begin(), names.end(), "node0/gpu0/nvlink:out") != names.end());
  CHECK(std::find(names.begin(), names.end(), "node0/gpu5/nvlink:in") != names.end());
  CHECK(std::find(names.begin(), names.end(), "node0/nic5:out") != names.end());
  CHECK(std::find(names.begin(), names.end(), "node7/nic5:in") != names.end());
  // On its own rail it stays off NVLink.
  for (const Hop& hop : c.route(0, 8 * 7).hops) CHECK(c.links()[hop.link.index()].kind != LinkKind::kScaleUp);
}

TEST_CASE("eight planes of two tiers of 64-port switches join 16,384 endpoints; one node more is refused") {
  // DeepSeek-V3's multi-plane fat tree: 8 planes x 64^2 / 2.
  Fabric f = fabric("roce-400g");
  f.planes = 8;
  f.oversubscription = 1;
  const auto full = make_tree(f, 2048, 8, "job.json");
  REQUIRE(full);
  CHECK(full->tiers == 2);
  CHECK(full->nodes * full->nics == 16'384);
  f.planes = 3;
  const auto uneven = make_tree(f, 16, 8, "job.json");
  REQUIRE_FALSE(uneven);
  CHECK(to_string(uneven.error().front()) == "job.json:/cluster/fabric/planes: 8 NICs of a node cannot be shared evenly among 3 planes; use a divisor of 8");
}

TEST_CASE("a placement moves ranks, and the network sees where they went") {
  const auto place = [](const document::Value& v) { return read_placement(v, 16, 2, 8, "job.json", "/cluster/placement"); };
  const auto spread = place("spread");
  REQUIRE(spread);
  CHECK(std::vector<std::int64_t>(spread->gpu_of_rank.begin(), spread->gpu_of_rank.begin() + 4) == std::vector<std::int64_t>{0, 8, 1, 9});
  const auto plane = place(document::Value::Object{{"plane", 2}});
  CHECK(std::vector<std::int64_t>(plane->gpu_of_rank.begin(), plane->gpu_of_rank.begin() + 5) == std::vector<std::int64_t>{0, 1, 8, 9, 2});
  const auto order = place(document::Value::Object{{"nodes", document::Value::Array{1, 0}}});
  CHECK(order->gpu_of_rank.front() == 8);
  const auto c = Cluster::build(node("dgx-h100"), 2, std::nullopt, fabric("infiniband-ndr"), {}, 1, "job.json", *spread);
  REQUIRE(c);
  CHECK(c->domain_of(1) == 1);
  CHECK(c->route(0, 2).switch_tiers == 0);
  CHECK(c->route(0, 1).switch_tiers == 1);
  const auto twice = place(document::Value::Object{{"nodes", document::Value::Array{1, 1}}});
  REQUIRE_FALSE(twice);
  CHECK(to_string(twice.error().front()) == "job.json:/cluster/placement/nodes: node 1 is listed twice");
}
