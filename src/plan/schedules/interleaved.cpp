// Interleaved 1F1B (arXiv:2104.04473 section 2.2) in the order of Megatron-LM's core/pipeline_parallel/schedules.py.
//
// A stage holds v chunks. Microbatches go in groups of g >= p (microbatch_group_size_per_vp_stage, by default p): all of a group pass
// chunk 0, then all pass chunk 1, and so on, so the group comes back to a stage just when it is free for the next chunk. The last group
// may be smaller, but not smaller than p. The backward sequence is the same with chunks from the last to the first. Stage i runs
// 2(p-i-1) + (v-1)g chunk passes ahead: the first term lets a chunk's forward reach the end of the pipe and its backward come back, the
// second is the whole group's way through the earlier chunks. A larger group keeps more activations and sends in longer runs.
// Computed in pairs (overlap_moe_expert_parallel_comm) a stage runs one pass more ahead, so that a pair's backward pass is not of its forward.
#include <algorithm>

#include "plan/schedules/schedules.hpp"

namespace orrery::plan {

namespace {
std::vector<ScheduleEntry> order(const Pipe& pipe, std::int64_t stage) {
  const std::int64_t group = pipe.group, round = group * pipe.chunks, count = pipe.microbatches * pipe.chunks;
  const auto size = [&](std::int64_t k) { return std::min(group, pipe.microbatches - k / round * group); };  // of the group of pass k
  const auto microbatch = [&](std::int64_t k) { return k / round * group + k % round % size(k); };
  const auto chunk = [&](std::int64_t k) { return k % round / size(k); };
  const std::int64_t warm_up = std::min(count, 2 * (pipe.stages - stage - 1) + (pipe.chunks - 1) * group + (pipe.pairs ? 1 : 0));
  return one_forward_one_backward(
      count, warm_up, [&](std::int64_t k) { return forward(microbatch(k), chunk(k)); },
      [&](std::int64_t k) { return backward(microbatch(k), pipe.chunks - 1 - chunk(k)); }, pipe.pairs);
}
// arXiv:2104.04473 section 2.2: (p-1)/(v m) over ideal time.
double bubble_overhead(const Pipe& pipe) {
  return static_cast<double>(pipe.stages - 1) / (static_cast<double>(pipe.chunks) * static_cast<double>(pipe.microbatches));
}
}  // namespace

const ScheduleRow kInterleaved1F1BRow{
    .id = Schedule::kInterleaved1F1B, .name = "interleaved_1f1b", .least_chunks = 2, .most_chunks = 0, .groups = true, .order = order, .bubble_overhead = bubble_overhead};

}  // namespace orrery::plan
