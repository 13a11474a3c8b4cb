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
  std::int64_t stages = 1, chunks = 1, microbatches = 1, group = 1;
  bool pairs = false;  ///< a forward and a backward pass in turn are one pair, which must not need each other: one more forward ahead
};

using Orders = std::vector<std::vector<ScheduleEntry>>;

struct ScheduleRow {
  Schedule id = Schedule::k1F1B;
  std::string_view name = {};       ///< as in parallelism.schedule
  Placement placement = Placement::kLooped;
  std::int64_t least_chunks = 1, most_chunks = 1;  ///< vp; most 0: any
  bool groups = false;              ///< takes interleave_group; needs pp >= 2
  std::int64_t rounds = 0;          ///< needs at least this many times pp microbatches
  std::string_view no_blocking = {};   ///< why there is no blocking p2p; empty where there is
  /// The order list of one stage, or of all of them where they are found together; one of the two is given.
  std::vector<ScheduleEntry> (*order)(const Pipe& pipe, std::int64_t stage) = nullptr;
  Orders (*orders)(const Pipe& pipe) = nullptr;
  /// Bubble of a stage over its own work, (makespan - work)/work, for equal stages, free transfers and, where the backward pass is split,
  /// forward, input and weight gradients of equal length.
  double (*bubble_overhead)(const Pipe& pipe) = nullptr;
};

extern const ScheduleRow kGpipeRow, k1F1BRow, kInterleaved1F1BRow, kBfsRow, kZbH1Row, kZbH2Row, kZbVRow, kVHalfRow, kVMinRow, kDualPipeRow, kDualPipeVRow, kFileRow;

/// All schedules, in the order of the enumeration.
std::span<const ScheduleRow* const> schedules();
const ScheduleRow& row_of(Schedule s);

/// Appends the passes of a schedule that interleaves one forward and one backward after `warm_up` forwards and drains at the end.
/// `at(k)` is the k-th (microbatch, chunk) of the forward sequence, `back(k)` of the backward one; both have `count` members. pairs: the
/// two in turn are computed together.
template <class Forward, class Backward>
std::vector<ScheduleEntry> one_forward_one_backward(std::int64_t count, std::int64_t warm_up, Forward at, Backward back, bool pairs = false) {
  std::vector<ScheduleEntry> order;
  order.reserve(static_cast<std::size_t>(2 * count));
  for (std::int64_t k = 0; k < warm_up; ++k) order.push_back(at(k));
  for (std::int64_t k = warm_up; k < count; ++k) {
    order.push_back(at(k));
    order.back().with_next = pairs;
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
inline ScheduleEntry input_gradients(std::int64_t microbatch, std::int64_t chunk = 0) {
  return {Pass::kInput, static_cast<std::int32_t>(microbatch), static_cast<std::int32_t>(chunk)};
}
inline ScheduleEntry weight_gradients(std::int64_t microbatch, std::int64_t chunk = 0) {
  return {Pass::kWeight, static_cast<std::int32_t>(microbatch), static_cast<std::int32_t>(chunk)};
}

/// A bubble in units of a chunk's forward pass over the work of a stage, whose backward takes two.
inline double over_work(std::int64_t bubble, const Pipe& pipe) {
  return static_cast<double>(bubble) / (3 * static_cast<double>(pipe.chunks) * static_cast<double>(pipe.microbatches));
}

inline constexpr std::string_view kPostsAhead = "its runtime posts sends and receives ahead and has no call that blocks";

}  // namespace orrery::plan
