// Whole topologies against SimGrid: our switches, routes and sharing on one side, the same flows over the same links in its solver on the other.
// Patterns of collectives and of trouble: a ring, a permutation, all to all, and incast. One path a flow (static routing and ECMP).
#include <algorithm>
#include <cmath>
#include <map>

#include "catch.h"
#include "crosscheck/simgrid_flows.hpp"
#include "orrery/base/random.hpp"
#include "orrery/cluster/cluster.hpp"

namespace orrery::test {
namespace {

using cluster::Routing;
using cluster::Topology;

cluster::Node host() {
  cluster::Node n;
  n.name = "host";
  n.gpus = n.nics = 1;
  n.pcie = gb_per_s(64);
  n.nic = gbit_per_s(400);
  n.gpu_pcie_switch = n.nic_pcie_switch = {-1};
  n.gpu_numa = n.nic_numa = n.gpu_host_bridge = n.nic_host_bridge = {0};
  return n;
}

cluster::Fabric fabric(Topology topology, Routing routing) {
  cluster::Fabric f;
  f.name = "fabric";
  f.link = gbit_per_s(400);
  f.leaf_ports = 16;
  f.topology = topology;
  f.routing = routing;
  f.ecmp_per_flow = true;
  f.dragonfly = {16, 8, 8, 0, 2, 1, 0};
  f.torus = {{16, 8, 8}, true};
  return f;
}

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
Pairs ring(std::int64_t n) {
  Pairs p;
  for (std::int64_t i = 0; i < n; ++i) p.emplace_back(i, (i + 1) % n);
  return p;
}
/// Fisher and Yates; who draws himself sends nothing.
Pairs permutation(std::int64_t n) {
  std::vector<std::int64_t> to(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<std::int64_t>(i);
  for (std::size_t i = to.size(); i-- > 1;) std::swap(to[i], to[random_bits(5, "permutation", i) % (i + 1)]);
  Pairs p;
  for (std::int64_t i = 0; i < n; ++i) {
    if (to[static_cast<std::size_t>(i)] != i) p.emplace_back(i, to[static_cast<std::size_t>(i)]);
  }
  return p;
}
Pairs all_to_all(std::int64_t n, std::int64_t stride) {
  Pairs p;
  for (std::int64_t a = 0; a < n; ++a) {
    for (std::int64_t b = 0; b < n; ++b) {
      if (a != b) p.emplace_back(a * stride, b * stride);
    }
  }
  return p;
}
Pairs incast(std::int64_t n, std::int64_t senders) {
  Pairs p;
  for (std::int64_t i = 1; i <= senders; ++i) p.emplace_back(i * (n - 1) / senders, 0);
  return p;
}

FlowSet flows(const cluster::Cluster& c, const Pairs& pairs) {
  FlowSet set;
  std::map<std::uint32_t, std::uint32_t> index;
  constexpr double kUnits = 0x1p40 / kPicosecondsPerSecond;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    FlowSet::Flow flow;
    flow.cap = static_cast<std::int64_t>(50e9 * kUnits);
    flow.bytes = std::int64_t{1'000'000} * static_cast<std::int64_t>(1 + random_bits(3, "size", i) % 8);
    for (const cluster::Hop& hop : c.route(pairs[i].first, pairs[i].second).hops) {
      REQUIRE(hop.share == 1);
      const auto [known, added] = index.emplace(hop.link.value, static_cast<std::uint32_t>(set.capacities.size()));
      if (added) set.capacities.push_back(static_cast<std::int64_t>(c.links()[hop.link.index()].capacity.value() * kUnits));
      flow.links.push_back(known->second);
    }
    set.flows.push_back(std::move(flow));
  }
  return set;
}

void check_within_a_percent(std::int64_t hosts, Topology topology, Routing routing, const Pairs& pairs) {
  CAPTURE(hosts, static_cast<int>(topology), pairs.size());
  const auto c = cluster::Cluster::build(host(), hosts, std::nullopt, fabric(topology, routing), {}, 1, "job.json");
  INFO((c ? std::string() : to_string(c.error().front())));
  REQUIRE(c);
  const FlowSet set = flows(*c, pairs);
  const engine::Input input = flow_input(set);
  REQUIRE(engine::check(input).empty());
  const auto outcome = engine::run(input, NoSegments());
  REQUIRE(std::holds_alternative<engine::Result>(outcome));
  const std::vector<double> ours = finish_times(std::get<engine::Result>(outcome));
  const SimgridRun theirs = play_in_simgrid(set);
  double largest = 0;
  for (std::size_t f = 0; f < ours.size(); ++f) largest = std::max(largest, std::abs(ours[f] / theirs.finish[f] - 1));
  CHECK(largest < 0.01);
}

constexpr Topology kTopologies[] = {Topology::kFatTree, Topology::kDragonfly, Topology::kTorus};

TEST_CASE("ring, permutation, all to all and incast on fat tree, dragonfly and torus of 64 hosts end within 1 % of SimGrid's") {
  for (const Topology t : kTopologies) {
    for (const Pairs& pairs : {ring(64), permutation(64), all_to_all(12, 5), incast(64, 40)}) check_within_a_percent(64, t, Routing::kStaticRail, pairs);
  }
}

TEST_CASE("the same on 1,024 hosts, under static routing and ECMP", "[slow]") {
  for (const Topology t : kTopologies) {
    for (const Routing r : {Routing::kStaticRail, Routing::kEcmp}) {
      for (const Pairs& pairs : {ring(1024), permutation(1024), all_to_all(24, 41), incast(1024, 300)}) check_within_a_percent(1024, t, r, pairs);
    }
  }
}

}  // namespace
}  // namespace orrery::test
