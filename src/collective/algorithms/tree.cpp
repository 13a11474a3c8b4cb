// Tree: GPUs of a node form a chain, nodes form two complementary binary trees that carry half of the buffer each (Sanders, Speck and
// Traeff, Parallel Computing 35(12), 2009): 2 log2(nodes) network hops, about twice the buffer through each node.
#include <algorithm>

#include "collective/algorithms/chain_tree.hpp"
#include "collective/graph.hpp"
#include "collective/registry.hpp"
#include "collective/tables.hpp"

namespace orrery::collective {
namespace {

bool can(Kind kind, Protocol protocol, const Shape& shape, const Nccl&) {
  return kind == Kind::kAllReduce && (protocol != Protocol::kLL128 || shape.nvlink);
}

LatencyParts latency(Kind, Protocol protocol, const Shape& shape, const Nccl& nccl) {
  const auto chain = static_cast<double>(shape.ranks / shape.nodes - 1);
  return {hop_latencies(Algorithm::kTree, nccl).base[index(protocol)] + 2 * chain * intra_hop_us(Algorithm::kTree, protocol, shape, nccl),
          2 * log2_nodes(shape) * inter_hop_us(Algorithm::kTree, protocol, shape, nccl)};
}

double bandwidth(Kind, Protocol protocol, const Shape& shape, const Nccl& nccl) {
  const Graph g = graph(Algorithm::kTree, shape);
  double bus = g.channels * (shape.nodes <= 2 ? g.intra : g.inter);
  bus = std::min(0.92 * bus, g.channels * bandwidth_cap(Cap::kTree, shape, nccl));
  if (protocol == Protocol::kLL) bus = std::min(bus / 3.8, bandwidth_cap(Cap::kLowLatency, shape, nccl));
  if (protocol == Protocol::kLL128) {
    bus = std::min(bus * (shape.nodes == 1 ? 7.0 / 9 : 120.0 / 128), g.channels * bandwidth_cap(Cap::kTreeLL128, shape, nccl));
  }
  if (ranks_per_node(shape) == 1) bus *= 0.85;  // one GPU cannot split a node's two tree edges: NCCL falls back to the plain pattern
  return bus / 2;
}

Hops count(Kind, const Shape& shape) {
  const auto g = static_cast<double>(ranks_per_node(shape));
  Hops h;
  h.intra_out = h.intra_in = 2 * (g - 1) / g;
  if (shape.nodes > 1) {
    h.inter_out = h.inter_in = double_tree_load(shape.nodes) / g;
    h.pattern = Hops::Pattern::kTreeOfNodes;
  }
  h.steps = 2 * (ranks_per_node(shape) - 1 + log2_nodes(shape));
  return h;
}

Schedule write(Kind, const Shape& shape) {
  const int n = static_cast<int>(shape.ranks), g = static_cast<int>(ranks_per_node(shape)), k = n / g;
  Schedule s{n, 0, 2 * g, {}};
  for (int chunk = 0; chunk < 2 * g; ++chunk) {
    const int head = chunk / 2;
    const auto at = [&](int node, int position) { return node * g + (head + position) % g; };
    for (int node = 0; node < k; ++node) {
      for (int p = g - 1; p > 0; --p) s.steps.push_back({g - 1 - p, at(node, p), at(node, p - 1), chunk, true});
    }
    const int up = g - 1;
    const int down = up + write_tree(s, k, chunk, up, [&](int node) { return at(node, 0); });
    for (int node = 0; node < k; ++node) {
      for (int p = 1; p < g; ++p) s.steps.push_back({down + p - 1, at(node, p - 1), at(node, p), chunk, false});
    }
  }
  std::stable_sort(s.steps.begin(), s.steps.end(), [](const Step& a, const Step& b) { return a.step < b.step; });
  return s;
}

}  // namespace

const AlgorithmRow& tree_row() {
  static const AlgorithmRow row{Algorithm::kTree, "tree", can, latency, bandwidth, count, write};
  return row;
}

}  // namespace orrery::collective
