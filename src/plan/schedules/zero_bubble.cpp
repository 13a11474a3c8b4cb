// Zero-bubble schedules with one chunk a stage (Qi et al., arXiv:2401.10241, sections 2 and 3.1).
//
// The backward pass is split: input gradients (B), which the stage before waits for, and weight gradients (W), which may come any time
// later. Only F and B are on the pipeline's critical path, so W fills what 1F1B leaves idle. Stage i of p runs some forwards ahead, then
// B and F in turn, a W after each B from the moment that it owes more than `owed` of them, and the rest of the W at the end.
//   ZB-H1: p-i forwards ahead and i W owed. Every stage holds at most p microbatches, 1F1B's peak; a third of 1F1B's bubble is left.
//   ZB-H2: 2(p-i)-1 ahead and 2i owed: 2p-1 microbatches everywhere, and no stage idles between its first pass and its last.
// With fewer than 2p-1 microbatches H2 owes less, else the first stage would wait for W of others: i + (m-p).
//
// Makespan, with F = B = W = 1: the last stage starts at p-1 and works 3m. Of H2 that is the skew between stages, not idle time inside
// one. The paper takes it out too by letting a stage start its next step before others have ended this one: the optimizer then does not
// wait for the global norm and is corrected afterwards ("post-validation"). A simulated step starts on all stages together and ends with
// the stack's own agreement, so the skew stays in.
#include <algorithm>

#include "plan/schedules/schedules.hpp"

namespace orrery::plan {

namespace {
std::vector<ScheduleEntry> split_1f1b(std::int64_t microbatches, std::int64_t ahead, std::int64_t owed) {
  std::vector<ScheduleEntry> list;
  list.reserve(static_cast<std::size_t>(3 * microbatches));
  std::int64_t forwards = 0, weights = 0;
  while (forwards < std::min(microbatches, ahead)) list.push_back(forward(forwards++));
  for (std::int64_t b = 0; b < microbatches; ++b) {
    list.push_back(input_gradients(b));
    if (b >= owed) list.push_back(weight_gradients(weights++));
    if (forwards < microbatches) list.push_back(forward(forwards++));
  }
  while (weights < microbatches) list.push_back(weight_gradients(weights++));
  return list;
}
std::vector<ScheduleEntry> h1(const Pipe& pipe, std::int64_t stage) { return split_1f1b(pipe.microbatches, pipe.stages - stage, stage); }
std::vector<ScheduleEntry> h2(const Pipe& pipe, std::int64_t stage) {
  const std::int64_t spare = std::max<std::int64_t>(0, pipe.microbatches - pipe.stages);
  return split_1f1b(pipe.microbatches, 2 * (pipe.stages - stage) - 1, std::min(2 * stage, stage + spare));
}
// arXiv:2401.10241 table 2 for H1: (p-1)(F+B-W). Below p microbatches a lone one's way, p F + p B + W, counts.
double bubble_overhead(const Pipe& pipe) { return over_work(pipe.stages - 1 + std::max<std::int64_t>(0, pipe.stages - pipe.microbatches), pipe); }
}  // namespace

const ScheduleRow kZbH1Row{.id = Schedule::kZbH1, .name = "zb_h1", .no_blocking = kPostsAhead, .order = h1, .bubble_overhead = bubble_overhead};
const ScheduleRow kZbH2Row{.id = Schedule::kZbH2, .name = "zb_h2", .no_blocking = kPostsAhead, .order = h2, .bubble_overhead = bubble_overhead};

}  // namespace orrery::plan
