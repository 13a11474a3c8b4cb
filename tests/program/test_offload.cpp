// Host memory: what leaves, what comes back, in which order, and what stays on the device meanwhile.
#include <algorithm>
#include <map>

#include "catch.h"
#include "jobs.hpp"

using namespace orrery;
using namespace orrery::program;
using workload::Axis;

namespace {

struct Travel {
  std::int64_t out = 0, in = 0, update = 0;
  int copies = 0;
};
Travel travel(const Program& p, const Role& role) {
  Travel t;
  for (const Item& item : role.items) {
    if (item.kind != ItemKind::kCollective) continue;
    const Request& r = p.requests[item.index];
    if (r.axis == Axis::kToHost) t.out += r.bytes;
    if (r.axis == Axis::kFromHost) t.in += r.bytes;
    if (r.axis == Axis::kHostUpdate) t.update += r.bytes;
    t.copies += r.axis == Axis::kToHost || r.axis == Axis::kFromHost ? 1 : 0;
  }
  return t;
}

/// Most bytes of one kind that the program holds, as the host passes.
std::int64_t most(const Role& role, MemoryKind kind) {
  std::int64_t now = 0, peak = 0;
  for (const Item& item : role.items) {
    if (item.memory != kind) continue;
    if (item.kind == ItemKind::kAllocate) now += item.bytes;
    if (item.kind == ItemKind::kFree) now -= item.bytes;
    peak = std::max(peak, now);
  }
  return peak;
}

Program sound(const Job& job) {
  Program p = build(job);
  const std::vector<std::string> problems = verify(p);
  INFO((problems.empty() ? std::string() : problems.front()));
  CHECK(problems.empty());
  return p;
}

std::int64_t saved_by_decoder(const Job& job) {
  std::int64_t sum = 0;
  for (const auto& t : workload::make_layer(workload::LayerKind::kDecoder, job.model, job.training, shard_of(job), job.kernels).saved) sum += t.bytes;
  return sum;
}

}  // namespace

TEST_CASE("a share of every layer's activations leaves once and comes back once per microbatch, but for the layer that backward begins with") {
  Job job = test::small_job(1, 1, 1, 1, 0, 3);
  job.model.layers = 8;
  job.parallelism.layers_per_stage = {8};
  const Program plain = sound(job);
  const std::int64_t saved = saved_by_decoder(job);
  for (const double share : {0.5, 1.0}) {
    CAPTURE(share);
    job.training.offload.activations = share;
    const Program p = sound(job);
    const Travel t = travel(p, p.roles[0]);
    CHECK(t.out == t.in);
    CHECK(t.out == 3 * 7 * workload::host_share(saved, share));
    CHECK(t.update == 0);
    // Of eight layers two are here at a time: the one that computes and the one on its way; the last never leaves.
    CHECK(most(p.roles[0], MemoryKind::kActivations) <= most(plain.roles[0], MemoryKind::kActivations) - 6 * workload::host_share(saved, share));
    CHECK(p.roles[0].host_bytes == 7 * workload::host_share(saved, share));
  }
}

TEST_CASE("recomputed whole, what leaves is the input of each group") {
  Job job = test::small_job(1, 1, 1, 1, 0, 1);
  job.model.layers = 4;
  job.parallelism.layers_per_stage = {4};
  job.training.recompute.mode = workload::RecomputeMode::kFull;
  job.training.recompute.layers = 2;
  job.training.offload.activations = 1;
  const Program p = sound(job);
  // The second of the two groups comes first in backward, and stays.
  CHECK(travel(p, p.roles[0]).out == 2 * 1024 * 512);
  CHECK(travel(p, p.roles[0]).in == 2 * 1024 * 512);
}

TEST_CASE("pipelines hold activations of several microbatches in host memory, the first stage most") {
  Job job = test::small_job(1, 4, 1, 1, 0, 8);
  job.training.offload.activations = 1;
  const Program p = sound(job);
  const std::int64_t saved = 2 * saved_by_decoder(job);
  for (std::size_t stage = 0; stage < 3; ++stage) CHECK(p.roles[stage].host_bytes == static_cast<std::int64_t>(4 - stage) * saved);
  // The last stage turns every microbatch round: of its two layers one waits.
  CHECK(p.roles[3].host_bytes == saved / 2);
}

