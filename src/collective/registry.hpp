#pragma once
// The algorithms, one row each: what NCCL believes of it (latency, bandwidth), what it moves, and how.
#include <array>
#include <span>

#include "orrery/collective/collective.hpp"

namespace orrery::collective {

struct AlgorithmRow {
  Algorithm algorithm;
  std::string_view name;
  bool (*possible)(Kind, Protocol, const Shape&, const Nccl&);
  /// Microseconds, base and hops (NCCL src/graph/tuning.cc).
  LatencyParts (*latency)(Kind, Protocol, const Shape&, const Nccl&);
  /// Algorithm bandwidth in GB/s, before the corrections by size.
  double (*bandwidth)(Kind, Protocol, const Shape&, const Nccl&);
  Hops (*hops)(Kind, const Shape&);
  Schedule (*schedule)(Kind, const Shape&);
};

std::span<const AlgorithmRow> algorithms();
const AlgorithmRow& row_of(Algorithm algorithm);

const AlgorithmRow& ring_row();
const AlgorithmRow& tree_row();
const AlgorithmRow& collnet_direct_row();
const AlgorithmRow& collnet_chain_row();
const AlgorithmRow& nvls_row();
const AlgorithmRow& nvls_tree_row();
const AlgorithmRow& pat_row();
const AlgorithmRow& pairs_row();
const AlgorithmRow& hierarchical_row();
const AlgorithmRow& deduplicated_row();

// What several algorithms share.
inline std::size_t index(Protocol p) { return static_cast<std::size_t>(p); }
inline bool gathers(Kind k) { return k == Kind::kAllGather || k == Kind::kReduceScatter; }
/// Latency of a hop inside a domain, and of one between domains: with one GPU per node nothing hides it and NCCL takes the tree's.
double intra_hop_us(Algorithm algorithm, Protocol protocol, const Shape& shape, const Nccl& nccl);
double inter_hop_us(Algorithm algorithm, Protocol protocol, const Shape& shape, const Nccl& nccl);
/// Whether NCCL's settings leave algorithm and protocol; true throughout where they leave nothing that could run.
bool permitted(Kind kind, Algorithm algorithm, Protocol protocol, const Shape& shape, const Nccl& nccl);
/// floor(log2(nodes)).
int log2_nodes(const Shape& shape);

/// One of NCCL's two complementary binary trees over `nodes`; parent −1 at the root.
struct BinaryTree {
  int root = 0;
  std::vector<int> parent;
  std::vector<std::vector<int>> children;
};
/// Source: Sanders, Speck, Traeff 2009 (two-tree); NCCL src/graph/trees.cc: nodes even: mirrored, odd: shifted by one.
std::array<BinaryTree, 2> double_binary_tree(int nodes);
/// Bytes that the busiest node sends (and receives) over both trees when each carries half of an all-reduce, in units of the buffer.
double double_tree_load(std::int64_t nodes);

}  // namespace orrery::collective
