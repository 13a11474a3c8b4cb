#pragma once
// Shipped catalogue files, and small nodes and fabrics built by hand.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "catch.h"
#include "orrery/cluster/cluster.hpp"

namespace shipped {

using namespace orrery;
using namespace orrery::cluster;

inline std::filesystem::path folder(const std::string& kind) { return std::filesystem::path(ORRERY_SOURCE_DIR) / "configs" / kind; }

/// Catalogue names of a kind: the files of its folder, sorted.
inline std::vector<std::string> names(const std::string& kind) {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder(kind))) all.push_back(entry.path().stem().string());
  std::sort(all.begin(), all.end());
  return all;
}

inline document::Value text(const std::string& kind, const std::string& name) {
  std::ifstream in(folder(kind) / (name + ".json"));
  std::stringstream content;
  content << in.rdbuf();
  auto value = document::parse(content.str(), name + ".json");
  if (!value) FAIL(to_string(value.error().front()));
  return *value;
}

template <class T>
T good(Result<T> result) {
  if (!result) FAIL(to_string(result.error().front()));
  return *std::move(result);
}

inline Gpu gpu(const std::string& name) { return good(read_gpu(text("gpus", name), name, "")); }

/// A node document with its GPU's name replaced by the GPU, as document::load does; `overrides` are set afterwards.
inline document::Value node_text(const std::string& name, const std::vector<std::pair<std::string, document::Value>>& overrides = {}) {
  document::Value v = text("nodes", name);
  const document::Value part = v.at("gpu");
  const bool extends = part.is_object();  // a part with members of its own, such as a power set point
  document::Value gpu = text("gpus", (extends ? part.at("extends") : part).as_string());
  if (extends) {
    for (const auto& [member, value] : part.members())
      if (member != "extends") gpu.set(member, value);
  }
  v.set("gpu", gpu);
  for (const auto& [key, value] : overrides) v.set(key, value);
  return v;
}
inline Node node(const std::string& name, const std::vector<std::pair<std::string, document::Value>>& overrides = {}) {
  return good(read_node(node_text(name, overrides), name, ""));
}
inline Fabric fabric(const std::string& name) { return good(read_fabric(text("fabrics", name), name, "")); }

inline Cluster built(const Node& n, std::int64_t nodes, const std::optional<Fabric>& f, const std::vector<LinkEvent>& events = {}, std::uint64_t seed = 1) {
  return good(Cluster::build(n, nodes, std::nullopt, f, events, seed, "job.json"));
}

/// Bytes of a unit flow that cross links of a kind in a direction.
inline double crossing(const Cluster& c, const Route& r, LinkKind kind, bool inbound) {
  double sum = 0;
  for (const Hop& hop : r.hops) {
    const Link& l = c.links()[hop.link.index()];
    if (l.kind == kind && l.inbound == inbound) sum += hop.share;
  }
  return sum;
}

/// "name share name share …" of the hops, without " 1".
inline std::string path(const Cluster& c, const Route& r) {
  std::string all;
  for (const Hop& hop : r.hops) {
    if (!all.empty()) all += ' ';
    all += c.name(hop.link);
    if (hop.share != 1) {
      std::ostringstream share;
      share << '*' << hop.share;
      all += share.str();
    }
  }
  return all;
}

}  // namespace shipped
