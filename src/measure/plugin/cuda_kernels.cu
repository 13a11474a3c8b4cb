// What cuBLASLt and NCCL do not bring: random data, sampled products to hold results against, memory-bound kernels.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cstring>

#include "measure/plugin/cuda_kernels.hpp"

namespace orrery::measure {
namespace {

constexpr int kThreads = 256, kRow = 4096, kTile = 32;
constexpr std::size_t kBlocks = 8192;

unsigned blocks_for(std::size_t count) { return static_cast<unsigned>(std::max<std::size_t>(1, std::min(kBlocks, (count + kThreads - 1) / kThreads))); }

/// splitmix64 (Steele, Lea, Flood, OOPSLA 2014): one draw per element, in any order.
__host__ __device__ inline std::uint64_t mixed(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}
/// Box and Muller, from one 64-bit draw.
__device__ inline float normal(std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t bits = mixed(seed ^ mixed(index));
  const float u = (static_cast<float>(bits >> 40) + 0.5F) * 0x1p-24F, v = static_cast<float>(bits & 0xffffffU) * 0x1p-24F;
  return sqrtf(-2 * logf(u)) * cospif(2 * v);
}

/// Values of E2M1 without sign (OCP Microscaling Formats 1.0, section 5.3.3).
__host__ __device__ inline float e2m1(unsigned nibble) {
  const float magnitude[8] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  return (nibble & 8U) != 0 ? -magnitude[nibble & 7U] : magnitude[nibble & 7U];
}
__device__ inline unsigned to_e2m1(float x) {
  const float size = fabsf(x);
  unsigned code = 0;
  for (unsigned c = 1; c < 8; ++c)
    if (fabsf(e2m1(c) - size) < fabsf(e2m1(code) - size)) code = c;
  return x < 0 ? code | 8U : code;
}

__device__ inline void store(Stored type, void* to, std::size_t i, float x) {
  switch (type) {
    case Stored::kFp32: static_cast<float*>(to)[i] = x; break;
    case Stored::kFp16: static_cast<__half*>(to)[i] = __float2half(x); break;
    case Stored::kBf16: static_cast<__nv_bfloat16*>(to)[i] = __float2bfloat16(x); break;
    case Stored::kE4m3: static_cast<__nv_fp8_e4m3*>(to)[i] = __nv_fp8_e4m3(x); break;
    case Stored::kE5m2: static_cast<__nv_fp8_e5m2*>(to)[i] = __nv_fp8_e5m2(x); break;
    case Stored::kE2m1: break;  // two at a time, below
  }
}
__host__ __device__ inline float load(Stored type, const void* from, std::size_t i) {
  switch (type) {
    case Stored::kFp32: return static_cast<const float*>(from)[i];
    case Stored::kFp16: return __half2float(static_cast<const __half*>(from)[i]);
    case Stored::kBf16: return __bfloat162float(static_cast<const __nv_bfloat16*>(from)[i]);
    case Stored::kE4m3: return static_cast<float>(static_cast<const __nv_fp8_e4m3*>(from)[i]);
    case Stored::kE5m2: return static_cast<float>(static_cast<const __nv_fp8_e5m2*>(from)[i]);
    case Stored::kE2m1: return e2m1((static_cast<const std::uint8_t*>(from)[i / 2] >> (i % 2 * 4)) & 15U);
  }
  return 0;
}

__global__ void fill(Stored type, void* to, std::size_t count, std::uint64_t seed) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count / 2; i += stride) {
    const float a = normal(seed, 2 * i), b = normal(seed, 2 * i + 1);
    if (type == Stored::kE2m1) {
      static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(to_e2m1(a) | to_e2m1(b) << 4);
    } else {
      store(type, to, 2 * i, a);
      store(type, to, 2 * i + 1, b);
    }
  }
}

/// Sum over a block; every thread gets it.
template <class T>
__device__ T block_sum(T mine) {
  __shared__ T part[kThreads];
  part[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  const T all = part[0];
  __syncthreads();
  return all;
}

__global__ void sample(Samples s, const void* a, const void* b, double* out) {
  const int at = static_cast<int>(blockIdx.x);
  const std::int64_t i = s.row(at), j = s.column(at);
  double sum = 0, size = 0;
  for (std::int64_t l = threadIdx.x; l < s.k; l += kThreads) {
    const double x = load(s.a, a, static_cast<std::size_t>(s.transposed_a ? i * s.k + l : l * s.m + i)), y = load(s.b, b, static_cast<std::size_t>(s.transposed_b ? l * s.n + j : j * s.k + l));
    sum += x * y;
    size += fabs(x * y);
  }
  sum = block_sum(sum);
  size = block_sum(size);
  if (threadIdx.x == 0) {
    out[2 * at] = sum;
    out[2 * at + 1] = size;
  }
}

__global__ void copy(const float4* x, float4* y, std::size_t count) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) y[i] = x[i];
}
__global__ void triad(const float4* x, const float4* y, float4* z, std::size_t count) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const float4 a = x[i], b = y[i];
    z[i] = make_float4(a.x + 0.5F * b.x, a.y + 0.5F * b.y, a.z + 0.5F * b.z, a.w + 0.5F * b.w);
  }
}
__global__ void read_sum(const float4* x, float* out, std::size_t count) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  float sum = 0;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const float4 a = x[i];
    sum += a.x + a.y + a.z + a.w;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
