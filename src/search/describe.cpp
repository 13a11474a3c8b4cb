// From what a simulation kept to the tables that metrics reads.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "orrery/base/assert.hpp"
#include "orrery/program/blocks.hpp"
#include "orrery/search/search.hpp"

namespace orrery::search {

namespace {

using metrics::Account;
using metrics::Inputs;

Account account_of(const lower::Account& a) {
  switch (a.kind) {
    case lower::Account::Kind::kPeer: return {Account::Kind::kWaitsForPeer, a.axis};
    case lower::Account::Kind::kHost: return {Account::Kind::kWaitsForHost, a.axis};
    case lower::Account::Kind::kCompute: return {Account::Kind::kCompute, a.axis};
    case lower::Account::Kind::kOptimizer: return {Account::Kind::kOptimizer, a.axis};
    case lower::Account::Kind::kCommunication: return {Account::Kind::kComm, a.axis};
  }
  ORRERY_ASSERT(false, "the switch names every account");
}

void transfers(Inputs& in, const lower::Lowered& lowered) {
  for (const lower::Account& a : lowered.accounts) in.accounts.push_back(account_of(a));
  for (std::uint32_t row : lowered.transfer_row) {
    const lower::TransferRow& r = lowered.rows[row];
    metrics::TransferInfo t;
    t.kind = lower::to_kind(r.kind);
    t.axis = r.axis;
    t.ranks = r.ranks;
    t.bytes = r.bytes;
    t.algorithm = r.choice.algorithm;
    t.protocol = r.choice.protocol;
    t.channels = r.choice.channels;
    t.limited_by = r.limited_by;
    t.origin = r.origin;
    t.account = r.account;
    in.transfers.push_back(std::move(t));
  }
}

std::int64_t gib_bytes(double gib) { return static_cast<std::int64_t>(gib * static_cast<double>(kGiB)); }

/// Splits a total into integers that sum to it, in proportion; all of it to the last where the parts are nothing.
template <std::size_t N>
std::array<SimTime, N> split(SimTime total, const std::array<double, N>& parts) {
  double sum = 0, running = 0;
  for (const double p : parts) sum += p;
  std::array<SimTime, N> out{};
  SimTime given = 0;
  for (std::size_t i = 0; i < N && sum > 0; ++i) {
    running += parts[i];
    const SimTime upto = std::min(total, static_cast<SimTime>(std::llround(static_cast<double>(total) * (running / sum))));
    out[i] = upto - given;
    given = upto;
  }
  out[N - 1] += total - given;
  return out;
}

/// Device memory that is the runtime's: the context, torch.distributed once there is somebody to talk to, NCCL's staging buffers.
std::int64_t runtime_bytes(const simulate::Outcome& out, std::size_t role) {
  const program::Stack& stack = out.job.stack;
  return gib_bytes(stack.context_gib + (out.gpus > 1 ? stack.distributed_gib : 0)) + (stack.nccl_channel_buffers ? out.lowered->nccl_bytes[role] : 0);
}

void programs(Inputs& in, const simulate::Outcome& out) {
  for (std::size_t role = 0; role < out.program->roles.size(); ++role) {
    metrics::ProgramInfo p;
    p.stage = out.program->roles[role].stage;
    p.framework_bytes = runtime_bytes(out, role);
    const std::int64_t left = in.gpu.memory_capacity.value() - p.framework_bytes;
    const program::Footprint footprint = program::replay(out.program->roles[role].blocks, out.job.stack.allocator, left);
    p.allocated_bytes = footprint.allocated;
    p.reserved_bytes = footprint.reserved;
    p.kind_bytes.assign(footprint.by_kind.begin(), footprint.by_kind.end());
    const std::vector<lower::SegmentCost>& costs = out.lowered->segments[role];
    for (std::size_t s = 0; s < costs.size(); ++s) {
      metrics::SegmentInfo info;
      const SimTime total = to_sim_time(costs[s].total);
      info.origin_ps = split(total, costs[s].seconds_by_origin);
      info.class_ps = split(total, costs[s].seconds_by_class);
      info.account = out.lowered->input.programs[role].segments[s].account;
      p.segments.push_back(info);
    }
    in.programs.push_back(std::move(p));
  }
}

/// The links of the input that was played: of a class, its lowest member.
void links(Inputs& in, const simulate::Outcome& out, bool full) {
  const std::vector<LinkId>& link_of = out.lowered->resource_link;
  const std::size_t classes = full ? link_of.size() : out.folded.input.resources.size();
  std::vector<LinkId> lowest(classes);  // none: above all others
  for (std::size_t r = 0; r < link_of.size(); ++r) {
    LinkId& link = lowest[full ? r : out.folded.resource_class[r]];
    link = std::min(link, link_of[r]);
  }
  in.links.resize(classes);
  for (std::size_t c = 0; c < classes; ++c) {
    const cluster::Link& link = out.cluster->links()[lowest[c].index()];
    in.links[c] = {link.kind, link.capacity, lowest[c].value};
  }
  const cluster::Cluster* named = out.cluster.get();  // outlives the inputs, which describe its outcome
  in.link_name = [named](std::uint32_t link) { return named->name(LinkId{link}); };
}

/// A warning's stable name: what kind of advice it is, by the part of the scenario that it is about.
std::string code_of(const Diagnostic& d) { return d.pointer == "/calibration" ? "calibration" : "unconfirmed-input"; }

void words(Inputs& in, const simulate::Outcome& out) {
  in.basis.model = out.job.model.name;
  in.basis.gpu = in.gpu.name;
  in.basis.stack = out.job.stack.name;
  in.basis.nccl_version = fmt::format("{}.{}", out.job.stack.nccl_version / 10000, out.job.stack.nccl_version % 10000 / 100);
  in.basis.clock_mhz = in.gpu.clock_mhz;
  in.basis.causal = out.job.training.causal;
  for (const calibration::Profile& p : out.profiles) in.calibration.push_back({p.name, p.provenance, p.expected_error_median, p.expected_error_p90});
  for (const Diagnostic& d : out.warnings) in.warnings.push_back({code_of(d), d.pointer, d.text});
}

Inputs describe(const simulate::Outcome& out, bool full) {
  Inputs in;
  in.counts = out.counts;
  in.training = out.job.training;
  in.parallelism = out.job.parallelism;
  in.gpu = out.cluster->node().gpu;
  in.gpus = out.gpus;
  in.full_ranks = static_cast<std::int64_t>(out.lowered->input.ranks.size());
  in.full_links = static_cast<std::int64_t>(out.lowered->input.resources.size());
  in.hardware_flops = program::hardware_flops(*out.program, out.job.parallelism);
  for (const program::Role& role : out.program->roles) {
    if (role.host_bytes > in.host_bytes.value_or(0)) in.host_bytes = role.host_bytes;
    if (role.drive_bytes > in.drive_bytes.value_or(0)) in.drive_bytes = role.drive_bytes;
  }
  const auto fullest_node = [&](std::int64_t program::Role::*bytes) {
    std::vector<std::int64_t> nodes(static_cast<std::size_t>(out.cluster->nodes()), 0);
    for (std::int64_t r = 0; r < out.gpus; ++r) {
      const plan::Coordinates at = out.grid->coordinates(r);
      nodes[static_cast<std::size_t>(r / out.cluster->gpus_per_node())] += out.program->roles[out.program->role_of(at.pp, at.cp, out.grid->expert_coordinates(r).ep)].*bytes;
    }
    return *std::max_element(nodes.begin(), nodes.end());
  };
  if (in.host_bytes) {
    in.host_node_bytes = fullest_node(&program::Role::host_bytes);
    in.host_capacity_bytes = out.cluster->node().host_memory.value();
  }
  if (in.drive_bytes) {
    in.drive_node_bytes = fullest_node(&program::Role::drive_bytes);
    in.drive_capacity_bytes = out.cluster->node().drive_bytes;
  }
  // Only scaled 16-bit gradients overflow.
  if (in.training.precision == workload::DType::kFp16 && out.job.stack.inf_check) in.skipped_steps = out.job.stack.skipped_steps;
  for (const char* kind : program::kMemoryKindNames) in.memory_kinds.emplace_back(kind);
  transfers(in, *out.lowered);
  programs(in, out);
  links(in, out, full);
  words(in, out);
  return in;
}

}  // namespace

metrics::Inputs describe(const simulate::Outcome& outcome) { return describe(outcome, false); }
metrics::Inputs describe_full(const simulate::Outcome& outcome) { return describe(outcome, true); }

Prediction summarise(const simulate::Outcome& outcome) {
  return {outcome.scenario, metrics::summarise(outcome.folded.input, outcome.result, describe(outcome))};
}

Result<Prediction> predict(const document::Document& scenario, const simulate::Options& options) {
  const Result<simulate::Outcome> outcome = simulate::simulate(scenario, options);
  if (!outcome) return fail(outcome.error());
  return summarise(*outcome);
}

}  // namespace orrery::search
