#pragma once
// Random jobs of up to 64 ranks: symmetric ones, slow ranks, degraded NICs and leaves, last nodes and leaves partly filled.
#include <rapidcheck.h>

#include <utility>
#include <vector>

#include "lower/fold_inputs.hpp"

namespace orrery::test {

inline rc::Gen<std::vector<std::pair<std::uint32_t, std::uint32_t>>> few_marks(std::uint32_t below) {
  return rc::gen::mapcat(rc::gen::weightedElement<std::size_t>({{12, 0}, {3, 1}, {1, 2}, {1, 5}}), [below](std::size_t count) {
    return rc::gen::container<std::vector<std::pair<std::uint32_t, std::uint32_t>>>(
        count, rc::gen::pair(rc::gen::inRange<std::uint32_t>(0, 64), rc::gen::inRange<std::uint32_t>(1, below)));
  });
}

inline rc::Gen<Job> random_job() {
  const auto upto = [](std::uint32_t last) { return rc::gen::inRange<std::uint32_t>(1, last + 1); };
  return rc::gen::build<Job>(
      rc::gen::set(&Job::tp, rc::gen::weightedElement<std::uint32_t>({{1, 1}, {3, 2}, {1, 3}, {3, 4}})),
      rc::gen::set(&Job::dp, rc::gen::weightedElement<std::uint32_t>({{1, 1}, {2, 2}, {1, 3}, {3, 4}})), rc::gen::set(&Job::pp, upto(4)),
      rc::gen::set(&Job::ranks_per_node, rc::gen::weightedElement<std::uint32_t>({{1, 1}, {2, 2}, {1, 3}, {4, 4}, {4, 8}})),
      rc::gen::set(&Job::ranks_per_nic, rc::gen::weightedElement<std::uint32_t>({{3, 1}, {1, 2}, {1, 4}})), rc::gen::set(&Job::nodes_per_leaf, upto(4)),
      rc::gen::set(&Job::microbatches, upto(4)), rc::gen::set(&Job::buckets, upto(3)), rc::gen::set(&Job::batched_p2p, rc::gen::arbitrary<bool>()),
      rc::gen::set(&Job::leaf_share, rc::gen::inRange<std::int64_t>(1, 9)), rc::gen::set(&Job::run_ahead, rc::gen::element<std::uint32_t>(24, 1000)),
      rc::gen::set(&Job::variants, few_marks(4)), rc::gen::set(&Job::degraded_nics, few_marks(8)), rc::gen::set(&Job::degraded_leaves, few_marks(8)));
}

}  // namespace orrery::test
