// orrery/fabric/1 to a value.
#include <functional>

#include <fmt/format.h>

#include "cluster/members.hpp"
#include "orrery/cluster/parts.hpp"

namespace orrery::cluster {
namespace {

/// "ideal" | "adaptive" | "static_rail" | {"ecmp": {"qps": n, "draw": "per_role" | "per_flow"}}
bool read_routing(const document::Value& routing, Fabric& f) {
  if (routing.is_null()) return true;
  if (routing.is_string()) {
    const std::string& word = routing.as_string();
    if (word == "ideal") f.routing = Routing::kIdeal;
    else if (word == "adaptive") f.routing = Routing::kAdaptive;
    else if (word == "static_rail") f.routing = Routing::kStaticRail;
    else return false;
    return true;
  }
  const document::Value& ecmp = routing.at("ecmp");
  if (!ecmp.is_object()) return false;
  f.routing = Routing::kEcmp;
  f.ecmp_qps = integer(ecmp, "qps", 1);
  f.ecmp_per_flow = text(ecmp, "draw") == "per_flow";
  return f.ecmp_qps >= 1;
}

void read_dragonfly(const document::Value& doc, Dragonfly& d) {
  d.groups = integer(doc, "groups");
  d.routers_per_group = integer(doc, "routers_per_group");
  d.hosts_per_router = integer(doc, "hosts_per_router");
  d.spines_per_group = integer(doc, "spines_per_group");
  d.cables = number(doc, "cables", 1);
  d.global_cables = integer(doc, "global_cables", 1);
  d.detour = number(doc, "detour");
}

/// "" or what is wrong with the listed switches.
std::string read_graph(const document::Value& doc, SwitchList& g) {
  g.switches = integer(doc, "switches");
  const auto& links = doc.at("links").items();
  for (std::size_t i = 0; i < links.size(); ++i) {
    const auto& link = links[i].items();
    SwitchList::Link l{clamped(static_cast<std::int64_t>(link[0].as_double())), clamped(static_cast<std::int64_t>(link[1].as_double())), link[2].as_double()};
    if (l.a >= g.switches || l.b >= g.switches || l.a == l.b) return fmt::format("links/{}: a link joins two different switches, 0 to {}", i, g.switches - 1);
    if (!(l.cables > 0)) return fmt::format("links/{}: a link has cables; use more than 0", i);
    g.links.push_back(l);
  }
  const auto& hosts = doc.at("hosts").items();
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    std::vector<int> of;
    for (const document::Value& s : hosts[i].items()) {
      of.push_back(clamped(s.as_int()));
      if (of.back() >= g.switches) return fmt::format("hosts/{}: there is no switch {}; 0 to {}", i, of.back(), g.switches - 1);
    }
    g.hosts.push_back(std::move(of));
  }
  return "";
}

/// What `topology` needs beside it.
void read_topology(const document::Value& doc, Fabric& f, const std::function<void(const std::string&, std::string)>& refuse) {
  const std::string word = text(doc, "topology");
  f.planes = integer(doc, "planes", 1);
  if (word == "rail_only") f.planes = 0;
  if (word == "multi_plane" && f.planes < 2) refuse("planes", "a multi-plane fabric has planes; use 2 or more");
  const auto need = [&](const char* member) {
    if (doc.at(member).is_null()) refuse(member, fmt::format("topology {} needs it", word));
    return !doc.at(member).is_null();
  };
  if (word == "dragonfly") {
    f.topology = Topology::kDragonfly;
    if (need("dragonfly")) read_dragonfly(doc.at("dragonfly"), f.dragonfly);
  } else if (word == "torus") {
    f.topology = Topology::kTorus;
    if (need("torus")) {
      f.torus.shape = integers(doc.at("torus"), "shape");
      f.torus.wrap = flag(doc.at("torus"), "wrap", true);
    }
  } else if (word == "graph") {
    f.topology = Topology::kGraph;
    if (!need("graph")) return;
    if (std::string why = read_graph(doc.at("graph"), f.graph); !why.empty()) refuse("graph", std::move(why));
  }
}

}  // namespace

Result<Fabric> read_fabric(const document::Value& doc, const std::string& file, const std::string& pointer) {
  if (!doc.is_object()) return fail(file, pointer, "no fabric is given; name one of the catalogue");
  Fabric f;
  Diagnostics problems;
  const auto refuse = [&](const std::string& member, std::string what) { problems.push_back({file, fmt::format("{}/{}", pointer, member), std::move(what)}); };
  f.name = text(doc, "name");
  f.kind = text(doc, "kind");
  f.link = gbit_per_s(number(doc, "link_gbit_per_s"));
  f.rail_optimised = flag(doc, "rail_optimised");
  f.oversubscription = number(doc, "oversubscription", 1);
  f.spine_oversubscription = number(doc, "spine_oversubscription", 1);
  f.leaf_ports = integer(doc, "leaf_ports");
  if (const document::Value& most = doc.at("max_nodes"); !most.is_null()) f.max_nodes = most.as_int();
  if (!read_routing(doc.at("routing"), f)) {
    refuse("routing", R"(known are "ideal", "adaptive", "static_rail" and {"ecmp": {"qps": 4, "draw": "per_role" or "per_flow"}} with qps 1 or more)");
  }
  f.adaptive_residual = number(doc, "adaptive_residual");
  f.in_network_reduction = flag(doc, "in_network_reduction");
  f.latency_same_leaf = Seconds(number(doc, "latency_same_leaf_us") * 1e-6);
  f.latency_per_tier = Seconds(number(doc, "latency_per_tier_us") * 1e-6);
  f.efficiency = number(doc, "efficiency", 1);
  f.host_staged = flag(doc, "host_staged");
  f.default_origin = texts(doc, "unconfirmed");
  read_topology(doc, f, refuse);
  if (!(f.link.value() > 0)) refuse("link_gbit_per_s", "a link carries something; use more than 0");
  if (!(f.oversubscription > 0)) refuse("oversubscription", "host bytes/s over uplink bytes/s; use 1 or more, or more than 0");
  if (!(f.spine_oversubscription > 0)) refuse("spine_oversubscription", "leaf bytes/s over core bytes/s; use 1 or more, or more than 0");
  if (!(f.efficiency > 0 && f.efficiency <= 1)) refuse("efficiency", "the payload share of the line rate; use more than 0, at most 1");
  if (!(f.adaptive_residual >= 0 && f.adaptive_residual < 1)) refuse("adaptive_residual", "a share of capacity; use 0 or more, less than 1");
  if (!problems.empty()) return fail(std::move(problems));
  return f;
}

}  // namespace orrery::cluster
