// PAT (parallel aggregated trees): all-gather and reduce-scatter in log2(nodes) phases for one GPU per node. Written here in Bruck's
// order (Bruck et al., IEEE TPDS 8(11), 1997), which moves the same blocks over the same distances: phase d passes the last d blocks d on.
#include <algorithm>

#include "collective/graph.hpp"
#include "collective/registry.hpp"
#include "collective/tables.hpp"

namespace orrery::collective {
namespace {

bool can(Kind kind, Protocol protocol, const Shape& shape, const Nccl& nccl) {
  return gathers(kind) && protocol == Protocol::kSimple && nccl.version >= 22300 && shape.nodes > 1 && shape.nodes == shape.ranks;
}

LatencyParts latency(Kind, Protocol p, const Shape& shape, const Nccl& nccl) {
  return {hop_latencies(Algorithm::kPat, nccl).base[index(p)],
          log2_nodes(shape) * inter_hop_us(Algorithm::kPat, p, shape, nccl) / 3.5 +
              2.8 * static_cast<double>(shape.ranks)};  // still linear: NCCL's own measure of its proxy per peer
}

double bandwidth(Kind, Protocol, const Shape& shape, const Nccl&) {
  const Graph g = graph(Algorithm::kPat, shape);
  return g.channels * (shape.nodes <= 2 ? g.intra : g.inter) * 0.75 / 2;
}

Hops count(Kind, const Shape& shape) {
  const auto n = static_cast<double>(shape.ranks);
  Hops h;
  h.inter_out = h.inter_in = (n - 1) / n;
  h.pattern = Hops::Pattern::kTreeOfNodes;
  std::int64_t reach = 1;
  for (; reach < shape.ranks; reach *= 2) ++h.steps;
  return h;
}

Schedule write(Kind kind, const Shape& shape) {
  const int n = static_cast<int>(shape.ranks);
  Schedule s{n, 0, n, {}};
  int phase = 0;
  for (int distance = 1; distance < n; distance *= 2, ++phase) {
    for (int rank = 0; rank < n; ++rank) {
      for (int back = 0; back < std::min(distance, n - distance); ++back) {
        const int to = (rank + distance) % n, chunk = (rank - back + n) % n;
        // A scatter is the gather run backwards, adding.
        if (kind == Kind::kAllGather) s.steps.push_back({phase, rank, to, chunk, false});
        else s.steps.push_back({-phase, to, rank, chunk, true});
      }
    }
  }
  if (kind == Kind::kReduceScatter) {
    for (Step& step : s.steps) step.step += phase - 1;
  }
  std::stable_sort(s.steps.begin(), s.steps.end(), [](const Step& a, const Step& b) { return a.step < b.step; });
  return s;
}

}  // namespace

const AlgorithmRow& pat_row() {
  static const AlgorithmRow row{Algorithm::kPat, "pat", can, latency, bandwidth, count, write};
  return row;
}

}  // namespace orrery::collective
