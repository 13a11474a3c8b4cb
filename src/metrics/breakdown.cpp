// Where the step goes: the partition of [0, step], the kinds of kernels in it, and the origins of its durations.
#include <numeric>

#include "metrics/parts.hpp"

namespace orrery::metrics {

ExposedAxis exposed_axis(workload::Axis axis, std::int64_t stages) {
  switch (axis) {
    case workload::Axis::kTp:
    case workload::Axis::kEtp: return ExposedAxis::kTp;
    case workload::Axis::kCp: return ExposedAxis::kCp;
    case workload::Axis::kEp: return ExposedAxis::kEp;
    case workload::Axis::kPp:
    case workload::Axis::kEmbedding: return ExposedAxis::kPp;
    case workload::Axis::kModel: return stages > 1 ? ExposedAxis::kPp : ExposedAxis::kTp;
    case workload::Axis::kToHost:
    case workload::Axis::kFromHost:
    case workload::Axis::kToDrives:
    case workload::Axis::kFromDrives:
    case workload::Axis::kSwapOut:
    case workload::Axis::kSwapIn:
    case workload::Axis::kHostUpdate: return ExposedAxis::kHost;
    case workload::Axis::kDp:
    case workload::Axis::kDpReplicas:
    case workload::Axis::kDpShard:
    case workload::Axis::kMirror:
    case workload::Axis::kExpertDp:
    case workload::Axis::kWorld: break;
  }
  return ExposedAxis::kDp;
}

Breakdown breakdown(const std::vector<int128>& totals, const Inputs& inputs) {
  int128 compute = 0, optimizer = 0, bubble = 0, other = 0;
  std::array<int128, kExposedAxes> exposed{};
  for (std::size_t a = 0; a < totals.size(); ++a) {
    const Account& account = inputs.accounts[a];
    switch (account.kind) {
      case Account::Kind::kWaitsForPeer: bubble += totals[a]; break;
      case Account::Kind::kWaitsForHost: other += totals[a]; break;
      case Account::Kind::kCompute: compute += totals[a]; break;
      case Account::Kind::kOptimizer: optimizer += totals[a]; break;
      case Account::Kind::kComm: exposed[static_cast<std::size_t>(exposed_axis(account.axis, inputs.parallelism.pp))] += totals[a]; break;
    }
  }
  Breakdown b;
  b.compute_s = mean_seconds(compute, inputs.gpus);
  b.optimizer_s = mean_seconds(optimizer, inputs.gpus);
  b.bubble_s = mean_seconds(bubble, inputs.gpus);
  b.other_s = mean_seconds(other, inputs.gpus);
  for (std::size_t x = 0; x < kExposedAxes; ++x) b.exposed_comm_s[x] = mean_seconds(exposed[x], inputs.gpus);
  return b;
}

namespace {

/// Calls visit(segment, picoseconds over all ranks) for every segment that ran.
template <class Visit>
void each_segment(const engine::Result& result, const Inputs& inputs, Visit visit) {
  for (std::size_t p = 0; p < inputs.programs.size(); ++p)
    for (std::size_t s = 0; s < inputs.programs[p].segments.size(); ++s)
      if (result.segment_ps[p][s] > 0) visit(inputs.programs[p].segments[s], static_cast<double>(result.segment_ps[p][s]));
}

/// Adds `amount`, divided as the parts are; all of it to `otherwise` where the parts are all zero.
template <std::size_t N>
void spread(std::array<double, N>& sums, const std::array<SimTime, N>& parts, double amount, std::size_t otherwise) {
  const SimTime whole = std::accumulate(parts.begin(), parts.end(), SimTime{0});
  if (whole == 0) {
    sums[otherwise] += amount;
    return;
  }
  for (std::size_t i = 0; i < N; ++i) sums[i] += amount * (static_cast<double>(parts[i]) / static_cast<double>(whole));
}

}  // namespace

std::array<double, kOperationClasses> compute_by_class(const engine::Result& result, const Inputs& inputs) {
  std::array<double, kOperationClasses> ps{};
  each_segment(result, inputs, [&](const SegmentInfo& segment, double time) {
    if (inputs.accounts[segment.account].kind == Account::Kind::kCompute)
      spread(ps, segment.class_ps, time, static_cast<std::size_t>(OperationClass::kMemoryBound));
  });
  for (double& v : ps) v /= kPicosecondsPerSecond * static_cast<double>(inputs.gpus);
  return ps;
}

// A bubble lasts as long as what others do meanwhile, so it has no origin of its own: shares are of the time that is accounted to
// kernels, communication in flight and the host.
std::array<double, kOriginCount> origin_shares(const std::vector<int128>& totals, const engine::Result& result, const Inputs& inputs,
                                               const std::vector<CollectiveRow>& collectives) {
  std::array<double, kOriginCount> ps{};
  each_segment(result, inputs, [&](const SegmentInfo& segment, double time) {
    spread(ps, segment.origin_ps, time, static_cast<std::size_t>(Origin::kDefault));
  });
  for (const CollectiveRow& row : collectives)
    ps[static_cast<std::size_t>(row.origin)] += row.exposed_s * kPicosecondsPerSecond * static_cast<double>(inputs.gpus);
  for (std::size_t a = 0; a < totals.size(); ++a)
    if (inputs.accounts[a].kind == Account::Kind::kWaitsForHost) ps[static_cast<std::size_t>(inputs.host_origin)] += static_cast<double>(totals[a]);
  const double whole = std::accumulate(ps.begin(), ps.end(), 0.0);
  if (whole > 0)
    for (double& v : ps) v /= whole;
  return ps;
}

}  // namespace orrery::metrics
