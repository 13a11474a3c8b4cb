#pragma once
// One role's microbatches in the schedule's order, with the stage's traffic: batches that block (1F1B as Megatron runs it) or
// streams that overlap, one for each kind of message. Source: Megatron core/pipeline_parallel/schedules.py and p2p_communication.py; modelling 8.2.
#include <cstdint>
#include <functional>
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
  /// An entry of the list; first: its chunk's first forward pass, or first weight gradients; last: its last weight gradients; returns: the
  /// backward pass of its microbatch and chunk follows at once.
  struct Turn {
    plan::ScheduleEntry entry;
    bool first = false, last = false, returns = false;
  };
  [[nodiscard]] std::vector<Turn> turns(const std::vector<plan::ScheduleEntry>& order) const;
  void compute(const Turn& turn);
  void begin(const Turn& turn);
  void keep_input(const LayerSlot& layer, bool keep);
  void forward(const Turn& turn, std::size_t layer);
  /// The backward pass of the layer below `end`, or of its recomputed group; returns where the next one ends.
  std::size_t backward(const Turn& turn, std::size_t end);
  void weights(const Turn& turn);
  void pair(const Turn& forward_turn, const Turn& backward_turn);
  /// The pair's passes step by step, one going on where the other's exchange of tokens is under way (exchange_pairs.cpp).
  void pair_under_exchanges(const Turn& forward_turn, const Turn& backward_turn);
  struct Step {
    std::function<void()> run;
    const Piece* exchange = nullptr;  ///< the step is this piece alone, an exchange
  };
  void add_pass(std::vector<Step>& steps, const Pass& pass, std::function<std::uint32_t()> base, const plan::ScheduleEntry& entry) const;
  [[nodiscard]] std::vector<Step> forward_steps(const Turn& turn);
  [[nodiscard]] std::vector<Step> backward_steps(const Turn& turn);
  void run_blocking(const std::vector<plan::ScheduleEntry>& order);
  void run_blocking_chunks(const std::vector<plan::ScheduleEntry>& order);
  void run_overlapped(const std::vector<plan::ScheduleEntry>& order);

  RoleBuilder& b_;
  DataParallel& dp_;
  const Job& job_;
  const std::vector<ChunkLayers>& chunks_;
  std::int64_t stage_ = 0;
  std::vector<Boundaries> boundaries_;  // by chunk
  std::vector<Turn> turns_;             // of the order that runs
};

}  // namespace orrery::program
