// Ring: every rank passes blocks to its neighbour. In 2(n-1) steps (all-reduce) or n-1 (gather, scatter) each rank sends 2(n-1)/n or
// (n-1)/n of the buffer (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69(2), 2009): least bytes, latency linear in n.
// NCCL runs one ring per channel and rotates the GPU through which a channel leaves the node, so each NIC carries 1/g of a node's traffic.
#include <algorithm>

#include "collective/graph.hpp"
#include "collective/registry.hpp"
#include "collective/tables.hpp"

namespace orrery::collective {
namespace {

bool can(Kind kind, Protocol protocol, const Shape& shape, const Nccl&) {
  if (kind == Kind::kAllToAll || kind == Kind::kSendRecv) return false;
  return protocol != Protocol::kLL128 || shape.nvlink;
}

double steps_of(Kind kind, const Shape& shape) {
  const auto n = static_cast<double>(shape.ranks);
  return kind == Kind::kAllReduce ? 2 * (n - 1) : gathers(kind) ? n - 1 : n;
}

LatencyParts latency(Kind kind, Protocol protocol, const Shape& shape, const Nccl& nccl) {
  const double base = hop_latencies(Algorithm::kRing, nccl).base[index(protocol)];
  const auto k = static_cast<double>(shape.nodes);
  const double intra = intra_hop_us(Algorithm::kRing, protocol, shape, nccl);
  const double inter = inter_hop_us(Algorithm::kRing, protocol, shape, nccl);
  const double inter_steps = shape.nodes == 1 ? 0 : kind == Kind::kAllReduce ? 2 * (k - 1) : k - 1;
  // Between nodes every step launches the network proxy, whichever hop is next.
  const double overhead = shape.nodes == 1 ? 0 : shape.net_overhead_us * (protocol == Protocol::kSimple ? 3 : 1);
  const double intra_steps = steps_of(kind, shape) - inter_steps;
  return {base + intra_steps * intra, inter_steps * inter + intra_steps * std::max(0.0, overhead - intra)};
}

double bandwidth(Kind kind, Protocol protocol, const Shape& shape, const Nccl& nccl) {
  const Graph g = graph(Algorithm::kRing, shape);
  double bus = g.channels * (shape.nodes <= 2 ? g.intra : g.inter);
  if (protocol == Protocol::kLL) bus = std::min(bandwidth_cap(Cap::kLowLatency, shape, nccl), bus / 2);
  if (protocol == Protocol::kLL128) bus = std::min(0.92 * bus, g.channels * bandwidth_cap(Cap::kRingLL128, shape, nccl));
  return bus * static_cast<double>(shape.ranks) / steps_of(kind, shape);
}

Hops count(Kind kind, const Shape& shape) {
  const auto n = static_cast<double>(shape.ranks);
  const auto g = static_cast<double>(ranks_per_node(shape));
  const double sent = kind == Kind::kAllReduce ? 2 * (n - 1) / n : gathers(kind) ? (n - 1) / n : 1;
  Hops h;
  // Of g hops through a node, g-1 stay inside and one leaves.
  h.intra_out = h.intra_in = shape.nodes == 1 ? sent : sent * (g - 1) / g;
  h.inter_out = h.inter_in = shape.nodes == 1 ? 0 : sent / g;
  h.pattern = shape.nodes == 1 ? Hops::Pattern::kNone : Hops::Pattern::kRingOfNodes;
  h.steps = kind == Kind::kAllReduce ? 2 * (shape.ranks - 1) : shape.ranks - 1;
  return h;
}

Schedule write(Kind kind, const Shape& shape) {
  const int n = static_cast<int>(shape.ranks), g = static_cast<int>(ranks_per_node(shape)), channels = g;
  Schedule s{n, 0, n * channels, {}};
  for (int channel = 0; channel < channels; ++channel) {
    const auto rank = [&](int position) {
      const int p = ((position % n) + n) % n;
      return p / g * g + (p + channel) % g;
    };
    const auto pass = [&](int step, int position, int owner, bool reduce) {
      s.steps.push_back({step, rank(position), rank(position + 1), rank(owner) * channels + channel, reduce});
    };
    int root = 0;
    while (rank(root) != 0) ++root;
    for (int step = 0; step < n - 1; ++step) {
      if (kind == Kind::kBroadcast || kind == Kind::kReduce) {
        const bool reduce = kind == Kind::kReduce;
        for (int block = 0; block < n; ++block) pass(step, reduce ? root + 1 + step : root + step, block, reduce);
        continue;
      }
      for (int i = 0; i < n; ++i) {
        if (kind != Kind::kAllGather) pass(step, i, i - 1 - step, true);
        if (kind == Kind::kAllGather) pass(step, i, i - step, false);
        if (kind == Kind::kAllReduce) pass(n - 1 + step, i, i - step, false);
      }
    }
  }
  std::stable_sort(s.steps.begin(), s.steps.end(), [](const Step& a, const Step& b) { return a.step < b.step; });
  return s;
}

}  // namespace

const AlgorithmRow& ring_row() {
  static const AlgorithmRow row{Algorithm::kRing, "ring", can, latency, bandwidth, count, write};
  return row;
}

}  // namespace orrery::collective
