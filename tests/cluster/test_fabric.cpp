// The switch tree: sizes, capacities, oversubscription, routing.
#include <set>

#include "shipped.hpp"

using namespace shipped;

namespace {

Fabric plain(int radix, double oversubscription = 1, Routing routing = Routing::kIdeal) {
  Fabric f;
  f.name = "test";
  f.link = gbit_per_s(400);
  f.leaf_ports = radix;
  f.oversubscription = oversubscription;
  f.routing = routing;
  f.latency_same_leaf = Seconds(1e-6);
  return f;
}

Tree tree(const Fabric& f, std::int64_t nodes, std::int64_t nics) { return good(make_tree(f, nodes, nics, "job.json")); }

}  // namespace

TEST_CASE("tiers are added as the size demands: k/2 hosts under one leaf, k^2/2 in two tiers, k^3/4 in three") {
  const Fabric f = plain(64);
  struct Case { const char* id; std::int64_t hosts; int tiers; };
  for (const Case& c : {Case{"one leaf", 32, 1}, Case{"net.leafspine2.hosts", 2048, 2}, Case{"net.fattree3.hosts", 65536, 3}}) {
    INFO(c.id);
    CHECK(tree(f, c.hosts, 1).tiers == c.tiers);
    if (c.tiers < 3) {
      CHECK(tree(f, c.hosts + 1, 1).tiers == c.tiers + 1);
    } else {
      const auto more = make_tree(f, c.hosts + 1, 1, "job.json");
      REQUIRE_FALSE(more.has_value());
      CHECK(to_string(more.error().front()) ==
            "job.json:/cluster/nodes: 65537 nodes with 1 NICs need 2049 leaves, and three tiers of 64-port switches join 2048; use fewer nodes or larger switches "
            "(leaf_ports)");
    }
  }
  CHECK(64 * 64 / 2 == 2048);
  CHECK(64 * 64 * 64 / 4 == 65536);
}

TEST_CASE("net.mpft.endpoints: eight planes of two 64-port tiers join 8 x k^2/2 = 16,384 endpoints") {
  const Tree plane = tree(plain(64), 2048, 1);  // a plane is a fabric of its own, and takes one NIC of a node
  CHECK(plane.tiers == 2);
  CHECK(8 * plane.leaves * plane.down == 16384);
}

TEST_CASE("rail-optimised: leaf (unit, rail) joins NIC rail of the unit's nodes; plain: a leaf joins whole nodes") {
  const Tree rail = tree(fabric("infiniband-ndr-rail"), 64, 8);
  CHECK(rail.leaves == 16);
  CHECK(rail.leaf_of(31, 5) == 5);
  CHECK(rail.leaf_of(32, 5) == 13);
  CHECK(rail.place_of(33, 5) == 1);
  const Tree flat = tree(fabric("infiniband-ndr"), 64, 8);
  CHECK(flat.leaves == 16);
  CHECK(flat.leaf_of(3, 7) == 0);
  CHECK(flat.leaf_of(4, 0) == 1);
  CHECK(flat.place_of(3, 7) == 31);
  const Tree rack = tree(fabric("infiniband-ndr"), 2, 72);  // 72 NICs under leaves of 32 hosts
  CHECK(rack.leaves == 6);
  CHECK(rack.leaf_of(1, 40) == 4);
}

TEST_CASE("the switches of the shipped fabrics are those of their generation") {
  CHECK(fabric("infiniband-hdr").leaf_ports == 40);
  CHECK(fabric("infiniband-ndr").leaf_ports == 64);
  CHECK(fabric("infiniband-xdr").leaf_ports == 144);
  CHECK(fabric("roce-800g").leaf_ports == 64);
  // 2,048 DGX H100 are 512 leaves of 32 hosts, more than a 64-port spine joins
  CHECK(tree(fabric("infiniband-ndr-rail"), 2048, 8).tiers == 3);
  CHECK(tree(fabric("infiniband-ndr-rail"), 256, 8).tiers == 2);
}

TEST_CASE("a leaf's uplinks carry its hosts' bytes over the oversubscription, whatever the radix and the ratio") {
  for (const int radix : {32, 40, 64, 144}) {
    for (const double o : {1.0, 1.5, 2.0, 3.0, 7.0}) {
      INFO(radix << " ports, 1:" << o);
      const Fabric f = plain(radix, o);
      const Tree t = tree(f, 100, 8);
      CHECK(t.down + t.up == radix);
      CHECK(static_cast<double>(t.down) / (static_cast<double>(t.up) * t.up_rate) == Approx(o));
      const Cluster c = built(node("dgx-h100"), 100, f);
      const LinkId up = c.route(0, 99 * 8).hops[2].link;
      CHECK(c.name(up) == "leaf0/up0:out");
      CHECK(c.links()[up.index()].capacity.value() * o == Approx(static_cast<double>(t.down) * 50e9));
      CHECK(c.links()[up.index()].bundle == t.up);
    }
  }
}

