// Kernels at the end of a step. Bytes per parameter by what each state is stored in: Adam with fp32 gradients and a 16-bit copy reads
// g4 p4 m4 v4 and writes p4 m4 v4 w2, 30 in all (modelling 2.2).
#include <algorithm>

#include "orrery/base/checked.hpp"
#include "orrery/workload/layers.hpp"

namespace orrery::workload {
namespace {

/// Elements that one launch of a multi-tensor kernel covers: 320 blocks of 65,536 (apex csrc/multi_tensor_apply.cuh and PyTorch
/// ATen/native/cuda/MultiTensorApply.cuh agree).
constexpr std::int64_t kLaunch = std::int64_t{320} * 65536;

int launches(std::int64_t parameters, int kernels) { return kernels * static_cast<int>(std::clamp<std::int64_t>(ceil_div(parameters, kLaunch), 1, 1 << 16)); }

struct Traffic {
  std::int64_t read = 0, write = 0;  ///< bytes per parameter
  int kernels = 1;
};

/// g, p, w, m: bytes of the gradient, the weights that are updated, the 16-bit copy written after (0: none), one moment.
Traffic fused(Optimizer o, std::int64_t g, std::int64_t p, std::int64_t w, std::int64_t m) {
  const std::int64_t moments = o == Optimizer::kAdamW ? 2 * m : o == Optimizer::kMomentum ? m : 0;
  return {g + p + moments, p + w + moments, 1};
}

/// torch.optim with foreach: a pass per arithmetic step. AdamW: decay (p), m lerp g, v scaled, v += g^2, sqrt, divide, add epsilon (on a
/// temporary), p += m / temporary. Momentum: decay into g, m scaled, m += g, p += m. SGD: decay into g, p += g.
Traffic foreach(Optimizer o, std::int64_t g, std::int64_t p, std::int64_t w, std::int64_t m) {
  Traffic t;
  switch (o) {
    case Optimizer::kAdamW: t = {p + (g + m) + m + (g + m) + m + m + m + (p + 2 * m), p + m + m + m + m + m + m + p, 8}; break;
    case Optimizer::kMomentum: t = {(g + p) + m + (g + m) + (p + m), g + m + m + p, 4}; break;
    case Optimizer::kSgd: t = {(g + p) + (g + p), g + p, 2}; break;
  }
  if (w > 0) t.read += p, t.write += w, t.kernels += 1;
  return t;
}

}  // namespace

std::vector<Operation> optimizer_operations(const Training& t, const StackKernels& k, std::int64_t parameters, std::int64_t updated) {
  const StateBytes s = state_bytes(t);
  const auto whole = [](double v) { return static_cast<std::int64_t>(v); };
  const std::int64_t g = whole(s.gradient);
  const std::int64_t weights = whole(s.parameter);
  const std::int64_t p = s.master > 0 ? whole(s.master) : weights;
  const std::int64_t copy = s.master > 0 ? weights : 0;
  const std::int64_t moment = s.master > 0 ? 4 : weights;
  std::vector<Operation> out;
  if (k.zero_grad_buffer) out.push_back({"zero_grad", Stream{StreamKind::kCopy, 0, g * parameters, 1}});
  if (k.grad_scale_kernel) out.push_back({"scale_grad", Stream{StreamKind::kElementwise, g * parameters, g * parameters, 1}});
  if (t.precision == DType::kFp16) out.push_back({"unscale_and_check", Stream{StreamKind::kElementwise, g * updated, g * updated, launches(updated, 1)}});
  out.push_back({"grad_norm", Stream{StreamKind::kReduce, g * updated, 0, launches(updated, 1)}});
  const Traffic traffic = k.fused_optimizer ? fused(t.optimizer, g, p, copy, moment) : foreach(t.optimizer, g, p, copy, moment);
  out.push_back({"optimizer", Stream{StreamKind::kOptimizer, traffic.read * updated, traffic.write * updated, launches(updated, traffic.kernels)}});
  return out;
}

}  // namespace orrery::workload
