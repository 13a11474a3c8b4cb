// Device memory: what tensors use, what the caching allocator holds, and what nvidia-smi shows, each at the worst rank's peak.
#include <algorithm>

#include <fmt/format.h>

#include "metrics/parts.hpp"

namespace orrery::metrics {

namespace {
constexpr const char* kFramework = "framework";

}  // namespace

RankPeak rank_peak(const engine::Input& input, const Inputs& inputs, std::size_t rank) {
  const ProgramInfo& program = inputs.programs[input.ranks[rank].program];
  return {program.allocated_bytes, program.reserved_bytes, program.framework_bytes};
}

Memory memory(const engine::Input& input, const engine::Result& result, const Inputs& inputs) {
  Memory m;
  m.capacity_bytes = inputs.gpu.memory_capacity.value();
  m.host_bytes = inputs.host_bytes;
  m.drive_bytes = inputs.drive_bytes;
  std::size_t worst = 0;
  RankPeak peak;
  for (std::size_t r = 0; r < result.ranks.size(); ++r) {
    const RankPeak p = rank_peak(input, inputs, r);
    if (r > 0 && (p.total() < peak.total() || (p.total() == peak.total() && input.ranks[r].lowest > input.ranks[worst].lowest))) continue;
    worst = r;
    peak = p;
  }
  if (result.ranks.empty()) return m;
  m.worst_rank = input.ranks[worst].lowest;
  m.allocated_bytes = peak.allocated;
  m.reserved_bytes = peak.reserved;
  m.peak_bytes = peak.total();
  const bool host_fits = inputs.host_node_bytes <= inputs.host_capacity_bytes || !inputs.host_bytes;
  const bool device_fits = m.peak_bytes <= m.capacity_bytes;
  const bool drives_fit = !inputs.drive_bytes || inputs.drive_capacity_bytes <= 0 || static_cast<double>(inputs.drive_node_bytes) <= inputs.drive_capacity_bytes;
  m.fits = device_fits && host_fits && drives_fit;
  const std::vector<std::int64_t>& kinds = inputs.programs[input.ranks[worst].program].kind_bytes;
  for (std::size_t k = 0; k < kinds.size(); ++k)
    if (inputs.memory_kinds[k] != kFramework) m.by_kind.emplace_back(inputs.memory_kinds[k], kinds[k]);
  // What the allocator holds beyond its tensors is the runtime's, as the context and the communicators are.
  m.by_kind.emplace_back(kFramework, peak.framework + peak.reserved - peak.allocated);
  if (!device_fits) m.advice = fit_advice(m, inputs);
  if (!host_fits) {
    m.advice.push_back(fmt::format("host memory: the ranks of a node keep {:.1f} GiB there and it holds {:.1f} GiB; lower training.offload", to_gib(Bytes(inputs.host_node_bytes)),
                                   to_gib(Bytes(inputs.host_capacity_bytes))));
  }
  if (!drives_fit) {
    m.advice.push_back(fmt::format("drives: the ranks of a node keep {:.1f} GiB there and they hold {:.1f} GiB; lower training.offload", to_gib(Bytes(inputs.drive_node_bytes)),
                                   inputs.drive_capacity_bytes / static_cast<double>(kGiB)));
  }
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
    const RankPeak peak = rank_peak(input, inputs, r);
    rows[s].peak_bytes = std::max(rows[s].peak_bytes, peak.total());
    rows[s].allocated_bytes = std::max(rows[s].allocated_bytes, peak.allocated);
    rows[s].reserved_bytes = std::max(rows[s].reserved_bytes, peak.reserved);
  }
  for (std::size_t s = 0; s < rows.size(); ++s) {
    Stage& row = rows[s];
    row.stage = static_cast<std::int64_t>(s);
    row.chunks = plan::chunks_per_rank(p);
    for (std::int64_t c = 0; c < row.chunks; ++c) row.layers += plan::chunk_of(p, row.stage, c).layers;
    if (row.ranks == 0) continue;
    row.compute_s = mean_seconds(sums[s].compute, row.ranks);
    row.bubble_s = mean_seconds(sums[s].bubble, row.ranks);
  }
  return rows;
}

}  // namespace orrery::metrics
