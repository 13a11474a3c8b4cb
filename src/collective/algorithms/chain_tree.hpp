#pragma once
// Up and down one of the two node trees, for the algorithms that cross the network in trees.
#include <algorithm>

#include "collective/registry.hpp"

namespace orrery::collective {

/// Reduces `chunk` to the root and copies it back, between the ranks that stand for their nodes; even chunks take the first tree.
/// Returns the number of steps from `first`.
template <class RankOfNode>
int write_tree(Schedule& s, int nodes, int chunk, int first, const RankOfNode& rank_of) {
  const auto trees = double_binary_tree(nodes);
  const BinaryTree& tree = trees[static_cast<std::size_t>(chunk % 2)];
  const auto depth = [&](int node) {
    int d = 0;
    while (tree.parent[static_cast<std::size_t>(node)] >= 0) {
      node = tree.parent[static_cast<std::size_t>(node)];
      ++d;
    }
    return d;
  };
  int deepest = 0;
  for (int node = 0; node < nodes; ++node) deepest = std::max(deepest, depth(node));
  for (int node = 0; node < nodes; ++node) {
    const int parent = tree.parent[static_cast<std::size_t>(node)];
    if (parent < 0) continue;
    const int d = depth(node);
    s.steps.push_back({first + deepest - d, rank_of(node), rank_of(parent), chunk, true});
    s.steps.push_back({first + deepest + d - 1, rank_of(parent), rank_of(node), chunk, false});
  }
  return 2 * deepest;
}

}  // namespace orrery::collective
