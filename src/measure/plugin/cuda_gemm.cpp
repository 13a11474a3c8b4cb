#include "measure/plugin/cuda_gemm.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::measure {
namespace {

using calibration::Point;

constexpr std::size_t kWorkspace = std::size_t{64} << 20;  ///< what NVIDIA recommends for Hopper and newer is 32 MiB; split-K asks for more
constexpr int kSamples = 16;

/// A type of the format as cuBLASLt takes it.
struct Types {
  Stored a = Stored::kBf16, b = Stored::kBf16, d = Stored::kBf16;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  int block = 0;             ///< elements that share a scale in memory; 0: one scale for all, or none
  bool scaled = false;       ///< one fp32 scale per operand
  double rounding = 0;       ///< of an operand inside the product, beyond its type's
};

Types types_of(const Point& p) {
  Types t;
  if (p.dtype == "fp32" || p.dtype == "tf32") {
    t.a = t.b = t.d = Stored::kFp32;
    if (p.dtype == "tf32") t.compute = CUBLAS_COMPUTE_32F_FAST_TF32, t.rounding = 0x1p-10;
  } else if (p.dtype == "fp16") {
    t.a = t.b = t.d = Stored::kFp16;
  } else if (p.dtype == "fp8" || p.dtype == "mxfp8") {
    // A gradient is E5M2: it meets the activation in the product that accumulates (Micikevicius et al., arXiv:2209.05433).
    t.a = Stored::kE4m3;
    t.b = p.accumulate ? Stored::kE5m2 : Stored::kE4m3;
    t.block = p.dtype == "mxfp8" ? 32 : 0;
    t.scaled = p.dtype == "fp8";
  } else if (p.dtype == "fp4") {
    t.a = t.b = Stored::kE2m1;
    t.block = 16;
  }
  if (p.accumulate) t.d = Stored::kFp32;
  return t;
}

cudaDataType_t data_type(Stored s) {
  switch (s) {
    case Stored::kFp32: return CUDA_R_32F;
    case Stored::kFp16: return CUDA_R_16F;
    case Stored::kBf16: return CUDA_R_16BF;
    case Stored::kE4m3: return CUDA_R_8F_E4M3;
    case Stored::kE5m2: return CUDA_R_8F_E5M2;
    case Stored::kE2m1: return CUDA_R_4F_E2M1;
  }
  return CUDA_R_16BF;
}

std::size_t padded(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }
/// Scales of a block-scaled operand of `outer` vectors of `inner` elements, in cuBLASLt's tiles of 128 by 4 ("1D block scaling factors layout").
std::size_t scale_bytes(std::size_t outer, std::size_t inner, int block) { return padded(outer, 128) * padded((inner + static_cast<std::size_t>(block) - 1) / static_cast<std::size_t>(block), 4); }
/// Every array on 256 bytes, so that the fast kernels qualify.
std::size_t aligned(std::size_t bytes) { return padded(bytes, 256); }

struct Extents {
  std::size_t m, n, k, batch;
  explicit Extents(const Point& p) : m(static_cast<std::size_t>(p.m)), n(static_cast<std::size_t>(p.n)), k(static_cast<std::size_t>(p.k)), batch(static_cast<std::size_t>(p.batch)) {}
};

}  // namespace

std::string gemm_refusal(const Point& p, int capability) {
  const bool fp8 = p.dtype == "fp8", blocked = p.dtype == "mxfp8" || p.dtype == "fp4";
  if (!(p.dtype == "fp32" || p.dtype == "tf32" || p.dtype == "fp16" || p.dtype == "bf16" || fp8 || blocked)) return "cuBLASLt is not asked for " + p.dtype;
  if (p.quantise == "dynamic") return "a product is timed without its quantisation";
  if (fp8 && capability < 89) return "the device has no fp8 units";
  if (blocked && capability < 100) return "the device has no units for block-scaled types";
  if ((fp8 || blocked) && p.layout != "tn") return "narrow types are multiplied in the layout tn";
  if ((fp8 || blocked) && (p.m % 16 != 0 || p.n % 16 != 0 || p.k % 32 != 0)) return "narrow types need extents that are multiples of 16, and k of 32";
  if (p.dtype == "fp4" && p.accumulate) return "fp4 is not accumulated";
  return "";
}

