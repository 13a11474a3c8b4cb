#pragma once
// Plays order lists alone (modelling 8.1), apart from the library's own judge: an entry starts when its stage is free and its input has
// arrived. Times are integers in any unit.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "orrery/plan/plan.hpp"

namespace orrery::plan::testing {

/// Of one chunk pass on each stage; hop: from one stage's end to the next one's input. The halves of a split backward pass are each half
/// of `backward`.
struct PassTimes {
  std::vector<std::int64_t> forward, backward;
  std::int64_t hop = 0;
};
struct Played {
  bool stuck = false;
  std::int64_t makespan = 0;
  std::vector<std::int64_t> busy, kept;  ///< per stage: time worked; most chunk passes whose activations are held
  std::vector<std::int64_t> first, last; ///< per stage: when its first pass starts, and its last one ends
};

inline PassTimes equal_stages(std::int64_t stages, std::int64_t forward, std::int64_t backward, std::int64_t hop = 0) {
  const auto n = static_cast<std::size_t>(stages);
  return {std::vector(n, forward), std::vector(n, backward), hop};
}

inline Played play(const Parallelism& p, const std::vector<std::vector<ScheduleEntry>>& orders, const PassTimes& times) {
  const auto stages = static_cast<std::size_t>(p.pp);
  // Ends by (backward, place, microbatch).
  std::map<std::tuple<int, std::int64_t, std::int32_t>, std::int64_t> ends;
  std::vector<std::int64_t> free(stages, 0), held(stages, 0);
  std::vector<std::size_t> next(stages, 0);
  Played played;
  for (auto* list : {&played.busy, &played.kept, &played.last}) list->assign(stages, 0);
  played.first.assign(stages, -1);
  const auto length = [&](const ScheduleEntry& e, std::size_t s) {
    return e.pass == Pass::kForward ? times.forward[s] : e.pass == Pass::kBackward ? times.backward[s] : times.backward[s] / 2;
  };
  /// -1 while the input is not there.
  const auto arrival = [&](const ScheduleEntry& e, std::size_t s) -> std::int64_t {
    const std::int64_t place = place_of(p, static_cast<std::int64_t>(s), e.chunk);
    const auto end = [&](int kind, std::int64_t at) {
      const auto found = ends.find({kind, at, e.microbatch});
      return found == ends.end() ? std::int64_t{-1} : found->second;
    };
    const bool turns = p.placement == Placement::kV && static_cast<std::int64_t>(s) + 1 == p.pp;
    const auto over = [&](std::int64_t at, bool local) { return at < 0 || stages == 1 || local ? at : at + times.hop; };
    if (e.pass == Pass::kForward) return place == 0 ? 0 : over(end(0, place - 1), turns && e.chunk == 1);
    if (e.pass == Pass::kWeight) return end(1, place);
    const std::int64_t own = end(0, place);
    if (own < 0 || place + 1 == places(p)) return own;
    const std::int64_t from = over(end(1, place + 1), turns && e.chunk == 0);
    return from < 0 ? from : std::max(own, from);
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t s = 0; s < stages; ++s) {
      while (next[s] < orders[s].size()) {
        const std::size_t begin = next[s], end = begin + (orders[s][begin].with_next ? 2 : 1);
        std::int64_t start = free[s];
        bool ready = true;
        for (std::size_t k = begin; k < end; ++k) {
          const std::int64_t at = arrival(orders[s][k], s);
          ready = ready && at >= 0;
          start = std::max(start, at);
        }
        if (!ready) break;
        free[s] = start;
        for (std::size_t k = begin; k < end; ++k) free[s] += length(orders[s][k], s);
        for (std::size_t k = begin; k < end; ++k) {
          const ScheduleEntry& e = orders[s][k];
          const int kind = e.pass == Pass::kForward ? 0 : e.pass == Pass::kWeight ? 2 : 1;
          ends[{kind, place_of(p, static_cast<std::int64_t>(s), e.chunk), e.microbatch}] = free[s];
          if (kind == 0) played.kept[s] = std::max(played.kept[s], ++held[s]);
          if (e.pass == Pass::kBackward || e.pass == Pass::kWeight) --held[s];
          played.busy[s] += length(e, s);
        }
        if (played.first[s] < 0) played.first[s] = start;
        played.last[s] = free[s];
        played.makespan = std::max(played.makespan, free[s]);
        next[s] = end;
        progress = true;
      }
    }
  }
  for (std::size_t s = 0; s < stages; ++s) played.stuck = played.stuck || next[s] < orders[s].size();
  return played;
}

inline Played play(const Parallelism& p, std::int64_t microbatches, const PassTimes& times) { return play(p, schedule_orders(p, microbatches), times); }

inline Parallelism pipe(Schedule schedule, std::int64_t stages, std::int64_t chunks = 1, std::int64_t group = 0) {
  Parallelism p;
  p.schedule = schedule;
  p.placement = schedule == Schedule::kDualPipe ? Placement::kTwoWay
                : schedule == Schedule::kZbV || schedule == Schedule::kVHalf || schedule == Schedule::kVMin || schedule == Schedule::kDualPipeV ? Placement::kV
                                                                                                                                             : Placement::kLooped;
  p.pp = stages;
  p.vp = chunks;
  p.interleave_group = group;
  return p;
}

}  // namespace orrery::plan::testing
