// Prediction modules in a program: on the last stage, before the head, with a copy of the table where no rank shares it.
#include "catch.h"
#include "jobs.hpp"

using namespace orrery;
using namespace orrery::program;
using workload::Axis;
using workload::CommKind;

namespace {

Job job_with(std::int64_t modules, std::int64_t tp, std::int64_t pp, std::int64_t zero = 1, bool tied = false) {
  Job job = test::small_job(tp, pp, 1, 2, zero, 2 * pp);
  job.model.mtp_layers = modules;
  job.model.tied_embeddings = tied;
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

std::int64_t modules_alone(const Job& job) {
  const workload::Shard shard = shard_of(job);
  return workload::layer_parameters(workload::LayerKind::kPrediction, job.model, shard).total() - workload::word_embedding_parameters(job.model, shard);
}

}  // namespace

TEST_CASE("modules stand on the last stage, with a copy of the table unless it is there already") {
  for (const std::int64_t pp : {1, 2, 4}) {
    for (const bool tied : {false, true}) {
      const Job with = job_with(2, 1, pp, 1, tied), without = job_with(0, 1, pp, 1, tied);
      const Program a = build(with), b = build(without);
      REQUIRE(verify(a).empty());
      const std::int64_t table = workload::word_embedding_parameters(with.model, shard_of(with));
      for (std::size_t s = 0; s < a.roles.size(); ++s) {
        const bool last = s + 1 == a.roles.size();
        const std::int64_t copy = pp > 1 && !tied ? table : 0;
        CHECK(a.roles[s].parameters - b.roles[s].parameters == (last ? modules_alone(with) + copy : 0));
      }
    }
  }
}

TEST_CASE("first and last stage add up the table's gradient where both look tokens up") {
  const Job untied = job_with(1, 1, 2), tied = job_with(1, 1, 2, 1, true), none = job_with(0, 1, 2);
  const std::int64_t bytes = 4 * workload::word_embedding_parameters(untied.model, shard_of(untied));
  for (const Job* job : {&untied, &tied}) {
    const Program program = build(*job);
    for (const Role& role : program.roles) CHECK(requested(program, role, CommKind::kAllReduce, Axis::kEmbedding) == bytes);
  }
  const Program program = build(none);
  CHECK(requested(program, program.roles[0], CommKind::kAllReduce, Axis::kEmbedding) == 0);
  const Program alone = build(job_with(1, 1, 1));
  CHECK(requested(alone, alone.roles[0], CommKind::kAllReduce, Axis::kEmbedding) == 0);
}

TEST_CASE("memory of a program with modules balances under every sharding, recompute and split backward pass") {
  for (const std::int64_t zero : {0, 1, 2, 3}) {
    for (const workload::RecomputeMode mode : {workload::RecomputeMode::kNone, workload::RecomputeMode::kFull}) {
      for (const plan::Schedule schedule : {plan::Schedule::k1F1B, plan::Schedule::kZbH1}) {
        if (zero >= 2 && schedule != plan::Schedule::k1F1B) continue;
        Job job = job_with(2, 2, 2, zero);
        job.training.recompute.mode = mode;
        job.parallelism.schedule = schedule;
        job.parallelism.p2p_overlapped = schedule != plan::Schedule::k1F1B;
        const Program program = build(job);
        REQUIRE(verify(program).empty());
        for (const Role& role : program.roles) {
          std::int64_t held = 0;
          for (const Item& item : role.items) {
            if (item.memory != MemoryKind::kActivations) continue;
            held += item.kind == ItemKind::kAllocate ? item.bytes : item.kind == ItemKind::kFree ? -item.bytes : 0;
            CHECK(held >= 0);
          }
          CHECK(held == 0);
        }
      }
    }
  }
}

TEST_CASE("a module's experts are a tensor each and reduced with the others") {
  Job job = job_with(2, 1, 1);
  workload::Moe& moe = job.model.moe.emplace();
  moe.experts = 4;
  moe.experts_per_token = 2;
  moe.expert_ffn = 512;
  job.parallelism.overlap_grad_reduce = true;
  const Program program = build(job);
  REQUIRE(verify(program).empty());
  const std::int64_t of_layer = 4 * 3 * 512 * job.model.hidden;
  CHECK(requested(program, program.roles[0], CommKind::kReduceScatter, Axis::kExpertDp) == 4 * (job.model.layers + 2) * of_layer);
}
