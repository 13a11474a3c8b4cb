#pragma once
// The cluster as one resource graph: every direction of a port or link is a resource with a capacity; routes are resources with shares.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/ids.hpp"
#include "orrery/cluster/parts.hpp"

namespace orrery::cluster {

enum class LinkKind : std::uint8_t { kScaleUp, kPcie, kPcieUplink, kNic, kLeafUp, kSpineUp, kHost };
std::string_view to_string(LinkKind k);

/// One direction of a link.
struct Link {
  LinkKind kind = LinkKind::kScaleUp;
  BytesPerSecond capacity{};       ///< what is left after degradation and background
  BytesPerSecond nominal{};        ///< undegraded: what cost and caps are made from
  std::int64_t owner = 0;          ///< node, leaf or spine number
  std::int32_t port = 0;           ///< GPU, NIC, uplink number
  bool inbound = false;            ///< towards the owner's devices
  std::int64_t bundle = 1;         ///< parallel cables pooled into it (ideal routing)
};

/// A share of a flow that crosses a link.
struct Hop {
  LinkId link;
  double share = 1;
};
struct Route {
  std::vector<Hop> hops;
  Seconds latency{};       ///< wire and switches, one way
  int switch_tiers = 0;    ///< 0: inside a scale-up domain or node
};

/// A degradation, failure or background load (design 5.5), by link name: node3/nic2, leaf0/up3, …
struct LinkEvent {
  std::string link;
  double capacity = 1;                   ///< 0: failed
  BytesPerSecond background{};
  std::string pointer;                   ///< for messages
};

/// Built once per scenario; immutable.
class Cluster {
 public:
  /// `nodes` nodes of one kind, of which the job uses GPUs 0 … gpus_per_node-1 each. fabric may be absent where the job stays in one
  /// scale-up domain. Refuses unknown or out-of-range link names, background >= capacity, a failed link with no way round.
  static Result<Cluster> build(const Node& node, std::int64_t nodes, std::optional<std::int64_t> gpus_per_node, const std::optional<Fabric>& fabric,
                               const std::vector<LinkEvent>& events, std::uint64_t seed, const std::string& file);

  [[nodiscard]] const Node& node() const { return node_; }
  [[nodiscard]] const std::optional<Fabric>& fabric() const { return fabric_; }
  [[nodiscard]] std::int64_t nodes() const { return nodes_; }
  [[nodiscard]] std::int64_t gpus_per_node() const { return gpus_per_node_; }
  [[nodiscard]] std::int64_t domain_of(std::int64_t gpu) const;  ///< scale-up domain; gpus are numbered node by node
  [[nodiscard]] const std::vector<Link>& links() const { return links_; }
  [[nodiscard]] std::string name(LinkId link) const;             ///< design 5.5, with ":in" or ":out"

  /// From one GPU to another: over the scale-up network inside a domain, else over `from`'s NIC (its own where NICs are per GPU), the
  /// fabric, and `to`'s NIC. `salt` chooses the ECMP path (plan role); ignored by other routings.
  [[nodiscard]] Route route(std::int64_t from, std::int64_t to, std::uint64_t salt = 0) const;
  /// The links of one GPU's scale-up port, out and in; for collectives that load every port alike.
  [[nodiscard]] LinkId scale_up_port(std::int64_t gpu, bool inbound) const;
  /// NIC that a GPU uses for scale-out, and how many used GPUs share it.
  [[nodiscard]] std::int32_t nic_of(std::int64_t gpu) const;
  [[nodiscard]] std::int64_t gpus_per_nic() const;
  [[nodiscard]] BytesPerSecond nic_per_gpu() const;              ///< nominal, min of NIC, fabric link and PCIe path

 private:
  Node node_;
  std::optional<Fabric> fabric_;
  std::int64_t nodes_ = 0, gpus_per_node_ = 0;
  std::vector<Link> links_;
  struct Layout { std::int64_t leaves = 0, nodes_per_leaf = 0, leaf_first = 0, spine_first = 0, per_node = 0, uplinks = 1; bool pooled = true; } layout_;
  std::uint64_t seed_ = 1;
};

}  // namespace orrery::cluster
