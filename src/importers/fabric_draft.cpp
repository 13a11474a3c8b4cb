#include "importers/fabric_draft.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "orrery/cluster/parts.hpp"
#include "orrery/document/document.hpp"

namespace orrery::importers {
namespace {

using document::Value;

constexpr double kGbit = 400;  // where nobody states it: NDR and 400 Gb/s Ethernet, what most training clusters of 2024 have
// One way between hosts of 64 B over InfiniBand: 2.8 us under one leaf, 3.7 across (Insights into DeepSeek-V3, arXiv:2505.09343, table of latencies).
constexpr double kSameLeaf = 2.8, kPerTier = 0.9;

/// How many parts of the fabric nothing joins.
std::size_t parts(const FabricDraft& d) {
  std::vector<int> of(d.switches.size());
  std::iota(of.begin(), of.end(), 0);
  const auto root = [&of](int s) {
    while (of[static_cast<std::size_t>(s)] != s) s = of[static_cast<std::size_t>(s)];
    return s;
  };
  for (const auto& [pair, lines] : d.cables) of[static_cast<std::size_t>(root(pair.first))] = root(pair.second);
  std::size_t count = 0;
  for (std::size_t s = 0; s < of.size(); ++s) count += of[s] == static_cast<int>(s) ? std::size_t{1} : std::size_t{0};
  return count;
}

}  // namespace

Result<Imported> finish_fabric(Imported out, const FabricDraft& d, const std::string& file, const Options& options) {
  if (d.hosts.empty()) return fail(file, "", fmt::format("no host hangs on any of its {} switches", d.switches.size()));
  out.kind = "fabric";
  std::vector<std::string> unconfirmed;
  const auto take = [&](const std::string& member, const std::string& why) {
    out.taken.push_back(fmt::format("{}: {}", member, why));
    unconfirmed.push_back(member);
  };
  Value::Array links, hosts;
  double lines = 0;
  for (const auto& [pair, count] : d.cables) {
    links.emplace_back(Value::Array{pair.first, pair.second, count});
    lines += count;
  }
  std::size_t nics = 0;
  for (const std::vector<int>& of : d.host_switch) {
    hosts.emplace_back(Value::Array(of.begin(), of.end()));
    nics += of.size();
  }
  Value& f = out.document;
  f.set("schema", "orrery/fabric/1");
  f.set("name", options.name.empty() ? "imported" : options.name);
  f.set("kind", "infiniband");
  f.set("link_gbit_per_s", d.link_gbit_per_s > 0 ? d.link_gbit_per_s : kGbit);
  if (!(d.link_gbit_per_s > 0)) take("link_gbit_per_s", fmt::format("{}, as the file has no rates", kGbit));
  f.set("topology", "graph");
  f.set("graph", Value(Value::Object{{"switches", static_cast<std::int64_t>(d.switches.size())},
                                     {"links", std::move(links)},
                                     {"hosts", std::move(hosts)},
                                     {"names", Value::Array(d.switches.begin(), d.switches.end())},
                                     {"host_names", Value::Array(d.hosts.begin(), d.hosts.end())}}));
  f.set("leaf_ports", std::max(2, d.switch_ports));
  f.set("max_nodes", static_cast<std::int64_t>(d.hosts.size()));
  f.set("in_network_reduction", d.reduces);
  f.set("latency_same_leaf_us", kSameLeaf);
  f.set("latency_per_tier_us", kPerTier);
  take("latency_same_leaf_us", fmt::format("{}, and {} for a further tier, as measured over InfiniBand elsewhere", kSameLeaf, kPerTier));
  f.set("unconfirmed", Value(Value::Array(unconfirmed.begin(), unconfirmed.end())));
  f.set("sources", Value(Value::Array{Value::Object{{"what", "switches, cables and hosts"}, {"title", out.format}, {"url", Value()}, {"as_of", Value()}}}));
  const std::size_t apart = parts(d);
  out.understood.push_back(fmt::format("{} switches, {:.6g} cables between them, {} hosts with {} ports", d.switches.size(), lines, d.hosts.size(), nics));
  if (apart > 1) out.taken.push_back(fmt::format("{} parts that nothing in the file joins: a job has to stay in one", apart));

  const auto resolved = document::load("fabric", f, file, "", "");
  if (!resolved) return fail(resolved.error());
  if (const auto read = cluster::read_fabric(resolved->value, file, ""); !read) return fail(read.error());
  return out;
}

}  // namespace orrery::importers
