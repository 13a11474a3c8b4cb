// Pairs of passes whose exchanges run under each other: the same work and bytes, in another order.
#include <map>

#include "catch.h"
#include "jobs.hpp"

using namespace orrery;
using namespace orrery::program;
using workload::Axis;
using workload::CommKind;

namespace {

Job job_of(plan::Schedule schedule, bool overlap, std::int64_t pp, std::int64_t vp) {
  Job job = test::small_job(1, pp, vp, 4, 1, 8);
  workload::Moe& moe = job.model.moe.emplace();
  moe.experts = 8;
  moe.experts_per_token = 2;
  moe.expert_ffn = 1024;
  job.kernels.weights_inside_experts = true;
  plan::Parallelism& p = job.parallelism;
  p.ep = 4;
  p.schedule = schedule;
  p.placement = schedule == plan::Schedule::kDualPipe ? plan::Placement::kTwoWay : schedule == plan::Schedule::kDualPipeV ? plan::Placement::kV : plan::Placement::kLooped;
  p.p2p_overlapped = pp > 1;
  p.overlap_ep = overlap;
  p.overlap_grad_reduce = p.overlap_param_gather = true;
  return job;
}

struct Shape {
  plan::Schedule schedule;
  std::int64_t pp, vp;
};
constexpr Shape kShapes[] = {{plan::Schedule::k1F1B, 1, 1}, {plan::Schedule::kInterleaved1F1B, 2, 2}, {plan::Schedule::kDualPipe, 4, 1}, {plan::Schedule::kDualPipeV, 2, 2}};

bool exchange(const Program& program, const Item& item) {
  return item.kind == ItemKind::kCollective && program.requests[item.index].axis == Axis::kEp && program.requests[item.index].kind == CommKind::kAllToAll;
}

}  // namespace

TEST_CASE("pairs make the same exchanges and run the same kernels, and give back all memory") {
  for (const Shape& shape : kShapes) {
    const Program apart = build(job_of(shape.schedule, false, shape.pp, shape.vp)), beside = build(job_of(shape.schedule, true, shape.pp, shape.vp));
    REQUIRE(verify(beside).empty());
    for (std::size_t r = 0; r < beside.roles.size(); ++r) {
      const auto count = [r](const Program& program) {
        std::map<std::string, int> names;
        std::int64_t bytes = 0, exchanges = 0;
        for (const Item& item : program.roles[r].items) {
          if (item.kind == ItemKind::kSegment) ++names[program.roles[r].segments[item.index].name];
          if (!exchange(program, item)) continue;
          bytes += program.requests[item.index].bytes;
          ++exchanges;
        }
        return std::make_tuple(names, bytes, exchanges);
      };
      CHECK(count(apart) == count(beside));
      std::int64_t held = 0;
      for (const Item& item : beside.roles[r].items) {
        if (item.memory != MemoryKind::kActivations) continue;
        held += item.kind == ItemKind::kAllocate ? item.bytes : item.kind == ItemKind::kFree ? -item.bytes : 0;
        CHECK(held >= 0);
      }
      CHECK(held == 0);
    }
  }
}

TEST_CASE("inside a pair an exchange has the other pass' kernels between its issue and what waits for it") {
  for (const Shape& shape : kShapes) {
    const Program program = build(job_of(shape.schedule, true, shape.pp, shape.vp));
    for (const Role& role : program.roles) {
      int beside = 0, covered = 0;
      for (std::size_t i = 0; i < role.items.size(); ++i) {
        const Item& item = role.items[i];
        if (!exchange(program, item) || item.stream != Stream::kExperts) continue;
        ++beside;
        bool under = false;
        for (std::size_t k = i + 1; k < role.items.size() && role.items[k].wait != item.record; ++k)
          under = under || (role.items[k].kind == ItemKind::kSegment && (role.items[k].microbatch != item.microbatch || role.items[k].chunk != item.chunk));
        covered += under ? 1 : 0;
      }
      CHECK(beside > 0);
      // Of two exchanges in a row the first is waited for with the second, whose event it is; only that one counts.
      CHECK(covered == beside);
    }
  }
}

TEST_CASE("exchanges of passes that have no partner are waited for where they stand") {
  const Program program = build(job_of(plan::Schedule::k1F1B, true, 1, 1));
  const Role& role = program.roles[0];
  int first = 0, last = 0;
  for (const Item& item : role.items) {
    if (!exchange(program, item) || item.stream != Stream::kCompute) continue;
    first += item.microbatch == 0 ? 1 : 0;
    last += item.microbatch == 7 ? 1 : 0;
  }
  // Forward of the first microbatch and backward of the last, two layers each: dispatch, its weights and combine; combine and dispatch back.
  CHECK(first == 2 * 3);
  CHECK(last == 2 * 3);
}
