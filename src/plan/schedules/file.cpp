// Order lists that a user wrote (orrery/schedule/1): read by the plan, kept in Parallelism::orders.
#include "plan/schedules/schedules.hpp"

namespace orrery::plan {

const ScheduleRow kFileRow{.id = Schedule::kFile,
                           .name = "file",
                           .least_chunks = 1,
                           .most_chunks = 0,
                           .no_blocking = "an order that nobody's runtime fixes has no order of its blocking calls"};

}  // namespace orrery::plan
