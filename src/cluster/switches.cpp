// Laying out switches and cables.
#include "orrery/cluster/switches.hpp"

#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include "orrery/base/checked.hpp"

namespace orrery::cluster {
namespace {

constexpr std::int64_t kMostSwitches = 1 << 20, kMostCables = 1 << 22, kMostDistances = std::int64_t{1} << 27;
constexpr std::uint16_t kFar = UINT16_MAX;

}  // namespace

void Switches::add(std::int64_t a, std::int64_t b, double lines, bool pooled) {
  const auto whole = static_cast<std::int64_t>(lines);
  const auto from = static_cast<std::int32_t>(a), to = static_cast<std::int32_t>(b);
  if (pooled || whole < 2 || static_cast<double>(whole) != lines) {
    cables_.push_back({from, to, lines, std::max<std::int64_t>(1, whole), 0});
  } else {
    for (std::int64_t i = 0; i < whole; ++i) cables_.push_back({from, to, 1, 1, 0});
  }
}

void Switches::dragonfly(const Fabric& fabric) {
  const Dragonfly& d = fabric.dragonfly;
  routers_ = d.routers_per_group;
  spines_ = d.spines_per_group;
  groups_ = d.groups;
  detour_ = fabric.routing == Routing::kAdaptive ? d.detour : 0;
  const std::int32_t size = routers_ + spines_;
  count_ = groups_ * size;
  for (std::int32_t g = 0; g < groups_; ++g) {
    for (std::int32_t r = 0; r < routers_; ++r) {
      if (spines_ > 0) {
        for (std::int32_t s = 0; s < spines_; ++s) add(g * size + r, g * size + routers_ + s, d.cables, true);
      } else {
        for (std::int32_t other = r + 1; other < routers_; ++other) add(g * size + r, g * size + other, d.cables, true);
      }
    }
  }
  // A group's ports out lie evenly over its routers (or spines), neighbours' cables beside one another.
  const std::int64_t ports = std::int64_t{groups_ - 1} * d.global_cables, owners = spines_ > 0 ? spines_ : routers_, first = spines_ > 0 ? routers_ : 0;
  global_.resize(static_cast<std::size_t>(groups_) * static_cast<std::size_t>(groups_));
  for (std::int32_t a = 0; a < groups_; ++a) {
    for (std::int32_t b = a + 1; b < groups_; ++b) {
      for (std::int64_t k = 0; k < d.global_cables; ++k) {
        const std::int64_t port_a = std::int64_t{b - 1} * d.global_cables + k, port_b = std::int64_t{a} * d.global_cables + k;
        global_[static_cast<std::size_t>(a) * static_cast<std::size_t>(groups_) + static_cast<std::size_t>(b)].push_back(static_cast<std::int32_t>(cables_.size()));
        add(a * size + first + port_a * owners / ports, b * size + first + port_b * owners / ports, 1, true);
      }
    }
  }
  for (std::size_t i = 0; i < host_.size(); ++i) {
    const std::int64_t router = static_cast<std::int64_t>(i) / d.hosts_per_router;
    host_[i] = static_cast<std::int32_t>(router / routers_ * size + router % routers_);
  }
}

void Switches::torus(const Fabric& fabric) {
  for (const int extent : fabric.torus.shape) {
    shape_.push_back(extent);
    count_ = (count_ == 0 ? 1 : count_) * extent;
  }
  const auto dimensions = static_cast<std::int32_t>(shape_.size());
  plus_.assign(static_cast<std::size_t>(count_ * dimensions), -1);
  for (std::int32_t s = 0; s < count_; ++s) {
    std::int32_t stride = 1;
    for (std::int32_t d = 0; d < dimensions; ++d) {
      const std::int32_t extent = shape_[static_cast<std::size_t>(d)], at = s / stride % extent;
      const bool last = at == extent - 1;
      // Two routers in a row share one cable; a longer row closes where it wraps.
      if (extent > 1 && (!last || (fabric.torus.wrap && extent > 2))) {
        plus_[static_cast<std::size_t>(s * dimensions + d)] = static_cast<std::int32_t>(cables_.size());
        add(s, last ? s - at * stride : s + stride, 1, true);
      }
      stride *= extent;
    }
  }
  for (std::size_t i = 0; i < host_.size(); ++i) host_[i] = static_cast<std::int32_t>(i);
}

void Switches::graph(const Fabric& fabric, bool pooled) {
  const SwitchList& g = fabric.graph;
  count_ = g.switches;
  for (const SwitchList::Link& l : g.links) add(l.a, l.b, l.cables, pooled);
  for (std::size_t i = 0; i < host_.size(); ++i) {
    const std::vector<int>& of = g.hosts[i / static_cast<std::size_t>(nics_)];
    host_[i] = of[i % static_cast<std::size_t>(nics_) % of.size()];
  }
}

void Switches::link_up() {
  first_.assign(static_cast<std::size_t>(count_) + 1, 0);
  for (const Cable& c : cables_) {
    ++first_[static_cast<std::size_t>(c.a) + 1];
    ++first_[static_cast<std::size_t>(c.b) + 1];
  }
  for (std::size_t s = 0; s < static_cast<std::size_t>(count_); ++s) first_[s + 1] += first_[s];
  edges_.resize(2 * cables_.size());
  std::vector<std::int32_t> next(first_.begin(), first_.end() - 1);
  for (std::size_t c = 0; c < cables_.size(); ++c) {
    const auto cable = static_cast<std::int32_t>(c);
    edges_[static_cast<std::size_t>(next[static_cast<std::size_t>(cables_[c].a)]++)] = {cables_[c].b, cable};
    edges_[static_cast<std::size_t>(next[static_cast<std::size_t>(cables_[c].b)]++)] = {cables_[c].a, cable};
  }
  for (std::size_t s = 0; s < static_cast<std::size_t>(count_); ++s) {
    const auto begin = edges_.begin() + first_[s], end = edges_.begin() + first_[s + 1];
    std::sort(begin, end, [](const Edge& a, const Edge& b) { return std::pair(a.to, a.cable) < std::pair(b.to, b.cable); });
    std::int32_t twin = 0;
    for (auto e = begin; e != end; ++e) {
      twin = e != begin && (e - 1)->to == e->to ? twin + 1 : 0;
      cables_[static_cast<std::size_t>(e->cable)].twin = twin;
    }
  }
}

/// Distances by breadth-first search from every switch that has a NIC.
void Switches::measure() {
  target_.assign(static_cast<std::size_t>(count_), -1);
  std::vector<std::int32_t> targets;
  for (const std::int32_t s : host_) {
    if (target_[static_cast<std::size_t>(s)] >= 0) continue;
    target_[static_cast<std::size_t>(s)] = static_cast<std::int32_t>(targets.size());
    targets.push_back(s);
  }
  const auto n = static_cast<std::size_t>(count_);
  distance_.assign(targets.size() * n, kFar);
  std::deque<std::int32_t> open;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    std::uint16_t* row = &distance_[t * n];
    row[targets[t]] = 0;
    open.assign(1, targets[t]);
    while (!open.empty()) {
      const std::int32_t s = open.front();
      open.pop_front();
      for (std::int32_t e = first_[static_cast<std::size_t>(s)]; e < first_[static_cast<std::size_t>(s) + 1]; ++e) {
        const Edge& edge = edges_[static_cast<std::size_t>(e)];
        if (row[edge.to] != kFar || dead(edge.cable)) continue;
        row[edge.to] = static_cast<std::uint16_t>(row[s] + 1);
        open.push_back(edge.to);
      }
    }
  }
}

