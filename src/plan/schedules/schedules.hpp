#pragma once
// One row per pipeline schedule: how to name it, what it admits, and its generator. registry.cpp lists the rows.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "orrery/plan/plan.hpp"

namespace orrery::plan {

/// The pipeline as a generator sees it.
struct Pipe {
  std::int64_t stages = 1, chunks = 1, microbatches = 1;
};

struct ScheduleRow {
  Schedule id = Schedule::k1F1B;
  std::string_view name;            ///< as in parallelism.schedule
  bool chunked = false;             ///< needs at least 2 chunks per stage; else exactly 1
  bool microbatches_in_rounds = false;  ///< needs pp >= 2 and a multiple of pp microbatches
  std::vector<ScheduleEntry> (*order)(const Pipe& pipe, std::int64_t stage) = nullptr;
  /// Bubble of a stage over its own work, (makespan - work)/work, for equal stages and free transfers.
  double (*bubble_overhead)(const Pipe& pipe) = nullptr;
};

extern const ScheduleRow kGpipeRow, k1F1BRow, kInterleaved1F1BRow;

/// All schedules, in the order of the enumeration.
std::span<const ScheduleRow* const> schedules();
const ScheduleRow& row_of(Schedule s);

/// Appends the passes of a schedule that interleaves one forward and one backward after `warm_up` forwards and drains at the end.
/// `at(k)` is the k-th (microbatch, chunk) of the forward sequence, `back(k)` of the backward one; both have `count` members.
template <class Forward, class Backward>
std::vector<ScheduleEntry> one_forward_one_backward(std::int64_t count, std::int64_t warm_up, Forward at, Backward back) {
  std::vector<ScheduleEntry> order;
  order.reserve(static_cast<std::size_t>(2 * count));
  for (std::int64_t k = 0; k < warm_up; ++k) order.push_back(at(k));
  for (std::int64_t k = warm_up; k < count; ++k) {
    order.push_back(at(k));
    order.push_back(back(k - warm_up));
  }
  for (std::int64_t k = count - warm_up; k < count; ++k) order.push_back(back(k));
  return order;
}

inline ScheduleEntry forward(std::int64_t microbatch, std::int64_t chunk = 0) {
  return {Pass::kForward, static_cast<std::int32_t>(microbatch), static_cast<std::int32_t>(chunk)};
}
inline ScheduleEntry backward(std::int64_t microbatch, std::int64_t chunk = 0) {
  return {Pass::kBackward, static_cast<std::int32_t>(microbatch), static_cast<std::int32_t>(chunk)};
}

}  // namespace orrery::plan
