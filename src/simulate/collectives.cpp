#include "orrery/simulate/collectives.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "machines.hpp"
#include "orrery/base/assert.hpp"
#include "orrery/calibration/select.hpp"
#include "orrery/engine/run.hpp"
#include "orrery/lower/fold.hpp"
#include "orrery/lower/lower.hpp"
#include "orrery/program/stack.hpp"

namespace orrery::simulate {
namespace {

using collective::Kind;

workload::CommKind comm_kind(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce: return workload::CommKind::kAllReduce;
    case Kind::kAllGather: return workload::CommKind::kAllGather;
    case Kind::kReduceScatter: return workload::CommKind::kReduceScatter;
    case Kind::kAllToAll: return workload::CommKind::kAllToAll;
    case Kind::kBroadcast: return workload::CommKind::kBroadcast;
    case Kind::kReduce: return workload::CommKind::kReduce;
    case Kind::kSendRecv: return workload::CommKind::kSendRecv;
  }
  ORRERY_ASSERT(false, "the switch names every kind");
}

/// The collectives in a row on the compute stream of one role, and nothing else: no host time, no memory.
program::Program one_after_the_other(const CollectiveQuery& query) {
  program::Program program;
  program::Role role;
  for (const std::int64_t bytes : query.bytes) {
    program::Item item;
    item.kind = program::ItemKind::kCollective;
    item.index = static_cast<std::uint32_t>(program.requests.size());
    program.requests.push_back({workload::Axis::kWorld, comm_kind(query.kind), bytes});
    role.items.push_back(item);
  }
  program.roles.push_back(std::move(role));
  program.run_ahead = static_cast<std::uint32_t>(query.bytes.size()) + 1;
  return program;
}

/// How long each instruction of the first rank's only stream took.
class Durations final : public engine::Sink {
 public:
  bool wants(std::uint32_t rank) const override { return rank == 0; }
  void ran(std::uint32_t, std::uint32_t, std::uint32_t, SimTime, SimTime started, SimTime ended) override { taken.push_back(ended - started); }
  void memory(std::uint32_t, SimTime, std::uint32_t, std::int64_t) override {}
  std::vector<SimTime> taken;
};

/// A thread that drives several GPUs launches their kernels one after the other, and repetitions follow each other no faster: 4.2 us a launch with
/// NCCL's enqueue, and 0.4 us a send or receive of a group. Sources: 33 to 35 us for whatever is small on 8 GPUs of one thread, all collectives alike, and
/// 86 us for its all-to-all of 128 sends and receives (microsoft/superbenchmark, tests/data, 8 x A100); 33 us on 8 x H100 (NVIDIA/nccl, issue 2094).
Seconds host_time(Kind kind, std::int64_t ranks, std::int64_t gpus) {
  if (gpus <= 1) return Seconds(0);
  constexpr double kLaunch = 4.2e-6, kOperation = 0.4e-6;
  const double operations = kind == Kind::kAllToAll ? 2 * static_cast<double>(ranks) : kind == Kind::kSendRecv ? 2 : 0;
  return Seconds(static_cast<double>(gpus) * (kLaunch + operations * kOperation));
}

}  // namespace

Result<std::vector<CollectiveRow>> collectives(const document::Document& scenario, const CollectiveQuery& query) {
  const document::Value& s = scenario.value;
  const std::string& file = scenario.file;
  auto parts = read_parts(s, file);
  if (!parts) return fail(parts.error());
  if (query.ranks < 2) return fail(file, "", fmt::format("{} ranks have nobody to talk to; use 2 or more", query.ranks));
  if (query.ranks > parts->gpus) return fail(file, "/cluster", fmt::format("{} ranks, but the cluster has {} GPUs; use at most that, or raise /cluster/nodes", query.ranks, parts->gpus));
  parts->gpus = query.ranks;
  const auto seed = static_cast<std::uint64_t>(s.at("seed").as_int());
  const auto machines = build_cluster(*parts, seed, file);
  if (!machines) return fail(machines.error());
  const cluster::Cluster& built = **machines;
  const calibration::Target target{parts->node.gpu.name, parts->node.gpu.architecture, parts->fabric ? parts->fabric->name : "", parts->fabric ? parts->fabric->kind : ""};
  auto selected = calibration::select(s.at("calibration"), target, file);
  if (!selected) return fail(selected.error());
  selected->profile.links = calibration::on_network(selected->profile.links, network_of(*parts, built));

  plan::Parallelism layout;
  layout.dp = query.ranks;
  const plan::Grid grid(layout);
  const program::Program program = one_after_the_other(query);
  const program::Stack stack = program::read_stack(s.at("stack"));
  const auto nccl = read_nccl(s, stack.nccl_version, file);
  if (!nccl) return fail(nccl.error());
  const lower::World world{program, layout, grid, built, selected->profile, *nccl, "", {}, seed};
  auto lowered = lower::lower(world, file);
  if (!lowered) return fail(lowered.error());
  lower::drop_free_resources(lowered->input);
  const lower::Folded folded = lower::fold(lowered->input);
  if (const std::vector<std::string> broken = engine::check(folded.input); !broken.empty()) {
    Diagnostics d;
    for (const std::string& text : broken) d.push_back({file, "", text});
    return fail(std::move(d));
  }
  Durations durations;
  engine::Options play;
  play.sink = &durations;
  const auto played = engine::run(folded.input, *lowered->times, play);
  if (!std::holds_alternative<engine::Result>(played)) return fail(file, "", "the collectives take longer than simulated time reaches; look for a link far too slow or a size far too large");
  ORRERY_ASSERT(durations.taken.size() == query.bytes.size(), "every collective ran once");

  std::vector<CollectiveRow> rows;
  const engine::Group& group = lowered->input.groups.front();
  for (std::size_t i = 0; i < query.bytes.size(); ++i) {
    const lower::TransferRow& row = lowered->rows[lowered->transfer_row[group.first_transfer + i]];
    CollectiveRow out;
    out.ranks = query.ranks;
    out.nodes = (query.ranks + built.gpus_per_node() - 1) / built.gpus_per_node();
    out.bytes = query.bytes[i];
    const Seconds host = host_time(query.kind, query.ranks, std::min(query.gpus_per_thread, query.ranks));
    out.time = std::max(to_seconds(durations.taken[i]), host);
    out.algbw = Bytes(out.bytes) / out.time;
    out.busbw = out.algbw * collective::busbw_factor(query.kind, query.ranks);
    out.choice = row.choice;
    out.limited_by = host == out.time ? "launches" : row.limited_by;
    out.origin = row.origin;
    out.nearest = cost::nearest_measured(query.kind, static_cast<double>(out.bytes), to_string(row.choice.algorithm), query.ranks, built.domain_of(query.ranks - 1) + 1, nccl->version,
                                         selected->profile);
    // A published curve says nothing beyond its ends, whatever a sum of its parts is called.
    if (out.nearest && !out.nearest->within && out.origin == Origin::kPublished) out.origin = Origin::kExtrapolated;
    rows.push_back(std::move(out));
  }
  return rows;
}

}  // namespace orrery::simulate