/// Rows of kRow: root mean square norm, or softmax, in registers between one read and one write.
template <bool kSoftmax>
__global__ void by_row(const float* x, float* y) {
  constexpr int kEach = kRow / kThreads;
  const float* from = x + static_cast<std::size_t>(blockIdx.x) * kRow;
  float* to = y + static_cast<std::size_t>(blockIdx.x) * kRow;
  float v[kEach], sum = 0;
  for (int e = 0; e < kEach; ++e) {
    v[e] = from[e * kThreads + static_cast<int>(threadIdx.x)];
    if (kSoftmax) v[e] = expf(v[e]);
    sum += kSoftmax ? v[e] : v[e] * v[e];
  }
  sum = block_sum(sum);
  const float scale = kSoftmax ? 1 / sum : rsqrtf(sum / kRow + 1e-6F);
  for (int e = 0; e < kEach; ++e) to[e * kThreads + static_cast<int>(threadIdx.x)] = v[e] * scale;
}
/// x [rows, kRow] to y [kRow, rows] through shared memory (a padded tile keeps its columns in different banks).
__global__ void transpose(const float* x, float* y, std::size_t rows) {
  __shared__ float tile[kTile][kTile + 1];
  const std::size_t column = static_cast<std::size_t>(blockIdx.x) * kTile, row = static_cast<std::size_t>(blockIdx.y) * kTile;
  for (unsigned r = threadIdx.y; r < kTile; r += blockDim.y)
    if (row + r < rows) tile[r][threadIdx.x] = x[(row + r) * kRow + column + threadIdx.x];
  __syncthreads();
  for (unsigned c = threadIdx.y; c < kTile; c += blockDim.y)
    if (row + threadIdx.x < rows) y[(column + c) * rows + row + threadIdx.x] = tile[threadIdx.x][c];
}
/// Adam on fp32 states: parameter x, gradient y, moments z and w (Kingma, Ba, arXiv:1412.6980, algorithm 1).
__global__ void adam(float* x, const float* y, float* z, float* w, std::size_t count) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const float g = y[i], m = 0.9F * z[i] + 0.1F * g, v = 0.999F * w[i] + 0.001F * g * g;
    z[i] = m;
    w[i] = v;
    x[i] -= 1e-5F * m / (sqrtf(v) + 1e-8F);
  }
}
__global__ void cast(const float2* x, __nv_bfloat162* y, std::size_t count) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) y[i] = __float22bfloat162_rn(x[i]);
}
__global__ void nothing() {}

}  // namespace

std::size_t stored_bytes(Stored type, std::size_t count) {
  switch (type) {
    case Stored::kFp32: return 4 * count;
    case Stored::kFp16:
    case Stored::kBf16: return 2 * count;
    case Stored::kE2m1: return (count + 1) / 2;
    default: return count;
  }
}

void fill_normal(Stored type, void* to, std::size_t count, std::uint64_t seed, cudaStream_t stream) { fill<<<blocks_for(count / 2), kThreads, 0, stream>>>(type, to, count, seed); }

void sample_product(const Samples& samples, const void* a, const void* b, double* out, cudaStream_t stream) {
  sample<<<static_cast<unsigned>(samples.count), kThreads, 0, stream>>>(samples, a, b, out);
}

double element(Stored type, const void* host, std::size_t index) { return load(type, host, index); }

bool stream_kernel(const std::string& kind, float* x, float* y, float* z, float* w, std::size_t count, cudaStream_t stream) {
  const auto four = [](float* p) { return reinterpret_cast<float4*>(p); };
  const std::size_t rows = count / kRow;
  if (kind == "copy") copy<<<blocks_for(count / 4), kThreads, 0, stream>>>(four(x), four(y), count / 4);
  else if (kind == "elementwise") triad<<<blocks_for(count / 4), kThreads, 0, stream>>>(four(x), four(y), four(z), count / 4);
  else if (kind == "reduce") read_sum<<<std::min(blocks_for(count / 4), 1024U), kThreads, 0, stream>>>(four(x), y, count / 4);
  else if (kind == "norm") by_row<false><<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(x, y);
  else if (kind == "softmax") by_row<true><<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(x, y);
  else if (kind == "permute") transpose<<<dim3(kRow / kTile, static_cast<unsigned>((rows + kTile - 1) / kTile)), dim3(kTile, 8), 0, stream>>>(x, y, rows);
  else if (kind == "optimizer") adam<<<blocks_for(count), kThreads, 0, stream>>>(x, y, z, w, count);
  else if (kind == "cast") cast<<<blocks_for(count / 2), kThreads, 0, stream>>>(reinterpret_cast<float2*>(x), reinterpret_cast<__nv_bfloat162*>(y), count / 2);
  else return false;
  return true;
}

void empty_kernel(cudaStream_t stream) { nothing<<<1, 32, 0, stream>>>(); }

}  // namespace orrery::measure
