// Wiring to orrery/node/1, read back as a scenario would read it, and compared with every pair that the file states.
#include "importers/wiring.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "orrery/document/document.hpp"

namespace orrery::importers {
namespace {

using document::Value;

// Where nobody states a NIC's rate: the slowest that training clusters of this decade have.
constexpr std::int64_t kNicGbit = 100;
// The least of NCCL's rates between the sockets of current x86 hosts (src/graph/topo.h, SKL_QPI_BW).
constexpr double kNumaGb = 10;

std::int64_t count(const auto& list) { return static_cast<std::int64_t>(list.size()); }

/// Switches renumbered from 0 in order of use; every device gets one as soon as there is one at all: a root port of its own is a switch
/// with one device.
struct Switches {
  std::vector<int> gpu, nic, parent;
};
Switches switches_of(const Wiring& w) {
  Switches s;
  s.parent = w.switch_parent;
  const bool any = !w.switch_parent.empty();
  const auto of = [&](const std::vector<Place>& places, std::vector<int>& list) {
    for (const Place& p : places) {
      if (p.pcie_switch < 0 && any) s.parent.push_back(-1);
      list.push_back(p.pcie_switch >= 0 || !any ? p.pcie_switch : static_cast<int>(s.parent.size()) - 1);
    }
  };
  of(w.gpus, s.gpu);
  of(w.nics, s.nic);
  return s;
}

Value list(const std::vector<int>& of) { return Value(Value::Array(of.begin(), of.end())); }

/// A place's member of GPUs and NICs as two lists, renumbered from 0 by first use; and how many there are.
std::int64_t number(const Wiring& w, int Place::*member, std::vector<int>& gpu, std::vector<int>& nic) {
  std::map<int, int> index;
  const auto of = [&](const std::vector<Place>& places, std::vector<int>& out) {
    for (const Place& p : places) out.push_back(index.emplace(p.*member, static_cast<int>(index.size())).first->second);
  };
  of(w.gpus, gpu);
  of(w.nics, nic);
  return count(index);
}

/// The pairs that the node cannot tell as the file does, as lines for people.
std::vector<std::string> differences(const Imported& imported, const cluster::Node& node) {
  std::vector<std::string> out;
  const int gpus = static_cast<int>(imported.gpus.size());
  const auto device = [gpus](std::size_t i) {
    const int index = static_cast<int>(i);
    return index < gpus ? cluster::Device{false, index} : cluster::Device{true, index - gpus};
  };
  for (std::size_t a = 0; a < imported.paths.size(); ++a) {
    for (std::size_t b = a + 1; b < imported.paths[a].size(); ++b) {
      const cluster::PathClass here = cluster::path_between(node, device(a), device(b)), there = imported.paths[a][b];
      if (here == there) continue;
      const auto name = [&](std::size_t i) { return i < imported.gpus.size() ? imported.gpus[i] : imported.nics[i - imported.gpus.size()]; };
      out.push_back(fmt::format("{} to {}: {} in the file, {} in the node", name(a), name(b), to_string(there), to_string(here)));
    }
  }
  return out;
}

}  // namespace

Result<Imported> finish(Imported out, const Wiring& w, const std::string& file, const Options& options) {
  out.kind = "node";
  Value& node = out.document;
  node.set("schema", "orrery/node/1");
  node.set("name", options.name.empty() ? "imported" : options.name);
  node.set("gpu", options.gpu.empty() ? w.gpu : options.gpu);
  node.set("gpus", count(w.gpus));
  std::vector<std::string> unconfirmed;
  const auto take = [&](const std::string& member, const std::string& why) {
    out.taken.push_back(fmt::format("{}: {}", member, why));
    unconfirmed.push_back(member);
  };
  const auto gpu = document::load("gpu", node.at("gpu"), file, "", "");
  if (!gpu) return fail(gpu.error());
  const double link_gb_per_s = cluster::nvlink_rate(gpu->value.at("architecture").is_string() ? gpu->value.at("architecture").as_string() : "").value() / 1e9;
  if (w.through_switch) {
    node.set("scale_up_kind", "nvswitch");
    node.set("scale_up_gb_per_s", w.links * link_gb_per_s);
    out.understood.push_back(fmt::format("{} GPUs behind NVSwitch, {} links each", w.gpus.size(), w.links));
  } else if (!w.cables.empty()) {
    std::vector<int> of(w.gpus.size(), 0);
    Value::Array cables;
    for (const Wiring::Cable& c : w.cables) {
      of[static_cast<std::size_t>(c.a)] += c.links;
      of[static_cast<std::size_t>(c.b)] += c.links;
      cables.emplace_back(Value::Array{c.a, c.b, c.links});
    }
    node.set("scale_up_kind", "mesh");
    if (w.nvlink) node.set("scale_up_gb_per_s", *std::max_element(of.begin(), of.end()) * link_gb_per_s);
    node.set("mesh_links", Value(std::move(cables)));
    out.understood.push_back(fmt::format("{} of {} pairs of GPUs wired directly", w.cables.size(), w.gpus.size() * (w.gpus.size() - 1) / 2));
  } else {
    node.set("scale_up_kind", w.gpus.size() > 1 ? "pcie" : "none");
    out.understood.push_back(fmt::format("{} GPUs without NVLink", w.gpus.size()));
  }
  const Switches switches = switches_of(w);
  if (!switches.parent.empty()) {
    node.set("pcie_switches", count(switches.parent));
    node.set("gpu_pcie_switch", list(switches.gpu));
    if (!w.nics.empty()) node.set("nic_pcie_switch", list(switches.nic));
    node.set("pcie_switch_parent", list(switches.parent));
    out.understood.push_back(fmt::format("{} PCIe switches and {} root ports with one device", w.switch_parent.size(), switches.parent.size() - w.switch_parent.size()));
  }
  if (w.pcie_gb_per_s > 0) node.set("pcie_gb_per_s", w.pcie_gb_per_s);
  else take("pcie_gb_per_s", "the GPU's own, as the file has no rates of PCIe");
  if (w.uplink_gb_per_s > 0 && !switches.parent.empty()) node.set("pcie_uplink_gb_per_s", w.uplink_gb_per_s);
  std::vector<int> gpu_numa, nic_numa, gpu_bridge, nic_bridge;
  const std::int64_t sockets = number(w, &Place::socket, gpu_numa, nic_numa), bridges = number(w, &Place::bridge, gpu_bridge, nic_bridge);
  node.set("numa_domains", sockets);
  out.understood.push_back(fmt::format("{} NUMA domain{}, {} PCIe host bridge{}", sockets, sockets == 1 ? "" : "s", bridges, bridges == 1 ? "" : "s"));
  if (sockets > 1) {
    node.set("gpu_numa", list(gpu_numa));
    if (!w.nics.empty()) node.set("nic_numa", list(nic_numa));
    node.set("numa_gb_per_s", w.numa_gb_per_s > 0 ? w.numa_gb_per_s : kNumaGb);
    take("numa_gb_per_s", w.numa_gb_per_s > 0 ? fmt::format("{}, what NCCL counts for this processor", w.numa_gb_per_s)
                                              : fmt::format("{}, the least that NCCL counts for current hosts", kNumaGb));
  }
  node.set("gpu_host_bridge", list(gpu_bridge));
  if (!w.nics.empty()) node.set("nic_host_bridge", list(nic_bridge));
  if (!w.cpu_vendor.empty()) node.set("cpu_vendor", w.cpu_vendor);
  if (!w.nics.empty()) {
    node.set("nics", count(w.nics));
    node.set("nic_gbit_per_s", w.nic_gbit_per_s > 0 ? Value(w.nic_gbit_per_s) : Value(kNicGbit));
    out.understood.push_back(fmt::format("{} NICs", w.nics.size()));
    if (!(w.nic_gbit_per_s > 0)) take("nic_gbit_per_s", fmt::format("{}, as the file has no rates of NICs", kNicGbit));
    take("nics", "all that the file shows, though some may carry no training traffic");
  }
  if (options.gpu.empty()) unconfirmed.push_back("gpu");
  node.set("unconfirmed", Value(Value::Array(unconfirmed.begin(), unconfirmed.end())));
  node.set("sources", Value(Value::Array{Value::Object{{"what", "wiring"}, {"title", out.format}, {"url", Value()}, {"as_of", Value()}}}));

  const auto resolved = document::load("node", node, file, "", "");
  if (!resolved) return fail(resolved.error());
  const auto read = cluster::read_node(resolved->value, file, "");
  if (!read) return fail(read.error());
  for (std::string& line : differences(out, *read)) out.taken.push_back(std::move(line));
  return out;
}

}  // namespace orrery::importers
