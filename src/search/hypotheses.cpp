// The faults that nccl-tests is run for, as people find them: NICs that NCCL did not take, a path over the host, a link at half width, a transport that
// fell back to sockets, an algorithm forced by an environment variable that nobody remembers.
#include "hypotheses.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace orrery::search {
namespace {

using document::Override;
using document::Value;

Override set(const char* pointer, const Value& value) { return {pointer, document::dump(value, -1)}; }

/// The scenario's events and one more.
Override one_more_event(const Value& scenario, Value event) {
  Value::Array all;
  if (scenario.at("events").is_array()) all = scenario.at("events").items();
  all.push_back(std::move(event));
  return set("/events", Value(std::move(all)));
}

Value degraded(const std::string& link, double capacity) { return Value::Object{{"kind", "degraded_link"}, {"link", link}, {"capacity", capacity}}; }

std::int64_t whole(const Value& v, std::int64_t otherwise) { return v.is_int() ? v.as_int() : otherwise; }
double real(const Value& v) { return v.is_number() ? v.as_double() : 0; }

/// Every NIC at the socket that is not its GPU's.
Value crossed(const Value& node, std::int64_t nics, std::int64_t domains) {
  Value::Array places;
  const Value& stated = node.at("nic_numa");
  const bool listed = stated.is_array() && static_cast<std::int64_t>(stated.items().size()) == nics;
  for (std::int64_t i = 0; i < nics; ++i) {
    const std::int64_t own = listed ? stated.items()[static_cast<std::size_t>(i)].as_int() : i * domains / nics;
    places.emplace_back((own + domains / 2) % domains);
  }
  return Value(std::move(places));
}

}  // namespace

