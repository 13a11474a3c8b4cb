// orrery/node/1 to a value. People override `nics`, `gpus` or `gpu` alone, so that lists over them may no longer fit: these are then made by
// even division (device i of n hangs under switch i S / n), which is how boards are wired unless their file says otherwise.
#include <algorithm>

#include <fmt/format.h>

#include "cluster/members.hpp"
#include "orrery/cluster/parts.hpp"

namespace orrery::cluster {
namespace {

/// Boards have two levels of switches, expansion boxes three; a route keeps its way in a fixed array.
constexpr int kMaxPcieDepth = 7;

struct Reader {
  const document::Value& doc;
  const std::string& file;
  const std::string& pointer;
  Diagnostics problems;

  void refuse(const std::string& member, std::string what) { problems.push_back({file, fmt::format("{}/{}", pointer, member), std::move(what)}); }

  std::vector<int> mapping(const std::string& member, int devices, int groups, std::string_view group) {
    std::vector<int> list = integers(doc, member);
    if (static_cast<int>(list.size()) != devices) {
      list.assign(static_cast<std::size_t>(devices), -1);
      for (int i = 0; i < devices && groups > 0; ++i) list[static_cast<std::size_t>(i)] = static_cast<int>(std::int64_t{i} * groups / devices);
      return list;
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (groups == 0) {
        list[i] = -1;
      } else if (list[i] < 0 || list[i] >= groups) {
        refuse(fmt::format("{}/{}", member, i), fmt::format("there is no {} {}; 0 to {}", group, list[i], groups - 1));
        list[i] = 0;
      }
    }
    return list;
  }

  /// Stated and of the right length, or a copy of the sockets.
  std::vector<int> bridges(const std::string& member, const std::vector<int>& numa) const {
    std::vector<int> list = integers(doc, member);
    return list.size() == numa.size() ? list : numa;
  }

  /// A forest: following parents ends at a root port.
  std::vector<int> parents(int switches) {
    std::vector<int> list = integers(doc, "pcie_switch_parent");
    if (static_cast<int>(list.size()) != switches) list.assign(static_cast<std::size_t>(switches), -1);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string member = fmt::format("pcie_switch_parent/{}", i);
      if (list[i] >= switches) {
        refuse(member, fmt::format("there is no PCIe switch {}; 0 to {}, or -1 for a root port", list[i], switches - 1));
        return std::vector<int>(list.size(), -1);
      }
      int depth = 0;
      for (int above = list[i]; above >= 0 && above < switches && depth <= switches; above = list[static_cast<std::size_t>(above)]) ++depth;
      if (depth > kMaxPcieDepth) {
        refuse(member, fmt::format("PCIe switch {} hangs {} switches deep, or on itself; use {} at most", i, depth, kMaxPcieDepth));
        return std::vector<int>(list.size(), -1);
      }
    }
    return list;
  }

