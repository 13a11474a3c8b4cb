// Links by name, and names of links (design 5.5). The name of a pooled bundle is its first cable's.
#include <algorithm>
#include <charconv>
#include <cstdint>

#include <fmt/format.h>

#include "orrery/cluster/cluster.hpp"

namespace orrery::cluster {
namespace {

/// One step of a name: a word and a number ("node3"), or a word alone ("nvlink", number -1).
struct Step {
  std::string_view word;
  std::int64_t number = -1;
};

/// nullopt where a number overflows, has a leading zero or stands before other letters.
std::optional<std::vector<Step>> split(std::string_view name) {
  std::vector<Step> steps;
  while (true) {
    const std::size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    const std::size_t digits = part.find_first_of("0123456789");
    Step step{part.substr(0, digits), -1};
    if (digits != std::string_view::npos) {
      const char* end = part.data() + part.size();
      const auto [stop, error] = std::from_chars(part.data() + digits, end, step.number);
      if (error != std::errc{} || stop != end || (part[digits] == '0' && part.size() > digits + 1)) return std::nullopt;
    }
    if (step.word.empty()) return std::nullopt;
    steps.push_back(step);
    if (slash == std::string_view::npos) return steps;
    name.remove_prefix(slash + 1);
  }
}

constexpr std::string_view kShapes = "links are named node{i}/gpu{j}/nvlink, node{i}/pcie{k}, node{i}/nic{j}, leaf{i}/up{j}, spine{i}/up{j} and switch{i}/to{j}";

}  // namespace

std::string_view to_string(LinkKind k) {
  switch (k) {
    case LinkKind::kScaleUp: return "scale_up";
    case LinkKind::kPcie: return "pcie";
    case LinkKind::kPcieUplink: return "pcie_uplink";
    case LinkKind::kNic: return "nic";
    case LinkKind::kLeafUp: return "leaf_up";
    case LinkKind::kSpineUp: return "spine_up";
    case LinkKind::kHost: return "socket";
    case LinkKind::kPeer: return "peer";
    case LinkKind::kC2c: return "c2c";
    case LinkKind::kDrives: return "drives";
    case LinkKind::kSwitch: return "switch";
  }
  return "";
}

std::string Cluster::name(LinkId id) const {
  const Link& l = links_.at(id.index());
  const std::string_view way = l.inbound ? "in" : "out";
  switch (l.kind) {
    case LinkKind::kScaleUp: return fmt::format("node{}/gpu{}/nvlink:{}", l.owner, l.port, way);
    case LinkKind::kPcie:
      return node_.pcie_switches > 0 ? fmt::format("node{}/gpu{}/pcie:{}", l.owner, l.port, way) : fmt::format("node{}/pcie{}:{}", l.owner, l.port, way);
    case LinkKind::kPcieUplink: return fmt::format("node{}/pcie{}:{}", l.owner, l.port, way);
    case LinkKind::kNic: return fmt::format("node{}/nic{}:{}", l.owner, l.port, way);
    case LinkKind::kHost: return fmt::format("node{}/socket{}:{}", l.owner, l.port, way);
    case LinkKind::kC2c: return fmt::format("node{}/socket{}/c2c:{}", l.owner, l.port, way);
    case LinkKind::kDrives: return fmt::format("node{}/drives:{}", l.owner, way);
    case LinkKind::kPeer: return fmt::format("node{}/gpu{}/peer{}:out", l.owner, l.port / gpus_per_node_, l.port % gpus_per_node_);
    case LinkKind::kLeafUp: return fmt::format("leaf{}/up{}:{}", l.owner, l.port, way);
    case LinkKind::kSpineUp: return fmt::format("spine{}/up{}:{}", l.owner, l.port, way);
    case LinkKind::kSwitch: {
      const Switches::Cable& c = switches_->cables()[static_cast<std::size_t>(l.port)];
      return c.twin == 0 ? fmt::format("switch{}/to{}:{}", c.a, c.b, way) : fmt::format("switch{}/to{}/cable{}:{}", c.a, c.b, c.twin, way);
    }
  }
  return "";
}

Result<Cluster::Target> Cluster::find_cable(const LinkEvent& event, std::int64_t a, std::int64_t b, std::int64_t twin, const std::string& file) const {
  const auto refuse = [&](const std::string& why) { return fail(file, event.pointer, fmt::format("{}: {}", event.link, why)); };
  if (!switches_) return refuse("this fabric is a tree, whose links are leaf{i}/up{j} and spine{i}/up{j}");
  const auto narrow = [](std::int64_t n) { return static_cast<std::int32_t>(std::min<std::int64_t>(n, INT32_MAX)); };
  const std::int32_t cable = switches_->between(narrow(a), narrow(b), narrow(twin));
  if (cable < 0) return refuse(fmt::format("no such cable among the {} switches", switches_->count()));
  const Switches::Cable& c = switches_->cables()[static_cast<std::size_t>(cable)];
  return Target{switch_link(cable, false), 1 / static_cast<double>(c.bundle), LinkKind::kSwitch, c.bundle, cable};
}

Result<Cluster::Target> Cluster::find(const LinkEvent& event, const std::string& file) const {
  const auto refuse = [&](const std::string& why) { return fail(file, event.pointer, fmt::format("{}: {}", event.link, why)); };
  const auto steps = split(event.link);
  if (!steps) return refuse(fmt::format("no such link; {}", kShapes));
  const std::vector<Step>& s = *steps;
  const auto is = [&s](std::initializer_list<std::string_view> words) {
    if (s.size() != words.size()) return false;
    std::size_t i = 0;
    for (const std::string_view w : words) {
      const bool numbered = w != "nvlink";
      if (s[i].word != w || (s[i].number >= 0) != numbered) return false;
      ++i;
    }
    return true;
  };
  const auto outside = [&](std::string_view what, std::int64_t number, std::int64_t count) {
    return count == 0 ? fmt::format("there is no {} here", what) : fmt::format("{} {} is out of range; 0 to {}", what, number, count - 1);
  };
  const std::int64_t owner = s[0].number, port = s.back().number;
  if (is({"switch", "to"}) || is({"switch", "to", "cable"})) return find_cable(event, owner, s[1].number, s.size() == 3 ? port : 0, file);

  if (is({"leaf", "up"}) || is({"spine", "up"})) {
    const bool leaf = s[0].word == "leaf";
    const Tree none;
    const Tree& t = tree_ ? *tree_ : none;
    const std::int64_t owners = leaf ? t.leaves : t.spines * t.pods, ups = leaf ? (t.tiers > 1 ? t.up : 0) : t.spine_up;
    if (owner >= owners) return refuse(outside(s[0].word, owner, tree_ ? owners : 0));
    if (port >= ups) return refuse(outside(leaf ? "uplink of a leaf" : "uplink of a spine", port, ups));
    const LinkId out = leaf ? leaf_link(owner, port, false) : spine_link(owner, port, false);
    return Target{out, 1 / static_cast<double>(links_[out.index()].bundle), leaf ? LinkKind::kLeafUp : LinkKind::kSpineUp, owner, static_cast<std::int32_t>(port)};
  }
  const bool scale_up = is({"node", "gpu", "nvlink"});
  if (!scale_up && !is({"node", "pcie"}) && !is({"node", "nic"})) return refuse(fmt::format("no such link; {}", kShapes));
  if (owner >= nodes_) return refuse(outside("node", owner, nodes_));
  if (scale_up) {
    const std::int64_t gpu = s[1].number;
    if (gpu >= gpus_per_node_) return refuse(outside("GPU", gpu, gpus_per_node_));
    if (!layout_.ports) return refuse(fmt::format("a {} has no scale-up ports", node_.name));
    return Target{at(owner, 0, gpu, false), 1, LinkKind::kScaleUp, owner, static_cast<std::int32_t>(gpu)};
  }
  if (s[1].word == "nic") {
    if (port >= nics_per_node_) return refuse(outside("NIC", port, nics_per_node_));
    return Target{at(owner, layout_.nic, port, false), 1, LinkKind::kNic, owner, static_cast<std::int32_t>(port)};
  }
  // Without PCIe switches every GPU hangs on a root port of its own, and pcie{k} is GPU k's.
  const bool switches = node_.pcie_switches > 0;
  if (const std::int64_t count = switches ? node_.pcie_switches : gpus_per_node_; port >= count) {
    return refuse(outside(switches ? "PCIe switch" : "PCIe root port", port, count));
  }
  const LinkKind kind = switches ? LinkKind::kPcieUplink : LinkKind::kPcie;
  return Target{at(owner, switches ? layout_.uplink : layout_.pcie, port, false), 1, kind, owner, static_cast<std::int32_t>(port)};
}

}  // namespace orrery::cluster
