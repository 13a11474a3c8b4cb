// DualPipe and DualPipeV (DeepSeek-V3, arXiv:2412.19437 section 3.2.1; the order is that of dualpipe.py and dualpipev.py).
//
// DualPipe feeds microbatches from both ends: rank r holds stages r and p-1-r, so parameters twice, and half of the microbatches go
// either way. DualPipeV cuts it in half: p ranks hold the chunks of a V, and the second way is the way back up. Either way a rank sees
// two phases: phase 0 comes from its own (nearer) end and still has the far way to go, phase 1 comes back from there. With
// n ranks on the way (p/2, or p in the V), i ranks from the end and m microbatches a phase (of a V, m in all) a rank does
//   2(n-i-1) F0;  i+1 times F0 F1;  n-i-1 times B1 W1 F1 with the backward split;
//   the main part, as often as there are forwards left: the pairs F0&B1 and F1&B0, each computed together so that what one sends passes
//   under what the other computes;
//   n-i-1 times B1, F1&B0;  i+1 times B1 B0, the second half of them split;  n-i-1 times W B0 with B0 split;  the i+1 W that are left.
// The rank in the middle does not pair its first F0 and B1, for it hands them to itself.
//
// Bubble (README): (n-1)(F&B + B - 3W) where B is the whole backward pass and F&B the pair's time. Both chunks' activations together are
// 2n+1 chunk passes: p+1 in DualPipe.
#include <deque>

#include "orrery/base/assert.hpp"
#include "plan/schedules/schedules.hpp"

namespace orrery::plan {

namespace {

class Writer {
 public:
  /// chunk_of_phase: which chunk a phase is here; first: microbatch that a chunk's count starts with.
  Writer(std::array<std::int64_t, 2> chunk_of_phase, std::array<std::int64_t, 2> first) : chunk_(chunk_of_phase), first_(first) {}

  void f(std::size_t phase, bool pair = false) { put(Pass::kForward, phase, forwards_[phase]++, pair); }
  void b(std::size_t phase, bool split = false) {
    const std::int64_t k = backwards_[phase]++;
    put(split ? Pass::kInput : Pass::kBackward, phase, k, false);
    if (split) owed_.emplace_back(phase, k);
  }
  void w() {
    put(Pass::kWeight, owed_.front().first, owed_.front().second, false);
    owed_.pop_front();
  }
  std::vector<ScheduleEntry> list;

 private:
  void put(Pass pass, std::size_t phase, std::int64_t k, bool pair) {
    const std::int64_t c = chunk_[phase];
    list.push_back({pass, static_cast<std::int32_t>(first_[static_cast<std::size_t>(c)] + k), static_cast<std::int32_t>(c), pair});
  }
  std::array<std::int64_t, 2> chunk_, first_, forwards_{}, backwards_{};
  std::deque<std::pair<std::size_t, std::int64_t>> owed_;  ///< weight gradients, oldest first
};

/// n ranks on the way, i from its end, `main` rounds of pairs.
std::vector<ScheduleEntry> write_order(std::int64_t n, std::int64_t i, std::int64_t main, Writer write) {
  ORRERY_ASSERT(main >= 0, "there are microbatches for the whole way twice");
  for (std::int64_t k = 0; k < 2 * (n - i - 1); ++k) write.f(0);
  for (std::int64_t k = 0; k < i + 1; ++k) {
    write.f(0);
    write.f(1);
  }
  for (std::int64_t k = 0; k < n - i - 1; ++k) {
    write.b(1, true);
    write.w();
    write.f(1);
  }
  for (std::int64_t k = 0; k < main; ++k) {
    write.f(0, k > 0 || i != n - 1);
    write.b(1);
    write.f(1, true);
    write.b(0);
  }
  for (std::int64_t k = 0; k < n - i - 1; ++k) {
    write.b(1);
    write.f(1, true);
    write.b(0);
  }
  // Splitting starts in the middle of this part: before the B1 there on odd places, after it on even ones.
  for (std::int64_t k = 0; k < i + 1; ++k) {
    const std::int64_t middle = (i + 1) / 2;
    write.b(1, k > middle || (k == middle && i % 2 == 1));
    write.b(0, k >= middle);
  }
  for (std::int64_t k = 0; k < n - i - 1; ++k) {
    write.w();
    write.b(0, true);
  }
  for (std::int64_t k = 0; k < i + 1; ++k) write.w();
  return std::move(write.list);
}

std::vector<ScheduleEntry> two_way(const Pipe& pipe, std::int64_t stage) {
  const std::int64_t n = pipe.stages / 2, i = std::min(stage, pipe.stages - 1 - stage), each = pipe.microbatches / 2;
  const std::int64_t near = stage < n ? 0 : 1;  // the direction that enters at this rank's end
  return write_order(n, i, each - pipe.stages + i + 1, Writer({near, 1 - near}, {0, each}));
}
std::vector<ScheduleEntry> v_shaped(const Pipe& pipe, std::int64_t stage) {
  return write_order(pipe.stages, stage, pipe.microbatches - 2 * pipe.stages + stage + 1, Writer({0, 1}, {0, 0}));
}

// F = 1, whole backward 2, W = 1, pair 3: (n-1)(3 + 2 - 3).
double two_way_bubble(const Pipe& pipe) { return static_cast<double>(2 * (pipe.stages / 2 - 1)) / (3 * static_cast<double>(pipe.microbatches)); }
double v_bubble(const Pipe& pipe) { return over_work(2 * (pipe.stages - 1), pipe); }

}  // namespace

const ScheduleRow kDualPipeRow{.id = Schedule::kDualPipe,
                               .name = "dualpipe",
                               .placement = Placement::kTwoWay,
                               .rounds = 2,
                               .no_blocking = "what its pairs send must pass under the next pair",
                               .order = two_way,
                               .bubble_overhead = two_way_bubble};
const ScheduleRow kDualPipeVRow{.id = Schedule::kDualPipeV,
                                .name = "dualpipe_v",
                                .placement = Placement::kV,
                                .least_chunks = 2,
                                .most_chunks = 2,
                                .rounds = 2,
                                .no_blocking = "what its pairs send must pass under the next pair",
                                .order = v_shaped,
                                .bubble_overhead = v_bubble};

}  // namespace orrery::plan