  std::vector<Node::MeshLink> mesh(int gpus) {
    std::vector<Node::MeshLink> links;
    const document::Value& v = doc.at("mesh_links");
    if (v.is_null()) return links;
    for (std::size_t i = 0; i < v.items().size(); ++i) {
      const auto& link = v.items()[i].items();
      if (link.size() != 3) {
        refuse(fmt::format("mesh_links/{}", i), "a link of a mesh is [GPU, GPU, cables]");
        continue;
      }
      const std::int64_t a = link[0].as_int(), b = link[1].as_int(), cables = link[2].as_int();
      if (a < 0 || b < 0 || a == b || cables < 1 || cables > gpus * 64) {
        refuse(fmt::format("mesh_links/{}", i), "a link of a mesh joins two different GPUs with 1 or more cables");
      } else if (a < gpus && b < gpus) {  // an override of `gpus` leaves the other GPUs out
        links.push_back({static_cast<int>(a), static_cast<int>(b), static_cast<int>(cables)});
      }
    }
    return links;
  }
};

// Far above any machine (an NVL576 rack has 576 GPUs), far below what would exhaust memory.
constexpr int kMaxDevices = 4096;

/// GB/s of a socket that nobody states: eight channels of DDR4-3200 (JEDEC JESD79-4), the least of the hosts of this decade.
constexpr double kSocketBandwidth = 200;
/// Host to device over NVLink-C2C reaches 359 to 377 of 450 GB/s (CSCS, Alps GH200).
constexpr double kC2cPayload = 0.8;

/// GB/s of one drive that nobody states: a node of eight reads 55.3 and writes 33.9 (Azure ND H100 v5, fio).
constexpr double kDriveRead = 6.9, kDriveWrite = 4.2;

std::optional<ScaleUp> scale_up_kind(const std::string& name) {
  constexpr std::pair<std::string_view, ScaleUp> kKinds[] = {
      {"none", ScaleUp::kNone}, {"nvswitch", ScaleUp::kNvSwitch}, {"mesh", ScaleUp::kMesh}, {"bridge", ScaleUp::kBridge}, {"pcie", ScaleUp::kPcie}};
  for (const auto& [word, kind] : kKinds) {
    if (word == name) return kind;
  }
  return std::nullopt;
}

}  // namespace

int Node::switch_above_both(int a, int b) const {
  for (int above_a = a; above_a >= 0; above_a = switch_above(above_a)) {
    for (int above_b = b; above_b >= 0; above_b = switch_above(above_b)) {
      if (above_a == above_b) return above_a;
    }
  }
  return -1;
}

