#include <algorithm>

#include "metrics/parts.hpp"
#include "orrery/base/assert.hpp"

namespace orrery::metrics {

namespace {
/// Without a held-out error to calibrate a band, a factor either way (design 5.4).
constexpr double kUncalibratedFactor = 1.3;
}  // namespace

std::vector<int128> account_totals(const engine::Input& input, const engine::Result& result) {
  std::vector<int128> totals(input.accounts, 0);
  for (std::size_t r = 0; r < result.ranks.size(); ++r)
    for (std::size_t a = 0; a < totals.size(); ++a) totals[a] += static_cast<int128>(result.ranks[r].account_ps[a]) * input.ranks[r].multiplicity;
  return totals;
}

Summary summarise(const engine::Input& input, const engine::Result& result, const Inputs& inputs) {
  ORRERY_ASSERT(inputs.accounts.size() == input.accounts && inputs.transfers.size() == input.transfers.size() &&
                    inputs.programs.size() == input.programs.size() && inputs.links.size() == input.resources.size() &&
                    inputs.memory_kinds.size() == input.memory_kinds,
                "the description has a row for every index of the input");
  Summary s;
  s.basis = inputs.basis;
  s.step_ps = result.end;
  s.step_s = to_seconds(result.end).value();
  s.low_s = s.step_s / kUncalibratedFactor;
  s.high_s = s.step_s * kUncalibratedFactor;
  s.band_basis = "uncalibrated";

  const std::vector<int128> totals = account_totals(input, result);
  s.breakdown = breakdown(totals, inputs);
  s.compute_by_class_s = compute_by_class(result, inputs);
  s.throughput = throughput(s.step_s, s.breakdown, inputs);
  s.memory = memory(input, result, inputs);
  s.stages = stages(input, result, inputs);
  s.collectives = collective_rows(totals, result, inputs);
  s.origins = origin_shares(totals, result, inputs, s.collectives);
  s.links = link_rows(input, result, inputs);
  s.energy = energy(s.step_s, s.breakdown, s.compute_by_class_s, inputs);

  s.events = result.events;
  s.rank_classes = static_cast<std::int64_t>(input.ranks.size());
  s.resource_classes = static_cast<std::int64_t>(input.resources.size());
  s.ranks = inputs.full_ranks;
  s.currency = inputs.currency;
  s.per_gpu_hour = inputs.price_per_gpu_hour;
  if (s.per_gpu_hour && s.throughput.tokens_per_s_per_gpu > 0) s.per_million_tokens = *s.per_gpu_hour / 3600 / s.throughput.tokens_per_s_per_gpu * 1e6;
  s.counts = inputs.counts;
  s.calibration = inputs.calibration;
  s.warnings = inputs.warnings;
  return s;
}

}  // namespace orrery::metrics
