#pragma once
// Kernels of the CUDA back end, launched from C++ that nvcc does not compile.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace orrery::measure {

/// How an operand's elements are stored.
enum class Stored : std::uint8_t { kFp32, kFp16, kBf16, kE4m3, kE5m2, kE2m1 };
/// Of `count` elements; two of kE2m1 share a byte.
std::size_t stored_bytes(Stored type, std::size_t count);

/// Normal random numbers of mean 0 and variance 1, rounded to the type. `count` is even.
void fill_normal(Stored type, void* to, std::size_t count, std::uint64_t seed, cudaStream_t stream);

/// One product's sampled entries, column-major as cuBLAS has it: for sample s, out[2 s] becomes the dot product and out[2 s + 1] the sum of |products|.
struct Samples {
  Stored a = Stored::kBf16, b = Stored::kBf16;
  bool transposed_a = false, transposed_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  int count = 0;
  [[nodiscard]] constexpr std::int64_t row(int s) const { return s * 7919 % m; }
  [[nodiscard]] constexpr std::int64_t column(int s) const { return s * 104729 % n; }
};
void sample_product(const Samples& samples, const void* a, const void* b, double* out, cudaStream_t stream);
/// An element of a result, as a double.
double element(Stored type, const void* host, std::size_t index);

/// A memory-bound kernel over `count` floats of each array: "copy", "elementwise", "reduce", "norm", "softmax", "permute", "optimizer", "cast". x, y, z, w
/// hold `count` floats each; rows of 4096 floats, and count is a multiple of them. False: no such kernel.
bool stream_kernel(const std::string& kind, float* x, float* y, float* z, float* w, std::size_t count, cudaStream_t stream);
void empty_kernel(cudaStream_t stream);

}  // namespace orrery::measure
