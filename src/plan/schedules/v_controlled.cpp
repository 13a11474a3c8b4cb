// V-Half and V-Min: V-shaped schedules that hold about a half and a third of 1F1B's activations (Qi et al., arXiv:2405.15362).
//
// The paper builds a schedule from one microbatch's pattern, repeated every 6 units (two chunks of F, B and W, one unit each). The
// pattern says when F0, F1, B1 and B0 (F and input gradients of chunks 0 and 1) run on stage i: steps between neighbouring stages on the
// way down, up, down and up, and gaps where the way turns. Two passes of a stage must not fall on one unit of the 6, so the gaps are the
// smallest ones that keep them apart. How long a chunk's activations live, summed over a stage's two chunks and divided by 6, is how many
// chunks are held: steps 1,1,1,1 make the shortest life there is (V-Min), 1,2,1,2 one and a half times that (V-Half).
//
// From the pattern comes the order of F and B on every stage. Then the stages are played in unit times: each takes its next F or B as
// soon as its input is there, but no forward beyond `most` held chunks; when neither runs, it does a W that it owes. That squeezes
// warm-up and drain without going over the memory, and it is where W fall. `most` is the least that keeps the pattern's rate:
//   V-Min   2 floor((p+4)/3) chunks, of 2p; bubble 4p-5 units (+2 where p divides by 3: the larger gap), 1F1B's being 6(p-1)
//   V-Half  p + 2 chunks (p even) or p + 1 (odd); bubble 3p-4
// so two thirds and half of 1F1B's bubble, as the paper has them.
#include <algorithm>
#include <array>
#include <tuple>

#include "orrery/base/assert.hpp"
#include "plan/schedules/schedules.hpp"

namespace orrery::plan {

namespace {

constexpr std::int64_t kPeriod = 6;
enum Kind : std::size_t { kF0, kF1, kB1, kB0, kKinds };
using Steps = std::array<std::int64_t, kKinds>;

/// Start of each kind on every stage, for microbatch 0.
using Pattern = std::array<std::vector<std::int64_t>, kKinds>;

Pattern with_gaps(std::int64_t stages, const Steps& steps, const std::array<std::int64_t, 3>& gaps) {
  Pattern start;
  std::int64_t at = 0;
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    const bool down = kind % 2 == 0;
    start[kind].resize(static_cast<std::size_t>(stages));
    for (std::int64_t k = 0; k < stages; ++k) start[kind][static_cast<std::size_t>(down ? k : stages - 1 - k)] = at + k * steps[kind];
    at += (stages - 1) * steps[kind] + (kind < gaps.size() ? gaps[kind] : 0);
  }
  return start;
}

bool collides(const Pattern& start, std::size_t stage) {
  for (std::size_t a = 0; a < kKinds; ++a)
    for (std::size_t b = 0; b < a; ++b)
      if ((start[a][stage] - start[b][stage]) % kPeriod == 0) return true;
  return false;
}

Pattern pattern(std::int64_t stages, const Steps& steps) {
  for (std::int64_t sum = 3; sum <= 3 * kPeriod; ++sum)
    for (std::int64_t first = 1; first <= std::min(kPeriod, sum - 2); ++first)
      for (std::int64_t second = 1; second <= std::min(kPeriod, sum - first - 1); ++second) {
        const std::int64_t third = sum - first - second;
        if (third > kPeriod) continue;
        Pattern start = with_gaps(stages, steps, {first, second, third});
        bool fits = true;
        for (std::size_t s = 0; s < static_cast<std::size_t>(stages); ++s) fits = fits && !collides(start, s);
        if (fits) return start;
      }
  ORRERY_ASSERT(false, "a gap of every residue is tried, and four passes leave two units of the six free");
}

class Play {
 public:
  Play(const Pipe& pipe, const Pattern& start, std::int64_t most)
      : pipe_(pipe), most_(most), places_(2 * pipe.stages), stages_(static_cast<std::size_t>(pipe.stages)),
        ends_(static_cast<std::size_t>(2 * places_ * pipe.microbatches), kNever) {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      std::vector<std::tuple<std::int64_t, std::int64_t, std::size_t>> at;  // when, microbatch, kind
      for (std::int64_t m = 0; m < pipe.microbatches; ++m)
        for (std::size_t kind = 0; kind < kKinds; ++kind) at.emplace_back(start[kind][s] + kPeriod * m, m, kind);
      std::sort(at.begin(), at.end());
      for (const auto& [when, m, kind] : at) {
        const std::int64_t chunk = kind == kF1 || kind == kB1 ? 1 : 0;
        stages_[s].wanted.push_back(kind == kF0 || kind == kF1 ? forward(m, chunk) : input_gradients(m, chunk));
      }
    }
  }

