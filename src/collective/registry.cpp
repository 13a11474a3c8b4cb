#include "collective/registry.hpp"

#include <array>

#include "orrery/base/assert.hpp"

namespace orrery::collective {

std::span<const AlgorithmRow> algorithms() {
  // In NCCL's order, which breaks ties: the first of two equal scores wins.
  static const std::array<AlgorithmRow, 10> rows = {tree_row(),      ring_row(), collnet_direct_row(), collnet_chain_row(), nvls_row(),
                                                   nvls_tree_row(), pat_row(),  pairs_row(), hierarchical_row(), deduplicated_row()};
  return rows;
}

const AlgorithmRow& row_of(Algorithm algorithm) {
  for (const AlgorithmRow& row : algorithms()) {
    if (row.algorithm == algorithm) return row;
  }
  assertion_failed("algorithm", "every algorithm has a row in the registry", __FILE__, __LINE__);
}

}  // namespace orrery::collective
