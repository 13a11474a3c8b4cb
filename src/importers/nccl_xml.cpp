// NCCL's topology XML (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE), and RCCL's: <system> of <cpu> (a NUMA domain) of <pci> (a bridge or a device) of <gpu>,
// <nic> and <net>. Reader: NCCL src/graph/xml.cc and topo.cc, whose path classes between two devices are those of their nearest common element: one
// bridge PIX, further bridges PXB, a <cpu> PHB, several SYS. Static files of clouds give devices alone, by PCI class or not even that.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <pugixml.hpp>

#include "importers/lines.hpp"
#include "importers/wiring.hpp"

namespace orrery::importers {
namespace {

using cluster::Path;
using cluster::PathClass;

constexpr int kMostDepth = 7;
constexpr std::size_t kMostDevices = 512;

/// Rates between sockets that NCCL counts (src/graph/topo.h: AMD_BW, SKL_QPI_BW, ARM_BW).
double socket_rate(std::string_view vendor) { return vendor == "amd" ? 16 : vendor == "arm" ? 6 : vendor == "intel" ? 10 : 0; }

/// PCI ids of GPUs (the PCI ID repository, pci.ids) to names of the catalogue.
std::string gpu_name(std::string_view vendor, std::string_view device) {
  constexpr std::array<std::array<std::string_view, 3>, 22> kNames{{
      {"0x10de", "0x1db1", "v100-sxm2-16gb"}, {"0x10de", "0x1db5", "v100-sxm2-32gb"}, {"0x10de", "0x1db4", "v100-pcie-16gb"}, {"0x10de", "0x1db6", "v100-pcie-32gb"},
      {"0x10de", "0x1eb8", "t4"},             {"0x10de", "0x20b0", "a100-sxm4-40gb"}, {"0x10de", "0x20b2", "a100-sxm4-80gb"}, {"0x10de", "0x20b5", "a100-pcie-80gb"},
      {"0x10de", "0x20f1", "a100-pcie-40gb"}, {"0x10de", "0x2235", "a40"},            {"0x10de", "0x2236", "a10"},            {"0x10de", "0x2237", "a10g"},
      {"0x10de", "0x2330", "h100-sxm5-80gb"}, {"0x10de", "0x2331", "h100-pcie-80gb"}, {"0x10de", "0x2335", "h200-sxm-141gb"}, {"0x10de", "0x2901", "b200-sxm"},
      {"0x10de", "0x26b9", "l40s"},           {"0x10de", "0x27b8", "l4"},             {"0x1002", "0x740f", "mi210"},          {"0x1002", "0x740c", "mi250x"},
      {"0x1002", "0x7408", "mi250x"},         {"0x1002", "0x74a1", "mi300x"},
  }};
  for (const auto& row : kNames) {
    if (row[0] == vendor && row[1] == device) return std::string(row[2]);
  }
  return "";
}

/// GB/s of "16 GT/s" x lanes after 128b/130b (8b/10b below 8 GT/s); 0 where it is not stated.
double pcie_rate(const pugi::xml_node& pci) {
  const double gt = pci.attribute("link_speed").as_double();
  const int lanes = pci.attribute("link_width").as_int();
  if (!(gt > 0) || lanes <= 0) return 0;
  return std::round(gt * lanes / 8 * (gt < 8 ? 0.8 : 128.0 / 130) * 1000) / 1000;
}

struct Found {
  std::string name, vendor, device;
  int socket = 0;
  int parent = -1;         ///< the bridge that it stands under; -1: the socket itself
  double pcie = 0, gbit = 0;
  pugi::xml_node gpu;      ///< where its cables stand
  bool unknown = false;    ///< no class, no child: GPU or NIC
};

class Walk {
 public:
  Walk(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  void socket(const pugi::xml_node& cpu) {
    const int id = sockets_++;
    if (vendor.empty()) {
      const std::string_view v = cpu.attribute("vendor").value();
      vendor = v == "AuthenticAMD" ? "amd" : v == "GenuineIntel" ? "intel" : std::string_view(cpu.attribute("arch").value()) == "arm64" ? "arm" : "";
    }
    children(cpu, id, -1, 0);
  }

  void ignore(const pugi::xml_node& n, std::string why) {
    const int line = line_of(n);
    std::string text = fmt::format("<{}>", n.name());
    unread.push_back({line, shown(text), std::move(why)});
  }
  [[nodiscard]] int line_of(const pugi::xml_node& n) const {
    const auto offset = std::clamp<std::ptrdiff_t>(n.offset_debug(), 0, static_cast<std::ptrdiff_t>(text_.size()));
    return 1 + static_cast<int>(std::count(text_.begin(), text_.begin() + offset, '\n'));
  }

  std::vector<Found> gpus, nics, unknown;
  std::vector<int> bridge_parent;
  std::vector<double> bridge_rate;
  std::vector<Unread> unread;
  std::string vendor;
  Diagnostics problems;

 private:
  void children(const pugi::xml_node& parent, int socket, int bridge, int depth) {
    if (depth > kMostDepth || gpus.size() + nics.size() + unknown.size() > kMostDevices) {
      if (problems.empty()) problems.push_back({file_, "", fmt::format("line {}: more than {} bridges deep or {} devices; this is no machine", line_of(parent), kMostDepth, kMostDevices)});
      return;
    }
    for (const pugi::xml_node& n : parent.children()) {
      const std::string_view name = n.name();
      if (n.type() != pugi::node_element) continue;
      if (name == "pci") pci(n, socket, bridge, depth);
      else if (name == "nic") nic(n, socket, bridge, 0);
      else ignore(n, "not known here");
    }
  }

  void nic(const pugi::xml_node& n, int socket, int bridge, double pcie) {
    bool any = false;
    for (const pugi::xml_node& net : n.children()) {
      if (net.type() != pugi::node_element) continue;
      if (std::string_view(net.name()) != "net") {
        ignore(net, "not known here");
        continue;
      }
      any = true;
      Found f;
      f.name = net.attribute("name").value();
      if (f.name.empty()) f.name = fmt::format("net{}", net.attribute("dev").value());
      f.socket = socket;
      f.parent = bridge;
      f.pcie = pcie;
      f.gbit = net.attribute("speed").as_double() / 1000;  // Mbit/s
      nics.push_back(f);
    }
    if (!any) ignore(n, "a NIC without ports");
  }

  void pci(const pugi::xml_node& n, int socket, int bridge, int depth) {
    Found f;
    f.name = n.attribute("busid").value();
    f.vendor = n.attribute("vendor").value();
    f.device = n.attribute("device").value();
    f.socket = socket;
    f.parent = bridge;
    f.pcie = pcie_rate(n);
    const std::string_view pci_class = n.attribute("class").value();
    if (const pugi::xml_node gpu = n.child("gpu")) {
      f.gpu = gpu;
      gpus.push_back(f);
      for (const pugi::xml_node& other : n.children()) {
        if (other.type() == pugi::node_element && other != gpu) ignore(other, "beside a GPU");
      }
    } else if (pci_class.starts_with("0x03") || pci_class.starts_with("0x12")) {  // display controller, processing accelerator
      gpus.push_back(f);
    } else if (const pugi::xml_node inner = n.child("nic")) {
      nic(inner, socket, bridge, f.pcie);
    } else if (pci_class.starts_with("0x02")) {  // network controller
      nics.push_back(f);
    } else if (n.child("pci")) {
      bridge_parent.push_back(bridge);
      bridge_rate.push_back(f.pcie);
      children(n, socket, static_cast<int>(bridge_parent.size()) - 1, depth + 1);
    } else if (pci_class.empty()) {
      unknown.push_back(f);
    } else {
      ignore(n, fmt::format("a PCI device of class {} with nothing below it", shown(pci_class)));
    }
  }

  std::string_view text_;
  const std::string& file_;
  int sockets_ = 0;
};

/// Devices of which the file gives the bus alone (NCCL asks the kernel for the rest): every socket has as many GPUs as the one with the fewest
/// devices, its first; what is more are NICs.
void tell_apart(Walk& walk, Imported& out) {
  if (walk.unknown.empty()) return;
  std::map<int, int> per_socket, seen;
  for (const Found& f : walk.unknown) ++per_socket[f.socket];
  int fewest = INT32_MAX;
  for (const auto& [socket, devices] : per_socket) fewest = std::min(fewest, devices);
  if (!walk.gpus.empty()) fewest = 0;
  for (const Found& f : walk.unknown) (seen[f.socket]++ < fewest ? walk.gpus : walk.nics).push_back(f);
  out.taken.push_back(fmt::format("devices: {} have no PCI class in the file; {} are taken for GPUs, as many in every socket, and the rest for NICs", walk.unknown.size(),
                                  fewest * static_cast<int>(per_socket.size())));
}

/// Reads <nvlink> and <xgmi>. A target of class 0x0680.. is an NVSwitch.
void cables(Walk& walk, Wiring& w) {
  std::map<std::string, int> by_bus;
  for (std::size_t i = 0; i < walk.gpus.size(); ++i) by_bus.emplace(walk.gpus[i].name, static_cast<int>(i));
  std::map<std::pair<int, int>, int> links;
  for (std::size_t i = 0; i < walk.gpus.size(); ++i) {
    int to_switch = 0;
    for (const pugi::xml_node& n : walk.gpus[i].gpu.children()) {
      if (n.type() != pugi::node_element) continue;
      const std::string_view name = n.name();
      const int count = n.attribute("count").as_int();
      const auto target = by_bus.find(n.attribute("target").value());
      if (name != "nvlink" && name != "xgmi") walk.ignore(n, "not known here");
      else if (count < 1 || count > 64) walk.ignore(n, "no number of links");
      else if (std::string_view(n.attribute("tclass").value()).starts_with("0x0680")) to_switch += count;
      else if (target == by_bus.end()) walk.ignore(n, "its target is no GPU of the file");
      else if (target->second == static_cast<int>(i)) walk.ignore(n, "a GPU joined to itself");
      else links[std::minmax(static_cast<int>(i), target->second)] = count;
      if (name == "xgmi") w.nvlink = false;
    }
    if (to_switch > 0) {
      w.through_switch = true;
      w.links = w.links == 0 ? to_switch : std::min(w.links, to_switch);
    }
  }
  for (const auto& [pair, count] : links) w.cables.push_back({pair.first, pair.second, count});
}

std::vector<std::vector<PathClass>> stated(const Walk& walk, const Wiring& w) {
  std::vector<const Found*> all;
  for (const Found& f : walk.gpus) all.push_back(&f);
  for (const Found& f : walk.nics) all.push_back(&f);
  std::vector<std::vector<PathClass>> paths(all.size(), std::vector<PathClass>(all.size()));
  const auto above = [&](int b) { return b < 0 ? -1 : walk.bridge_parent[static_cast<std::size_t>(b)]; };
  for (std::size_t a = 0; a < all.size(); ++a) {
    for (std::size_t b = 0; b < all.size(); ++b) {
      PathClass& p = paths[a][b];
      p.path = all[a]->socket == all[b]->socket ? Path::kPhb : Path::kSys;
      for (int x = all[a]->parent; x >= 0; x = above(x)) {
        for (int y = all[b]->parent; y >= 0; y = above(y)) {
          if (x == y && p.path >= Path::kPhb) p.path = x == all[a]->parent && y == all[b]->parent ? Path::kPix : Path::kPxb;
        }
      }
      if (a == b) p = {Path::kSelf, 0};
      if (w.through_switch && a != b && a < walk.gpus.size() && b < walk.gpus.size()) p = {Path::kNvLink, w.links};
    }
  }
  if (w.through_switch) return paths;
  for (const Wiring::Cable& c : w.cables) {
    paths[static_cast<std::size_t>(c.a)][static_cast<std::size_t>(c.b)] = paths[static_cast<std::size_t>(c.b)][static_cast<std::size_t>(c.a)] = {Path::kNvLink, c.links};
  }
  return paths;
}

}  // namespace

bool looks_like_nccl_xml(std::string_view text) { return text.find("<system") != std::string_view::npos; }

Result<Imported> import_nccl_xml(std::string_view text, const std::string& file, const Options& options) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  if (!parsed) {
    const auto offset = std::min(static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, parsed.offset)), text.size());
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
    return fail(file, "", fmt::format("line {}: no XML; write the file again with NCCL_TOPO_DUMP_FILE", line));
  }
  Imported out;
  out.format = "NCCL topology XML";
  for_lines(text, [&](int, std::string_view line) { out.lines += trimmed(line).empty() ? 0 : 1; });
  Walk walk(text, file);
  for (const pugi::xml_node& cpu : document.child("system").children()) {
    if (cpu.type() != pugi::node_element) continue;
    if (std::string_view(cpu.name()) == "cpu") walk.socket(cpu);
    else walk.ignore(cpu, "not known here");
  }
  if (!walk.problems.empty()) return fail(walk.problems);
  tell_apart(walk, out);
  if (walk.gpus.empty()) return fail(file, "", "no GPU in it: NCCL's topology has <gpu> below <pci>, or <pci> of class 0x03");
  Wiring w;
  w.switch_parent = walk.bridge_parent;
  w.cpu_vendor = walk.vendor;
  w.numa_gb_per_s = socket_rate(walk.vendor);
  cables(walk, w);
  const auto place = [&](const Found& f) {
    w.pcie_gb_per_s = &f < walk.gpus.data() + walk.gpus.size() && &f >= walk.gpus.data() ? std::max(w.pcie_gb_per_s, f.pcie) : w.pcie_gb_per_s;
    w.nic_gbit_per_s = std::max(w.nic_gbit_per_s, f.gbit);
    return Place{f.parent, f.socket, f.socket};
  };
  for (const Found& f : walk.gpus) {
    w.gpus.push_back(place(f));
    out.gpus.push_back(f.name);
  }
  for (const Found& f : walk.nics) {
    w.nics.push_back(place(f));
    out.nics.push_back(f.name);
  }
  for (const double rate : walk.bridge_rate) w.uplink_gb_per_s = std::max(w.uplink_gb_per_s, rate);
  const Found& first = walk.gpus.front();
  w.gpu = gpu_name(first.vendor, first.device);
  if (w.gpu.empty()) {
    const int sm = first.gpu.attribute("sm").as_int();
    const bool amd = first.gpu.attribute("gcn") || first.vendor == "0x1002";
    w.gpu = amd ? "mi210" : sm >= 100 ? "b200-sxm" : sm >= 90 ? "h100-sxm5-80gb" : sm >= 80 ? "a100-sxm4-80gb" : sm >= 70 ? "v100-sxm2-32gb" : "a10g";
    if (options.gpu.empty()) out.taken.push_back(fmt::format("gpu: {}, the nearest of the catalogue; the file has no PCI id that it knows (--gpu)", w.gpu));
  } else {
    out.understood.push_back(fmt::format("{} by its PCI id {}:{}", w.gpu, first.vendor, first.device));
  }
  if (w.cables.empty() && !w.through_switch && first.gpu.empty()) out.taken.push_back("scale_up_kind: pcie, as the file has no <nvlink>; NCCL adds what the driver reports");
  out.paths = stated(walk, w);
  out.unread = walk.unread;
  std::sort(out.unread.begin(), out.unread.end(), [](const Unread& a, const Unread& b) { return a.number < b.number; });
  return finish(std::move(out), w, file, options);
}

}  // namespace orrery::importers
