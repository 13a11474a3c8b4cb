// ZB-V (Qi et al., arXiv:2401.10241 section 6): two chunks a stage, down the stages and back up, with the backward pass split. A
// microbatch ends where it began, so the first stage can start backward as early as the last and every stage holds p stage-microbatches
// (2p chunks), 1F1B's peak, without idling between its first pass and its last.
//
// Stage i, as the paper draws it: 2(p-i)-1 forwards of chunk 0; i times F1 F0; p-i times F1 B1 W1; then rounds of F0 B0 W0 F1 B1 W1
// until the forwards are used up; i times B0 B1, p-i times B0 W0, and the W that are left. That needs 2p-1 microbatches; with fewer the
// passes of those that do not exist are left out.
#include <algorithm>

#include "plan/schedules/schedules.hpp"

namespace orrery::plan {

namespace {

class Writer {
 public:
  Writer(std::int64_t real, std::int64_t planned) : real_(real), planned_(planned) {}
  void f(std::int64_t chunk) { put(forward(forwards_[at(chunk)]++, chunk)); }
  void b(std::int64_t chunk) { put(input_gradients(inputs_[at(chunk)]++, chunk)); }
  void w(std::int64_t chunk) { put(weight_gradients(weights_[at(chunk)]++, chunk)); }
  void bw(std::int64_t chunk) {
    b(chunk);
    w(chunk);
  }
  [[nodiscard]] bool forwards_left(std::int64_t chunk) const { return forwards_[at(chunk)] < planned_; }
  [[nodiscard]] bool weights_left(std::int64_t chunk) const { return weights_[at(chunk)] < planned_; }
  std::vector<ScheduleEntry> list;

 private:
  static std::size_t at(std::int64_t chunk) { return static_cast<std::size_t>(chunk); }
  void put(const ScheduleEntry& entry) {
    if (entry.microbatch < real_) list.push_back(entry);
  }
  std::int64_t real_, planned_;
  std::array<std::int64_t, 2> forwards_{}, inputs_{}, weights_{};
};

std::vector<ScheduleEntry> order(const Pipe& pipe, std::int64_t stage) {
  const std::int64_t p = pipe.stages;
  Writer write(pipe.microbatches, std::max(pipe.microbatches, 2 * p - 1));
  for (std::int64_t k = 0; k < 2 * (p - stage) - 1; ++k) write.f(0);
  for (std::int64_t k = 0; k < stage; ++k) {
    write.f(1);
    write.f(0);
  }
  for (std::int64_t k = 0; k < p - stage; ++k) {
    write.f(1);
    write.bw(1);
  }
  while (write.forwards_left(1)) {
    if (write.forwards_left(0)) write.f(0);
    write.bw(0);
    write.f(1);
    write.bw(1);
  }
  for (std::int64_t k = 0; k < stage; ++k) {
    write.b(0);
    write.b(1);
  }
  for (std::int64_t k = 0; k < p - stage; ++k) write.bw(0);
  while (write.weights_left(1)) write.w(1);
  while (write.weights_left(0)) write.w(0);
  return std::move(write.list);
}

// The skew p-1 of the last stage's start (see zero_bubble.cpp); with few microbatches their way down, up, down and up again counts.
double bubble_overhead(const Pipe& pipe) {
  const std::int64_t p = pipe.stages;
  return over_work(p - 1 + std::max<std::int64_t>(0, 3 * p - 1 - 2 * pipe.microbatches), pipe);
}

}  // namespace

const ScheduleRow kZbVRow{.id = Schedule::kZbV,
                          .name = "zb_v",
                          .placement = Placement::kV,
                          .least_chunks = 2,
                          .most_chunks = 2,
                          .no_blocking = kPostsAhead,
                          .order = order,
                          .bubble_overhead = bubble_overhead};

}  // namespace orrery::plan