TEST_CASE("the host's share of the optimizer: gradients out in their type, parameters in, 30 bytes a parameter worked on") {
  for (const std::int64_t zero : {0, 1, 2, 3}) {
    CAPTURE(zero);
    Job job = test::small_job(1, 1, 1, 4, zero, 2);
    const Program plain = sound(job);
    job.training.offload.optimizer = 0.5;
    const Program p = sound(job);
    const Role& role = p.roles[0];
    const std::int64_t updated = zero == 0 ? role.parameters : (role.parameters + 3) / 4;
    const std::int64_t share = workload::host_share(updated, 0.5);
    const Travel t = travel(p, role);
    const std::int64_t times = zero >= 2 ? 2 : 1;  // as each microbatch reduces them, or once
    CHECK(static_cast<double>(t.out) == Approx(static_cast<double>(times * 4 * share)).epsilon(1e-5));  // shards of buckets round up
    CHECK(t.in == 2 * share);
    CHECK(t.update == 30 * share);
    CHECK(most(role, MemoryKind::kOptimizer) == Approx(0.5 * static_cast<double>(most(plain.roles[0], MemoryKind::kOptimizer))).epsilon(1e-5));
    CHECK(role.host_bytes == (4 + 8 + 4) * share);
    if (zero >= 2) CHECK(most(role, MemoryKind::kGradients) < most(plain.roles[0], MemoryKind::kGradients));
  }
}

TEST_CASE("a rank alone sends its gradients as its buckets fill, and waits for its parameters at the end") {
  Job job = test::small_job(1, 1, 1, 1, 0, 2);
  job.training.offload.optimizer = 1;
  const Program p = sound(job);
  const Role& role = p.roles[0];
  CHECK(travel(p, role).out == 4 * role.parameters);
  CHECK(travel(p, role).in == 2 * role.parameters);
  const auto find = [&](Axis axis, bool last) {
    std::size_t at = SIZE_MAX;
    for (std::size_t i = 0; i < role.items.size(); ++i) {
      if (role.items[i].kind != ItemKind::kCollective || p.requests[role.items[i].index].axis != axis) continue;
      at = i;
      if (!last) break;
    }
    return at;
  };
  const std::size_t last_out = find(Axis::kToHost, true), update = find(Axis::kHostUpdate, false), in = find(Axis::kFromHost, false);
  REQUIRE(update != SIZE_MAX);
  CHECK(role.items[update].wait == role.items[last_out].record);
  CHECK(role.items[in].wait == role.items[update].record);
  CHECK(std::any_of(role.items.begin() + static_cast<std::ptrdiff_t>(in), role.items.end(), [&](const Item& i) { return i.stream == Stream::kCompute && i.wait == role.items[in].record; }));
}

TEST_CASE("parameters in host memory come in before every gather, and the host's update leaves them there") {
  Job job = test::small_job(1, 1, 1, 4, 3, 2);
  job.parallelism.reshard_after_forward = true;
  const Program plain = sound(job);
  std::int64_t gathers = 0, gathered = 0;
  for (const Item& item : plain.roles[0].items) {
    if (item.kind != ItemKind::kCollective || plain.requests[item.index].kind != workload::CommKind::kAllGather) continue;
    ++gathers;
    gathered += plain.requests[item.index].bytes;
  }
  job.training.offload.parameters = 1;
  job.training.offload.optimizer = 1;
  const Program p = sound(job);
  const Travel t = travel(p, p.roles[0]);
  CHECK(static_cast<double>(t.in) == Approx(static_cast<double>(gathered) / 4).epsilon(1e-5));
  CHECK(most(p.roles[0], MemoryKind::kParameters) == 0);
  job.training.offload.optimizer = 0;  // updated on the device: written back
  const std::int64_t shard = (p.roles[0].parameters + 3) / 4;
  const Program device = sound(job);
  CHECK(travel(device, device.roles[0]).out == 2 * shard);
  CHECK(gathers > 0);
}

TEST_CASE("optimizers that gather matrices or sum columns issue the same collectives on every stage") {
  for (const workload::Optimizer o : {workload::Optimizer::kMuon, workload::Optimizer::kAdafactor, workload::Optimizer::kAdamW8bit}) {
    for (const std::int64_t zero : {0, 1, 3}) {
      Job job = test::small_job(2, 2, 1, 2, zero, 4);
      job.training.optimizer = o;
      const Program p = sound(job);
      std::int64_t matrices = 0;
      for (const Item& item : p.roles[0].items) {
        if (item.kind == ItemKind::kSegment && p.roles[0].segments[item.index].phase == Phase::kOptimizer) {
          for (const auto& op : p.roles[0].segments[item.index].operations) matrices += std::holds_alternative<workload::Gemm>(op.work) ? 1 : 0;
        }
      }
      // Two layers of seven matrices in four shapes, fifteen products each; two shards share them shape by shape.
      if (o == workload::Optimizer::kMuon) CHECK(matrices == 15 * (zero == 0 ? 14 : 7));
      if (o != workload::Optimizer::kMuon) CHECK(matrices == 0);
    }
  }
}

TEST_CASE("products of the optimizer are no training FLOPs") {
  Job job = test::small_job(1, 1, 1, 1, 0, 1);
  const double adam = hardware_flops(build(job), job.parallelism);
  job.training.optimizer = workload::Optimizer::kMuon;
  CHECK(hardware_flops(build(job), job.parallelism) == adam);
}
