#pragma once
// The pieces of a summary, one file each.
#include "orrery/metrics/metrics.hpp"

namespace orrery::metrics {

/// Time per engine account, summed over all ranks of the job.
std::vector<int128> account_totals(const engine::Input& input, const engine::Result& result);

/// A sum of picoseconds over `parts` ranks as mean seconds: divided once.
inline double mean_seconds(int128 total_ps, std::int64_t parts) {
  return static_cast<double>(total_ps) / (kPicosecondsPerSecond * static_cast<double>(parts));
}

Breakdown breakdown(const std::vector<int128>& totals, const Inputs& inputs);
std::array<double, kOperationClasses> compute_by_class(const engine::Result& result, const Inputs& inputs);
std::array<double, kOriginCount> origin_shares(const std::vector<int128>& totals, const engine::Result& result, const Inputs& inputs,
                                               const std::vector<CollectiveRow>& collectives);
Throughput throughput(double step_s, const Breakdown& breakdown, const Inputs& inputs);
Memory memory(const engine::Input& input, const engine::Result& result, const Inputs& inputs);
/// Device memory of a rank at its peak: what its allocator holds, and the framework's.
struct RankPeak {
  std::int64_t allocated = 0, reserved = 0, framework = 0;
  [[nodiscard]] std::int64_t total() const { return reserved + framework; }
};
RankPeak rank_peak(const engine::Input& input, const Inputs& inputs, std::size_t rank);
std::vector<std::string> fit_advice(const Memory& memory, const Inputs& inputs);
std::vector<Stage> stages(const engine::Input& input, const engine::Result& result, const Inputs& inputs);
std::vector<CollectiveRow> collective_rows(const std::vector<int128>& totals, const engine::Result& result, const Inputs& inputs);
std::vector<LinkRow> link_rows(const engine::Input& input, const engine::Result& result, const Inputs& inputs);
std::optional<Energy> energy(double step_s, const Breakdown& breakdown, const std::array<double, kOperationClasses>& by_class, const Inputs& inputs);

}  // namespace orrery::metrics
