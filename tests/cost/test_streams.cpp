// Memory-bound kernels against published timings of real ones.
#include "devices.hpp"

using namespace orrery;
using namespace orrery::test;
using workload::StreamKind;

namespace {

struct Row {
  const char* what;
  const char* gpu;
  StreamKind kind;
  double bytes, milliseconds;
};

// Liger-Kernel benchmark/data/all_benchmark_data.csv at ead96b6, forward, median; bytes are those of the definition (section "Streams" of
// docs/calibration-profiles.md).
const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"layer norm, Triton, 4096 x 16384 fp32", "a100-sxm4-80gb", StreamKind::kNorm, 4096.0 * 16384 * 8, 0.3223},
      {"RMS norm, Triton, 2048 x 32768 bf16", "a100-sxm4-80gb", StreamKind::kNorm, 2048.0 * 32768 * 4, 0.18224},
      {"embedding, torch.compile, 16384 x 4096 fp32", "a100-sxm4-80gb", StreamKind::kEmbedding, 16384.0 * 4096 * 8, 0.3257},
      {"cross entropy, Triton, 16384 x 32768 bf16", "a100-sxm4-80gb", StreamKind::kCrossEntropy, 16384.0 * 32768 * 4, 2.8378},
      {"SwiGLU, Triton, 8192 x 32768 bf16", "h100-sxm5-80gb", StreamKind::kElementwise, 8192.0 * 32768 * 6, 0.5275},
      {"SwiGLU, Megatron fused, 8192 x 32768 bf16", "h100-sxm5-80gb", StreamKind::kElementwise, 8192.0 * 32768 * 6, 0.8585},
      {"squared ReLU, Triton, 4096 x 16384 bf16", "h100-sxm5-80gb", StreamKind::kElementwise, 4096.0 * 16384 * 4, 0.0944},
      {"RMS norm, Triton, 4096 x 16384 bf16", "h100-sxm5-80gb", StreamKind::kNorm, 4096.0 * 16384 * 4, 0.095008},
      {"RMS norm, PyTorch, 4096 x 16384 bf16", "h100-sxm5-80gb", StreamKind::kNorm, 4096.0 * 16384 * 4, 0.14925},
      {"layer norm, Triton, 8192 x 4096 bf16", "b200-sxm", StreamKind::kNorm, 8192.0 * 4096 * 4, 0.038944},
      {"softmax, Triton, 8192 x 4096 bf16", "b200-sxm", StreamKind::kSoftmax, 8192.0 * 4096 * 4, 0.028704},
      {"cross entropy, Triton, 8192 x 128256 bf16", "b200-sxm", StreamKind::kCrossEntropy, 8192.0 * 128256 * 4, 1.7879},
  };
  return all;
}

double milliseconds(const Row& r, double efficiency) {
  const auto gpu = catalogue_gpu(r.gpu);
  auto profile = default_profile(gpu);
  if (efficiency > 0) profile.stream[workload::to_string(r.kind)].efficiency.value = efficiency;
  workload::Stream s;
  s.kind = r.kind;
  s.read_bytes = static_cast<std::int64_t>(r.bytes / 2);
  s.write_bytes = static_cast<std::int64_t>(r.bytes / 2);
  return cost::GpuCost(gpu, profile).stream(s).time.value() * 1e3;
}

}  // namespace

TEST_CASE("the interval of a stream class spans the kernels that were measured in it") {
  for (const Row& r : rows()) {
    const auto e = default_profile(catalogue_gpu(r.gpu)).stream.at(workload::to_string(r.kind)).efficiency;
    INFO(r.gpu << ": " << r.what << ", model " << milliseconds(r, 0) << " ms, measured " << r.milliseconds);
    // 10 %: benchmark loops differ in cache flushing and event overhead.
    CHECK(r.milliseconds >= 0.9 * milliseconds(r, e.high));
    CHECK(r.milliseconds <= 1.1 * milliseconds(r, e.low));
  }
}

TEST_CASE("stream time is linear in bytes past the cache, with half the rate at half_bytes") {
  const auto gpu = catalogue_gpu("h100-sxm5-80gb");
  const auto profile = default_profile(gpu);
  const cost::GpuCost c(gpu, profile);
  const auto seconds = [&](std::int64_t bytes, int kernels) {
    workload::Stream s;
    s.kind = StreamKind::kOptimizer;
    s.read_bytes = bytes;
    s.kernels = kernels;
    return c.stream(s).time.value();
  };
  const auto& p = profile.stream.at("optimizer");
  const double rate = gpu.memory_bandwidth.value() * p.efficiency.value, launch = p.launch_us.value * 1e-6;
  CHECK(seconds(1 << 30, 1) == Approx(launch + ((1 << 30) + p.half_bytes.value) / rate));
  CHECK(seconds(1 << 30, 10) == Approx(10 * launch + ((1 << 30) + 10 * p.half_bytes.value) / rate));
  CHECK(seconds(static_cast<std::int64_t>(p.half_bytes.value), 1) - launch == Approx(2 * p.half_bytes.value / rate));
}