std::size_t gemm_bytes(const Point& p) {
  const Types t = types_of(p);
  const Extents e(p);
  return e.batch * (aligned(stored_bytes(t.a, e.m * e.k)) + aligned(stored_bytes(t.b, e.n * e.k)) + aligned(stored_bytes(t.d, e.m * e.n)));
}

struct GemmKernel::Plan {
  Plan(cublasLtHandle_t h, const Point& point, std::size_t turn_bytes, std::size_t most_bytes, std::uint64_t seed, cudaStream_t stream)
      : handle(h), p(point), types(types_of(p)), extents(p), workspace(kWorkspace) {
    const std::size_t one = gemm_bytes(p);
    if (one > most_bytes) throw Failure{"its operands do not fit into the device's memory"};
    turns = static_cast<int>(std::clamp<std::size_t>(turn_bytes / one + 1, 1, std::min<std::size_t>(32, std::max<std::size_t>(1, most_bytes / one))));
    a_step = extents.batch * aligned(stored_bytes(types.a, extents.m * extents.k));
    b_step = extents.batch * aligned(stored_bytes(types.b, extents.n * extents.k));
    d_step = extents.batch * aligned(stored_bytes(types.d, extents.m * extents.n));
    const auto count = static_cast<std::size_t>(turns);
    a = DeviceMemory(count * a_step);
    b = DeviceMemory(count * b_step);
    d = DeviceMemory(count * d_step);
    // Random over the padding as well: twice the bytes are more elements than any type but E2M1 has there.
    const auto fill = [&](Stored type, const DeviceMemory& to, std::size_t bytes, std::uint64_t salt) { fill_normal(type, to.at(), bytes / stored_bytes(type, 2) * 2, seed * 4 + salt, stream); };
    fill(types.a, a, count * a_step, 1);
    fill(types.b, b, count * b_step, 2);
    check(cudaMemsetAsync(d.at(), 0, count * d_step, stream), "clearing the result");
    describe(stream);
  }
  ~Plan() {
    cublasLtMatrixLayoutDestroy(la);
    cublasLtMatrixLayoutDestroy(lb);
    cublasLtMatrixLayoutDestroy(ld);
    cublasLtMatmulDescDestroy(operation);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t which, const Value& value) {
    check(cublasLtMatmulDescSetAttribute(operation, which, &value, sizeof value), "describing the product");
  }

  void describe(cudaStream_t stream) {
    const bool ta = p.layout == "tn", tb = p.layout == "nt";
    check(cublasLtMatmulDescCreate(&operation, types.compute, CUDA_R_32F), "describing the product");
    set(CUBLASLT_MATMUL_DESC_TRANSA, ta ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, tb ? CUBLAS_OP_T : CUBLAS_OP_N);
    scales(stream);
    layout(la, types.a, ta ? extents.k : extents.m, ta ? extents.m : extents.k, a_step);
    layout(lb, types.b, tb ? extents.n : extents.k, tb ? extents.k : extents.n, b_step);
    layout(ld, types.d, extents.m, extents.n, d_step);
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "asking for a kernel");
    const std::size_t most = kWorkspace;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, operation, la, lb, ld, ld, preference, 1, &heuristic, &found);
    cublasLtMatmulPreferenceDestroy(preference);
    check(status, "asking for a kernel");
    if (found == 0) throw Failure{"cuBLASLt has no kernel for it"};
  }

  /// Scales of one: the arithmetic is that of any other scale.
  void scales(cudaStream_t stream) {
    if (types.scaled) {
      const float one[2] = {1, 1};
      scale_a = DeviceMemory(sizeof one);
      check(cudaMemcpyAsync(scale_a.at(), one, sizeof one, cudaMemcpyHostToDevice, stream), "writing scales");
      check(cudaStreamSynchronize(stream), "writing scales");
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(scale_a.at()));
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(scale_a.at(sizeof(float))));
    } else if (types.block > 0) {
      const std::size_t of_a = scale_bytes(extents.m, extents.k, types.block), of_b = scale_bytes(extents.n, extents.k, types.block);
      scale_a = DeviceMemory(of_a);
      scale_b = DeviceMemory(of_b);
      const int one = types.block == 32 ? 127 : 0x38;  // of UE8M0, of UE4M3
      check(cudaMemsetAsync(scale_a.at(), one, of_a, stream), "writing scales");
      check(cudaMemsetAsync(scale_b.at(), one, of_b, stream), "writing scales");
      const cublasLtMatmulMatrixScale_t mode = types.block == 32 ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 : CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
      set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode);
      set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode);
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(scale_a.at()));
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(scale_b.at()));
    }
  }

  void layout(cublasLtMatrixLayout_t& to, Stored type, std::size_t rows, std::size_t columns, std::size_t step) {
    check(cublasLtMatrixLayoutCreate(&to, data_type(type), rows, columns, static_cast<std::int64_t>(rows)), "describing an operand");
    if (extents.batch == 1) return;
    const auto batch = static_cast<std::int32_t>(extents.batch);
    const auto stride = static_cast<std::int64_t>(step / extents.batch / stored_bytes(type, 2) * 2);
    check(cublasLtMatrixLayoutSetAttribute(to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch), "describing an operand");
    check(cublasLtMatrixLayoutSetAttribute(to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride), "describing an operand");
  }

  cublasLtHandle_t handle;
  Point p;
  Types types;
  Extents extents;
  DeviceMemory workspace, a, b, d, scale_a, scale_b;
  std::size_t a_step = 0, b_step = 0, d_step = 0;
  int turns = 1;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t la = nullptr, lb = nullptr, ld = nullptr;
  cublasLtMatmulHeuristicResult_t heuristic{};
};

