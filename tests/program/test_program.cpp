#include <algorithm>

#include <rapidcheck.h>

#include "catch.h"
#include "jobs.hpp"

using namespace orrery;
using namespace orrery::program;
using orrery::test::small_job;

namespace {

std::size_t find(const Role& role, ItemKind kind, std::size_t from = 0) {
  for (std::size_t i = from; i < role.items.size(); ++i) {
    if (role.items[i].kind == kind) return i;
  }
  return role.items.size();
}

/// Peak of a memory kind over the host's list.
std::int64_t peak(const Role& role, MemoryKind kind) {
  std::int64_t now = 0, most = 0;
  for (const Item& item : role.items) {
    if (item.memory != kind) continue;
    if (item.kind == ItemKind::kAllocate) now += item.bytes;
    if (item.kind == ItemKind::kFree) now -= item.bytes;
    most = std::max(most, now);
  }
  return most;
}

std::int64_t total_bytes(const Program& program, const Role& role, workload::Axis axis, workload::CommKind kind) {
  std::int64_t sum = 0;
  for (const Item& item : role.items) {
    if (item.kind != ItemKind::kCollective) continue;
    const Request& r = program.requests[item.index];
    if (r.axis == axis && r.kind == kind) sum += r.bytes;
  }
  return sum;
}

}  // namespace

TEST_CASE("every program that is built passes the verifier") {
  CHECK(rc::check("verified", [] {
    const std::int64_t tp = *rc::gen::element(1, 2, 4), pp = *rc::gen::element(1, 2, 4), dp = *rc::gen::element(1, 2, 8);
    const std::int64_t vp = pp > 1 ? *rc::gen::element(1, 2) : 1;
    Job job = small_job(tp, pp, vp, dp, *rc::gen::inRange(0, 4), pp * *rc::gen::inRange(1, 4));
    job.parallelism.overlap_grad_reduce = *rc::gen::arbitrary<bool>();
    job.parallelism.overlap_param_gather = *rc::gen::arbitrary<bool>();
    job.parallelism.p2p_overlapped = *rc::gen::arbitrary<bool>();
    job.parallelism.reshard_after_forward = *rc::gen::arbitrary<bool>();
    job.stack.fsdp_copies = *rc::gen::arbitrary<bool>();
    job.model.tied_embeddings = *rc::gen::arbitrary<bool>();
    job.training.recompute.mode = *rc::gen::element(workload::RecomputeMode::kNone, workload::RecomputeMode::kFull);
    if (*rc::gen::arbitrary<bool>()) job.training.recompute.layers = *rc::gen::inRange(1, 3);
    job.training.recompute.block = *rc::gen::arbitrary<bool>();
    RC_LOG() << "tp " << tp << " pp " << pp << " vp " << vp << " dp " << dp << " zero " << job.parallelism.zero << " batch " << job.training.global_batch
             << " overlapped " << job.parallelism.p2p_overlapped << "\n";
    const Program program = build(job);
    const std::vector<std::string> found = verify(program);
    for (const std::string& text : found) RC_LOG() << text << "\n";
    RC_ASSERT(found.empty());
  }));
}

TEST_CASE("data-parallel volume is what modelling 8.4 says: gradients once, parameters once, ZeRO-3 twice per microbatch") {
  const std::int64_t microbatches = 3;
  for (const std::int64_t zero : {0, 1, 2, 3}) {
    Job job = small_job(1, 1, 1, 4, zero, microbatches);
    job.training.param_dtype = workload::DType::kBf16;
    const Program program = build(job);
    const Role& role = program.roles[0];
    const std::int64_t n = role.parameters;
    CAPTURE(zero);
    const auto bytes = [&](workload::CommKind kind) { return total_bytes(program, role, workload::Axis::kDp, kind); };
    CHECK(bytes(workload::CommKind::kAllReduce) == (zero == 0 ? 4 * n : 0));
    CHECK(bytes(workload::CommKind::kReduceScatter) == (zero == 0 ? 0 : zero == 1 ? 4 * n : microbatches * 4 * n));
    // The last unit stays between its forward and backward pass, so it is gathered once per microbatch.
    const std::int64_t head = workload::layer_parameters(workload::LayerKind::kHead, job.model, workload::Shard{}).total();
    CHECK(bytes(workload::CommKind::kAllGather) == (zero == 0 ? 0 : zero < 3 ? 2 * n : microbatches * (4 * n - 2 * head)));
  }
}

