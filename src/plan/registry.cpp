// The pipeline schedules: one file in schedules/ and one line here for each.
#include "orrery/base/assert.hpp"
#include "plan/schedules/schedules.hpp"

namespace orrery::plan {

namespace {
constexpr std::array kSchedules = {
    &kGpipeRow,
    &k1F1BRow,
    &kInterleaved1F1BRow,
};

Pipe pipe_of(const Parallelism& p, std::int64_t microbatches) { return {p.pp, p.vp, microbatches}; }
}  // namespace

std::span<const ScheduleRow* const> schedules() { return kSchedules; }

const ScheduleRow& row_of(Schedule s) {
  const ScheduleRow& row = *kSchedules[static_cast<std::size_t>(s)];
  ORRERY_ASSERT(row.id == s, "rows stand in the order of the enumeration");
  return row;
}

std::string_view to_string(Schedule s) { return row_of(s).name; }

std::vector<ScheduleEntry> schedule_order(const Parallelism& p, std::int64_t stage, std::int64_t microbatches) {
  ORRERY_ASSERT(stage >= 0 && stage < p.pp && microbatches > 0, "the stage exists and has work");
  return row_of(p.schedule).order(pipe_of(p, microbatches), stage);
}

double closed_form_efficiency(const Parallelism& p, std::int64_t microbatches) {
  return 1 / (1 + row_of(p.schedule).bubble_overhead(pipe_of(p, microbatches)));
}

}  // namespace orrery::plan