GemmKernel::GemmKernel(cublasLtHandle_t handle, const Point& p, std::size_t turn_bytes, std::size_t most_bytes, std::uint64_t seed, cudaStream_t stream)
    : plan_(std::make_unique<Plan>(handle, p, turn_bytes, most_bytes, seed, stream)) {}
GemmKernel::~GemmKernel() = default;

void GemmKernel::launch(int turn, cudaStream_t stream) {
  Plan& g = *plan_;
  const auto at = static_cast<std::size_t>(turn % g.turns);
  const float alpha = 1, beta = g.p.accumulate ? 1 : 0;
  check(cublasLtMatmul(g.handle, g.operation, &alpha, g.a.at(at * g.a_step), g.la, g.b.at(at * g.b_step), g.lb, &beta, g.d.at(at * g.d_step), g.ld, g.d.at(at * g.d_step), g.ld, &g.heuristic.algo,
                       g.workspace.at(), kWorkspace, stream),
        "multiplying");
}

bool GemmKernel::right(cudaStream_t stream) {
  Plan& g = *plan_;
  check(cudaMemsetAsync(g.d.at(), 0, g.d_step, stream), "clearing the result");
  launch(0, stream);
  Samples s;
  s.a = g.types.a, s.b = g.types.b;
  s.transposed_a = g.p.layout == "tn", s.transposed_b = g.p.layout == "nt";
  s.m = g.p.m, s.n = g.p.n, s.k = g.p.k, s.count = kSamples;
  const DeviceMemory expected(2 * kSamples * sizeof(double));
  sample_product(s, g.a.at(), g.b.at(), reinterpret_cast<double*>(expected.at()), stream);
  check(cudaGetLastError(), "sampling the product");
  std::vector<double> sums(2 * kSamples);
  check(cudaMemcpyAsync(sums.data(), expected.at(), sums.size() * sizeof(double), cudaMemcpyDeviceToHost, stream), "reading samples");
  check(cudaStreamSynchronize(stream), "multiplying");
  // fp32 partial sums, the operands' rounding inside tf32 units, and the result's own type.
  const double stored = g.types.d == Stored::kFp32 ? 0x1p-23 : g.types.d == Stored::kFp16 ? 0x1p-10 : 0x1p-7;
  const double inside = 1e-5 + 2 * g.types.rounding + (g.types.a == Stored::kE4m3 ? 0x1p-12 : 0);  // Hopper sums fp8 in 14 bits
  for (int i = 0; i < kSamples; ++i) {
    char raw[8] = {};
    const auto index = static_cast<std::size_t>(s.column(i) * g.p.m + s.row(i));
    const std::size_t width = stored_bytes(g.types.d, 1);
    check(cudaMemcpy(raw, g.d.at(index * width), width, cudaMemcpyDeviceToHost), "reading samples");
    const double got = element(g.types.d, raw, 0), sum = sums[static_cast<std::size_t>(2 * i)], size = sums[static_cast<std::size_t>(2 * i + 1)];
    if (!(std::abs(got - sum) <= inside * size + stored * std::abs(sum) + 1e-6)) return false;
  }
  return true;
}

}  // namespace orrery::measure
