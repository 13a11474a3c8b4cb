#include "orrery/workload/operation.hpp"

#include <algorithm>

#include "orrery/base/assert.hpp"
#include "orrery/base/checked.hpp"

namespace orrery::workload {

double element_bytes(DType t) {
  switch (t) {
    case DType::kFp32:
    case DType::kTf32: return 4;  // TF32 is a way to multiply: the operands are stored as fp32 (NVIDIA A100 whitepaper)
    case DType::kFp16:
    case DType::kBf16: return 2;
    case DType::kFp8:
    case DType::kMxfp8:
    case DType::kInt8: return 1;
    case DType::kMxfp6: return 0.75;  // four six-bit elements in three bytes (OCP Microscaling Formats v1.0)
    case DType::kFp4: return 0.5;
  }
  ORRERY_ASSERT(false, "the switch names every type");
}

const char* to_string(DType t) {
  switch (t) {
    case DType::kFp32: return "fp32";
    case DType::kTf32: return "tf32";
    case DType::kFp16: return "fp16";
    case DType::kBf16: return "bf16";
    case DType::kFp8: return "fp8";
    case DType::kMxfp8: return "mxfp8";
    case DType::kMxfp6: return "mxfp6";
    case DType::kFp4: return "fp4";
    case DType::kInt8: return "int8";
  }
  ORRERY_ASSERT(false, "the switch names every type");
}

const char* to_string(StreamKind k) {
  switch (k) {
    case StreamKind::kCopy: return "copy";
    case StreamKind::kElementwise: return "elementwise";
    case StreamKind::kNorm: return "norm";
    case StreamKind::kSoftmax: return "softmax";
    case StreamKind::kPermute: return "permute";
    case StreamKind::kEmbedding: return "embedding";
    case StreamKind::kCrossEntropy: return "cross_entropy";
    case StreamKind::kOptimizer: return "optimizer";
    case StreamKind::kReduce: return "reduce";
    case StreamKind::kCast: return "cast";
  }
  ORRERY_ASSERT(false, "the switch names every kind");
}

const char* to_string(Axis a) {
  switch (a) {
    case Axis::kTp: return "tp";
    case Axis::kCp: return "cp";
    case Axis::kEp: return "ep";
    case Axis::kPp: return "pp";
    case Axis::kDp: return "dp";
    case Axis::kDpReplicas: return "dp_replicas";
    case Axis::kEmbedding: return "embedding";
    case Axis::kModel: return "model";
    case Axis::kWorld: return "world";
    case Axis::kEtp: return "etp";
    case Axis::kMirror: return "mirror";
    case Axis::kExpertDp: return "expert_dp";
    case Axis::kToHost: return "to_host";
    case Axis::kFromHost: return "from_host";
    case Axis::kHostUpdate: return "host_update";
    case Axis::kToDrives: return "to_drives";
    case Axis::kFromDrives: return "from_drives";
    case Axis::kSwapOut: return "swap_out";
    case Axis::kSwapIn: return "swap_in";
    case Axis::kDpShard: return "dp_shard";
  }
  ORRERY_ASSERT(false, "the switch names every axis");
}

Flops GroupedGemm::flops() const {
  double sum = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) sum += group(i).flops().value();
  return Flops(sum);
}

// FlashAttention-2 (arXiv:2307.08691, section 4.1) counts 4 s^2 d n forward, half of it under a causal mask, and 2.5 times that
// backward. With unequal head dims the forward is one product over d_qk and one over d_v; the backward recomputes QK^T (d_qk) and
// has dV, dP (d_v each), dQ, dK (d_qk each): 3 d_qk + 2 d_v.
Flops Attention::flops() const {
  const double area = 2.0 * static_cast<double>(batch) * static_cast<double>(heads) * static_cast<double>(seq_q) * mean_keys();
  const double qk = static_cast<double>(dim_qk);
  const double v = static_cast<double>(dim_v);
  return Flops(area * (backward ? 3 * qk + 2 * v : qk + v));
}