TEST_CASE("states are sharded as their ZeRO stage says: 18, 6 + 12/d, 2 + 16/d and 18/d bytes a parameter") {
  const std::int64_t d = 8;
  for (const std::int64_t zero : {0, 1, 2, 3}) {
    Job job = small_job(1, 1, 1, d, zero, 1);
    const Role role = build(job).roles[0];
    const std::int64_t n = role.parameters, shard = (n + d - 1) / d;
    CAPTURE(zero);
    CHECK(peak(role, MemoryKind::kParameters) == 2 * (zero == 3 ? shard : n));
    CHECK(peak(role, MemoryKind::kOptimizer) == 12 * (zero >= 1 ? shard : n));
    if (zero < 2) CHECK(peak(role, MemoryKind::kGradients) == 4 * n);
    if (zero >= 2) CHECK(peak(role, MemoryKind::kGradients) >= 4 * shard);
  }
}

TEST_CASE("parameters that keep gradients of their own beside the accumulation buffer hold two bytes more each") {
  Job job = small_job(1, 1, 1, 8, 1, 1);
  job.stack.parameter_gradients = true;
  const Role role = build(job).roles[0];
  CHECK(peak(role, MemoryKind::kGradients) == (4 + 2) * role.parameters);
}

TEST_CASE("1F1B holds min(m, p - i) microbatches of activations at stage i") {
  const std::int64_t p = 4, m = 8;
  Job job = small_job(1, p, 1, 1, 0, m);
  Job deep = job;
  const Program program = build(job);
  // One microbatch alone gives what one holds; the peak of m microbatches adds one per microbatch in flight.
  Job one = small_job(1, p, 1, 1, 0, 1);
  const Program single = build(one);
  workload::Shard shard;
  shard.micro_batch = 1;
  shard.sequence = job.training.sequence_length;
  const workload::Layer layer = workload::make_layer(workload::LayerKind::kDecoder, job.model, job.training, shard, job.kernels);
  std::int64_t saved = 0;
  for (const auto& t : layer.saved) saved += t.bytes;
  for (std::size_t stage = 1; stage + 1 < static_cast<std::size_t>(p); ++stage) {
    const std::int64_t more = peak(program.roles[stage], MemoryKind::kActivations) - peak(single.roles[stage], MemoryKind::kActivations);
    CAPTURE(stage);
    CHECK(more == (p - static_cast<std::int64_t>(stage) - 1) * 2 * saved);
  }
}

TEST_CASE("full recompute keeps one input per group of layers") {
  Job job = small_job(1, 1, 1, 1, 0, 1);
  job.model.layers = 8;
  job.model.vocab = 64;  // the logits of a large vocabulary would hide the layers
  job.parallelism.layers_per_stage = {8};
  const std::int64_t none = peak(build(job).roles[0], MemoryKind::kActivations);
  job.training.recompute.mode = workload::RecomputeMode::kFull;
  const std::int64_t every = peak(build(job).roles[0], MemoryKind::kActivations);
  job.training.recompute.layers = 4;
  const std::int64_t groups = peak(build(job).roles[0], MemoryKind::kActivations);
  job.training.recompute.layers = 2;
  job.training.recompute.block = true;
  const std::int64_t block = peak(build(job).roles[0], MemoryKind::kActivations);
  CHECK(every < groups);
  CHECK(groups < none);
  CHECK(every < block);
  CHECK(block < none);
  CHECK(hardware_flops(build(job), job.parallelism) > 0);
}

TEST_CASE("hardware FLOPs of full recompute are four thirds of the layers' model FLOPs") {
  Job job = small_job(1, 1, 1, 1, 0, 1);
  job.model.layers = 32;
  job.parallelism.layers_per_stage = {32};
  job.model.vocab = 64;
  const double none = hardware_flops(build(job), job.parallelism);
  job.training.recompute.mode = workload::RecomputeMode::kFull;
  const double full = hardware_flops(build(job), job.parallelism);
  // Flash attention's backward is 2.5 forwards, not 2, and the small head is not recomputed: a little under 4/3.
  CHECK(full / none == Approx(4.0 / 3).epsilon(0.02));
}

TEST_CASE("the verifier names a receive without its send") {
  Program program = build(small_job(1, 2, 1, 1, 0, 2));
  Role& role = program.roles[1];
  role.items.erase(role.items.begin() + static_cast<std::ptrdiff_t>(find(role, ItemKind::kBatch)));
  const auto found = verify(program);
  REQUIRE_FALSE(found.empty());
  CHECK(found[0] == "stage 0 sends 2 forward messages to stage 1, which receives 1");
}

TEST_CASE("variants of a stage may compute differently, but the verifier names the item where they communicate differently") {
  Program program = build(small_job(1, 2, 1, 1, 0, 2));
  program.ep_variants = 2;
  Program varied = program;
  varied.roles.clear();
  for (const Role& role : program.roles) {
    varied.roles.push_back(role);
    varied.roles.push_back(role);
    varied.roles.back().variant = 1;
  }
  CHECK(varied.stages() == 2);
  CHECK(varied.role_of(1, 0, 1) == 3);
  for (Item& item : varied.roles[1].items) {
    if (item.kind == ItemKind::kAllocate || item.kind == ItemKind::kFree) item.bytes *= 2;
  }
  CHECK(verify(varied).empty());
  Role& role = varied.roles[3];
  role.items.erase(role.items.begin() + static_cast<std::ptrdiff_t>(find(role, ItemKind::kBatch)));
  const auto found = verify(varied);
  REQUIRE(found.size() == 1);
  CHECK(found[0].starts_with("stage 1: variants 0 and 1 part at device item "));
}

