// How expert-parallel libraries carry tokens, beside NCCL's grouped sends and receives (pairs).
//
// Hierarchical: copies cross between domains on the rail of their source, to the rank of the same place, which passes them on over NVLink
// (DeepSpeed-MoE, arXiv:2201.05596, section 5.3). Deduplicated: the same two hops, but a token crosses once per domain and then goes once to
// every rank that holds one of its experts, so the traffic is tokens times distinct places instead of copies (DeepEP normal kernels; the count
// is workload::distinct_places). A group limit bounds the domains: choosing experts of at most M groups visits at most M domains, as long
// as a domain holds no less than a group (DeepSeek-V3, arXiv:2412.19437, section 2.1.2).
//
// NCCL does not choose among these: the job says which one runs.
#include <algorithm>

#include "collective/graph.hpp"
#include "collective/registry.hpp"

namespace orrery::collective {
namespace {

bool can(Kind kind, Protocol protocol, const Shape& shape, const Nccl&) { return kind == Kind::kAllToAll && protocol == Protocol::kSimple && shape.tokens.per_token > 0; }

/// Start and end of the kernel and its hand-shakes are the profile's; a hop between domains posts once per peer domain.
LatencyParts latency(Kind, Protocol, const Shape& shape, const Nccl& nccl) {
  LatencyParts parts;
  if (shape.nodes > 1) parts.network_us = inter_hop_us(Algorithm::kRing, Protocol::kLL, shape, nccl) + static_cast<double>(shape.nodes - 2) * shape.net_overhead_us;
  return parts;
}

double no_score(Kind, Protocol, const Shape&, const Nccl&) { return 0; }

Hops two_hops(const Shape& shape, double domains, double ranks) {
  const auto n = static_cast<double>(shape.nodes), g = static_cast<double>(ranks_per_node(shape)), k = static_cast<double>(std::max<std::int64_t>(1, shape.tokens.per_token));
  Hops h;
  // The share that stays on the rank it arrives at needs no second hop.
  h.intra_out = h.intra_in = ranks / k * (g - 1) / g;
  if (shape.nodes > 1) {
    h.inter_out = h.inter_in = domains / k * (n - 1) / n;
    h.pattern = Hops::Pattern::kRails;
  }
  h.steps = shape.nodes > 1 ? 2 : 1;
  return h;
}

Hops hierarchical(Kind, const Shape& shape) { return two_hops(shape, static_cast<double>(shape.tokens.per_token), static_cast<double>(shape.tokens.per_token)); }
Hops deduplicated(Kind, const Shape& shape) { return two_hops(shape, shape.tokens.domains, shape.tokens.ranks); }

/// Written out as if every token went everywhere: rails first, then inside the domain.
Schedule write(Kind, const Shape& shape) {
  const int n = static_cast<int>(shape.ranks), domains = static_cast<int>(shape.nodes), g = n / domains;
  Schedule s{n, 0, n, {}};
  for (int rank = 0; rank < n; ++rank) {
    for (int d = 0; d < domains; ++d) {
      const int relay = d * g + rank % g;
      for (int place = 0; place < g; ++place) {
        const int to = d * g + place;
        if (relay != rank) s.steps.push_back({0, rank, relay, to, false});
        if (relay != to) s.steps.push_back({1, relay, to, to, false});
      }
    }
  }
  std::stable_sort(s.steps.begin(), s.steps.end(), [](const Step& a, const Step& b) { return a.step < b.step; });
  return s;
}

}  // namespace

const AlgorithmRow& hierarchical_row() {
  static const AlgorithmRow row{Algorithm::kHierarchical, "hierarchical", can, latency, no_score, hierarchical, write};
  return row;
}
const AlgorithmRow& deduplicated_row() {
  static const AlgorithmRow row{Algorithm::kDeduplicated, "deduplicated", can, latency, no_score, deduplicated, write};
  return row;
}

}  // namespace orrery::collective
