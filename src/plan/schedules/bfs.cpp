// Breadth-first looped pipeline (Lamy-Poirier, arXiv:2211.05953): chunks lie as in interleaved 1F1B, but every microbatch passes a chunk
// before any passes the next, and backward the same from the last chunk. It is GPipe over v chunks: all activations stay, the bubble is
// interleaved 1F1B's, and parameters of a chunk are needed once in a row (what it was made for, with sharded parameters).
#include <algorithm>

#include "plan/schedules/schedules.hpp"

namespace orrery::plan {

namespace {
std::vector<ScheduleEntry> order(const Pipe& pipe, std::int64_t /*stage*/) {
  std::vector<ScheduleEntry> list;
  list.reserve(static_cast<std::size_t>(2 * pipe.chunks * pipe.microbatches));
  for (std::int64_t c = 0; c < pipe.chunks; ++c)
    for (std::int64_t m = 0; m < pipe.microbatches; ++m) list.push_back(forward(m, c));
  for (std::int64_t c = pipe.chunks; c-- > 0;)
    for (std::int64_t m = 0; m < pipe.microbatches; ++m) list.push_back(backward(m, c));
  return list;
}
// arXiv:2211.05953 section 4.2: (p-1)/(v m) over ideal time. Fewer than p microbatches do not fill the loop: each of the v-1 returns to
// the first stage then waits for p-m more passes.
double bubble_overhead(const Pipe& pipe) {
  return over_work(3 * (pipe.stages - 1 + (pipe.chunks - 1) * std::max<std::int64_t>(0, pipe.stages - pipe.microbatches)), pipe);
}
}  // namespace

const ScheduleRow kBfsRow{.id = Schedule::kBfs,
                          .name = "bfs",
                          .least_chunks = 2,
                          .most_chunks = 0,
                          .no_blocking = "the first stage takes nothing back until every microbatch has left it, so a send that blocks would never end",
                          .order = order,
                          .bubble_overhead = bubble_overhead};

}  // namespace orrery::plan
