#pragma once
// The communicators of a plan: who is in them, how they lie on the cluster, and what a collective puts on every link.
#include <cstdint>
#include <span>
#include <vector>

#include "orrery/lower/lower.hpp"

namespace orrery::lower {

/// One process group: its ranks ascending. GPUs are numbered domain by domain, so the members of a scale-up domain are neighbours.
struct GroupLayout {
  std::vector<std::uint32_t> members;
  std::vector<std::uint32_t> domain_end;  ///< by domain: one past its last place in members
  std::int64_t per_nic = 1;               ///< members of the first domain that share its busiest NIC

  [[nodiscard]] std::size_t domains() const { return domain_end.size(); }
  [[nodiscard]] std::span<const std::uint32_t> domain(std::size_t d) const {
    const std::uint32_t begin = d == 0 ? 0 : domain_end[d - 1];
    return std::span(members).subspan(begin, domain_end[d] - begin);
  }
};
/// Of members in ascending order.
GroupLayout lay_out(std::vector<std::uint32_t> members, const World& world);

/// All groups of an axis, by lowest member. Empty for an axis whose groups have one member only.
std::vector<GroupLayout> make_groups(workload::Axis axis, const World& world);

/// What NCCL's topology search would say of the group.
collective::Shape make_shape(const GroupLayout& group, const World& world);

/// Bytes that a collective of one byte puts on a link, per link; several flows on one link are added. role: what ECMP draws are made from,
/// beside the source's place under its leaf; equal for groups that play the same part, so that equal leaves fold.
struct LinkLoad {
  LinkId link;
  double bytes = 0;
};

/// Adds up what flows put on links, over and over without allocating.
class LinkLoads {
 public:
  explicit LinkLoads(const World& world) : world_(world), bytes_(world.cluster.links().size(), 0) {}
  /// Of one group; ascending by link, valid until the next call.
  std::span<const LinkLoad> of(const GroupLayout& group, const collective::Hops& hops, std::uint64_t role);

 private:
  void add(LinkId link, double bytes);
  void flow(std::uint32_t from, std::uint32_t to, double bytes);
  void exchange(std::span<const std::uint32_t> from, std::span<const std::uint32_t> to, double bytes_per_member);
  void inside_domains(const GroupLayout& group, const collective::Hops& hops);
  void between_domains(const GroupLayout& group, const collective::Hops& hops);

  const World& world_;
  std::uint64_t role_ = 0;
  std::vector<double> bytes_;    // by link; 0 between calls
  std::vector<LinkId> touched_;  // links that carry something
  std::vector<LinkLoad> loads_;
};

}  // namespace orrery::lower
