// The pipeline schedules: one file in schedules/ and one line here for each.
#include <utility>

#include "orrery/base/assert.hpp"
#include "plan/schedules/schedules.hpp"

namespace orrery::plan {

namespace {
constexpr std::array kSchedules = {
    &kGpipeRow,
    &k1F1BRow,
    &kInterleaved1F1BRow,
    &kBfsRow,
    &kZbH1Row,
    &kZbH2Row,
    &kZbVRow,
    &kVHalfRow,
    &kVMinRow,
    &kDualPipeRow,
    &kDualPipeVRow,
    &kFileRow,
};

Pipe pipe_of(const Parallelism& p, std::int64_t microbatches) {
  return {p.pp, chunks_per_rank(p), microbatches, p.interleave_group > 0 ? p.interleave_group : p.pp, p.overlap_ep};
}
}  // namespace

std::span<const ScheduleRow* const> schedules() { return kSchedules; }

const ScheduleRow& row_of(Schedule s) {
  const ScheduleRow& row = *kSchedules[static_cast<std::size_t>(s)];
  ORRERY_ASSERT(row.id == s, "rows stand in the order of the enumeration");
  return row;
}

std::string_view to_string(Schedule s) { return row_of(s).name; }

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const ScheduleRow* row : kSchedules) {
    if (row->id != Schedule::kFile) names.push_back(row->name);
  }
  return names;
}

std::string_view to_string(Pass p) {
  constexpr std::array<std::string_view, 4> names = {"forward", "backward", "input gradients", "weight gradients"};
  return names[static_cast<std::size_t>(p)];
}

std::vector<ScheduleEntry> schedule_order(const Parallelism& p, std::int64_t stage, std::int64_t microbatches) {
  ORRERY_ASSERT(stage >= 0 && stage < p.pp && microbatches > 0, "the stage exists and has work");
  if (p.schedule == Schedule::kFile) return p.orders[static_cast<std::size_t>(stage)];
  const ScheduleRow& row = row_of(p.schedule);
  ORRERY_ASSERT(row.placement == p.placement, "the chunks lie as the schedule wants them");
  if (row.order != nullptr) return row.order(pipe_of(p, microbatches), stage);
  return std::move(row.orders(pipe_of(p, microbatches))[static_cast<std::size_t>(stage)]);
}

std::vector<std::vector<ScheduleEntry>> schedule_orders(const Parallelism& p, std::int64_t microbatches) {
  const ScheduleRow& row = row_of(p.schedule);
  if (row.orders != nullptr) return row.orders(pipe_of(p, microbatches));
  std::vector<std::vector<ScheduleEntry>> orders;
  for (std::int64_t stage = 0; stage < p.pp; ++stage) orders.push_back(schedule_order(p, stage, microbatches));
  return orders;
}

double closed_form_efficiency(const Parallelism& p, std::int64_t microbatches) {
  // The closed forms are of passes one at a time, or of pairs that are the schedule's own.
  const bool pairs = p.overlap_ep && p.placement == Placement::kLooped;
  if (p.schedule == Schedule::kFile || pairs) {
    const std::int64_t work = 3 * chunks_per_rank(p) * microbatches / (p.placement == Placement::kTwoWay ? 2 : 1);
    return static_cast<double>(work) / static_cast<double>(unit_makespan(shape_of(p, microbatches), schedule_orders(p, microbatches)));
  }
  return 1 / (1 + row_of(p.schedule).bubble_overhead(pipe_of(p, microbatches)));
}

}  // namespace orrery::plan