std::string Switches::apart() const {
  if (distance_.empty()) return "";
  const std::int32_t first = host_.front();
  const std::uint16_t* row = &distance_[static_cast<std::size_t>(target_[static_cast<std::size_t>(first)]) * static_cast<std::size_t>(count_)];
  for (const std::int32_t s : host_) {
    if (row[s] == kFar) return fmt::format("no path is left from switch {} to switch {}", first, s);
  }
  return "";
}

std::string Switches::fail_cables(const std::vector<std::int32_t>& failed) {
  if (failed.empty()) return "";
  dead_.assign(cables_.size(), 0);
  for (const std::int32_t c : failed) dead_[static_cast<std::size_t>(c)] = 1;
  measure();
  return apart();
}

std::int32_t Switches::switch_of(std::int64_t node, std::int64_t nic) const { return host_[static_cast<std::size_t>(node * nics_ + nic)]; }

std::int32_t Switches::between(std::int32_t a, std::int32_t b, std::int32_t twin) const {
  if (a < 0 || a >= count_) return -1;
  for (std::int32_t e = first_[static_cast<std::size_t>(a)]; e < first_[static_cast<std::size_t>(a) + 1]; ++e) {
    const Edge& edge = edges_[static_cast<std::size_t>(e)];
    if (edge.to == b && cables_[static_cast<std::size_t>(edge.cable)].twin == twin) return edge.cable;
  }
  return -1;
}

