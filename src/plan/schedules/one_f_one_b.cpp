// 1F1B (PipeDream-flush; arXiv:2104.04473 section 2.2): stage i runs p-i-1 forwards ahead, then one forward and one backward in turn,
// so it never keeps more than min(m, p-i) microbatches. The makespan is GPipe's.
#include <algorithm>

#include "plan/schedules/schedules.hpp"

namespace orrery::plan {

namespace {
std::vector<ScheduleEntry> order(const Pipe& pipe, std::int64_t stage) {
  const std::int64_t warm_up = std::min(pipe.microbatches, pipe.stages - stage - 1 + (pipe.pairs ? 1 : 0));
  return one_forward_one_backward(pipe.microbatches, warm_up, [](std::int64_t k) { return forward(k); }, [](std::int64_t k) { return backward(k); }, pipe.pairs);
}
// arXiv:2104.04473 section 2.2: (p-1)/m over ideal time.
double bubble_overhead(const Pipe& pipe) { return static_cast<double>(pipe.stages - 1) / static_cast<double>(pipe.microbatches); }
}  // namespace

const ScheduleRow k1F1BRow{.id = Schedule::k1F1B, .name = "1f1b", .order = order, .bubble_overhead = bubble_overhead};

}  // namespace orrery::plan
