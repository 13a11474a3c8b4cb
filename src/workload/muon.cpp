// Muon: the update of a weight matrix is its momentum made orthogonal (Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural
// networks"; Liu et al., "Muon is Scalable for LLM Training", arXiv:2502.16982).
//
// Five steps of a Newton-Schulz iteration in bf16 stand in for the singular value decomposition. With X of r rows and c columns, r <= c
// (else transposed), a step is
//     A = X X^T              2 r^2 c FLOPs
//     B = b A + c A A        2 r^3
//     X = a X + B X          2 r^2 c
// the sums in the products' epilogues. A matrix cut over tensor-parallel ranks is orthogonalised part by part (Megatron-LM's block-wise
// mode). Where ZeRO shards the update a matrix' momentum is gathered first (arXiv:2502.16982, algorithm 1), and the matrices are dealt out
// over the shards: the rank with the most sets the time.
#include <algorithm>

#include "optimizer.hpp"
#include "orrery/base/checked.hpp"

namespace orrery::workload {
namespace {

constexpr int kSteps = 5;
constexpr std::int64_t kElement = 2;  ///< bf16

std::int64_t short_side(const Matrix& m) { return std::min(m.rows, m.columns); }
std::int64_t long_side(const Matrix& m) { return std::max(m.rows, m.columns); }

void append_iteration(const Matrix& m, std::vector<Operation>& out) {
  const std::int64_t r = short_side(m), c = long_side(m), n = kElement * r * c;
  out.push_back({"frobenius_norm", Stream{StreamKind::kReduce, n, 0, 1}});
  out.push_back({"normalise", Stream{StreamKind::kElementwise, n, n, 1}});
  for (int step = 0; step < kSteps; ++step) {
    out.push_back({"newton_schulz_gram", Gemm{.m = r, .n = r, .k = c, .layout = GemmLayout::kTN}});
    out.push_back({"newton_schulz_square", Gemm{.m = r, .n = r, .k = r, .layout = GemmLayout::kNN, .accumulate = true}});
    out.push_back({"newton_schulz_apply", Gemm{.m = r, .n = c, .k = r, .layout = GemmLayout::kNN, .accumulate = true}});
  }
}

}  // namespace

std::int64_t muon_parameters(const UpdateShapes& shapes) {
  std::int64_t sum = 0;
  for (const Matrix& m : shapes.matrices) sum += m.between_layers ? m.elements() : 0;
  return sum;
}

std::vector<Matrix> orthogonalised(const UpdateShapes& shapes) {
  std::vector<Matrix> mine;
  std::int64_t all = 0;
  Matrix costliest;
  const auto work = [](const Matrix& m) {
    const double r = static_cast<double>(short_side(m)), c = static_cast<double>(long_side(m));
    return 2 * r * r * c + r * r * r;
  };
  for (const Matrix& m : shapes.matrices) {
    if (!m.between_layers || m.count == 0) continue;
    all += m.count;
    if (costliest.rows == 0 || work(m) > work(costliest)) costliest = m;
    mine.push_back(m);
    mine.back().count = ceil_div(m.count, shapes.shards);
  }
  if (all > shapes.shards || all == 0) return mine;
  costliest.count = 1;
  return {costliest};
}

std::int64_t muon_buffer_bytes(const UpdateShapes& shapes) {
  // The gathered matrices, and of the one in work X, A and B.
  std::int64_t gathered = 0, work = 0;
  for (const Matrix& m : orthogonalised(shapes)) {
    gathered += shapes.shards > 1 ? kElement * m.elements() : 0;
    work = std::max(work, kElement * (2 * m.rows * m.columns + 2 * short_side(m) * short_side(m)));
  }
  return gathered + work;
}

void append_muon(const Training& t, const StackKernels& k, const UpdateShapes& shapes, std::vector<Operation>& out) {
  const std::int64_t here = ceil_div(muon_parameters(shapes), shapes.shards);
  if (here == 0) return;
  const Widths b = update_widths(t);
  const double g = b.gradient, m = b.moment;
  std::int64_t tensors = 0;
  for (const Matrix& x : shapes.matrices) tensors += x.between_layers ? ceil_div(x.count, shapes.shards) : 0;
  // Nesterov momentum to bf16: in one kernel, or scaled, added to, added to the gradient, and cast.
  const Traffic momentum = k.fused_optimizer ? Traffic{g + m, m + kElement, 1} : Traffic{m + (g + m) + (g + m) + 4, m + m + 4 + kElement, 4};
  out.push_back(update_kernel("momentum", momentum, here, static_cast<int>(momentum.kernels * tensors)));
  if (shapes.shards > 1) {
    for (const Matrix& x : shapes.matrices) {
      for (std::int64_t i = 0; x.between_layers && i < x.count; ++i) {
        out.push_back({"gather_momentum", Comm{CommKind::kAllGather, Axis::kDp, kElement * x.rows * x.columns}});
      }
    }
  }
  for (const Matrix& x : orthogonalised(shapes)) {
    for (std::int64_t i = 0; i < x.count; ++i) append_iteration(x, out);
  }
  // Decay and update of the weights, and their 16-bit copy.
  Traffic update{b.weight + kElement, b.weight + b.copy, 1};
  if (!k.fused_optimizer) update = {b.weight + (b.weight + kElement) + (b.copy > 0 ? b.weight : 0), 2 * b.weight + b.copy, b.copy > 0 ? 3 : 2};
  out.push_back(update_kernel("muon_update", update, here, static_cast<int>(update.kernels * tensors)));
}

}  // namespace orrery::workload