Result<Node> read_node(const document::Value& doc, const std::string& file, const std::string& pointer) {
  if (!doc.is_object()) return fail(file, pointer, "no node is given; name one of the catalogue");
  auto gpu = read_gpu(doc.at("gpu"), file, pointer + "/gpu");
  if (!gpu) return fail(std::move(gpu.error()));
  Reader r{doc, file, pointer, {}};
  Node n;
  n.name = text(doc, "name");
  n.gpu = *std::move(gpu);
  n.gpus = integer(doc, "gpus");
  if (n.gpus < 1) return fail(file, pointer + "/gpus", fmt::format("a node of {} GPUs runs nothing; use 1 or more", n.gpus));
  for (const char* member : {"gpus", "nics", "pcie_switches", "numa_domains"}) {
    if (const int count = integer(doc, member); count < 0 || count > kMaxDevices) {
      return fail(file, fmt::format("{}/{}", pointer, member), fmt::format("{} in one node is out of range; 0 to {}", count, kMaxDevices));
    }
  }
  const auto kind = scale_up_kind(text(doc, "scale_up_kind"));
  if (!kind) r.refuse("scale_up_kind", "known are none, nvswitch, mesh, bridge, pcie");
  n.scale_up_kind = kind.value_or(ScaleUp::kNone);
  n.nvswitch_generation = integer(doc, "nvswitch_generation");
  n.nvlink_domain_nodes = integer(doc, "nvlink_domain_nodes", 1);
  if (n.nvlink_domain_nodes > 1 && n.scale_up_kind != ScaleUp::kNvSwitch) {
    r.refuse("nvlink_domain_nodes", fmt::format("only NVSwitch joins {} nodes in one domain; use 1", n.nvlink_domain_nodes));
  }
  n.nics = integer(doc, "nics");
  n.nic = gbit_per_s(number(doc, "nic_gbit_per_s"));
  if (n.nics > 0 && n.nic.value() <= 0) r.refuse("nic_gbit_per_s", fmt::format("{} NICs need a line rate; use more than 0, or nics 0", n.nics));

  const double payload = number(doc, "pcie_efficiency", 1);
  const BytesPerSecond slot = gb_per_s(number(doc, "pcie_gb_per_s", n.gpu.pcie.value() / 1e9));
  n.pcie = std::min(slot, n.gpu.pcie) * payload;
  if (n.pcie.value() <= 0) r.refuse("pcie_gb_per_s", "a GPU needs a link to its host; give pcie_gb_per_s here and for the GPU");
  n.pcie_switches = integer(doc, "pcie_switches");
  n.pcie_uplink = gb_per_s(number(doc, "pcie_uplink_gb_per_s", slot.value() / 1e9)) * payload;
  if (n.pcie_switches > 0 && n.pcie_uplink.value() <= 0) r.refuse("pcie_uplink_gb_per_s", "a PCIe switch needs an uplink; use more than 0");
  n.gpu_pcie_switch = r.mapping("gpu_pcie_switch", n.gpus, n.pcie_switches, "PCIe switch");
  n.nic_pcie_switch = r.mapping("nic_pcie_switch", n.nics, n.pcie_switches, "PCIe switch");
  n.pcie_switch_parent = r.parents(n.pcie_switches);
  n.numa_domains = std::max(1, integer(doc, "numa_domains", 1));
  n.numa_link = gb_per_s(number(doc, "numa_gb_per_s"));
  if (n.numa_domains > 1 && n.numa_link.value() <= 0) r.refuse("numa_gb_per_s", fmt::format("{} sockets need a link between them; use more than 0", n.numa_domains));
  n.gpu_numa = r.mapping("gpu_numa", n.gpus, n.numa_domains, "socket");
  n.nic_numa = r.mapping("nic_numa", n.nics, n.numa_domains, "socket");
  n.gpu_host_bridge = r.bridges("gpu_host_bridge", n.gpu_numa);
  n.nic_host_bridge = r.bridges("nic_host_bridge", n.nic_numa);
  n.peer_to_peer = flag(doc, "peer_to_peer", true);
  n.host_bounce = gb_per_s(number(doc, "host_bounce_gb_per_s", n.pcie.value() / 1e9));

  const BytesPerSecond port = gb_per_s(number(doc, "scale_up_gb_per_s", n.gpu.scale_up.value() / 1e9));
  switch (n.scale_up_kind) {
    case ScaleUp::kNvSwitch:
    case ScaleUp::kMesh:
    case ScaleUp::kBridge:
      n.scale_up = std::min(port, n.gpu.scale_up);
      if (n.scale_up.value() <= 0) r.refuse("scale_up_gb_per_s", fmt::format("a {} has no scale-up port; use scale_up_kind pcie or another GPU", n.gpu.name));
      n.mesh = r.mesh(n.gpus);
      break;
    case ScaleUp::kPcie:
    case ScaleUp::kNone: n.scale_up = n.peer_to_peer ? n.pcie : std::min(n.pcie, n.host_bounce); break;
  }
  n.cpu_vendor = text(doc, "cpu_vendor");
  n.host_memory = whole_bytes(number(doc, "host_memory_gib") * static_cast<double>(kGiB));
  n.host_bandwidth_stated = !doc.at("host_memory_gb_per_s").is_null();
  n.host_bandwidth = gb_per_s(number(doc, "host_memory_gb_per_s", kSocketBandwidth * n.numa_domains));
  n.c2c = gb_per_s(number(doc, "c2c_gb_per_s")) * kC2cPayload;
  const int drives = integer(doc, "nvme_drives");
  n.drive_bytes = number(doc, "nvme_tb") * 1e12;
  n.drive_rates_stated = !doc.at("nvme_read_gb_per_s").is_null() && !doc.at("nvme_write_gb_per_s").is_null();
  n.drive_read = gb_per_s(number(doc, "nvme_read_gb_per_s", kDriveRead * drives));
  n.drive_write = gb_per_s(number(doc, "nvme_write_gb_per_s", kDriveWrite * drives));
  if ((n.drive_read.value() > 0) != (n.drive_write.value() > 0)) r.refuse("nvme_read_gb_per_s", "drives both read and write; give nvme_read_gb_per_s and nvme_write_gb_per_s, or nvme_drives");
  n.max_w = number(doc, "max_w");
  n.default_origin = texts(doc, "unconfirmed");
  if (!r.problems.empty()) return fail(std::move(r.problems));
  return n;
}

}  // namespace orrery::cluster
