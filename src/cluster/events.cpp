// Degraded and failed links and background load: what they leave of a capacity, and whether something is left to go round.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "orrery/cluster/cluster.hpp"

namespace orrery::cluster {

Result<std::vector<LinkEvent>> read_link_events(const document::Value& events, const std::string& file, const std::string& pointer) {
  std::vector<LinkEvent> read;
  Diagnostics problems;
  if (events.is_null()) return read;
  for (std::size_t i = 0; i < events.items().size(); ++i) {
    const document::Value& event = events.items()[i];
    const std::string& kind = event.at("kind").as_string();
    LinkEvent e;
    e.pointer = fmt::format("{}/{}", pointer, i);
    if (kind == "degraded_link") {
      e.link = event.at("link").as_string();
      e.capacity = event.at("capacity").as_double();
      if (!(e.capacity >= 0 && e.capacity <= 1)) {
        problems.push_back({file, e.pointer + "/capacity", fmt::format("{} is no share of a link's capacity; use 0 (failed) to 1", e.capacity)});
      }
    } else if (kind == "background") {
      e.link = event.at("link").as_string();
      e.background = gb_per_s(event.at("gb_per_s").as_double());
      if (!(e.background.value() >= 0)) {
        problems.push_back({file, e.pointer + "/gb_per_s", fmt::format("{} GB/s is no load; use 0 or more", e.background.value() / 1e9)});
      }
    } else {
      continue;
    }
    e.pointer += "/link";
    read.push_back(std::move(e));
  }
  if (!problems.empty()) return fail(std::move(problems));
  return read;
}

Diagnostics Cluster::apply(const std::vector<LinkEvent>& events, const std::string& file) {
  struct Load {
    Target target;
    double capacity = 1;
    BytesPerSecond background{};
    const LinkEvent* last = nullptr;
  };
  Diagnostics problems;
  std::map<std::pair<std::uint32_t, std::int32_t>, Load> loads;  // by link and cable: several events may name one
  for (const LinkEvent& event : events) {
    auto target = find(event, file);
    if (!target) {
      problems.insert(problems.end(), target.error().begin(), target.error().end());
      continue;
    }
    Load& load = loads[{target->out.value, target->port}];
    load.target = *target;
    load.capacity *= event.capacity;
    load.background += event.background;
    load.last = &event;
  }
  std::vector<const Load*> failed;
  for (const auto& [key, load] : loads) {
    const Target& t = load.target;
    Link& out = links_[t.out.index()];
    Link& in = links_[t.out.index() + 1];
    const BytesPerSecond cable = out.nominal * t.cable, left = cable * load.capacity - load.background;
    const bool dead = load.capacity == 0;
    if (load.background.value() > 0 && left.value() <= 0) {
      problems.push_back({file, load.last->pointer, fmt::format("{}: a background of {:.6g} GB/s leaves nothing of its {:.6g} GB/s; use less", load.last->link,
                                                                load.background.value() / 1e9, cable.value() * load.capacity / 1e9)});
      continue;
    }
    out.capacity = in.capacity = std::max(BytesPerSecond{}, out.capacity - (cable - left));
    if (!dead) continue;
    failed.push_back(&load);
    if (t.kind == LinkKind::kNic) dead_nics_.push_back({t.owner, t.port});
    if (t.kind == LinkKind::kLeafUp) dead_leaf_ups_.push_back({t.owner, t.port});
    if (t.kind == LinkKind::kSpineUp) dead_spine_ups_.push_back({t.owner, t.port});
  }
  std::vector<std::int32_t> cables;
  std::string cut;
  for (const Load* load : failed) {
    // Of a bundle the other cables remain, and its ways with them.
    if (load->target.kind == LinkKind::kSwitch && load->target.owner == 1) cables.push_back(load->target.port);
  }
  if (switches_) cut = switches_->fail_cables(cables);
  if (!cut.empty()) problems.push_back({file, failed.back()->last->pointer, fmt::format("{}: {}; give it a capacity above 0", failed.back()->last->link, cut)});
  std::sort(dead_nics_.begin(), dead_nics_.end());
  std::sort(dead_leaf_ups_.begin(), dead_leaf_ups_.end());
  std::sort(dead_spine_ups_.begin(), dead_spine_ups_.end());
  for (const Load* load : failed) {
    if (const std::string why = no_way_round(load->target); !why.empty()) {
      problems.push_back({file, load->last->pointer, fmt::format("{}: {}; give it a capacity above 0", load->last->link, why)});
    }
  }
  return problems;
}

std::string Cluster::no_way_round(const Target& failed) const {
  const auto count = [](const std::vector<Dead>& dead, std::int64_t first, std::int64_t last) {
    return std::count_if(dead.begin(), dead.end(), [&](const Dead& d) { return d.owner >= first && d.owner <= last; });
  };
  switch (failed.kind) {
    case LinkKind::kScaleUp: return "a GPU's scale-up port is its only way to its domain";
    case LinkKind::kPcie: return "a root port is its GPU's only way to the host";
    case LinkKind::kPcieUplink: return "a PCIe switch's uplink is its GPUs' only way to the host";
    case LinkKind::kSwitch: return "";  // Switches::fail_cables has looked at all of them
    case LinkKind::kNic: {
      if (count(dead_nics_, failed.owner, failed.owner) == nics_per_node_) return fmt::format("node {} has no other NIC in use", failed.owner);
      if (!tree_ || tree_->planes == 1) return "";
      // Two nodes need a plane that works at both: a node that lost nothing has them all.
      const auto plane_works = [&](std::int64_t node, std::int64_t plane) {
        for (std::int64_t nic = plane; nic < nics_per_node_; nic += tree_->planes) {
          if (!std::binary_search(dead_nics_.begin(), dead_nics_.end(), Dead{node, static_cast<std::int32_t>(nic)})) return true;
        }
        return false;
      };
      for (const Dead& other : dead_nics_) {
        bool meet = other.owner == failed.owner;
        for (std::int64_t plane = 0; plane < tree_->planes && !meet; ++plane) meet = plane_works(failed.owner, plane) && plane_works(other.owner, plane);
        if (!meet) return fmt::format("nodes {} and {} have no plane left in common", failed.owner, other.owner);
      }
      return "";
    }
    default: break;
  }
  // Cable j of every leaf of a pod ends at the same spine, so two leaves meet where both their cables j work. Only those leaves matter that
  // lost something themselves or whose spines did; a leaf of each other pod stands for its kind.
  const Tree& t = *tree_;
  std::vector<std::int64_t> leaves;
  for (const Dead& d : dead_leaf_ups_) leaves.push_back(d.owner);
  for (std::int64_t pod = 0; pod < t.pods; ++pod) {
    leaves.push_back(pod * t.leaves_per_pod);
    leaves.push_back(std::min(t.leaves, (pod + 1) * t.leaves_per_pod) - 1);
  }
  std::sort(leaves.begin(), leaves.end());
  leaves.erase(std::unique(leaves.begin(), leaves.end()), leaves.end());
  const auto dead = [](const std::vector<Dead>& list, std::int64_t owner, std::int64_t port) {
    return std::binary_search(list.begin(), list.end(), Dead{owner, static_cast<std::int32_t>(port)});
  };
  const auto meet = [&](std::int64_t a, std::int64_t b) {
    if (t.plane_of(a) != t.plane_of(b)) return true;  // nothing goes from one plane to another
    const bool core = t.tiers_between(a, b) == 3;
    const std::int64_t pod_a = t.pod_of(a) * t.spines, pod_b = t.pod_of(b) * t.spines;
    const std::int64_t lost = count(dead_leaf_ups_, a, a) + count(dead_leaf_ups_, b, b) +
                              (core ? count(dead_spine_ups_, pod_a, pod_a + t.spines - 1) + count(dead_spine_ups_, pod_b, pod_b + t.spines - 1) : 0);
    if (lost < t.up) return true;
    for (std::int64_t up = 0; up < t.up; ++up) {
      if (dead(dead_leaf_ups_, a, up) || dead(dead_leaf_ups_, b, up)) continue;
      if (!core) return true;
      for (std::int64_t c = 0; c < t.spine_up; ++c) {
        if (!dead(dead_spine_ups_, pod_a + up, c) && !dead(dead_spine_ups_, pod_b + up, c)) return true;
      }
    }
    return false;
  };
  const bool is_leaf = failed.kind == LinkKind::kLeafUp;
  const std::int64_t first = is_leaf ? failed.owner : failed.owner / t.spines * t.leaves_per_pod;
  const std::int64_t last = is_leaf ? failed.owner : std::min(t.leaves, first + t.leaves_per_pod) - 1;
  for (const std::int64_t a : leaves) {
    if (a < first || a > last) continue;
    for (const std::int64_t b : leaves) {
      if (a != b && !meet(a, b)) return fmt::format("no path is left from leaf {} to leaf {}", a, b);
    }
  }
  return "";
}

}  // namespace orrery::cluster
