// Block traces: the same bytes as the items, nothing left over, and a replay that may leave out what repeats.
#include <algorithm>
#include <numeric>

#include <rapidcheck.h>

#include "catch.h"
#include "jobs.hpp"
#include "orrery/program/blocks.hpp"

using namespace orrery;
using namespace orrery::program;
using orrery::test::small_job;

namespace {

constexpr std::int64_t kPlenty = std::int64_t{1} << 50;

std::int64_t items_peak(const Role& role) {
  std::int64_t now = 0, most = 0;
  for (const Item& item : role.items) {
    if (item.kind == ItemKind::kAllocate) now += item.bytes;
    if (item.kind == ItemKind::kFree) now -= item.bytes;
    most = std::max(most, now);
  }
  return most;
}

Job random_job() {
  const std::int64_t tp = *rc::gen::element(1, 2, 4), pp = *rc::gen::element(1, 2, 4), dp = *rc::gen::element(1, 2, 8);
  const std::int64_t vp = pp > 1 ? *rc::gen::element(1, 2) : 1;
  Job job = small_job(tp, pp, vp, dp, *rc::gen::inRange(0, 4), pp * *rc::gen::inRange(1, 5));
  job.parallelism.overlap_grad_reduce = *rc::gen::arbitrary<bool>();
  job.parallelism.overlap_param_gather = *rc::gen::arbitrary<bool>();
  job.parallelism.p2p_overlapped = *rc::gen::arbitrary<bool>();
  job.parallelism.reshard_after_forward = *rc::gen::arbitrary<bool>();
  job.stack.fsdp_copies = *rc::gen::arbitrary<bool>();
  job.stack.root_unit = *rc::gen::arbitrary<bool>();
  job.stack.parameter_gradients = *rc::gen::arbitrary<bool>();
  job.stack.reduction_buckets = *rc::gen::arbitrary<bool>();
  job.stack.coalesced_copies = *rc::gen::arbitrary<bool>();
  job.stack.gradient_buffer = *rc::gen::arbitrary<bool>();
  job.stack.states_at_start = *rc::gen::arbitrary<bool>();
  job.model.tied_embeddings = *rc::gen::arbitrary<bool>();
  job.training.recompute.mode = *rc::gen::element(workload::RecomputeMode::kNone, workload::RecomputeMode::kSelective, workload::RecomputeMode::kFull);
  job.kernels.selective_modules = {"core_attn"};
  job.training.flash_attention = *rc::gen::arbitrary<bool>();
  job.training.offload.activations = *rc::gen::element(0.0, 0.0, 0.3, 1.0);
  RC_LOG() << "tp " << tp << " pp " << pp << " vp " << vp << " dp " << dp << " zero " << job.parallelism.zero << " batch " << job.training.global_batch << "\n";
  return job;
}

}  // namespace

TEST_CASE("tensors one by one peak where the items' sums do, and a step leaves none of its own behind") {
  CHECK(rc::check("exact replay = items", [] {
    const Program program = build(random_job());
    for (const Role& role : program.roles) {
      const Footprint f = replay(role.blocks, AllocatorKind::kExact, kPlenty);
      RC_ASSERT(f.allocated == items_peak(role));
      RC_ASSERT(std::accumulate(f.by_kind.begin(), f.by_kind.end(), std::int64_t{0}) == f.allocated);
    }
  }));
}

TEST_CASE("leaving out what repeats changes nothing") {
  CHECK(rc::check("marks", [] {
    Job job = random_job();
    job.training.global_batch *= 3;
    const Program program = build(job);
    for (const Role& role : program.roles) {
      BlockTrace whole = role.blocks;
      whole.marks.clear();
      for (const AllocatorKind kind : {AllocatorKind::kCaching, AllocatorKind::kExpandableSegments}) {
        RC_ASSERT(replay(role.blocks, kind, kPlenty) == replay(whole, kind, kPlenty));
      }
    }
  }));
}

TEST_CASE("allocated never exceeds reserved, and neither falls below what tensors use") {
  CHECK(rc::check("exact <= allocated <= reserved", [] {
    const Program program = build(random_job());
    for (const Role& role : program.roles) {
      const std::int64_t exact = replay(role.blocks, AllocatorKind::kExact, kPlenty).allocated;
      for (const AllocatorKind kind : {AllocatorKind::kCaching, AllocatorKind::kExpandableSegments}) {
        const Footprint f = replay(role.blocks, kind, kPlenty);
        RC_ASSERT(exact <= f.allocated);
        RC_ASSERT(f.allocated <= f.reserved);
      }
    }
  }));
}

TEST_CASE("what a step reserves shows in the second step where the first update makes the optimizer's states") {
  // Two tensors of 30 MiB stand at the end of the first step's passes; the states take their cached place, so they need a new one.
  BlockTrace trace;
  trace.handles = 2;
  trace.lists = {{{{0, MemoryKind::kActivations, 0, 30 * kMiB}}, false}, {{{0, MemoryKind::kActivations, 0, 0}}, false}, {{{1, MemoryKind::kOptimizer, 0, 30 * kMiB}}, true}};
  trace.step = {{0, 0}, {1, 0}, {2, 0}};
  const Footprint late = replay(trace, AllocatorKind::kCaching, kPlenty);
  CHECK(late.reserved == 60 * kMiB);
  CHECK(late.allocated == 60 * kMiB);
  CHECK(late.by_kind[static_cast<std::size_t>(MemoryKind::kOptimizer)] == 30 * kMiB);
}
