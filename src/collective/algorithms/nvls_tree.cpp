// NVLS-tree: the switch reduces and multicasts inside a node, heads climb two complementary trees between nodes.
#include <algorithm>

#include "collective/algorithms/chain_tree.hpp"
#include "collective/graph.hpp"
#include "collective/registry.hpp"
#include "collective/tables.hpp"

namespace orrery::collective {
namespace {

bool can(Kind kind, Protocol protocol, const Shape& shape, const Nccl& nccl) {
  return kind == Kind::kAllReduce && protocol == Protocol::kSimple && nccl.version >= 21800 && shape.nvls && shape.nvswitch &&
         (shape.arch == Arch::kHopper || shape.arch == Arch::kBlackwell) && shape.nodes > 1 && ranks_per_node(shape) > 1;
}

LatencyParts latency(Kind, Protocol p, const Shape& shape, const Nccl& nccl) {
  return {intra_hop_us(Algorithm::kNvlsTree, p, shape, nccl), 2 * log2_nodes(shape) * inter_hop_us(Algorithm::kNvlsTree, p, shape, nccl)};
}

double bandwidth(Kind, Protocol, const Shape& shape, const Nccl& nccl) {
  const Graph g = graph(Algorithm::kNvlsTree, shape);
  const double cap = bandwidth_cap(Cap::kNvlsTree, shape, nccl);
  if (nccl.version < 22800) {  // an inner node of a tree of more than two carries twice as much
    return g.channels * std::min({g.intra, shape.nodes <= 2 ? g.inter : g.inter / 2, cap}) * 5 / 6;
  }
  const double intra = 2 * g.intra * nvls_efficiency(shape.arch) * (g.channels - 1) / g.channels;
  const auto n = static_cast<double>(shape.ranks);
  return g.channels * std::min({intra, shape.nodes <= 2 ? 2 * g.inter : g.inter, cap}) * n / (2 * (n - 1));
}

Hops count(Kind, const Shape& shape) {
  const auto g = static_cast<double>(ranks_per_node(shape));
  Hops h;
  h.intra_out = h.intra_in = 1 + 1 / g;
  h.inter_out = h.inter_in = double_tree_load(shape.nodes) / g;
  h.pattern = Hops::Pattern::kTreeOfNodes;
  h.steps = 2 + 2 * log2_nodes(shape);
  return h;
}

Schedule write(Kind, const Shape& shape) {
  const int n = static_cast<int>(shape.ranks), g = static_cast<int>(ranks_per_node(shape)), k = n / g;
  Schedule s{n, k, 2 * g, {}};
  for (int chunk = 0; chunk < 2 * g; ++chunk) {
    const int head = chunk / 2;
    for (int node = 0; node < k; ++node) {
      for (int local = 0; local < g; ++local) s.steps.push_back({0, node * g + local, n + node, chunk, true});
      s.steps.push_back({1, n + node, node * g + head, chunk, false});
    }
    const int down = 2 + write_tree(s, k, chunk, 2, [&](int node) { return node * g + head; });
    for (int node = 0; node < k; ++node) {
      s.steps.push_back({down, node * g + head, n + node, chunk, false});
      for (int local = 0; local < g; ++local) s.steps.push_back({down + 1, n + node, node * g + local, chunk, false});
    }
  }
  std::stable_sort(s.steps.begin(), s.steps.end(), [](const Step& a, const Step& b) { return a.step < b.step; });
  return s;
}

}  // namespace

const AlgorithmRow& nvls_tree_row() {
  static const AlgorithmRow row{Algorithm::kNvlsTree, "nvls_tree", can, latency, bandwidth, count, write};
  return row;
}

}  // namespace orrery::collective
