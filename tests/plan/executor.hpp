#pragma once
// Plays order lists alone (modelling 8.1): an entry starts when its stage is free and its input has arrived. Times are integers in any unit.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "orrery/plan/plan.hpp"

namespace orrery::plan::testing {

/// Of one chunk pass on each stage; hop: from one stage's end to the next one's input.
struct PassTimes {
  std::vector<std::int64_t> forward, backward;
  std::int64_t hop = 0;
};
struct Played {
  bool stuck = false;
  std::int64_t makespan = 0;
  std::vector<std::int64_t> busy, kept;  ///< per stage: time worked; most chunk passes whose activations are held
};

inline PassTimes equal_stages(std::int64_t stages, std::int64_t forward, std::int64_t backward, std::int64_t hop = 0) {
  const auto n = static_cast<std::size_t>(stages);
  return {std::vector(n, forward), std::vector(n, backward), hop};
}

inline Played play(const Parallelism& p, std::int64_t microbatches, const PassTimes& times) {
  constexpr std::int64_t kPending = -1;
  const auto stages = static_cast<std::size_t>(p.pp), chunks = static_cast<std::size_t>(p.vp), batch = static_cast<std::size_t>(microbatches);
  std::vector<std::int64_t> ends(2 * stages * chunks * batch, kPending), free(stages, 0), held(stages, 0);
  std::vector<std::size_t> next(stages, 0);
  std::vector<std::vector<ScheduleEntry>> orders;
  for (std::int64_t s = 0; s < p.pp; ++s) orders.push_back(schedule_order(p, s, microbatches));
  Played played{.stuck = false, .makespan = 0, .busy = std::vector<std::int64_t>(stages, 0), .kept = std::vector<std::int64_t>(stages, 0)};

  // A place is chunk*stages + stage: where a microbatch is on its way through the model.
  const auto end_of = [&](Pass pass, std::size_t place, std::size_t microbatch) -> std::int64_t& {
    return ends[((pass == Pass::kForward ? 0 : 1) * stages * chunks + place) * batch + microbatch];
  };
  const auto arrival = [&](const ScheduleEntry& e, std::size_t stage) -> std::int64_t {
    const std::size_t place = static_cast<std::size_t>(e.chunk) * stages + stage, mb = static_cast<std::size_t>(e.microbatch);
    const auto over = [&](std::int64_t end) { return end == kPending || stages == 1 ? end : end + times.hop; };
    if (e.pass == Pass::kForward) return place == 0 ? 0 : over(end_of(Pass::kForward, place - 1, mb));
    const std::int64_t own = end_of(Pass::kForward, place, mb);
    if (own == kPending || place + 1 == stages * chunks) return own;
    const std::int64_t from = over(end_of(Pass::kBackward, place + 1, mb));
    return from == kPending ? kPending : std::max(own, from);
  };

  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t s = 0; s < stages; ++s) {
      while (next[s] < orders[s].size()) {
        const ScheduleEntry& e = orders[s][next[s]];
        const std::int64_t ready = arrival(e, s);
        if (ready == kPending) break;
        const std::int64_t length = e.pass == Pass::kForward ? times.forward[s] : times.backward[s];
        free[s] = std::max(free[s], ready) + length;
        end_of(e.pass, static_cast<std::size_t>(e.chunk) * stages + s, static_cast<std::size_t>(e.microbatch)) = free[s];
        held[s] += e.pass == Pass::kForward ? 1 : -1;
        played.kept[s] = std::max(played.kept[s], held[s]);
        played.busy[s] += length;
        played.makespan = std::max(played.makespan, free[s]);
        ++next[s];
        progress = true;
      }
    }
  }
  for (std::size_t s = 0; s < stages; ++s) played.stuck = played.stuck || next[s] < orders[s].size();
  return played;
}

inline Parallelism pipe(Schedule schedule, std::int64_t stages, std::int64_t chunks = 1) {
  Parallelism p;
  p.schedule = schedule;
  p.pp = stages;
  p.vp = chunks;
  return p;
}

}  // namespace orrery::plan::testing