TEST_CASE("net.oversub.llama3_core: 1:7 above the pod leaves each 400 Gb/s NIC 57 Gb/s when all talk across") {
  Fabric f = plain(64);
  f.spine_oversubscription = 7;
  const Cluster c = built(node("dgx-h100"), 3072, f);
  REQUIRE(c.tree()->tiers == 3);
  const Tree& t = *c.tree();
  const auto& links = c.links();
  const auto core = std::find_if(links.begin(), links.end(), [](const Link& l) { return l.kind == LinkKind::kSpineUp; });
  REQUIRE(core != links.end());
  const double per_nic = core->capacity.value() * 8 / 1e9 / static_cast<double>(t.leaves_per_pod * t.down);
  CHECK(per_nic == Approx(57.1428571429).epsilon(1e-9));
  CHECK(400.0 / 7 == Approx(57.1428571429).epsilon(1e-9));
}

TEST_CASE("adaptive routing loses its residual, ideal none") {
  Fabric f = plain(64, 1, Routing::kAdaptive);
  f.adaptive_residual = 0.04;
  const auto up = [](const Fabric& g) {
    const Cluster c = built(node("dgx-h100"), 16, g);
    return c.links()[c.route(0, 15 * 8).hops[2].link.index()].capacity.value();
  };
  CHECK(up(f) == Approx(0.96 * up(plain(64))));
}

TEST_CASE("every route conserves its bytes at every cut, in every routing and tier") {
  for (const Routing routing : {Routing::kIdeal, Routing::kAdaptive, Routing::kEcmp, Routing::kStaticRail}) {
    for (const bool rail : {false, true}) {
      Fabric f = plain(16, 1, routing);
      f.rail_optimised = rail;
      f.ecmp_qps = 4;
      const Cluster c = built(node("dgx-h100"), 100, f);
      REQUIRE(c.tree()->tiers == 3);
      for (std::int64_t from = 0; from < 800; from += 37) {
        for (std::int64_t to = 5; to < 800; to += 61) {
          if (c.domain_of(from) == c.domain_of(to)) continue;
          const Route r = c.route(from, to, 7);
          INFO(from << " to " << to << ": " << path(c, r));
          for (const bool in : {false, true}) {
            CHECK(crossing(c, r, LinkKind::kPcie, in) == Approx(1));
            CHECK(crossing(c, r, LinkKind::kNic, in) == Approx(1));
            CHECK(crossing(c, r, LinkKind::kLeafUp, in) == Approx(r.switch_tiers > 1 ? 1 : 0));
            CHECK(crossing(c, r, LinkKind::kSpineUp, in) == Approx(r.switch_tiers > 2 ? 1 : 0));
          }
          CHECK(r.latency.value() == Approx(1e-6));
        }
      }
    }
  }
}

TEST_CASE("ECMP puts each queue pair on one path, the same for the same seed, and for equal leaves alike") {
  Fabric f = plain(64, 1, Routing::kEcmp);
  f.ecmp_qps = 4;
  const Node n = node("dgx-h100");
  const Cluster c = built(n, 64, f), again = built(n, 64, f), other = built(n, 64, f, {}, 2);
  const Route r = c.route(0, 60 * 8, 11);
  CHECK(r == again.route(0, 60 * 8, 11));
  CHECK(path(c, r) != path(other, other.route(0, 60 * 8, 11)));
  CHECK(path(c, r) != path(c, c.route(0, 60 * 8, 12)));
  // GPU 0 of node 0 and of node 4 have the same place under their leaves 0 and 1
  const auto ups = [&c](const Route& route) {
    std::vector<std::int32_t> ports;
    for (const Hop& hop : route.hops) {
      if (c.links()[hop.link.index()].kind == LinkKind::kLeafUp) ports.push_back(c.links()[hop.link.index()].port);
    }
    return ports;
  };
  CHECK(ups(r) == ups(c.route(4 * 8, 60 * 8, 11)));
  CHECK(ups(r) != ups(c.route(1 * 8, 60 * 8, 11)));
  // drawn per flow, they differ
  f.ecmp_per_flow = true;
  const Cluster flows = built(n, 64, f);
  CHECK(ups(flows.route(0, 60 * 8, 11)) != ups(flows.route(4 * 8, 60 * 8, 11)));
}

TEST_CASE("ECMP spreads over all uplinks evenly") {
  Fabric f = plain(64, 1, Routing::kEcmp);
  f.ecmp_qps = 1;
  const Cluster c = built(node("dgx-h100"), 64, f);
  std::map<std::int32_t, int> used;
  constexpr int kDraws = 3200;
  for (int salt = 0; salt < kDraws; ++salt) {
    for (const Hop& hop : c.route(0, 60 * 8, static_cast<std::uint64_t>(salt)).hops) {
      const Link& l = c.links()[hop.link.index()];
      if (l.kind == LinkKind::kLeafUp && !l.inbound) ++used[l.port];
    }
  }
  REQUIRE(used.size() == 32);
  double chi_square = 0;
  for (const auto& [port, count] : used) chi_square += (count - 100.0) * (count - 100.0) / 100;
  CHECK(chi_square < 62);  // 31 degrees of freedom: above 61.1 once in a thousand, and the draw is fixed
}

TEST_CASE("static routing gives every host port of a leaf its own uplink, so nobody shares") {
  const Cluster c = built(node("dgx-h100"), 64, plain(64, 1, Routing::kStaticRail));
  std::set<std::uint32_t> out, in;
  for (std::int64_t g = 0; g < 32; ++g) {
    const Route r = c.route(g, 32 * 8 + g);
    REQUIRE(r.hops.size() == 6);
    out.insert(r.hops[2].link.value);
    in.insert(r.hops[3].link.value);
  }
  CHECK(out.size() == 32);
  CHECK(in.size() == 32);
}