TEST_CASE("context-parallel ranks whose masks differ have programs of their own, which communicate alike") {
  using workload::CpMethod;
  for (const CpMethod method : {CpMethod::kRing, CpMethod::kRingNaive, CpMethod::kAllGather, CpMethod::kUlysses}) {
    for (const bool pytorch : {false, true}) {
      for (const bool causal : {true, false}) {
        Job job = small_job(2, 2, 1, 2, 1, 4);
        job.parallelism.cp = 4;
        job.parallelism.cp_method = method;
        job.training.causal = causal;
        job.kernels.pytorch_ring = pytorch;
        const Program program = build(job);
        CHECK(program.cp_variants == (causal && method != CpMethod::kUlysses ? 4 : 1));
        CHECK(verify(program).empty());
      }
    }
  }
}

TEST_CASE("a ring exchanges on a stream of its own, and compute waits for each block by an instruction of its own") {
  Job job = small_job(1, 1, 1, 1, 0, 1);
  job.model.layers = 1;
  job.parallelism.layers_per_stage = {1};
  job.parallelism.cp = 4;
  const Program program = build(job);
  int exchanges = 0, waits = 0;
  std::vector<std::uint32_t> ends;
  for (const Item& item : program.roles[2].items) {
    if (item.kind == ItemKind::kCollective && item.stream == Stream::kContext) {
      ++exchanges;
      ends.push_back(item.record);
    }
    if (item.kind == ItemKind::kWait && std::find(ends.begin(), ends.end(), item.wait) != ends.end()) ++waits;
  }
  CHECK(exchanges == 3 + 4);
  CHECK(waits == 3 + 4);
}

TEST_CASE("the verifier names memory that is freed twice and memory that stays") {
  Program program = build(small_job(1, 1, 1, 1, 0, 1));
  Role& role = program.roles[0];
  std::size_t at = find(role, ItemKind::kFree);
  while (role.items[at].memory != MemoryKind::kActivations) at = find(role, ItemKind::kFree, at + 1);
  role.items.erase(role.items.begin() + static_cast<std::ptrdiff_t>(at));
  const auto kept = verify(program);
  REQUIRE_FALSE(kept.empty());
  CHECK(kept[0].find("bytes of activations are never freed") != std::string::npos);

  Program twice = build(small_job(1, 1, 1, 1, 0, 1));
  Item freed;
  freed.kind = ItemKind::kFree;
  freed.memory = MemoryKind::kActivations;
  freed.bytes = 100;
  twice.roles[0].items.push_back(freed);
  const auto over = verify(twice);
  REQUIRE_FALSE(over.empty());
  CHECK(over[0].find("frees 100 bytes of activations that were never allocated") != std::string::npos);
}

TEST_CASE("the verifier names members that issue different collectives") {
  Job job = small_job(1, 2, 1, 2, 1, 2);
  Program program = build(job);
  Role& role = program.roles[1];
  std::size_t at = role.items.size();
  while (at-- > 0) {
    if (role.items[at].kind == ItemKind::kCollective && program.requests[role.items[at].index].axis == workload::Axis::kWorld) break;
  }
  REQUIRE(at < role.items.size());
  role.items[at].index = 0;
  const auto found = verify(program);
  REQUIRE_FALSE(found.empty());
  CHECK(found[0] == "stages 0 and 1 issue different collectives on group world: they part at number 0");
}

TEST_CASE("the verifier names a cycle of crossing sends by stage, stream and instruction") {
  // Both stages send before they receive, in separate batches on one stream: each waits for the other.
  Program program = build(small_job(1, 2, 1, 1, 0, 2));
  for (Role& role : program.roles) {
    role.items.clear();
    role.segments.clear();
    role.events = 0;
    role.batches.clear();
    const bool first = role.stage == 0;
    role.batches = {{{first ? Slot::kForwardOut : Slot::kBackwardOut, 64}}, {{first ? Slot::kBackwardIn : Slot::kForwardIn, 64}}};
    for (std::uint32_t b = 0; b < 2; ++b) {
      Item item;
      item.kind = ItemKind::kBatch;
      item.index = b;
      role.items.push_back(item);
    }
  }
  const auto found = verify(program);
  REQUIRE(found.size() == 2);
  CHECK(found[0] == "stage 0 stream \"compute\" instruction 0 can never run: a cycle of waits");
  CHECK(found[1] == "stage 1 stream \"compute\" instruction 0 can never run: a cycle of waits");
}
