// Data-parallel habits of the frameworks: which collectives, over what, when.
#include <algorithm>
#include <vector>

#include "catch.h"
#include "jobs.hpp"

using namespace orrery;
using namespace orrery::program;
using orrery::test::small_job;
using workload::Axis;
using workload::CommKind;

namespace {

/// The collectives of a role on an axis, in the host's order.
std::vector<Request> requests_on(const Program& program, const Role& role, Axis axis, CommKind kind) {
  std::vector<Request> out;
  for (const Item& item : role.items) {
    if (item.kind != ItemKind::kCollective) continue;
    const Request& r = program.requests[item.index];
    if (r.axis == axis && r.kind == kind) out.push_back(r);
  }
  return out;
}
std::int64_t sum(const std::vector<Request>& requests) {
  std::int64_t bytes = 0;
  for (const Request& r : requests) bytes += r.bytes;
  return bytes;
}

}  // namespace

TEST_CASE("ZeRO 3 gathers every unit forward and backward of every microbatch but the last of the pass, and reduces it each time") {
  const std::int64_t microbatches = 3;
  Job job = small_job(1, 1, 1, 4, 3, microbatches);
  const Program program = build(job);
  const Role& role = program.roles[0];
  const std::int64_t units = 2 + 2;  // two layers, embedding and head
  CHECK(requests_on(program, role, Axis::kDp, CommKind::kAllGather).size() == static_cast<std::size_t>(microbatches * (2 * units - 1)));
  CHECK(requests_on(program, role, Axis::kDp, CommKind::kReduceScatter).size() == static_cast<std::size_t>(microbatches * units));
  job.parallelism.reshard_after_forward = false;
  const Program kept = build(job);
  CHECK(requests_on(kept, kept.roles[0], Axis::kDp, CommKind::kAllGather).size() == static_cast<std::size_t>(microbatches * units));
}

TEST_CASE("a gather is issued as many units ahead as the stack prefetches") {
  for (const std::size_t prefetch : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) {
    Job job = small_job(1, 1, 1, 4, 3, 1);
    job.model.layers = 6;
    job.parallelism.layers_per_stage = {6};
    job.stack.fsdp_prefetch = prefetch;
    const Program program = build(job);
    // Gathers that stand before the first kernel: the first unit and those ahead of it.
    std::size_t gathers = 0;
    for (const Item& item : program.roles[0].items) {
      if (item.kind == ItemKind::kSegment) break;
      gathers += item.kind == ItemKind::kCollective ? 1 : 0;
    }
    CHECK(gathers == 1 + prefetch);
  }
}

TEST_CASE("FSDP1 gathers embedding and head as one root, once a microbatch, and reduces it with the last gradient") {
  Job job = small_job(1, 1, 1, 4, 3, 1);
  const Program two = build(job);
  job.stack.style = DataParallelStyle::kFsdp1;
  job.stack.root_unit = true;
  const Program one = build(job);
  const auto gathers = requests_on(one, one.roles[0], Axis::kDp, CommKind::kAllGather);
  const std::int64_t root = 2 * (2 * 32000 * 512 + 512);  // two matrices and the final norm, two bytes
  CHECK(gathers.front().bytes == root);
  CHECK(std::count_if(gathers.begin(), gathers.end(), [&](const Request& r) { return r.bytes == root; }) == 1);
  const auto scatters = requests_on(one, one.roles[0], Axis::kDp, CommKind::kReduceScatter);
  CHECK(scatters.size() == 3);
  CHECK(scatters.back().bytes == 2 * root);  // fp32
  CHECK(sum(scatters) == sum(requests_on(two, two.roles[0], Axis::kDp, CommKind::kReduceScatter)));
  CHECK(verify(one).empty());
}

TEST_CASE("DeepSpeed gathers matrices one by one, the same bytes in all, and all-reduces the gradients of ZeRO 1 and 2") {
  Job job = small_job(1, 1, 1, 4, 3, 1);
  const Program whole = build(job);
  job.stack.gathers_matrices = true;
  const Program parts = build(job);
  const auto units = requests_on(whole, whole.roles[0], Axis::kDp, CommKind::kAllGather), matrices = requests_on(parts, parts.roles[0], Axis::kDp, CommKind::kAllGather);
  CHECK(sum(units) == sum(matrices));
  CHECK(matrices.size() == units.size() + 4 * 3);  // two layers forward and backward: qkv, projection, gate and up, down
  job.stack.zero_all_reduces = true;
  for (const std::int64_t zero : {1, 2, 3}) {
    job.parallelism.zero = zero;
    const Program program = build(job);
    CHECK(requests_on(program, program.roles[0], Axis::kDp, CommKind::kAllReduce).empty() == (zero == 3));
    CHECK(requests_on(program, program.roles[0], Axis::kDp, CommKind::kReduceScatter).empty() == (zero < 3));
    CHECK(verify(program).empty());
  }
}

TEST_CASE("ZeRO 2 reduces every microbatch, ZeRO 1 once a step") {
  for (const std::int64_t zero : {1, 2}) {
    Job job = small_job(1, 1, 1, 4, zero, 5);
    job.stack.bucket_parameters = std::nullopt;
    const Program program = build(job);
    CHECK(requests_on(program, program.roles[0], Axis::kDp, CommKind::kReduceScatter).size() == (zero == 1 ? 1u : 5u));
  }
}

TEST_CASE("replicas reduce inside and then across, shard by shard, on a stream of their own") {
  for (const std::int64_t zero : {1, 2, 3}) {
    Job job = small_job(1, 1, 1, 8, zero, 2);
    job.parallelism.replicas = 2;
    job.parallelism.overlap_grad_reduce = job.parallelism.overlap_param_gather = true;
    const Program program = build(job);
    const Role& role = program.roles[0];
    CHECK(verify(program).empty());
    const auto inside = requests_on(program, role, Axis::kDpShard, CommKind::kReduceScatter), across = requests_on(program, role, Axis::kDpReplicas, CommKind::kAllReduce);
    REQUIRE(inside.size() == across.size());
    CHECK(!inside.empty());
    for (std::size_t i = 0; i < inside.size(); ++i) CHECK(across[i].bytes == (inside[i].bytes / 4 + 3) / 4 * 4);
    for (const Item& item : role.items) {
      if (item.kind == ItemKind::kCollective && program.requests[item.index].axis == Axis::kDpReplicas) CHECK(item.stream == Stream::kReplicaReduce);
    }
  }
}
