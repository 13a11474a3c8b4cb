#include "orrery/cluster/paths.hpp"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace orrery::cluster {
namespace {

int links_through_switch(const Node& node) { return static_cast<int>(std::lround(node.scale_up.value() / nvlink_rate(node.gpu.architecture).value())); }

}  // namespace

BytesPerSecond nvlink_rate(std::string_view architecture) { return gb_per_s(architecture.starts_with("Blackwell") ? 50 : 25); }

std::string to_string(const PathClass& c) {
  switch (c.path) {
    case Path::kSelf: return "X";
    case Path::kNvLink: return fmt::format("NV{}", c.links);
    case Path::kPix: return "PIX";
    case Path::kPxb: return "PXB";
    case Path::kPhb: return "PHB";
    case Path::kNode: return "NODE";
    case Path::kSys: return "SYS";
  }
  return "";
}

std::optional<PathClass> read_path_class(std::string_view word) {
  constexpr std::pair<std::string_view, Path> kWords[] = {{"X", Path::kSelf},   {"PIX", Path::kPix}, {"PXB", Path::kPxb}, {"PHB", Path::kPhb},
                                                          {"NODE", Path::kNode}, {"SYS", Path::kSys}, {"SOC", Path::kSys}};
  for (const auto& [name, path] : kWords) {
    if (name == word) return PathClass{path, 0};
  }
  if (!word.starts_with("NV")) return std::nullopt;
  int links = 0;
  const auto [end, error] = std::from_chars(word.data() + 2, word.data() + word.size(), links);
  constexpr int kMost = 64;  // no GPU has more than 18
  if (error != std::errc{} || end != word.data() + word.size() || links < 1 || links > kMost) return std::nullopt;
  return PathClass{Path::kNvLink, links};
}

PathClass path_between(const Node& node, Device a, Device b) {
  if (a.nic == b.nic && a.index == b.index) return {Path::kSelf, 0};
  if (!a.nic && !b.nic) {
    if (node.scale_up_kind == ScaleUp::kNvSwitch) return {Path::kNvLink, links_through_switch(node)};
    if (node.scale_up_kind == ScaleUp::kBridge && a.index / 2 == b.index / 2) return {Path::kNvLink, links_through_switch(node)};
    for (const Node::MeshLink& m : node.mesh) {
      if ((m.a == a.index && m.b == b.index) || (m.a == b.index && m.b == a.index)) return {Path::kNvLink, m.cables};
    }
  }
  const auto of = [](const Device& d, const std::vector<int>& gpus, const std::vector<int>& nics) { return (d.nic ? nics : gpus)[static_cast<std::size_t>(d.index)]; };
  const int switch_a = of(a, node.gpu_pcie_switch, node.nic_pcie_switch), switch_b = of(b, node.gpu_pcie_switch, node.nic_pcie_switch);
  if (switch_a >= 0 && switch_a == switch_b) return {Path::kPix, 0};
  if (node.switch_above_both(switch_a, switch_b) >= 0) return {Path::kPxb, 0};
  if (of(a, node.gpu_numa, node.nic_numa) != of(b, node.gpu_numa, node.nic_numa)) return {Path::kSys, 0};
  const bool one_bridge = of(a, node.gpu_host_bridge, node.nic_host_bridge) == of(b, node.gpu_host_bridge, node.nic_host_bridge);
  return {one_bridge ? Path::kPhb : Path::kNode, 0};
}

}  // namespace orrery::cluster
