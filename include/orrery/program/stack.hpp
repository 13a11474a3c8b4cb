#pragma once
// What a software stack does around the layers: buckets, host costs, end-of-step terms, runtime memory (orrery/stack/1, design 5.6).
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "orrery/document/value.hpp"
#include "orrery/program/allocator.hpp"

namespace orrery::program {

enum class DataParallelStyle : std::uint8_t { kDdp, kFsdp1, kFsdp2 };

struct Stack {
  std::string name;
  // data_parallel
  DataParallelStyle style = DataParallelStyle::kDdp;
  std::optional<std::int64_t> bucket_parameters;  ///< null: one bucket for everything
  std::int64_t bucket_parameters_per_rank = 0;    ///< bucket = max(bucket_parameters, this x data-parallel size)
  std::size_t fsdp_prefetch = 1;                  ///< units gathered ahead of the one that computes
  bool zero_all_reduces = false;                  ///< ZeRO 1 and 2 all-reduce gradients and keep their shard, instead of a reduce-scatter
  bool gathers_matrices = false;                  ///< ZeRO 3 gathers every matrix by itself, not a unit at once
  bool fsdp_copies = false;                       ///< copies out of the gather buffer and into the reduce buffer
  // host, microseconds
  double forward_op_us = 0, backward_op_us = 0, collective_us = 0, collective_rank_us = 0, checkpoint_region_us = 0, optimizer_us = 0, step_us = 0, sync_us = 0, graph_node_us = 0;
  std::uint32_t run_ahead = 1000;
  // end of step
  bool grad_norm = true, tied_embedding_all_reduce = true, norm_gradient_all_reduce = true, inf_check = false;
  double skipped_steps = 0;  ///< under fp16: gradients overflow, and the step is not applied
  // memory
  double context_gib = 0, distributed_gib = 0, workspace_gib = 0;
  AllocatorKind allocator = AllocatorKind::kCaching;
  bool nccl_channel_buffers = true, weight_gradient_buffer = false;
  bool parameter_gradients = false;     ///< a microbatch's gradients, in the parameters' type, until it has been added to the buffer
  bool reduction_buckets = false;       ///< buffers of the gradients' size beside them, in the parameters' type (DistributedDataParallel)
  bool coalesced_copies = false;        ///< collectives over many tensors copy them into and out of one
  bool gradient_buffer = true;          ///< gradients live in a buffer for the whole job; false: backward makes them, the update drops them
  bool states_at_start = false;         ///< optimizer states are made before the first step, not by the first update
  bool root_unit = false;               ///< FSDP: what no block wraps is one unit, which stays gathered until backward has passed it
  // layout
  std::int64_t vocab_multiple = 1;
  bool launch_order_serial = false;
  // kernels
  std::string attention_kernel;
  int nccl_version = 22700;
};

/// "2.27" to 22700, "2.27.3" to 22703.
int version_number(const std::string& text);

/// From the resolved stack object of a scenario.
Stack read_stack(const document::Value& stack);

}  // namespace orrery::program