Result<Switches> Switches::build(const Fabric& fabric, std::int64_t nodes, std::int64_t nics, bool pooled, const std::string& file) {
  const auto refuse = [&](const char* pointer, std::string what) { return fail(file, pointer, std::move(what)); };
  Switches s;
  s.topology_ = fabric.topology;
  s.routing_ = fabric.routing;
  s.nics_ = nics;
  const std::int64_t ends = nodes * nics;
  std::int64_t room = 0, switches = 0, cables = 0;
  if (fabric.topology == Topology::kDragonfly) {
    const Dragonfly& d = fabric.dragonfly;
    const std::int64_t size = d.routers_per_group + d.spines_per_group, g = d.groups;
    if (g < 1 || d.routers_per_group < 1) return refuse("/cluster/fabric/dragonfly", "a dragonfly has groups of routers; give groups, routers_per_group and hosts_per_router");
    switches = g * size;
    room = g * d.routers_per_group * d.hosts_per_router;
    cables = g * size * size + g * g * d.global_cables;
  } else if (fabric.topology == Topology::kTorus) {
    if (fabric.torus.shape.empty()) return refuse("/cluster/fabric/torus", "a torus has extents; give its shape, as in [4, 4, 4]");
    switches = 1;
    for (const int extent : fabric.torus.shape) switches = std::min(switches * extent, kMostSwitches + 1);
    room = switches;
    cables = switches * static_cast<std::int64_t>(fabric.torus.shape.size());
  } else {
    switches = fabric.graph.switches;
    room = static_cast<std::int64_t>(fabric.graph.hosts.size()) * nics;
    double lines = 0;
    for (const SwitchList::Link& l : fabric.graph.links) lines += std::max(1.0, l.cables);
    cables = static_cast<std::int64_t>(std::min(lines, 1e12));
    if (switches < 1) return refuse("/cluster/fabric/graph", "a graph has switches; give their number, links and hosts");
  }
  if (switches > kMostSwitches || cables > kMostCables) {
    return refuse("/cluster/fabric", fmt::format("{} switches and {} cables are more than the {} and {} that are simulated", switches, cables, kMostSwitches, kMostCables));
  }
  if (ends > room) {
    return refuse("/cluster/nodes", fmt::format("{} joins {} NICs, and {} nodes with {} need {}; use fewer nodes or a larger fabric", fabric.name, room, nodes, nics, ends));
  }
  s.host_.assign(static_cast<std::size_t>(ends), 0);
  switch (fabric.topology) {
    case Topology::kDragonfly: s.dragonfly(fabric); break;
    case Topology::kTorus: s.torus(fabric); break;
    default: s.graph(fabric, pooled); break;
  }
  s.link_up();
  if (fabric.topology == Topology::kGraph) {
    if (std::min(switches, ends) * switches > kMostDistances) return refuse("/cluster/fabric/graph", fmt::format("ways between {} switches are more than are held; use fewer", switches));
    s.measure();
    if (const std::string why = s.apart(); !why.empty()) return refuse("/cluster/fabric/graph", why + "; join them, or use fewer nodes");
  }
  return s;
}

}  // namespace orrery::cluster
