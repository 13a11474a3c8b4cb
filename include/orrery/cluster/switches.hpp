#pragma once
// Fabrics that are no folded Clos: switches and cables of a dragonfly, a torus or a file, and the way that traffic takes over them.
#include <cstdint>
#include <string>
#include <vector>

#include "orrery/base/result.hpp"
#include "orrery/cluster/parts.hpp"

namespace orrery::cluster {

/// Switches with cables between them, and a switch for every NIC.
///
///   dragonfly: groups of routers that are all joined to one another, cables from every group to every other (Kim, Dally, Scott, Abts, ISCA 2008);
///              with spines in a group ("dragonfly+", Shpiner et al., HiPINEB 2017) its routers meet there, and the cables out are the spines'
///   torus:     every NIC is a router with a cable each way in every dimension
///   graph:     as listed
class Switches {
 public:
  /// Both directions of a cable, or of a bundle of equal ones between the same two switches.
  struct Cable {
    std::int32_t a = 0, b = 0;
    double lines = 1;         ///< in units of the fabric's line rate
    std::int64_t bundle = 1;  ///< parallel cables pooled into it
    std::int32_t twin = 0;    ///< number among the cables of these two switches
  };
  /// A share of a flow on a cable: forward from a to b.
  struct Hop {
    std::int32_t cable = 0;
    bool forward = true;
    double share = 1;
  };
  struct Way {
    std::vector<Hop> hops;
    int switches = 1;  ///< crossed, the longest way
  };

  /// pooled: parallel cables are one. Refuses shapes that have too few ports for nodes x nics, and what is no shape.
  static Result<Switches> build(const Fabric& fabric, std::int64_t nodes, std::int64_t nics, bool pooled, const std::string& file);

  [[nodiscard]] const std::vector<Cable>& cables() const { return cables_; }
  [[nodiscard]] std::int32_t count() const { return count_; }
  [[nodiscard]] std::int32_t switch_of(std::int64_t node, std::int64_t nic) const;
  /// The cable between two switches; -1: none.
  [[nodiscard]] std::int32_t between(std::int32_t a, std::int32_t b, std::int32_t twin) const;

  /// After this no way crosses those cables: routing is by fewest switches over what is left. "" or why two NICs no longer meet.
  std::string fail_cables(const std::vector<std::int32_t>& failed);
  /// "" or why two NICs do not meet.
  [[nodiscard]] std::string apart() const;

  /// place: number of the host port, which static routing goes by. bits: random, of ECMP.
  [[nodiscard]] Way way(std::int32_t from, std::int32_t to, std::int64_t place, std::uint64_t bits) const;

 private:
  struct Edge { std::int32_t to = 0, cable = 0; };

  void dragonfly(const Fabric& fabric);
  void torus(const Fabric& fabric);
  void graph(const Fabric& fabric, bool pooled);
  void add(std::int64_t a, std::int64_t b, double lines, bool pooled);
  void link_up();
  void measure();
  [[nodiscard]] bool dead(std::int32_t cable) const { return !dead_.empty() && dead_[static_cast<std::size_t>(cable)]; }
  void step(Way& w, std::int32_t from, std::int32_t to, double share) const;
  void shortest(Way& w, std::int32_t from, std::int32_t to, double share, std::int64_t place, std::uint64_t bits) const;
  void along_torus(Way& w, std::int32_t from, std::int32_t to, std::int64_t place, std::uint64_t bits) const;
  void in_group(Way& w, std::int32_t from, std::int32_t to, double share, std::int64_t place, std::uint64_t bits) const;
  void between_groups(Way& w, std::int32_t from, std::int32_t to, double share, std::int64_t place, std::uint64_t bits) const;

  Topology topology_ = Topology::kGraph;
  Routing routing_ = Routing::kIdeal;
  std::int32_t count_ = 0;
  std::int64_t nics_ = 1;
  std::vector<Cable> cables_;
  std::vector<std::int32_t> host_;              ///< switch of node x NICs + NIC
  std::vector<std::int32_t> first_;             ///< edges of a switch
  std::vector<Edge> edges_;                     ///< of each switch, by neighbour, then twin
  std::vector<std::uint8_t> dead_;
  // Of shortest ways: distance to every switch that has a NIC.
  std::vector<std::int32_t> target_;            ///< of a switch: row in distance_; -1: no NIC hangs there
  std::vector<std::uint16_t> distance_;
  // Of a dragonfly.
  std::int32_t routers_ = 0, spines_ = 0, groups_ = 0;
  double detour_ = 0;
  std::vector<std::vector<std::int32_t>> global_;  ///< cables of a pair of groups, [low x groups + high]
  // Of a torus.
  std::vector<std::int32_t> shape_;
  std::vector<std::int32_t> plus_;              ///< cable of a switch in the direction of each dimension, [switch x dimensions + dimension]; -1: none
};

}  // namespace orrery::cluster
