// What several algorithms share: hop latencies, and NCCL's two complementary binary trees.
#include <algorithm>
#include <bit>

#include "collective/registry.hpp"
#include "collective/tables.hpp"

namespace orrery::collective {

double intra_hop_us(Algorithm algorithm, Protocol protocol, const Shape& shape, const Nccl& nccl) {
  const HopLatencies t = hop_latencies(algorithm, nccl);
  return (shape.nvlink ? t.nvlink : t.pcie)[index(protocol)];
}

double inter_hop_us(Algorithm algorithm, Protocol protocol, const Shape& shape, const Nccl& nccl) {
  return hop_latencies(ranks_per_node(shape) == 1 ? Algorithm::kTree : algorithm, nccl).network[index(protocol)];
}

int log2_nodes(const Shape& shape) { return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(shape.nodes))) - 1; }

namespace {

/// Parent in a binary tree whose odd nodes are leaves: clear the lowest set bit and set the next, or only clear it beyond the end.
int parent_of(int node, int nodes) {
  if (node == 0) return -1;
  const int bit = node & -node;
  const int up = (node ^ bit) | (bit << 1);
  return up < nodes ? up : node ^ bit;
}

}  // namespace

std::array<BinaryTree, 2> double_binary_tree(int nodes) {
  std::array<BinaryTree, 2> trees;
  for (int t = 0; t < 2; ++t) {
    BinaryTree& tree = trees[static_cast<std::size_t>(t)];
    tree.parent.resize(static_cast<std::size_t>(nodes), -1);
    tree.children.resize(static_cast<std::size_t>(nodes));
    const auto place = [&](int node) { return t == 0 ? node : nodes % 2 == 0 ? nodes - 1 - node : (node + 1) % nodes; };
    tree.root = place(0);
    for (int node = 1; node < nodes; ++node) {
      const int parent = place(parent_of(node, nodes));
      tree.parent[static_cast<std::size_t>(place(node))] = parent;
      tree.children[static_cast<std::size_t>(parent)].push_back(place(node));
    }
  }
  return trees;
}

double double_tree_load(std::int64_t nodes) {
  // Edges of each node in both trees, without building them: a large group is asked often.
  const int k = static_cast<int>(nodes);
  std::vector<int> edges(static_cast<std::size_t>(k), 0);
  for (int node = 1; node < k; ++node) {
    for (const int end : {node, parent_of(node, k)}) {
      ++edges[static_cast<std::size_t>(end)];
      ++edges[static_cast<std::size_t>(k % 2 == 0 ? k - 1 - end : (end + 1) % k)];
    }
  }
  return static_cast<double>(*std::max_element(edges.begin(), edges.end())) / 2;
}

}  // namespace orrery::collective
