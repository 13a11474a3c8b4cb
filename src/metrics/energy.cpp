// Energy of the GPUs: power by what a GPU does, integrated over the step. Shares of the thermal design power are the middles of the
// ranges of modelling 11.1: tensor work runs into the limit, memory-bound kernels draw 0.55-0.7, communication alone 0.3-0.45, and a
// GPU that waits inside a step is not idle but about 0.3.
#include <algorithm>

#include "metrics/parts.hpp"

namespace orrery::metrics {

namespace {
constexpr double kMemoryBoundShare = 0.625, kCommunicationShare = 0.375, kWaitingShare = 0.3;
}  // namespace

std::optional<Energy> energy(double step_s, const Breakdown& breakdown, const std::array<double, kOperationClasses>& by_class, const Inputs& inputs) {
  const double limit = inputs.gpu.power_limit_w > 0 ? inputs.gpu.power_limit_w : inputs.gpu.tdp_w;
  const double tdp = inputs.gpu.tdp_w > 0 ? inputs.gpu.tdp_w : limit;
  if (limit <= 0 || step_s <= 0) return std::nullopt;
  // No share of the design power is below what the part draws without work, where somebody read that.
  const double idle = inputs.gpu.idle_w.value_or(0);
  const auto watts = [&](double share) { return std::min(limit, std::max(idle, share * tdp)); };
  double tensor_s = 0, memory_s = breakdown.optimizer_s, communication_s = 0;
  for (std::size_t c = 0; c < kOperationClasses; ++c) (c == static_cast<std::size_t>(OperationClass::kMemoryBound) ? memory_s : tensor_s) += by_class[c];
  for (double s : breakdown.exposed_comm_s) communication_s += s;
  const double waiting_s = breakdown.bubble_s + breakdown.other_s;
  const double joules = limit * tensor_s + watts(kMemoryBoundShare) * memory_s + watts(kCommunicationShare) * communication_s + watts(kWaitingShare) * waiting_s;
  const double gpus = static_cast<double>(inputs.gpus);
  const double tokens = static_cast<double>(inputs.training.global_batch) * static_cast<double>(inputs.training.sequence_length);
  return Energy{.step_j = joules * gpus, .gpu_mean_w = joules / step_s, .j_per_token = joules * gpus / tokens};
}

}  // namespace orrery::metrics
