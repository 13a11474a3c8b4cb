// Pairs: grouped sends and receives. An all-to-all is n-1 exchanges of S/n per rank; a send_recv passes S to the next rank, as
// nccl-tests' sendrecv does. NCCL has no score for them: there is nothing to choose from.
#include <algorithm>

#include "collective/graph.hpp"
#include "collective/registry.hpp"
#include "collective/tables.hpp"

namespace orrery::collective {
namespace {

bool can(Kind kind, Protocol protocol, const Shape&, const Nccl&) {
  return (kind == Kind::kAllToAll || kind == Kind::kSendRecv) && protocol == Protocol::kSimple;
}

/// GPUs of a node whose messages for one rail one NIC sends together.
double gathered(const Shape& shape) { return shape.nvlink && ranks_per_node(shape) > 1 ? static_cast<double>(std::min<std::int64_t>(ranks_per_node(shape), 8)) : 1; }

/// Who sends over the NIC: of the eight GPUs that share a host, the one on the rail of the receiver. Inside a domain nobody needs one.
int relay_of(int from, int to, const Shape& shape) {
  const int g = static_cast<int>(ranks_per_node(shape));
  if (gathered(shape) <= 1 || from / g == to / g) return from;
  const int host = from % g / 8 * 8, gpus = std::min(8, g - host);
  return from / g * g + host + to % g % gpus;
}

/// Small messages travel as LL. Each further peer costs: 0.4 us of serialisation inside a domain (NCCL src/graph/tuning.cc, arity), a
/// network post between domains, for up to 8 messages at once where NVLink gathers them on a rail (PXN).
LatencyParts latency(Kind kind, Protocol, const Shape& shape, const Nccl& nccl) {
  const auto g = static_cast<double>(ranks_per_node(shape)), n = static_cast<double>(shape.ranks);
  const bool all = kind == Kind::kAllToAll;
  LatencyParts parts;
  parts.inside_us = hop_latencies(Algorithm::kRing, nccl).base[index(Protocol::kLL)];
  if (g > 1) parts.inside_us += intra_hop_us(Algorithm::kRing, Protocol::kLL, shape, nccl) + (all ? 0.4 * (g - 2) : 0);
  if (shape.nodes > 1) {
    parts.network_us = inter_hop_us(Algorithm::kRing, Protocol::kLL, shape, nccl) + (all ? ((n - g) / gathered(shape) - 1) * shape.net_overhead_us : 0);
  }
  return parts;
}

Hops count(Kind kind, const Shape& shape) {
  const auto n = static_cast<double>(shape.ranks);
  const auto g = static_cast<double>(ranks_per_node(shape));
  const bool all = kind == Kind::kAllToAll;
  Hops h;
  // The busiest rank of a send_recv over nodes is the last of its node: its message leaves.
  h.intra_out = h.intra_in = all ? (g - 1) / n : g > 1 ? 1 : 0;
  if (shape.nodes > 1) {
    h.inter_out = h.inter_in = all ? (n - g) / n : 1;
    if (all) h.pattern = Hops::Pattern::kAllPairs;
    if (all && gathered(shape) > 1) {
      // What is for another rail goes to the GPU at that rail's NIC over NVLink first (PXN, NCCL 2.12), so that it need not cross to another leaf.
      h.pattern = Hops::Pattern::kRails;
      h.intra_out = h.intra_in = (g - 1) / n + (n - g) / n * (gathered(shape) - 1) / gathered(shape);
    }
  }
  if (!all) h.pattern = Hops::Pattern::kNextRank;
  h.steps = all ? shape.ranks - 1 : 1;
  return h;
}

double bandwidth(Kind kind, Protocol, const Shape& shape, const Nccl&) {
  const Hops h = count(kind, shape);
  const Graph inside = graph(Algorithm::kRing, Shape{.ranks = ranks_per_node(shape), .nodes = 1, .arch = shape.arch, .nvlink = shape.nvlink,
                                                     .scale_up = shape.scale_up});
  double slowest = h.intra_out > 0 ? h.intra_out / (inside.channels * inside.intra) : 0;
  if (shape.nodes > 1) slowest = std::max(slowest, h.inter_out / (shape.nic_per_gpu.value() / 1e9));
  return slowest > 0 ? 1 / slowest : 0;
}

Schedule write(Kind kind, const Shape& shape) {
  const int n = static_cast<int>(shape.ranks);
  Schedule s{n, 0, kind == Kind::kAllToAll ? n : 1, {}};
  if (kind == Kind::kSendRecv) {
    for (int rank = 0; rank < n && n > 1; ++rank) s.steps.push_back({0, rank, (rank + 1) % n, 0, false});
    return s;
  }
  for (int distance = 1; distance < n; ++distance) {
    for (int rank = 0; rank < n; ++rank) {
      const int to = (rank + distance) % n, relay = relay_of(rank, to, shape);
      if (relay != rank) s.steps.push_back({distance - 1, rank, relay, to, false});
      s.steps.push_back({relay != rank ? distance : distance - 1, relay, to, to, false});
    }
  }
  std::stable_sort(s.steps.begin(), s.steps.end(), [](const Step& a, const Step& b) { return a.step < b.step; });
  return s;
}

}  // namespace

const AlgorithmRow& pairs_row() {
  static const AlgorithmRow row{Algorithm::kPairs, "pairs", can, latency, bandwidth, count, write};
  return row;
}

}  // namespace orrery::collective
