// Kernels at the end of a step. Bytes per parameter by what each state is stored in: Adam with fp32 gradients and a 16-bit copy reads
// g4 p4 m4 v4 and writes p4 m4 v4 w2, 30 in all (modelling 2.2).
//
// 8-bit Adam keeps each moment in a byte with an fp32 scale per block (arXiv:2110.02861) and reads and writes it in one kernel a tensor.
// Adafactor keeps a row and a column of second moments per matrix (Shazeer and Stern, arXiv:1804.04235) and runs, as transformers has it,
// a kernel per arithmetic step and tensor. Moments of Transformer Engine's FusedAdam in fp16 or FP8 carry a scale per tensor: they are
// opened to fp32 before its kernel and closed after it (transformer_engine/pytorch/optimizers/fused_adam.py); bf16 moments are not.
#include "optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "orrery/base/assert.hpp"
#include "orrery/base/checked.hpp"

namespace orrery::workload {
namespace {

/// Elements that one launch of a multi-tensor kernel covers: 320 blocks of 65,536 (apex csrc/multi_tensor_apply.cuh and PyTorch
/// ATen/native/cuda/MultiTensorApply.cuh agree).
constexpr std::int64_t kLaunch = std::int64_t{320} * 65536;

int clamped(std::int64_t n) { return static_cast<int>(std::clamp<std::int64_t>(n, 1, 1 << 20)); }
int launches(std::int64_t parameters, int kernels) { return kernels * static_cast<int>(std::clamp<std::int64_t>(ceil_div(parameters, kLaunch), 1, 1 << 16)); }

int moments(Optimizer o) {
  switch (o) {
    case Optimizer::kSgd:
    case Optimizer::kAdafactor: return 0;
    case Optimizer::kMomentum: return 1;
    case Optimizer::kAdamW:
    case Optimizer::kAdamW8bit:
    case Optimizer::kMuon: return 2;
  }
  ORRERY_ASSERT(false, "the switch names every optimizer");
}

Traffic fused(Optimizer o, const Widths& b) {
  const double m = moments(o) * b.moment;
  return {b.gradient + b.weight + m, b.weight + b.copy + m, 1};
}

/// torch.optim with foreach: a pass per arithmetic step. AdamW: decay (p), m lerp g, v scaled, v += g^2, sqrt, divide, add epsilon (on a
/// temporary), p += m / temporary. Momentum: decay into g, m scaled, m += g, p += m. SGD: decay into g, p += g.
Traffic foreach(Optimizer o, const Widths& b) {
  const double g = b.gradient, p = b.weight, m = b.moment;
  Traffic t;
  if (moments(o) == 2) {
    t = {p + (g + m) + m + (g + m) + m + m + m + (p + 2 * m), p + m + m + m + m + m + m + p, 8};
  } else if (moments(o) == 1) {
    t = {(g + p) + m + (g + m) + (p + m), g + m + m + p, 4};
  } else {
    t = {(g + p) + (g + p), g + p, 2};
  }
  if (b.copy > 0) t.read += p, t.write += b.copy, t.kernels += 1;
  return t;
}

/// transformers Adafactor: square, add epsilon, two means, outer product, times the gradient, root mean square of update and of weights,
/// divide, learning rate, add; 16-bit gradients and weights are opened to fp32 first, and weights closed after.
Traffic adafactor(const Widths& b) {
  Traffic t{48, 28, 12};
  if (b.gradient < 4) t.read += b.gradient, t.write += 4, t.kernels += 1;
  if (b.weight < 4) t.read += b.weight + 4, t.write += 4 + b.weight, t.kernels += 2;
  if (b.copy > 0) t.read += b.weight, t.write += b.copy, t.kernels += 1;
  return t;
}

bool scaled_moments(const Training& t) { return t.optimizer_dtype && (*t.optimizer_dtype == DType::kFp16 || *t.optimizer_dtype == DType::kFp8); }

std::int64_t matrix_elements(const UpdateShapes& shapes) {
  std::int64_t sum = 0;
  for (const Matrix& m : shapes.matrices) sum += m.elements();
  return sum;
}

void append_update(const Training& t, const StackKernels& k, std::int64_t updated, const UpdateShapes& shapes, std::vector<Operation>& out) {
  const Widths b = update_widths(t);
  if (t.optimizer == Optimizer::kAdafactor) {
    // With parameters cut along their rows the means over rows are sums of all ranks' (DTensor, shard along dimension 0).
    std::int64_t columns = 0;
    for (const Matrix& m : shapes.matrices) columns += m.columns * m.count;
    if (shapes.shards > 1 && columns > 0) out.push_back({"all_reduce_column_means", Comm{CommKind::kAllReduce, Axis::kDp, 4 * columns}});
    const Traffic traffic = adafactor(b);
    out.push_back(update_kernel("optimizer", traffic, updated, clamped(traffic.kernels * shapes.tensors)));
    return;
  }
  if (t.optimizer == Optimizer::kAdamW8bit) {
    const Traffic traffic = fused(t.optimizer, b);
    out.push_back(update_kernel("optimizer", traffic, updated, clamped(shapes.tensors)));
    return;
  }
  // Opening and closing of scaled states: read and write; the maximum for the new scale reads once more.
  const bool opens = scaled_moments(t), opens_master = t.master_weights && t.master == Master::kFp16 && element_bytes(t.param_dtype) < 4;
  Widths inner = b;
  if (opens) inner.moment = 4;
  if (opens_master) inner.weight = 4;
  const double closed = (opens ? moments(t.optimizer) * b.moment : 0) + (opens_master ? 2 : 0);
  const double open = (opens ? moments(t.optimizer) * 4 : 0) + (opens_master ? 4 : 0);
  const int states = (opens ? moments(t.optimizer) : 0) + (opens_master ? 1 : 0);
  if (states > 0) out.push_back(update_kernel("open_states", {closed, open, 1}, updated, clamped(states * shapes.tensors)));
  const Traffic traffic = k.fused_optimizer ? fused(t.optimizer, inner) : foreach(t.optimizer, inner);
  out.push_back(update_kernel("optimizer", traffic, updated, launches(updated, traffic.kernels)));
  if (states > 0) out.push_back(update_kernel("close_states", {2 * open, closed, 2}, updated, clamped(2 * states * shapes.tensors)));
}

}  // namespace

Widths update_widths(const Training& t) {
  const StateBytes s = state_bytes(t);
  Widths b;
  b.gradient = s.gradient;
  b.weight = s.master > 0 ? s.master : s.parameter;
  b.copy = s.master > 0 ? s.parameter : 0;
  if (s.master > 0 && t.master == Master::kRemainder) {
    b.weight = s.parameter + s.master;  // the weights are the upper half of the master
    b.copy = 0;
  }
  const int count = moments(t.optimizer);
  b.moment = count > 0 ? s.optimizer / count : 0;
  return b;
}

Operation update_kernel(const char* name, const Traffic& traffic, std::int64_t parameters, int kernels) {
  const auto bytes = [&](double each) { return static_cast<std::int64_t>(std::ceil(each * static_cast<double>(parameters))); };
  return {name, Stream{StreamKind::kOptimizer, bytes(traffic.read), bytes(traffic.write), kernels}};
}

std::int64_t host_share(std::int64_t n, double fraction) { return static_cast<std::int64_t>(static_cast<double>(n) * fraction + 0.5); }

std::vector<Operation> optimizer_operations(const Training& t, const StackKernels& k, std::int64_t parameters, std::int64_t updated) {
  UpdateShapes shapes;
  shapes.parameters = updated;
  return optimizer_operations(t, k, parameters, updated, shapes);
}

std::vector<Operation> optimizer_operations(const Training& t, const StackKernels& k, std::int64_t parameters, std::int64_t updated, const UpdateShapes& shapes) {
  const auto g = static_cast<std::int64_t>(element_bytes(t.grad_dtype));
  std::vector<Operation> out;
  if (k.zero_grad_buffer) out.push_back({"zero_grad", Stream{StreamKind::kCopy, 0, g * parameters, 1}});
  if (k.grad_scale_kernel) out.push_back({"scale_grad", Stream{StreamKind::kElementwise, g * parameters, g * parameters, 1}});
  if (t.precision == DType::kFp16) out.push_back({"unscale_and_check", Stream{StreamKind::kElementwise, g * updated, g * updated, launches(updated, 1)}});
  out.push_back({"grad_norm", Stream{StreamKind::kReduce, g * updated, 0, launches(updated, 1)}});
  std::int64_t here = updated - host_share(updated, t.offload.optimizer);
  if (t.optimizer == Optimizer::kMuon) {
    append_muon(t, k, shapes, out);
    here = std::max<std::int64_t>(0, here - ceil_div(muon_parameters(shapes), shapes.shards));
  }
  if (here > 0) append_update(t, k, here, shapes, out);
  return out;
}

std::int64_t host_update_bytes(const Training& t, std::int64_t n) {
  const Traffic traffic = fused(t.optimizer, update_widths(t));
  return static_cast<std::int64_t>(std::ceil((traffic.read + traffic.write) * static_cast<double>(n)));
}

std::int64_t optimizer_bytes(const Training& t, const UpdateShapes& shapes) {
  const std::int64_t n = shapes.parameters, d = shapes.shards;
  const auto bytes = [&](double each, std::int64_t count) { return static_cast<std::int64_t>(std::ceil(each * static_cast<double>(ceil_div(count, d)))); };
  if (t.optimizer == Optimizer::kAdafactor) {
    std::int64_t rows = 0, columns = 0;
    for (const Matrix& m : shapes.matrices) rows += m.rows * m.count, columns += m.columns * m.count;
    return bytes(4, rows + n - matrix_elements(shapes)) + 4 * columns;
  }
  const double each = state_bytes(t).optimizer;
  if (t.optimizer != Optimizer::kMuon) return bytes(each, n);
  const std::int64_t matrices = muon_parameters(shapes);
  return bytes(each / 2, matrices) + bytes(each, n - matrices);
}

std::int64_t update_buffer_bytes(const Training& t, const UpdateShapes& shapes) {
  if (t.optimizer == Optimizer::kMuon) return muon_buffer_bytes(shapes);
  if (t.optimizer == Optimizer::kAdafactor) {
    std::int64_t largest = 0;
    for (const Matrix& m : shapes.matrices) largest = std::max(largest, ceil_div(m.rows * m.columns, shapes.shards));
    return 2 * 4 * largest;  // the update and the opened gradient of one tensor
  }
  const bool opens_master = t.master_weights && t.master == Master::kFp16 && element_bytes(t.param_dtype) < 4;
  const int states = (scaled_moments(t) ? moments(t.optimizer) : 0) + (opens_master ? 1 : 0);
  return 4 * states * ceil_div(shapes.parameters, shapes.shards);
}

}  // namespace orrery::workload
