// What the report says of the hardware in use, and which of its numbers no source confirms.
#include "orrery/cluster/cluster.hpp"

namespace orrery::cluster {
namespace {

document::Value part(const std::string& name, const std::vector<std::string>& members) {
  document::Value list(document::Value::Array(members.begin(), members.end()));
  document::Value v;
  v.set("name", name);
  v.set("unconfirmed", std::move(list));
  return v;
}

}  // namespace

std::vector<Unconfirmed> unconfirmed(const Node& node, const std::optional<Fabric>& fabric) {
  std::vector<Unconfirmed> all;
  const auto add = [&all](const char* kind, const std::string& name, const std::vector<std::string>& members) {
    for (const std::string& member : members) all.push_back({kind, name, member});
  };
  add("gpu", node.gpu.name, node.gpu.default_origin);
  add("node", node.name, node.default_origin);
  if (fabric) add("fabric", fabric->name, fabric->default_origin);
  return all;
}

document::Value catalogue(const Node& node, const std::optional<Fabric>& fabric) {
  document::Value v;
  v.set("gpu", part(node.gpu.name, node.gpu.default_origin));
  v.set("node", part(node.name, node.default_origin));
  v.set("fabric", fabric ? part(fabric->name, fabric->default_origin) : document::Value());
  return v;
}

}  // namespace orrery::cluster