std::vector<Hypothesis> hypotheses(const Value& scenario, std::int64_t ranks) {
  const Value& cluster = scenario.at("cluster");
  const Value& node = cluster.at("node");
  const std::int64_t per_node = whole(cluster.at("gpus_per_node"), whole(node.at("gpus"), 1));
  const std::int64_t domain = per_node * whole(node.at("nvlink_domain_nodes"), 1);
  const std::int64_t nics = whole(node.at("nics"), 0), sockets = whole(node.at("numa_domains"), 1);
  const bool fabric = !cluster.at("fabric").is_null(), across = fabric && ranks > domain, inside = std::min(ranks, domain) > 1;
  const std::string kind = fabric ? cluster.at("fabric").at("kind").as_string() : "";
  const std::string& joined = node.at("scale_up_kind").as_string();
  const bool nvlink = joined == "nvswitch" || joined == "mesh" || joined == "bridge";

  std::vector<Hypothesis> out;
  const auto add = [&out](const char* name, std::string text, std::vector<Override> change) { out.push_back({name, std::move(text), std::move(change), 0, 0}); };
  add("as_described", "the cluster is as described", {});
  if (across) {
    if (nics >= 2 && nics % 2 == 0) add("half_the_nics", fmt::format("NCCL uses {} of the {} NICs of a node", nics / 2, nics), {set("/cluster/node/nics", Value(nics / 2))});
    if (nics >= 2) add("one_nic", fmt::format("NCCL uses one of the {} NICs of a node", nics), {set("/cluster/node/nics", Value(1))});
    for (const auto& [name, share, words] : {std::tuple{"slow_nic_half", 0.5, "half"}, std::tuple{"slow_nic_quarter", 0.25, "a quarter"}, std::tuple{"slow_nic_tenth", 0.1, "a tenth"}}) {
      add(name, fmt::format("one NIC or its link runs at {} of its rate (node0/nic0 stands for any)", words), {one_more_event(scenario, degraded("node0/nic0", share))});
    }
    if (kind != "tcp") {
      const double line = std::min(real(node.at("nic_gbit_per_s")), real(cluster.at("fabric").at("link_gbit_per_s")));
      add("no_gpudirect", "no GPUDirect RDMA: every message passes through host memory", {set("/cluster/fabric/host_staged", Value(true))});
      add("sockets_on_the_nics", fmt::format("TCP sockets over the same {:g} Gb/s NICs instead of RDMA (plugin or transport not loaded)", line),
          {set("/cluster/fabric", Value("ethernet-100g-tcp")), set("/cluster/fabric/link_gbit_per_s", Value(line))});
      add("sockets_on_one_nic", fmt::format("TCP sockets over one {:g} Gb/s NIC instead of RDMA", line),
          {set("/cluster/fabric", Value("ethernet-100g-tcp")), set("/cluster/fabric/link_gbit_per_s", Value(line)), set("/cluster/node/nics", Value(1))});
      for (const int management : {25, 10}) {
        add(management == 25 ? "sockets_on_25g" : "sockets_on_10g", fmt::format("TCP sockets over a {} Gb/s management network instead of the fabric (NCCL_SOCKET_IFNAME, plugin not found)", management),
            {set("/cluster/fabric", Value(fmt::format("ethernet-{}g-tcp", management))), set("/cluster/node/nics", Value(1)), set("/cluster/node/nic_gbit_per_s", Value(management))});
      }
      add("ecmp_collisions", "flows collide on equal-cost paths (one queue pair a flow)", {set("/cluster/fabric/routing", Value(Value::Object{{"ecmp", Value::Object{{"qps", 1}, {"draw", "per_flow"}}}}))});
      add("oversubscribed", "the leaves are oversubscribed 4:1", {set("/cluster/fabric/oversubscription", Value(4))});
    }
    if (sockets > 1 && nics > 0) add("wrong_numa", "GPUs and NICs are matched across sockets (NCCL_TOPO_FILE, virtual machine without topology)", {set("/cluster/node/nic_numa", crossed(node, nics, sockets))});
  }
  if (inside) {
    if (nvlink) {
      add("pcie_instead_of_nvlink", "GPUs talk over PCIe instead of NVLink (NCCL_P2P_LEVEL, fabric manager not running)", {set("/cluster/node/scale_up_kind", Value("pcie"))});
      add("slow_nvlink", "one GPU's NVLink port runs at half its rate (node0/gpu0 stands for any)", {one_more_event(scenario, degraded("node0/gpu0/nvlink", 0.5))});
      add("through_host_memory", "no peer access: every byte goes through host memory (NCCL_P2P_DISABLE, ACS, container without shared memory)",
          {set("/cluster/node/scale_up_kind", Value("pcie")), set("/cluster/node/peer_to_peer", Value(false))});
    } else if (joined == "pcie" && node.at("peer_to_peer").is_bool() && node.at("peer_to_peer").as_bool()) {
      add("through_host_memory", "no peer access: every byte goes through host memory (ACS, IOMMU, driver without peer-to-peer)", {set("/cluster/node/peer_to_peer", Value(false))});
    }
  }
  add("nvls_off", "in-switch reduction is off (NCCL_NVLS_ENABLE=0, fabric manager, container without IMEX)", {set("/cluster/nccl/algo", Value("^nvls,nvlstree"))});
  add("tree_forced", "NCCL_ALGO=Tree is set", {set("/cluster/nccl/algo", Value("tree"))});
  add("ring_forced", "NCCL_ALGO=Ring is set, or a tuner chose it", {set("/cluster/nccl/algo", Value("ring"))});
  add("ring_simple_forced", "a ring under the Simple protocol is forced, or a tuner chose it", {set("/cluster/nccl/algo", Value("ring")), set("/cluster/nccl/proto", Value("simple"))});
  add("ll_forced", "NCCL_PROTO=LL is set", {set("/cluster/nccl/proto", Value("ll"))});
  add("simple_forced", "NCCL_PROTO=Simple is set", {set("/cluster/nccl/proto", Value("simple"))});
  add("few_channels", "NCCL_MAX_NCHANNELS=1 is set", {set("/cluster/nccl/max_channels", Value(1))});
  return out;
}

}  // namespace orrery::search
