// GPipe (Huang et al., arXiv:1811.06965): all forwards, then all backwards. Every stage keeps every microbatch's activations.
#include "plan/schedules/schedules.hpp"

namespace orrery::plan {

namespace {
std::vector<ScheduleEntry> order(const Pipe& pipe, std::int64_t /*stage*/) {
  // Backwards run in the order of the forwards, as in PyTorch's ScheduleGPipe: the last stage starts with microbatch 0 either way.
  return one_forward_one_backward(pipe.microbatches, pipe.microbatches, [](std::int64_t k) { return forward(k); },
                                  [](std::int64_t k) { return backward(k); });
}
// arXiv:2104.04473 section 2.2: (p-1)/m over ideal time.
double bubble_overhead(const Pipe& pipe) { return static_cast<double>(pipe.stages - 1) / static_cast<double>(pipe.microbatches); }
}  // namespace

const ScheduleRow kGpipeRow{.id = Schedule::kGpipe, .name = "gpipe", .order = order, .bubble_overhead = bubble_overhead};

}  // namespace orrery::plan
