#include "orrery/measure/devices.hpp"

#ifdef ORRERY_CUDA
#include <cuda_runtime_api.h>
#endif
#include <fmt/format.h>

namespace orrery::measure {

#ifdef ORRERY_CUDA

Devices devices() {
  Devices out;
  out.toolkit = fmt::format("CUDA {}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    out.problem = cudaGetErrorString(error);
    return out;
  }
  if (count == 0) out.problem = "no device";
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (const cudaError_t error = cudaGetDeviceProperties(&properties, i); error != cudaSuccess) {
      out.problem = fmt::format("device {}: {}", i, cudaGetErrorString(error));
      continue;
    }
    out.devices.push_back({properties.name, properties.multiProcessorCount, properties.major, properties.minor, static_cast<std::int64_t>(properties.totalGlobalMem)});
  }
  return out;
}

#else

Devices devices() { return {"", {}, "this build has no CUDA toolkit"}; }

#endif

}  // namespace orrery::measure
