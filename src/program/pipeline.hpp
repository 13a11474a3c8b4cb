#pragma once
// One role's microbatches in the schedule's order, with the stage's traffic: batches that block (1F1B as Megatron runs it) or four
// streams that overlap. Source: Megatron core/pipeline_parallel/schedules.py and p2p_communication.py; modelling 8.2.
#include <cstdint>
#include <vector>

#include "data_parallel.hpp"
#include "orrery/plan/plan.hpp"
#include "role_builder.hpp"

namespace orrery::program {

class Pipeline {
 public:
  Pipeline(RoleBuilder& builder, DataParallel& data_parallel, const Job& job, const std::vector<ChunkLayers>& chunks, std::int64_t stage);
  /// Issues the whole order list.
  void run(const std::vector<plan::ScheduleEntry>& order);

 private:
  struct Traffic {
    bool receives = false, sends = false;
    PointToPoint in, out;
  };
  struct Boundaries {
    std::int64_t before = 0, after = 0;  // bytes of the activations that enter and leave a chunk
  };
  [[nodiscard]] Traffic traffic(const plan::ScheduleEntry& entry) const;
  void compute(const plan::ScheduleEntry& entry);
  void forward(const plan::ScheduleEntry& entry);
  void backward(const plan::ScheduleEntry& entry);
  void run_blocking(const std::vector<plan::ScheduleEntry>& order);
  void run_blocking_chunks(const std::vector<plan::ScheduleEntry>& order);
  void run_overlapped(const std::vector<plan::ScheduleEntry>& order);

  RoleBuilder& b_;
  DataParallel& dp_;
  const Job& job_;
  const std::vector<ChunkLayers>& chunks_;
  std::int64_t stage_ = 0;
  std::vector<Boundaries> boundaries_;  // by chunk
};

}  // namespace orrery::program
