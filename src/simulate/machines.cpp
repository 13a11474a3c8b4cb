#include "machines.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "orrery/base/checked.hpp"
#include "orrery/program/stack.hpp"

namespace orrery::simulate {
namespace {

using document::Value;

std::optional<std::int64_t> optional_int(const Value& v) { return v.is_null() ? std::nullopt : std::optional(v.as_int()); }

template <class T>
void keep(Result<T> result, std::optional<T>& into, Diagnostics& problems) {
  if (result) {
    into = std::move(*result);
  } else {
    problems.insert(problems.end(), result.error().begin(), result.error().end());
  }
}

}  // namespace

Result<Parts> read_parts(const Value& s, const std::string& file) {
  const Value& in = s.at("cluster");
  Diagnostics problems;
  std::optional<cluster::Node> node;
  std::optional<cluster::Fabric> fabric;
  std::optional<std::vector<cluster::LinkEvent>> links;
  keep(cluster::read_node(in.at("node"), file, "/cluster/node"), node, problems);
  if (!in.at("fabric").is_null()) keep(cluster::read_fabric(in.at("fabric"), file, "/cluster/fabric"), fabric, problems);
  keep(cluster::read_link_events(s.at("events"), file, "/events"), links, problems);
  if (!problems.empty()) return fail(std::move(problems));

  Parts parts;
  parts.nodes = in.at("nodes").as_int();
  parts.used = optional_int(in.at("gpus_per_node"));
  const std::int64_t per_node = parts.used.value_or(node->gpus);
  if (per_node > node->gpus) return fail(file, "/cluster/gpus_per_node", fmt::format("a {} has {} GPUs; use 1 to {}, or null for all", node->name, node->gpus, node->gpus));
  const std::optional<std::int64_t> total = checked_mul(parts.nodes, per_node);
  if (!total) return fail(file, "/cluster/nodes", fmt::format("{} nodes of {} GPUs are more than can be counted", parts.nodes, per_node));
  parts.gpus = optional_int(in.at("gpus")).value_or(*total);
  if (parts.gpus > *total) {
    return fail(file, "/cluster/gpus", fmt::format("the job wants {} GPUs, but {} nodes with {} each have {}; raise /cluster/nodes or lower /cluster/gpus", parts.gpus, parts.nodes, per_node, *total));
  }
  constexpr std::int64_t kMostGpus = 1 << 20;
  if (parts.gpus > kMostGpus) return fail(file, "/cluster", fmt::format("{} GPUs are more than the {} that one run holds", parts.gpus, kMostGpus));
  auto placement = cluster::read_placement(in.at("placement"), parts.gpus, parts.nodes, per_node, file, "/cluster/placement");
  if (!placement) return fail(std::move(placement.error()));
  parts.placement = std::move(*placement);
  parts.node = std::move(*node);
  parts.fabric = std::move(fabric);
  parts.links = std::move(*links);
  return parts;
}

Result<collective::Nccl> read_nccl(const Value& scenario, int stack_version, const std::string& file) {
  collective::Nccl nccl;
  nccl.version = stack_version;
  const Value& given = scenario.at("cluster").at("nccl");
  if (given.is_null()) return nccl;
  Diagnostics problems;
  const auto note = [&](const char* member, const std::string& text) {
    if (!text.empty()) problems.push_back({file, std::string("/cluster/nccl/") + member, text});
  };
  if (given.at("version").is_string()) {
    const std::string& text = given.at("version").as_string();
    nccl.version = program::version_number(text);
    if (nccl.version < 20000 || nccl.version > 99999) note("version", fmt::format("\"{}\" is no release of NCCL; give one such as 2.27.3", text));
  }
  if (given.at("algo").is_string()) note("algo", collective::limit_algorithms(given.at("algo").as_string(), nccl));
  if (given.at("proto").is_string()) note("proto", collective::limit_protocols(given.at("proto").as_string(), nccl));
  if (given.at("min_channels").is_int()) nccl.min_channels = static_cast<int>(given.at("min_channels").as_int());
  if (given.at("max_channels").is_int()) nccl.max_channels = static_cast<int>(given.at("max_channels").as_int());
  if (nccl.max_channels > 0 && nccl.min_channels > nccl.max_channels) {
    note("min_channels", fmt::format("{} is more than max_channels, {}", nccl.min_channels, nccl.max_channels));
  }
  if (!problems.empty()) return fail(std::move(problems));
  return nccl;
}

calibration::Network network_of(const Parts& parts, const cluster::Cluster& cluster) {
  calibration::Network network;
  if (!parts.fabric) return network;
  network.sockets = parts.fabric->kind == "tcp";
  network.host_staged = parts.fabric->host_staged;
  network.latency_us = parts.fabric->latency_same_leaf.value() * 1e6;
  if (parts.node.nics > 0) {
    network.nic_gb_per_s = cluster.nic_per_gpu(1).value() / 1e9;
    network.gpus_per_nic = std::max<std::int64_t>(1, cluster.gpus_per_node() / parts.node.nics);
  }
  return network;
}

Result<std::unique_ptr<cluster::Cluster>> build_cluster(const Parts& parts, std::uint64_t seed, const std::string& file) {
  auto built = cluster::Cluster::build(parts.node, parts.nodes, parts.used, parts.fabric, parts.links, seed, file, parts.placement);
  if (!built) return fail(built.error());
  auto out = std::make_unique<cluster::Cluster>(std::move(*built));
  bool one_domain = true;
  for (std::int64_t r = 1; r < parts.gpus && one_domain && !parts.fabric; ++r) one_domain = out->domain_of(r) == out->domain_of(0);
  if (!parts.fabric && !one_domain) {
    return fail(file, "/cluster/fabric", fmt::format("{} GPUs span more than one scale-up domain, and no fabric joins them; name one (infiniband-ndr-rail, roce-400g-rail, …)", parts.gpus));
  }
  return out;
}

}  // namespace orrery::simulate