  Orders run() {
    std::int64_t left = 6 * pipe_.microbatches * pipe_.stages;
    for (std::int64_t now = 0; left > 0; ++now) {
      for (std::size_t s = 0; s < stages_.size(); ++s) left -= step(s, now) ? 1 : 0;
      ORRERY_ASSERT(now <= 12 * pipe_.stages * (pipe_.microbatches + 1), "the pattern's memory lets every microbatch pass");
    }
    Orders orders;
    for (Stage& stage : stages_) orders.push_back(std::move(stage.list));
    return orders;
  }

 private:
  static constexpr std::int64_t kNever = INT64_MAX;
  struct Stage {
    std::vector<ScheduleEntry> wanted, list;  ///< F and B in the pattern's order; all that ran
    std::size_t next = 0, owed_from = 0;
    std::int64_t held = 0;
    std::vector<ScheduleEntry> owed;          ///< weight gradients, oldest at owed_from
  };
  std::int64_t& end(bool forward, std::int64_t place, std::int64_t microbatch) {
    return ends_[static_cast<std::size_t>(((forward ? 0 : places_) + place) * pipe_.microbatches + microbatch)];
  }
  [[nodiscard]] std::int64_t place(std::size_t s, std::int64_t chunk) const {
    return chunk == 0 ? static_cast<std::int64_t>(s) : places_ - 1 - static_cast<std::int64_t>(s);
  }

  bool ready(std::size_t s, const ScheduleEntry& e, std::int64_t now) {
    const std::int64_t at = place(s, e.chunk);
    if (e.pass == Pass::kForward) return stages_[s].held < most_ && (at == 0 || end(true, at - 1, e.microbatch) <= now);
    return end(true, at, e.microbatch) <= now && (at + 1 == places_ || end(false, at + 1, e.microbatch) <= now);
  }

  bool step(std::size_t s, std::int64_t now) {
    Stage& stage = stages_[s];
    if (stage.next < stage.wanted.size() && ready(s, stage.wanted[stage.next], now)) {
      const ScheduleEntry& e = stage.wanted[stage.next++];
      const bool is_forward = e.pass == Pass::kForward;
      end(is_forward, place(s, e.chunk), e.microbatch) = now + 1;
      stage.list.push_back(e);
      if (is_forward) ++stage.held;
      if (!is_forward) stage.owed.push_back(weight_gradients(e.microbatch, e.chunk));
      return true;
    }
    if (stage.owed_from == stage.owed.size()) return false;
    stage.list.push_back(stage.owed[stage.owed_from++]);
    --stage.held;
    return true;
  }

  const Pipe& pipe_;
  std::int64_t most_, places_;
  std::vector<Stage> stages_;
  std::vector<std::int64_t> ends_;  ///< by forward or backward, place, microbatch
};

Orders half(const Pipe& pipe) {
  const std::int64_t p = pipe.stages;
  return Play(pipe, pattern(p, {1, 2, 1, 2}), p + (p % 2 == 0 ? 2 : 1)).run();
}
Orders least(const Pipe& pipe) { return Play(pipe, pattern(pipe.stages, {1, 1, 1, 1}), 2 * ((pipe.stages + 4) / 3)).run(); }

/// A lone microbatch takes 4p F and B and one W; of its 6 units of work each stage waits out the rest.
std::int64_t lone(std::int64_t stages) { return 4 * stages - 5; }

double half_bubble(const Pipe& pipe) {
  const std::int64_t p = pipe.stages;
  if (p == 1) return 0;
  // On two stages the turns are all there is; else each microbatch hides two units of the lone one's wait until half is left.
  return over_work(p == 2 ? lone(p) : std::max(3 * p - 4, lone(p) - 2 * (pipe.microbatches - 1)), pipe);
}
double least_bubble(const Pipe& pipe) {
  const std::int64_t p = pipe.stages;
  if (p == 1) return 0;
  return over_work(lone(p) + (p % 3 == 0 && pipe.microbatches > 1 ? 2 : 0), pipe);
}

}  // namespace

const ScheduleRow kVHalfRow{.id = Schedule::kVHalf,
                            .name = "v_half",
                            .placement = Placement::kV,
                            .least_chunks = 2,
                            .most_chunks = 2,
                            .no_blocking = kPostsAhead,
                            .orders = half,
                            .bubble_overhead = half_bubble};
const ScheduleRow kVMinRow{.id = Schedule::kVMin,
                           .name = "v_min",
                           .placement = Placement::kV,
                           .least_chunks = 2,
                           .most_chunks = 2,
                           .no_blocking = kPostsAhead,
                           .orders = least,
                           .bubble_overhead = least_bubble};

}  // namespace orrery::plan
