#pragma once
// Weighted max-min fair sharing with caps, in exact integers: progressive filling as design section 2 words it.
#include <cstdint>
#include <span>
#include <vector>

#include "orrery/engine/input.hpp"

namespace orrery::engine {

struct Flow {
  std::int64_t cap = 0;             ///< rate units, > 0
  std::span<const Usage> usages;    ///< may be empty: then the rate is the cap
};
/// Rates of all flows, by the dense reference algorithm: every round looks at everything. For tests and small inputs.
std::vector<std::int64_t> solve_dense(std::span<const std::int64_t> capacities, std::span<const Flow> flows);

/// The incremental solver of the engine: flows come and go, only the connected component that changed is solved again.
/// No allocation after reserve().
class MaxMin {
 public:
  explicit MaxMin(std::span<const std::int64_t> capacities);
  void reserve(std::size_t flows, std::size_t usages);
  /// Adds a flow; id is the caller's, dense and small, not in use.
  void add(std::uint32_t id, std::int64_t cap, std::span<const Usage> usages);
  void remove(std::uint32_t id);
  /// Solves what changed since the last call; returns the ids whose rate changed, ascending. Valid until the next call.
  std::span<const std::uint32_t> solve();
  [[nodiscard]] std::int64_t rate(std::uint32_t id) const;

  MaxMin(const MaxMin&) = delete;
  MaxMin& operator=(const MaxMin&) = delete;
  ~MaxMin();

 private:
  struct State;
  State* state_;
};

}  // namespace orrery::engine
