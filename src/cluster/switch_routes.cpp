// Ways over switches that are no tree.
//
// A torus goes dimension by dimension, in each the shorter way round; at half-way ideal and adaptive routing use both. A dragonfly goes to the router
// whose cable leads to the other group, over it, and on ("minimal", Kim et al. 2008); adaptive routing sends a share through a third group (Valiant).
// A graph goes by fewest switches, split over all such ways in proportion to cables. Where cables failed, every shape is a graph.
#include <algorithm>

#include "orrery/base/random.hpp"
#include "orrery/base/checked.hpp"
#include "orrery/cluster/switches.hpp"

namespace orrery::cluster {
namespace {

std::int64_t below(std::uint64_t bits, std::int64_t n) { return static_cast<std::int64_t>((static_cast<uint128>(bits) * static_cast<uint128>(n)) >> 64U); }

void put(Switches::Way& w, std::int32_t cable, bool forward, double share) {
  for (Switches::Hop& h : w.hops) {
    if (h.cable == cable && h.forward == forward) {
      h.share += share;
      return;
    }
  }
  w.hops.push_back({cable, forward, share});
}

}  // namespace

void Switches::step(Way& w, std::int32_t from, std::int32_t to, double share) const {
  const std::int32_t cable = between(from, to, 0);
  put(w, cable, cables_[static_cast<std::size_t>(cable)].a == from, share);
}

void Switches::in_group(Way& w, std::int32_t from, std::int32_t to, double share, std::int64_t place, std::uint64_t bits) const {
  if (from == to) return;
  const std::int32_t size = routers_ + spines_, base = from / size * size;
  const bool router_from = from - base < routers_, router_to = to - base < routers_;
  if (spines_ == 0 || router_from != router_to) return step(w, from, to, share);
  // Two routers meet at a spine of their group; two spines at a router.
  const std::int32_t first = base + (router_from ? routers_ : 0), n = router_from ? spines_ : routers_;
  if (routing_ == Routing::kIdeal || routing_ == Routing::kAdaptive) {
    for (std::int32_t s = 0; s < n; ++s) {
      step(w, from, first + s, share / n);
      step(w, first + s, to, share / n);
    }
    return;
  }
  const std::int32_t via = first + static_cast<std::int32_t>(routing_ == Routing::kEcmp ? below(random_bits(bits, "group", 0), n) : place % n);
  step(w, from, via, share);
  step(w, via, to, share);
}

void Switches::between_groups(Way& w, std::int32_t from, std::int32_t to, double share, std::int64_t place, std::uint64_t bits) const {
  const std::int32_t size = routers_ + spines_, a = from / size, b = to / size;
  if (a == b) return in_group(w, from, to, share, place, bits);
  const auto [low, high] = std::minmax(a, b);
  const std::vector<std::int32_t>& cables = global_[static_cast<std::size_t>(low) * static_cast<std::size_t>(groups_) + static_cast<std::size_t>(high)];
  const auto over = [&](std::int32_t cable, double part) {
    const Cable& c = cables_[static_cast<std::size_t>(cable)];
    const bool forward = c.a / size == a;
    in_group(w, from, forward ? c.a : c.b, part, place, bits);
    put(w, cable, forward, part);
    in_group(w, forward ? c.b : c.a, to, part, place, bits);
  };
  const auto n = static_cast<std::int64_t>(cables.size());
  if (routing_ == Routing::kEcmp || routing_ == Routing::kStaticRail) {
    over(cables[static_cast<std::size_t>(routing_ == Routing::kEcmp ? below(random_bits(bits, "global", 0), n) : place % n)], share);
    return;
  }
  const std::int32_t others = groups_ - 2;
  const double aside = others > 0 ? detour_ * share : 0;
  for (const std::int32_t cable : cables) over(cable, (share - aside) / static_cast<double>(n));
  if (!(aside > 0)) return;
  for (std::int32_t g = 0; g < groups_; ++g) {
    if (g == a || g == b) continue;
    // Into the third group over each of its cables, and on from where that one ends.
    const auto [l1, h1] = std::minmax(a, g);
    const std::vector<std::int32_t>& first = global_[static_cast<std::size_t>(l1) * static_cast<std::size_t>(groups_) + static_cast<std::size_t>(h1)];
    const auto [l2, h2] = std::minmax(g, b);
    const std::vector<std::int32_t>& second = global_[static_cast<std::size_t>(l2) * static_cast<std::size_t>(groups_) + static_cast<std::size_t>(h2)];
    const double part = aside / others / static_cast<double>(first.size() * second.size());
    for (const std::int32_t in : first) {
      const Cable& c = cables_[static_cast<std::size_t>(in)];
      const bool forward = c.a / size == a;
      for (const std::int32_t out : second) {
        const Cable& d = cables_[static_cast<std::size_t>(out)];
        const bool onward = d.a / size == g;
        in_group(w, from, forward ? c.a : c.b, part, place, bits);
        put(w, in, forward, part);
        in_group(w, forward ? c.b : c.a, onward ? d.a : d.b, part, place, bits);
        put(w, out, onward, part);
        in_group(w, onward ? d.b : d.a, to, part, place, bits);
      }
    }
  }
}

void Switches::along_torus(Way& w, std::int32_t from, std::int32_t to, std::int64_t place, std::uint64_t bits) const {
  const std::size_t dimensions = shape_.size();
  std::int32_t stride = 1, at = from;
  for (std::size_t d = 0; d < dimensions; ++d) {
    const std::int32_t extent = shape_[d], x = from / stride % extent, y = to / stride % extent;
    const auto plus = [&](std::int32_t s) { return plus_[static_cast<std::size_t>(s) * dimensions + d]; };
    const auto walk = [&](bool up, std::int32_t steps, double share) {
      std::int32_t s = at;
      for (std::int32_t i = 0; i < steps; ++i) {
        const std::int32_t c = s / stride % extent;
        const std::int32_t next = up ? (c == extent - 1 ? s - c * stride : s + stride) : (c == 0 ? s + (extent - 1) * stride : s - stride);
        put(w, plus(up ? s : next), up, share);
        s = next;
      }
    };
    const std::int32_t ahead = (y - x + extent) % extent, back = (x - y + extent) % extent;
    const bool wraps = plus_[static_cast<std::size_t>(at + (extent - 1 - x) * stride) * dimensions + d] >= 0;
    if (ahead > 0) {
      if (!wraps) walk(y > x, y > x ? y - x : x - y, 1);
      else if (ahead != back) walk(ahead < back, std::min(ahead, back), 1);
      else if (routing_ == Routing::kIdeal || routing_ == Routing::kAdaptive) {
        walk(true, ahead, 0.5);
        walk(false, back, 0.5);
      } else {
        walk(routing_ == Routing::kStaticRail || (random_bits(bits, "way round", d) & 1U) == 0, ahead, 1);
      }
      w.switches += wraps ? std::min(ahead, back) : (y > x ? y - x : x - y);
      at += (y - x) * stride;
    }
    stride *= extent;
  }
  static_cast<void>(place);
}

void Switches::shortest(Way& w, std::int32_t from, std::int32_t to, double share, std::int64_t place, std::uint64_t bits) const {
  const std::uint16_t* row = &distance_[static_cast<std::size_t>(target_[static_cast<std::size_t>(to)]) * static_cast<std::size_t>(count_)];
  w.switches = std::max(w.switches, 1 + static_cast<int>(row[from]));
  // One ring of switches at a time, nearest to `from` first; what arrives at a switch is known before it is passed on.
  std::vector<std::pair<std::int32_t, double>> here{{from, share}}, next;
  std::uint64_t turn = 0;
  while (row[here.front().first] > 0) {
    next.clear();
    for (const auto& [s, arrived] : here) {
      std::vector<const Edge*> ways;
      double lines = 0;
      for (std::int32_t e = first_[static_cast<std::size_t>(s)]; e < first_[static_cast<std::size_t>(s) + 1]; ++e) {
        const Edge& edge = edges_[static_cast<std::size_t>(e)];
        if (dead(edge.cable) || row[edge.to] + 1 != row[s]) continue;
        ways.push_back(&edge);
        lines += cables_[static_cast<std::size_t>(edge.cable)].lines;
      }
      const auto pass = [&](const Edge& edge, double part) {
        put(w, edge.cable, cables_[static_cast<std::size_t>(edge.cable)].a == s, part);
        const std::int32_t there = edge.to;
        const auto known = std::find_if(next.begin(), next.end(), [there](const auto& n) { return n.first == there; });
        if (known != next.end()) known->second += part;
        else next.emplace_back(there, part);
      };
      const auto n = static_cast<std::int64_t>(ways.size());
      if (routing_ == Routing::kEcmp) pass(*ways[static_cast<std::size_t>(below(random_bits(bits, "turn", turn++), n))], arrived);
      else if (routing_ == Routing::kStaticRail) pass(*ways[static_cast<std::size_t>(place % n)], arrived);
      else {
        for (const Edge* edge : ways) pass(*edge, arrived * cables_[static_cast<std::size_t>(edge->cable)].lines / lines);
      }
    }
    here.swap(next);
  }
}

Switches::Way Switches::way(std::int32_t from, std::int32_t to, std::int64_t place, std::uint64_t bits) const {
  Way w;
  if (from == to) return w;
  if (topology_ == Topology::kGraph || !dead_.empty()) {
    shortest(w, from, to, 1, place, bits);
  } else if (topology_ == Topology::kTorus) {
    along_torus(w, from, to, place, bits);
  } else {
    between_groups(w, from, to, 1, place, bits);
    const std::int32_t size = routers_ + spines_;
    const bool far = from / size != to / size;
    w.switches = (far ? 4 : 2) + (spines_ > 0 && !far ? 1 : 0);
  }
  return w;
}

}  // namespace orrery::cluster
