#include "orrery/search/predict.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::search {
namespace {

metrics::Account account(const lower::Account& a) {
  using From = lower::Account::Kind;
  using To = metrics::Account::Kind;
  switch (a.kind) {
    case From::kPeer: return {To::kWaitsForPeer, a.axis};
    case From::kHost: return {To::kWaitsForHost, a.axis};
    case From::kCompute: return {To::kCompute, a.axis};
    case From::kOptimizer: return {To::kOptimizer, a.axis};
    case From::kCommunication: return {To::kComm, a.axis};
  }
  return {};
}

collective::Kind kind(workload::CommKind k) { return static_cast<collective::Kind>(k); }
static_assert(static_cast<int>(workload::CommKind::kSendRecv) == static_cast<int>(collective::Kind::kSendRecv));
static_assert(static_cast<int>(workload::CommKind::kAllToAll) == static_cast<int>(collective::Kind::kAllToAll));

/// Splits a total into integers that sum to it, in proportion.
template <std::size_t N>
std::array<SimTime, N> split(SimTime total, const std::array<double, N>& parts) {
  double sum = 0;
  for (const double p : parts) sum += p;
  std::array<SimTime, N> out{};
  if (sum <= 0) {
    out[N - 1] = total;
    return out;
  }
  double running = 0;
  SimTime given = 0;
  for (std::size_t i = 0; i < N; ++i) {
    running += parts[i];
    const auto upto = std::min(total, static_cast<SimTime>(std::llround(static_cast<double>(total) * (running / sum))));
    out[i] = upto - given;
    given = upto;
  }
  out[N - 1] += total - given;
  return out;
}

metrics::ProgramInfo program_info(const simulate::Outcome& o, std::size_t role) {
  metrics::ProgramInfo info;
  const program::Role& r = o.program->roles[role];
  info.stage = r.stage;
  for (std::size_t s = 0; s < r.segments.size(); ++s) {
    const lower::SegmentCost& cost = o.lowered->segments[role][s];
    metrics::SegmentInfo segment;
    const SimTime total = to_sim_time(cost.total);
    segment.origin_ps = split(total, cost.seconds_by_origin);
    segment.class_ps = split(total, cost.seconds_by_class);
    segment.account = o.lowered->input.programs[role].segments[s].account;
    info.segments.push_back(segment);
  }
  const program::Stack& stack = o.job.stack;
  const double runtime_gib = stack.context_gib + (o.gpus > 1 ? stack.distributed_gib : 0);
  info.framework_bytes = static_cast<std::int64_t>(runtime_gib * static_cast<double>(kGiB)) + (stack.nccl_channel_buffers ? o.lowered->nccl_bytes[role] : 0);
  return info;
}

metrics::Inputs describe(const simulate::Outcome& o) {
  metrics::Inputs in;
  in.counts = o.counts;
  in.training = o.job.training;
  in.parallelism = o.job.parallelism;
  in.gpu = o.cluster->node().gpu;
  in.gpus = o.gpus;
  in.hardware_flops = program::hardware_flops(*o.program, o.job.parallelism);
  for (const lower::Account& a : o.lowered->accounts) in.accounts.push_back(account(a));
  for (std::size_t t = 0; t < o.lowered->input.transfers.size(); ++t) {
    const lower::TransferRow& row = o.lowered->rows[o.lowered->transfer_row[t]];
    in.transfers.push_back({kind(row.kind), row.axis, row.ranks, row.bytes, row.choice.algorithm, row.choice.protocol, row.choice.channels, row.limited_by, row.origin, row.account});
  }
  for (std::size_t r = 0; r < o.program->roles.size(); ++r) in.programs.push_back(program_info(o, r));
  // The lowest member names a resource class: the first resource of the full input that maps to it.
  std::vector<bool> seen(o.folded.input.resources.size(), false);
  in.links.resize(o.folded.input.resources.size());
  for (std::size_t r = 0; r < o.folded.resource_class.size(); ++r) {
    const std::uint32_t c = o.folded.resource_class[r];
    if (seen[c]) continue;
    seen[c] = true;
    const LinkId link = o.lowered->resource_link[r];
    const cluster::Link& l = o.cluster->links()[link.index()];
    in.links[c] = {l.kind, l.capacity, link.value};
  }
  in.link_name = [&o](std::uint32_t link) { return o.cluster->name(LinkId{link}); };
  for (const char* name : program::kMemoryKindNames) in.memory_kinds.emplace_back(name);
  in.reserved_over_allocated = o.job.stack.fragmentation;
  in.host_origin = Origin::kDefault;
  for (const calibration::Profile& p : o.profiles) in.calibration.push_back({p.name, p.provenance, p.expected_error_median, p.expected_error_p90});
  for (const Diagnostic& w : o.warnings) in.warnings.push_back({"input", w.pointer, w.text});
  in.full_ranks = o.gpus;
  in.full_links = static_cast<std::int64_t>(o.lowered->input.resources.size());
  return in;
}

}  // namespace

Result<Prediction> predict(const document::Document& scenario, const simulate::Options& options) {
  auto outcome = simulate::simulate(scenario, options);
  if (!outcome) return fail(outcome.error());
  Prediction p;
  p.outcome = std::move(*outcome);
  p.summary = metrics::summarise(p.outcome.folded.input, p.outcome.result, describe(p.outcome));
  return p;
}

}  // namespace orrery::search
