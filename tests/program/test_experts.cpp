// Experts in a program: a data-parallel group of their own, and roles that differ where loads do.
#include <algorithm>
#include <set>

#include "catch.h"
#include "jobs.hpp"

using namespace orrery;
using namespace orrery::program;
using workload::Axis;
using workload::CommKind;

namespace {

Job moe_job(std::int64_t tp, std::int64_t pp, std::int64_t dp, std::int64_t ep, std::int64_t etp, std::int64_t zero) {
  Job job = test::small_job(tp, pp, 1, dp, zero, 2 * pp);
  workload::Moe& moe = job.model.moe.emplace();
  moe.experts = 8;
  moe.experts_per_token = 2;
  moe.expert_ffn = 1024;
  job.parallelism.ep = ep;
  job.parallelism.etp = etp;
  job.parallelism.overlap_grad_reduce = job.parallelism.overlap_param_gather = true;
  return job;
}

std::int64_t requested(const Program& program, const Role& role, CommKind kind, Axis axis) {
  std::int64_t bytes = 0;
  for (const Item& item : role.items) {
    if (item.kind != ItemKind::kCollective) continue;
    const Request& r = program.requests[item.index];
    if (r.kind == kind && r.axis == axis) bytes += r.bytes;
  }
  return bytes;
}

/// Of one rank's layers: dense parameters and those of experts.
std::pair<std::int64_t, std::int64_t> parameters(const Job& job) {
  const workload::Shard shard = shard_of(job);
  std::int64_t dense = 0, experts = 0;
  for (const auto& [kind, count] : {std::pair{workload::LayerKind::kEmbedding, std::int64_t{1}}, std::pair{workload::LayerKind::kDecoder, job.model.layers}, std::pair{workload::LayerKind::kHead, std::int64_t{1}}}) {
    workload::Block block;
    block.moe = kind == workload::LayerKind::kDecoder;
    const workload::LayerParameters p = workload::layer_parameters(kind, job.model, shard, block);
    dense += count * (p.total() - p.experts);
    experts += count * p.experts;
  }
  return {dense, experts};
}

}  // namespace

TEST_CASE("gradients of experts are reduced over the ranks that hold the same ones, the others over the data-parallel group") {
  const Job job = moe_job(1, 1, 8, 4, 1, 1);
  const Program program = build(job);
  REQUIRE(verify(program).empty());
  const auto [dense, experts] = parameters(job);
  CHECK(requested(program, program.roles[0], CommKind::kReduceScatter, Axis::kDp) == 4 * dense);
  CHECK(requested(program, program.roles[0], CommKind::kReduceScatter, Axis::kExpertDp) == 4 * experts);
  CHECK(requested(program, program.roles[0], CommKind::kAllGather, Axis::kExpertDp) == 2 * experts);
  CHECK(program.roles[0].parameters == dense + experts);
}

TEST_CASE("experts that no other rank holds are neither reduced nor gathered") {
  const Job job = moe_job(1, 1, 8, 8, 1, 1);
  const Program program = build(job);
  CHECK(requested(program, program.roles[0], CommKind::kReduceScatter, Axis::kExpertDp) == 0);
  CHECK(requested(program, program.roles[0], CommKind::kAllGather, Axis::kExpertDp) == 0);
  CHECK(requested(program, program.roles[0], CommKind::kReduceScatter, Axis::kDp) > 0);
}

TEST_CASE("optimizer states of experts are sharded by the experts' group") {
  // ZeRO-1, bf16: 6 bytes a parameter stay, 12 are shared by the group (modelling 5.1).
  for (const std::int64_t ep : {1, 2, 4, 8}) {
    const Job job = moe_job(1, 1, 8, ep, 1, 1);
    const Program program = build(job);
    const auto [dense, experts] = parameters(job);
    std::int64_t held = 0;
    for (const Item& item : program.roles[0].items) {
      if (item.kind == ItemKind::kAllocate && item.memory == MemoryKind::kOptimizer) held += item.bytes;
    }
    const auto shares = [](std::int64_t n, std::int64_t group) { return (n + group - 1) / group; };
    CHECK(held == 12 * (shares(dense, 8) + shares(experts, 8 / ep)));
  }
}

TEST_CASE("every layout of experts makes a program that verifies") {
  for (const std::int64_t tp : {1, 2}) {
    for (const std::int64_t pp : {1, 2}) {
      for (const std::int64_t ep : {1, 2, 4}) {
        for (const std::int64_t etp : {1, 2}) {
          for (const std::int64_t zero : {0, 1, 2, 3}) {
            for (const workload::ExpertDispatch d : {workload::ExpertDispatch::kAllToAll, workload::ExpertDispatch::kDeepEp, workload::ExpertDispatch::kAllGather}) {
              if (tp * 4 % (ep * etp) != 0) continue;  // what read_parallelism refuses
              Job job = moe_job(tp, pp, 4, ep, etp, zero);
              job.parallelism.ep_dispatch = d;
              INFO("tp " << tp << " pp " << pp << " ep " << ep << " etp " << etp << " zero " << zero);
              CHECK(verify(build(job)) == std::vector<std::string>());
            }
          }
        }
      }
    }
  }
}

TEST_CASE("a skewed histogram gives each expert-parallel rank a program that communicates as the others do") {
  Job job = moe_job(1, 2, 4, 4, 1, 1);
  job.model.moe->load = workload::ExpertLoad::kHistogram;
  job.model.moe->histogram = {9, 1, 1, 1, 1, 1, 1, 1};
  const Program program = build(job);
  CHECK(program.variants() == 4);
  CHECK(program.roles.size() == 8);
  CHECK(verify(program) == std::vector<std::string>());
  std::set<double> flops;
  Job shared = moe_job(2, 1, 4, 4, 2, 1);
  shared.model.moe = job.model.moe;
  CHECK(verify(build(shared)) == std::vector<std::string>());
  for (const Role& role : program.roles) {
    double sum = 0;
    for (const Segment& segment : role.segments) {
      for (const workload::Operation& op : segment.operations) {
        if (const auto* g = std::get_if<workload::GroupedGemm>(&op.work)) sum += g->flops().value();
      }
    }
    flops.insert(sum);
  }
  CHECK(flops.size() >= 2);
}
