#include "orrery/program/stack.hpp"

#include "orrery/base/assert.hpp"

namespace orrery::program {
namespace {

using document::Value;

double number(const Value& v, double otherwise = 0) { return v.is_null() ? otherwise : v.as_double(); }
bool flag(const Value& v, bool otherwise = false) { return v.is_null() ? otherwise : v.as_bool(); }

}  // namespace

int version_number(const std::string& text) {
  int part[3] = {0, 0, 0};
  std::size_t p = 0;
  for (const char c : text) {
    if (c == '.') {
      if (++p == 3) break;
    } else if (c >= '0' && c <= '9' && part[p] < 1000) {
      part[p] = part[p] * 10 + (c - '0');
    }
  }
  return part[0] * 10000 + part[1] * 100 + part[2];
}

Stack read_stack(const Value& stack) {
  ORRERY_ASSERT(stack.is_object(), "a resolved scenario holds its stack as an object");
  Stack s;
  s.name = stack.at("name").is_string() ? stack.at("name").as_string() : "";
  const Value& dp = stack.at("data_parallel");
  if (dp.at("style").is_string()) {
    const std::string& style = dp.at("style").as_string();
    s.style = style == "fsdp1" ? DataParallelStyle::kFsdp1 : style == "fsdp2" ? DataParallelStyle::kFsdp2 : DataParallelStyle::kDdp;
  }
  if (!dp.at("bucket_parameters").is_null()) s.bucket_parameters = dp.at("bucket_parameters").as_int();
  s.bucket_parameters_per_rank = static_cast<std::int64_t>(number(dp.at("bucket_parameters_per_rank")));
  s.fsdp_prefetch = static_cast<std::size_t>(number(dp.at("fsdp_prefetch"), 1));
  s.fsdp_copies = flag(dp.at("fsdp_copies"));
  s.zero_all_reduces = flag(dp.at("zero_all_reduces"));
  s.gathers_matrices = flag(dp.at("gathers_matrices"));
  const Value& host = stack.at("host");
  s.forward_op_us = number(host.at("forward_op_us"));
  s.backward_op_us = number(host.at("backward_op_us"));
  s.collective_us = number(host.at("collective_us"));
  s.collective_rank_us = number(host.at("collective_rank_us"));
  s.checkpoint_region_us = number(host.at("checkpoint_region_us"));
  s.optimizer_us = number(host.at("optimizer_us"));
  s.step_us = number(host.at("step_us"));
  s.sync_us = number(host.at("sync_us"));
  s.graph_node_us = number(host.at("graph_node_us"));
  s.run_ahead = static_cast<std::uint32_t>(number(host.at("run_ahead"), 1000));
  const Value& end = stack.at("end_of_step");
  s.grad_norm = flag(end.at("grad_norm"), true);
  s.tied_embedding_all_reduce = flag(end.at("tied_embedding_all_reduce"), true);
  s.norm_gradient_all_reduce = flag(end.at("norm_gradient_all_reduce"), true);
  s.inf_check = flag(end.at("inf_check"));
  s.skipped_steps = number(end.at("skipped_steps"));
  const Value& memory = stack.at("memory");
  s.context_gib = number(memory.at("context_gib"));
  s.distributed_gib = number(memory.at("distributed_gib"));
  s.workspace_gib = number(memory.at("workspace_gib"));
  if (memory.at("allocator").is_string()) {
    const std::string& allocator = memory.at("allocator").as_string();
    s.allocator = allocator == "exact" ? AllocatorKind::kExact : allocator == "expandable_segments" ? AllocatorKind::kExpandableSegments : AllocatorKind::kCaching;
  }
  s.nccl_channel_buffers = flag(memory.at("nccl_channel_buffers"), true);
  s.weight_gradient_buffer = flag(memory.at("weight_gradient_buffer"));
  s.parameter_gradients = flag(memory.at("parameter_gradients"));
  s.reduction_buckets = flag(memory.at("reduction_buckets"));
  s.coalesced_copies = flag(memory.at("coalesced_copies"));
  s.gradient_buffer = flag(memory.at("gradient_buffer"), true);
  s.states_at_start = flag(memory.at("states_at_start"));
  s.root_unit = flag(dp.at("fsdp_root_unit"));
  const Value& layout = stack.at("layout");
  s.vocab_multiple = static_cast<std::int64_t>(number(layout.at("vocab_multiple"), 1));
  s.launch_order_serial = flag(layout.at("launch_order_serial"));
  const Value& kernel = stack.at("kernels").at("attention_kernel");
  s.attention_kernel = kernel.is_string() ? kernel.as_string() : "";
  if (stack.at("nccl_version").is_string()) s.nccl_version = version_number(stack.at("nccl_version").as_string());
  return s;
}

}  // namespace orrery::program
