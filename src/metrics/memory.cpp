// Device memory: what tensors use, what the caching allocator holds, and what nvidia-smi shows, each at the worst rank's peak.
#include <algorithm>
#include <cmath>

#include "metrics/parts.hpp"

namespace orrery::metrics {

namespace {
constexpr const char* kFramework = "framework";

std::size_t framework_kind(const Inputs& inputs) {
  return static_cast<std::size_t>(std::find(inputs.memory_kinds.begin(), inputs.memory_kinds.end(), kFramework) - inputs.memory_kinds.begin());
}
}  // namespace

RankPeak rank_peak(const engine::Input& input, const engine::Result& result, const Inputs& inputs, std::size_t rank) {
  const engine::RankResult& r = result.ranks[rank];
  const std::size_t kind = framework_kind(inputs);
  const std::int64_t framework = kind < r.peak_kind_bytes.size() ? r.peak_kind_bytes[kind] : 0;
  RankPeak peak;
  peak.allocated = r.peak_bytes - framework;
  // 5.5 of the modelling reference: reserved over allocated is a ratio of the allocator's, on what the allocator gave out.
  peak.reserved = static_cast<std::int64_t>(std::ceil(static_cast<double>(peak.allocated) * inputs.reserved_over_allocated));
  peak.framework = framework + inputs.programs[input.ranks[rank].program].framework_bytes;
  return peak;
}

Memory memory(const engine::Input& input, const engine::Result& result, const Inputs& inputs) {
  Memory m;
  m.capacity_bytes = inputs.gpu.memory_capacity.value();
  m.host_bytes = inputs.host_bytes;
  std::size_t worst = 0;
  RankPeak peak;
  for (std::size_t r = 0; r < result.ranks.size(); ++r) {
    const RankPeak p = rank_peak(input, result, inputs, r);
    if (r > 0 && (p.total() < peak.total() || (p.total() == peak.total() && input.ranks[r].lowest > input.ranks[worst].lowest))) continue;
    worst = r;
    peak = p;
  }
  if (result.ranks.empty()) return m;
  m.worst_rank = input.ranks[worst].lowest;
  m.allocated_bytes = peak.allocated;
  m.reserved_bytes = peak.reserved;
  m.peak_bytes = peak.total();
  m.fits = m.peak_bytes <= m.capacity_bytes;
  for (std::size_t k = 0; k < inputs.memory_kinds.size(); ++k)
    if (inputs.memory_kinds[k] != kFramework) m.by_kind.emplace_back(inputs.memory_kinds[k], result.ranks[worst].peak_kind_bytes[k]);
  // What the allocator holds beyond its tensors is the runtime's, as the context and the communicators are.
  m.by_kind.emplace_back(kFramework, peak.framework + peak.reserved - peak.allocated);
  if (!m.fits) m.advice = fit_advice(m, inputs);
  return m;
}

std::vector<Stage> stages(const engine::Input& input, const engine::Result& result, const Inputs& inputs) {
  const plan::Parallelism& p = inputs.parallelism;
  struct Sum { int128 compute = 0, bubble = 0; };
  std::vector<Stage> rows(static_cast<std::size_t>(p.pp));
  std::vector<Sum> sums(rows.size());
  for (std::size_t r = 0; r < result.ranks.size(); ++r) {
    const auto s = static_cast<std::size_t>(inputs.programs[input.ranks[r].program].stage);
    const std::int64_t multiplicity = input.ranks[r].multiplicity;
    for (std::size_t a = 0; a < inputs.accounts.size(); ++a) {
      const int128 time = static_cast<int128>(result.ranks[r].account_ps[a]) * multiplicity;
      if (inputs.accounts[a].kind == Account::Kind::kCompute) sums[s].compute += time;
      if (inputs.accounts[a].kind == Account::Kind::kWaitsForPeer) sums[s].bubble += time;
    }
    rows[s].ranks += multiplicity;
    rows[s].peak_bytes = std::max(rows[s].peak_bytes, rank_peak(input, result, inputs, r).total());
  }
  for (std::size_t s = 0; s < rows.size(); ++s) {
    Stage& row = rows[s];
    row.stage = static_cast<std::int64_t>(s);
    row.chunks = p.vp;
    for (std::int64_t c = 0; c < p.vp; ++c) row.layers += plan::chunk_of(p, row.stage, c).layers;
    if (row.ranks == 0) continue;
    row.compute_s = mean_seconds(sums[s].compute, row.ranks);
    row.bubble_s = mean_seconds(sums[s].bubble, row.ranks);
  }
  return rows;
}

}  // namespace orrery::metrics
