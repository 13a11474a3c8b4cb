#pragma once
// One product through cuBLASLt: operands in turn, a kernel that its heuristic picked, results held against sampled ones.
#include <memory>
#include <string>
#include <vector>

#include "measure/plugin/cuda_kernels.hpp"
#include "measure/plugin/cuda_support.hpp"
#include "orrery/calibration/measurements.hpp"

namespace orrery::measure {

/// Why cuBLASLt cannot be asked for this product on a device of this compute capability (90 for 9.0); "" where it can.
std::string gemm_refusal(const calibration::Point& p, int capability);
/// Bytes of one set of operands and result.
std::size_t gemm_bytes(const calibration::Point& p);

class GemmKernel {
 public:
  /// turn_bytes: what the operands in turn add up to at least.
  GemmKernel(cublasLtHandle_t handle, const calibration::Point& p, std::size_t turn_bytes, std::size_t most_bytes, std::uint64_t seed, cudaStream_t stream);
  ~GemmKernel();
  GemmKernel(const GemmKernel&) = delete;
  GemmKernel& operator=(const GemmKernel&) = delete;
  void launch(int turn, cudaStream_t stream);
  /// Whether sampled entries of a fresh product are right to rounding.
  bool right(cudaStream_t stream);

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace orrery::measure
