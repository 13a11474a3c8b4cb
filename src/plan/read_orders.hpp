#pragma once
// Order lists that a user wrote, orrery/schedule/1.
#include <cstdint>
#include <string>

#include "orrery/plan/plan.hpp"

namespace orrery::plan {

Placement placement_of(const document::Value& schedule);
/// The order list of every stage, read and found able to run. `schedule` has passed its description and stands at `pointer` of `file`.
Result<std::vector<std::vector<ScheduleEntry>>> read_orders(const document::Value& schedule, const std::string& file, const std::string& pointer, const Parallelism& p,
                                                            std::int64_t microbatches);

}  // namespace orrery::plan