double Attention::mean_keys() const {
  const auto queries = static_cast<double>(seq_q), keys = static_cast<double>(seq_kv);
  if (window > 0 && causal && !chunked && queries < keys) {
    // The last queries of a band: what all see less what those before them do.
    const auto area = [&](double n) { return n * n * visible_share(static_cast<std::int64_t>(n), true, window, false); };
    return (area(keys) - area(keys - queries)) / queries;
  }
  if (window > 0) return keys * visible_share(seq_kv, causal, window, chunked);
  if (!causal) return keys;
  return queries <= keys ? keys - 0.5 * queries : 0.5 * keys * (keys / queries);
}

double visible_share(std::int64_t sequence, bool causal, std::int64_t window, bool chunked) {
  const double whole = causal ? 0.5 : 1.0;
  if (window == 0 || sequence <= 0) return whole;
  const double s = static_cast<double>(sequence);
  if (chunked) {
    const std::int64_t chunk = std::min(window, sequence);
    const double c = static_cast<double>(chunk), rest = static_cast<double>(sequence % chunk);
    return whole * (static_cast<double>(sequence / chunk) * c * c + rest * rest) / (s * s);
  }
  // A band below the diagonal that is w wide; without a causal mask one of half the width on either side (Longformer, arXiv:2004.05150).
  const double w = std::min(causal ? static_cast<double>(window) : 0.5 * static_cast<double>(window), s);
  return (causal ? 1 : 2) * (s * w - 0.5 * w * w) / (s * s);
}

Flops Convolution::flops() const {
  const auto d = [](std::int64_t v) { return static_cast<double>(v); };
  return Flops(2.0 * d(images) * d(out_size) * d(out_size) * d(out_channels) * d(kernel) * d(kernel) * d(in_channels));
}

Gemm Convolution::implicit_gemm() const {
  const std::int64_t taps = kernel * kernel, pixels = images * out_size * out_size;
  switch (pass) {
    case ConvolutionPass::kForward: return {.m = pixels, .n = out_channels, .k = in_channels * taps, .in = in, .out = out, .layout = GemmLayout::kTN};
    case ConvolutionPass::kInputGradient:
      return {.m = images * in_size * in_size, .n = in_channels, .k = ceil_div(out_channels * taps, stride * stride), .in = in, .out = out, .layout = GemmLayout::kNN};
    case ConvolutionPass::kWeightGradient: break;
  }
  return {.m = out_channels, .n = in_channels * taps, .k = pixels, .in = in, .out = out, .layout = GemmLayout::kNT};
}

std::int64_t Convolution::operand_elements() const {
  const std::int64_t data = images * in_size * in_size * in_channels, made = images * out_size * out_size * out_channels;
  const std::int64_t weights = out_channels * in_channels * kernel * kernel;
  switch (pass) {
    case ConvolutionPass::kForward: return data + weights;
    case ConvolutionPass::kInputGradient: return made + weights;
    case ConvolutionPass::kWeightGradient: break;
  }
  return data + made;
}

std::int64_t Convolution::result_elements() const {
  switch (pass) {
    case ConvolutionPass::kForward: return images * out_size * out_size * out_channels;
    case ConvolutionPass::kInputGradient: return images * in_size * in_size * in_channels;
    case ConvolutionPass::kWeightGradient: break;
  }
  return out_channels * in_channels * kernel * kernel;
}

Flops Operation::flops() const {
  if (const auto* convolution = std::get_if<Convolution>(&work)) return convolution->flops();
  if (const auto* gemm = std::get_if<Gemm>(&work)) return gemm->flops();
  if (const auto* attention = std::get_if<Attention>(&work)) return attention->flops();
  if (const auto* experts = std::get_if<GroupedGemm>(&work)) return experts->flops();
  return Flops(0);
}

}  // namespace orrery::workload
