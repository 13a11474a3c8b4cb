// CollNet: the fabric's switches reduce (SHARP), so a GPU's NIC carries its share of the buffer once each way, whatever the node count.
// Direct: every GPU of a node is head of one share and the others write to it; chain: GPUs pass everything along to one head per channel.
#include <algorithm>

#include "collective/graph.hpp"
#include "collective/registry.hpp"
#include "collective/tables.hpp"

namespace orrery::collective {
namespace {

bool can(Kind kind, Protocol protocol, const Shape& shape, const Nccl&) {
  return kind == Kind::kAllReduce && protocol == Protocol::kSimple && shape.sharp && shape.nodes > 1;
}
bool can_direct(Kind kind, Protocol protocol, const Shape& shape, const Nccl& nccl) {
  return can(kind, protocol, shape, nccl) && shape.nvswitch;
}

LatencyParts direct_latency(Kind, Protocol p, const Shape& shape, const Nccl& nccl) {
  const auto others = static_cast<double>(shape.ranks / shape.nodes - 1);
  return {2 * (std::min(1.0, others) * intra_hop_us(Algorithm::kCollNetDirect, p, shape, nccl) + others * 0.4),
          inter_hop_us(Algorithm::kCollNetDirect, p, shape, nccl)};
}
LatencyParts chain_latency(Kind, Protocol p, const Shape& shape, const Nccl& nccl) {
  return {2 * static_cast<double>(shape.ranks / shape.nodes - 1) * intra_hop_us(Algorithm::kCollNetChain, p, shape, nccl),
          inter_hop_us(Algorithm::kCollNetChain, p, shape, nccl)};
}

double direct_bandwidth(Kind, Protocol, const Shape& shape, const Nccl&) {
  const Graph g = graph(Algorithm::kCollNetDirect, shape);
  double factor = static_cast<double>(ranks_per_node(shape)) / g.channels;  // GPUs per NIC; half of the excess is hidden
  factor -= (factor - 1) / 2;
  const bool recent = shape.arch == Arch::kHopper || shape.arch == Arch::kBlackwell;
  return g.channels * g.intra / factor * (recent ? 0.85 : 1) / 2;
}
double chain_bandwidth(Kind, Protocol, const Shape& shape, const Nccl&) {
  const Graph g = graph(Algorithm::kCollNetChain, shape);
  return g.channels * g.intra / 2;
}

Hops count(Kind, const Shape& shape) {
  const auto g = static_cast<double>(ranks_per_node(shape));
  Hops h;
  h.intra_out = h.intra_in = 2 * (g - 1) / g;
  h.inter_out = h.inter_in = 1 / g;
  h.pattern = Hops::Pattern::kTreeOfNodes;
  h.steps = 4;
  return h;
}
Hops count_chain(Kind kind, const Shape& shape) {
  Hops h = count(kind, shape);
  h.steps = 2 * ranks_per_node(shape);
  return h;
}

/// Shares of the buffer go to their heads, through the fabric's reduction, and back; `chain` passes them along instead.
Schedule write(const Shape& shape, bool chain) {
  const int n = static_cast<int>(shape.ranks), g = static_cast<int>(ranks_per_node(shape)), k = n / g, fabric = n;
  Schedule s{n, 1, g, {}};
  const int inside = chain ? g - 1 : 1;
  for (int head = 0; head < g; ++head) {
    for (int node = 0; node < k; ++node) {
      const auto at = [&](int position) { return node * g + (head + position) % g; };
      for (int p = g - 1; p > 0; --p) s.steps.push_back({chain ? g - 1 - p : 0, at(p), at(chain ? p - 1 : 0), head, true});
      s.steps.push_back({inside, at(0), fabric, head, true});
      s.steps.push_back({inside + 1, fabric, at(0), head, false});
      for (int p = 1; p < g; ++p) s.steps.push_back({inside + 2 + (chain ? p - 1 : 0), at(chain ? p - 1 : 0), at(p), head, false});
    }
  }
  std::stable_sort(s.steps.begin(), s.steps.end(), [](const Step& a, const Step& b) { return a.step < b.step; });
  return s;
}
Schedule write_direct(Kind, const Shape& shape) { return write(shape, false); }
Schedule write_chain(Kind, const Shape& shape) { return write(shape, true); }

}  // namespace

const AlgorithmRow& collnet_direct_row() {
  static const AlgorithmRow row{Algorithm::kCollNetDirect, "collnet_direct", can_direct, direct_latency, direct_bandwidth, count, write_direct};
  return row;
}
const AlgorithmRow& collnet_chain_row() {
  static const AlgorithmRow row{Algorithm::kCollNetChain, "collnet_chain", can, chain_latency, chain_bandwidth, count_chain, write_chain};
  return row;
}

}  // namespace orrery::collective
