// Properties over random clusters.
#include <cmath>
#include <functional>

#include <rapidcheck.h>

#include "shipped.hpp"

using namespace shipped;

namespace {

struct Case {
  Node node;
  std::int64_t nodes = 0;
  Fabric fabric;
};

Case random_case() {
  static const std::vector<std::string> nodes = names("nodes");
  static const std::vector<std::string> fabrics = names("fabrics");
  Case c;
  c.node = node(*rc::gen::elementOf(nodes));
  c.fabric = fabric(*rc::gen::elementOf(fabrics));
  c.nodes = *rc::gen::inRange<std::int64_t>(1, 300);
  c.fabric.leaf_ports = *rc::gen::inRange(8, 65) * 2;
  c.fabric.oversubscription = *rc::gen::element(1.0, 1.5, 2.0, 3.0, 7.0);
  c.fabric.spine_oversubscription = *rc::gen::element(1.0, 2.0, 7.0);
  c.fabric.routing = *rc::gen::element(Routing::kIdeal, Routing::kAdaptive, Routing::kEcmp, Routing::kStaticRail);
  c.fabric.rail_optimised = *rc::gen::arbitrary<bool>();
  c.fabric.ecmp_qps = *rc::gen::inRange(1, 9);
  return c;
}

bool holds(const std::string& claim, const std::function<void()>& property) { return rc::check(claim, property); }

}  // namespace

TEST_CASE("random clusters: every route conserves bytes at every cut, and no link has less than nothing") {
  CHECK(holds("conservation", [] {
    const Case c = random_case();
    const auto result = Cluster::build(c.node, c.nodes, std::nullopt, c.fabric, {}, 1, "job.json");
    if (!result) RC_DISCARD("more than three tiers join");
    const Cluster& cl = *result;
    const std::int64_t gpus = cl.nodes() * cl.gpus_per_node();
    for (int i = 0; i < 20; ++i) {
      const auto from = *rc::gen::inRange<std::int64_t>(0, gpus), to = *rc::gen::inRange<std::int64_t>(0, gpus);
      const Route r = cl.route(from, to, *rc::gen::arbitrary<std::uint64_t>());
      for (const Hop& h : r.hops) {
        const Link& l = cl.links()[h.link.index()];
        RC_ASSERT(l.capacity.value() > 0);
        RC_ASSERT(l.capacity == l.nominal);
        RC_ASSERT(h.share > 0 && h.share <= 2.4);
      }
      if (cl.domain_of(from) == cl.domain_of(to)) {
        RC_ASSERT(r.switch_tiers == 0);
        continue;
      }
      const auto near = [](double a, double b) { return std::abs(a - b) < 1e-9; };
      // Of a GPU with several NICs some lanes may stay under one leaf or in one pod; what goes up comes down.
      const double up = crossing(cl, r, LinkKind::kLeafUp, false), core = crossing(cl, r, LinkKind::kSpineUp, false);
      RC_ASSERT(near(up, crossing(cl, r, LinkKind::kLeafUp, true)) && near(core, crossing(cl, r, LinkKind::kSpineUp, true)));
      RC_ASSERT((up > 0) == (r.switch_tiers > 1) && (core > 0) == (r.switch_tiers > 2) && core < up + 1e-9 && up < 1 + 1e-9);
      for (const bool in : {false, true}) {
        RC_ASSERT(near(crossing(cl, r, LinkKind::kNic, in), 1));
        if (cl.nics_per_gpu() == 1 && up > 0) RC_ASSERT(near(up, 1));
        if (cl.nics_per_gpu() == 1 && core > 0) RC_ASSERT(near(core, 1));
      }
    }
  }));
}

TEST_CASE("random clusters: capacity never grows from a tier to the next, and falls exactly by the oversubscription") {
  CHECK(holds("oversubscription", [] {
    const Case c = random_case();
    const auto result = Cluster::build(c.node, c.nodes, std::nullopt, c.fabric, {}, 1, "job.json");
    if (!result || !result->tree()) RC_DISCARD("no tree");
    const Tree& t = *result->tree();
    double leaf_up = 0, spine_up = 0;
    for (const Link& l : result->links()) {
      if (l.inbound || l.owner >= (l.kind == LinkKind::kSpineUp ? t.spines : 1)) continue;
      if (l.kind == LinkKind::kLeafUp) leaf_up += l.nominal.value();
      if (l.kind == LinkKind::kSpineUp) spine_up += l.nominal.value();
    }
    const double line = (c.fabric.link * c.fabric.efficiency).value() * (c.fabric.routing == Routing::kAdaptive ? 1 - c.fabric.adaptive_residual : 1);
    const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-9 * b; };
    if (t.tiers > 1) RC_ASSERT(near(leaf_up * c.fabric.oversubscription, static_cast<double>(t.down) * line));
    if (t.tiers > 2) RC_ASSERT(near(spine_up * c.fabric.spine_oversubscription, static_cast<double>(t.leaves_per_pod * t.spines) * line));
    RC_ASSERT(t.down + t.up == t.radix);
  }));
}

TEST_CASE("random clusters: NICs under one leaf have places of their own, within its host ports") {
  CHECK(holds("places", [] {
    const Case c = random_case();
    const auto result = Cluster::build(c.node, c.nodes, std::nullopt, c.fabric, {}, 1, "job.json");
    if (!result || !result->tree()) RC_DISCARD("no tree");
    const Tree& t = *result->tree();
    std::map<std::int64_t, std::vector<bool>> taken;
    for (std::int64_t n = 0; n < t.nodes; ++n) {
      for (std::int64_t k = 0; k < t.nics; ++k) {
        const std::int64_t leaf = t.leaf_of(n, k), place = t.place_of(n, k);
        RC_ASSERT(leaf >= 0 && leaf < t.leaves);
        RC_ASSERT(place >= 0 && place < t.down);
        auto& places = taken[leaf];
        places.resize(static_cast<std::size_t>(t.down));
        RC_ASSERT(!places[static_cast<std::size_t>(place)]);
        places[static_cast<std::size_t>(place)] = true;
      }
    }
  }));
}

TEST_CASE("random clusters: the name of every link finds that link again") {
  CHECK(holds("names", [] {
    const Case c = random_case();
    const std::int64_t nodes = c.nodes % 20 + 1;
    const auto healthy = Cluster::build(c.node, nodes, std::nullopt, c.fabric, {}, 1, "job.json");
    if (!healthy) RC_DISCARD("more than three tiers join");
    const auto i = *rc::gen::inRange<std::size_t>(0, healthy->links().size());
    const std::string name = healthy->name(LinkId{static_cast<std::uint32_t>(i)});
    const std::string bare = name.substr(0, name.find(':'));
    const LinkKind kind = healthy->links()[i].kind;
    if (kind == LinkKind::kPeer || kind == LinkKind::kHost || kind == LinkKind::kC2c || kind == LinkKind::kDrives || (kind == LinkKind::kPcie && c.node.pcie_switches > 0)) RC_DISCARD("no event names it");
    const auto worn = Cluster::build(c.node, nodes, std::nullopt, c.fabric, {{bare, 0.5, {}, ""}}, 1, "job.json");
    RC_ASSERT(worn.has_value());
    for (std::size_t k = 0; k < worn->links().size(); ++k) {
      RC_ASSERT((worn->links()[k].capacity < healthy->links()[k].capacity) == (k / 2 == i / 2));
    }
  }));
}
