// The CUDA back end: cuBLASLt, kernels of its own, copies and NCCL, timed by device events.
#include <algorithm>
#include <chrono>
#include <climits>
#include <memory>
#include <thread>

#include "measure/plugin/backend.hpp"
#include "measure/plugin/cuda_collective.hpp"
#include "measure/plugin/cuda_gemm.hpp"
#include "measure/plugin/cuda_monitor.hpp"
#include "measure/plugin/cuda_shapes.hpp"

namespace orrery::measure {
namespace {

using calibration::Point;

constexpr int kWarmUp = 3;
constexpr double kBurstUs = 300;      ///< of kernels between two events: short against the time in which clocks react
constexpr int kMostLaunches = 64;
constexpr double kSettleS = 1;        ///< of one kernel until clocks have settled under the power limit
constexpr auto kPause = std::chrono::milliseconds(10);  ///< idle before a burst
constexpr std::size_t kRow = 4096;    ///< floats in a row of the row-wise kernels
constexpr int kEmptyLaunches = 1000;

double seconds_since(std::chrono::steady_clock::time_point t) { return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count(); }

std::string version_text(int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); }

class Cuda : public Backend {
 public:
  explicit Cuda(Ranks* ranks) : ranks_(ranks) {
    int count = 0;
    if (const cudaError_t e = cudaGetDeviceCount(&count); e != cudaSuccess || count == 0) {
      problem_ = e == cudaSuccess ? "no device" : cudaGetErrorString(e);
      return;
    }
    try {
      const int device = ranks_ != nullptr ? ranks_->local_rank() % count : 0;
      if (ranks_ != nullptr && ranks_->greatest(ranks_->local_rank() >= count ? 1 : 0) > 0) {
        problem_ = "more processes than devices on a machine";
        return;
      }
      check(cudaSetDevice(device), "choosing a device");
      check(cudaGetDeviceProperties(&properties_, device), "reading the device's properties");
      char bus[32] = {};
      check(cudaDeviceGetPCIBusId(bus, sizeof bus, device), "reading the device's address");
      monitor_ = std::make_unique<Monitor>(bus);
      device_ = device;
      stream_ = std::make_unique<Stream>();
      begin_ = std::make_unique<Event>();
      end_ = std::make_unique<Event>();
      check(cublasLtCreate(&blas_), "starting cuBLASLt");
      std::vector<int> devices = {device};
      if (ranks_ == nullptr)
        for (int i = 1; i < count; ++i) devices.push_back(i);
      if (devices.size() > 1 || (ranks_ != nullptr && ranks_->size() > 1)) collectives_ = std::make_unique<Collectives>(devices, ranks_);
      check(cudaSetDevice(device), "choosing a device");
    } catch (const Failure& f) {
      problem_ = f.text;
    }
  }
  ~Cuda() override {
    if (blas_ != nullptr) cublasLtDestroy(blas_);
  }
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  [[nodiscard]] std::string problem() const override { return problem_; }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> environment() const override {
    int runtime = 0, driver = 0, nccl = 0, clock = 0;
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    ncclGetVersion(&nccl);
    cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, device_);
    std::vector<std::pair<std::string, std::string>> out = {{"device", properties_.name},
                                                            {"sms", std::to_string(properties_.multiProcessorCount)},
                                                            {"peak_clock_mhz", std::to_string(clock / 1000)},
                                                            {"cuda", version_text(runtime)},
                                                            {"cuda_driver", version_text(driver)},
                                                            {"cublaslt", std::to_string(cublasLtGetVersion())},
                                                            {"nccl", std::to_string(nccl / 10000) + "." + std::to_string(nccl % 10000 / 100) + "." + std::to_string(nccl % 100)},
                                                            {"devices", std::to_string(collectives_ ? collectives_->size() : 1)}};
    if (monitor_ && !monitor_->driver().empty()) out.emplace_back("driver", monitor_->driver());
    return out;
  }
  [[nodiscard]] std::vector<Point> shapes(const std::string& set) const override {
    return cuda_shapes(set, static_cast<std::size_t>(std::max(properties_.l2CacheSize, 0)), collectives_ ? collectives_->size() : 1, collectives_ ? collectives_->nodes() : 1);
  }
  [[nodiscard]] std::string refusal(const Point& p) const override {
    const std::size_t most = memory();
    switch (p.kind) {
      case Point::Kind::kGemm:
        if (std::max({p.m, p.n, p.k, p.batch}) > INT_MAX) return "an extent is larger than cuBLASLt takes";
        if (const std::string why = gemm_refusal(p, 10 * properties_.major + properties_.minor); !why.empty()) return why;
        return gemm_bytes(p) > most ? "its operands do not fit into the device's memory" : "";
      case Point::Kind::kStream: {
        const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(0, p.read_bytes) + std::max<std::int64_t>(0, p.write_bytes));
        if (bytes > most) return "it does not fit into the device's memory";
        for (const char* known : {"launch", "graph_launch", "to_host", "from_host"})
          if (p.stream == known) return "";
        for (const char* known : {"copy", "elementwise", "reduce", "norm", "softmax", "permute", "optimizer", "cast"})
          if (p.stream == known) return moves(p, floats_of(p)) ? "" : "the kernel moves whole rows of 4096 numbers and shares its bytes between reads and writes in another way";
        return "there is no kernel for stream/" + p.stream;
      }
      case Point::Kind::kAttention: return "attention kernels are not timed: import their tables";
      case Point::Kind::kCollective: break;
    }
    if (!collectives_) return "collectives need two devices";
    if (p.ranks != collectives_->size() || p.nodes != collectives_->nodes()) return "these are " + std::to_string(collectives_->size()) + " ranks on " + std::to_string(collectives_->nodes()) + " machines";
    if (p.bytes % (static_cast<std::int64_t>(sizeof(float)) * p.ranks) != 0) return "its bytes do not divide by the ranks";
    return Collectives::buffer_bytes(p) > most ? "it does not fit into the device's memory" : "";
  }

  std::string time(Point& p, int repetitions, std::uint64_t seed) override {
    try {
      switch (p.kind) {
        case Point::Kind::kGemm: gemm(p, repetitions, seed); break;
        case Point::Kind::kStream: stream(p, repetitions); break;
        case Point::Kind::kCollective: collective(p, repetitions); break;
        case Point::Kind::kAttention: return "attention kernels are not timed";
      }
      monitor_->log(p);
      check(cudaSetDevice(device_), "choosing a device");
      return "";
    } catch (const Failure& f) {
      cudaGetLastError();  // what is left of it; an error that sticks fails the next point as well, in its own words
      p.time_us.clear();
      return f.text;
    }
  }

 private:
  /// Nine tenths of what is free: a library's workspace needs the rest.
  [[nodiscard]] std::size_t memory() const {
    std::size_t free = 0, all = 0;
    return cudaMemGetInfo(&free, &all) == cudaSuccess ? free / 10 * 9 : 0;
  }
  [[nodiscard]] static std::size_t floats_of(const Point& p) {
    const std::string& s = p.stream;
    const std::int64_t bytes = s == "elementwise" ? p.read_bytes / 2 : s == "optimizer" ? p.read_bytes / 4 : p.read_bytes;
    return static_cast<std::size_t>(std::max<std::int64_t>(0, bytes)) / sizeof(float) / kRow * kRow;
  }

  /// Whether the kernel over so many floats moves what the point says.
  [[nodiscard]] static bool moves(const Point& p, std::size_t floats) {
    const auto bytes = static_cast<std::int64_t>(floats * sizeof(float));
    const std::string& s = p.stream;
    const std::int64_t read = s == "elementwise" ? 2 * bytes : s == "optimizer" ? 4 * bytes : bytes;
    const std::int64_t write = s == "reduce" ? 0 : s == "optimizer" ? 3 * bytes : s == "cast" ? bytes / 2 : bytes;
    return bytes > 0 && p.read_bytes == read && p.write_bytes == write;
  }

  /// Times a kernel: several launches in a graph between two events, so that no host stands between them. A burst follows a pause, a sustained kernel
  /// has run alone for a second before.
  template <class Launch>
  void kernel(Point& p, int repetitions, Launch&& launch) {
    const cudaStream_t s = *stream_;
    for (int i = 0; i < kWarmUp; ++i) launch(i);
    check(cudaStreamSynchronize(s), "warming up");
    const double one = elapsed_us(s, *begin_, *end_, "warming up", [&] { launch(kWarmUp); });
    const int launches = std::clamp(static_cast<int>(kBurstUs / std::max(0.1, one)), 1, kMostLaunches);
    const Graph graph(s, launches, [&](int i) { launch(i); });
    graph.start(s);
    check(cudaStreamSynchronize(s), "warming up");
    const bool sustained = p.context == "sustained";
    if (sustained)
      for (const auto since = std::chrono::steady_clock::now(); seconds_since(since) < kSettleS;) {
        graph.start(s);
        check(cudaStreamSynchronize(s), "settling");
      }
    for (int r = 0; r < repetitions; ++r) {
      if (!sustained) std::this_thread::sleep_for(kPause);
      p.time_us.push_back(std::max(1e-3, elapsed_us(s, *begin_, *end_, "timing", [&] { graph.start(s); }) / launches));
    }
  }

  void gemm(Point& p, int repetitions, std::uint64_t seed) {
    GemmKernel kernel_of(blas_, p, 2 * static_cast<std::size_t>(properties_.l2CacheSize), memory(), seed, *stream_);
    if (!kernel_of.right(*stream_)) throw Failure{"the result is wrong"};
    kernel(p, repetitions, [&](int turn) { kernel_of.launch(turn, *stream_); });
  }

  void stream(Point& p, int repetitions) {
    if (p.stream == "launch" || p.stream == "graph_launch") return launches(p, repetitions);
    if (p.stream == "to_host" || p.stream == "from_host") return host_copy(p, repetitions);
    const std::size_t count = floats_of(p), bytes = count * sizeof(float);
    // Arrays in turn past L2 where the kernel itself would stay inside; a size that stays inside on purpose has one turn.
    const std::size_t l2 = static_cast<std::size_t>(properties_.l2CacheSize);
    const std::size_t turns = bytes * 4 > l2 / 2 ? std::clamp<std::size_t>(2 * l2 / (4 * bytes) + 1, 1, 8) : 1;
    std::vector<DeviceMemory> arrays;
    for (int i = 0; i < 4; ++i) {
      arrays.emplace_back(turns * bytes);
      if (i < 3) fill_normal(Stored::kFp32, arrays.back().at(), turns * count, static_cast<std::uint64_t>(i) + 1, *stream_);
      else check(cudaMemsetAsync(arrays.back().at(), 0, turns * bytes, *stream_), "clearing");
    }
    const auto launch = [&](int turn) {
      const std::size_t at = static_cast<std::size_t>(turn) % turns * count;
      stream_kernel(p.stream, arrays[0].floats(at), arrays[1].floats(at), arrays[2].floats(at), arrays[3].floats(at), count, *stream_);
      check(cudaGetLastError(), "starting a kernel");
    };
    launch(0);
    check(cudaStreamSynchronize(*stream_), "running the kernel");
    hold_against(p, arrays);
    kernel(p, repetitions, launch);
  }

  /// A few numbers of the result against the host's.
  void hold_against(const Point& p, const std::vector<DeviceMemory>& arrays) const {
    float x[2] = {}, y[2] = {}, z[2] = {};
    check(cudaMemcpy(x, arrays[0].at(), sizeof x, cudaMemcpyDeviceToHost), "reading the result");
    check(cudaMemcpy(y, arrays[1].at(), sizeof y, cudaMemcpyDeviceToHost), "reading the result");
    check(cudaMemcpy(z, arrays[2].at(), sizeof z, cudaMemcpyDeviceToHost), "reading the result");
    const auto near = [](float a, float b) { return std::abs(a - b) <= 1e-5F * (1 + std::abs(b)); };
    bool right = true;
    if (p.stream == "copy") right = x[0] == y[0] && x[1] == y[1];
    else if (p.stream == "elementwise") right = near(z[0], x[0] + 0.5F * y[0]) && near(z[1], x[1] + 0.5F * y[1]);
    else if (p.stream == "permute") right = x[0] == y[0];
    else if (p.stream == "softmax") right = y[0] > 0 && y[0] < 1 && near(std::log(y[1] / y[0]), x[1] - x[0]);
    else if (p.stream == "norm") right = near(y[1] * x[0], y[0] * x[1]) && y[0] != 0;
    else if (p.stream == "cast") {
      char raw[2] = {};
      check(cudaMemcpy(raw, arrays[1].at(), sizeof raw, cudaMemcpyDeviceToHost), "reading the result");
      right = std::abs(element(Stored::kBf16, raw, 0) - static_cast<double>(x[0])) <= 0x1p-8 * std::abs(static_cast<double>(x[0]));
    }
    if (!right) throw Failure{"the result is wrong"};
  }

  /// What one more kernel costs that does nothing: on a stream, and inside a graph.
  void launches(Point& p, int repetitions) {
    const cudaStream_t s = *stream_;
    const Graph graph(s, kEmptyLaunches, [&](int) { empty_kernel(s); });
    for (int r = -kWarmUp; r < repetitions; ++r) {
      const double us = elapsed_us(s, *begin_, *end_, "starting empty kernels", [&] {
        if (p.stream == "graph_launch") {
          graph.start(s);
          return;
        }
        for (int i = 0; i < kEmptyLaunches; ++i) empty_kernel(s);
        check(cudaGetLastError(), "starting empty kernels");
      });
      if (r >= 0) p.time_us.push_back(std::max(1e-3, us / kEmptyLaunches));
    }
  }

  void host_copy(Point& p, int repetitions) {
    const auto bytes = static_cast<std::size_t>(p.read_bytes + p.write_bytes);
    const DeviceMemory device(bytes);
    void* host = nullptr;
    check(cudaHostAlloc(&host, bytes, cudaHostAllocDefault), "allocating host memory");
    const std::unique_ptr<void, cudaError_t (*)(void*)> owner(host, cudaFreeHost);
    const bool out = p.stream == "to_host";
    for (int r = -kWarmUp; r < repetitions; ++r) {
      const double us = elapsed_us(*stream_, *begin_, *end_, "copying", [&] {
        check(cudaMemcpyAsync(out ? host : device.at(), out ? device.at() : host, bytes, out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, *stream_), "copying");
      });
      if (r >= 0) p.time_us.push_back(std::max(1e-3, us));
    }
  }

  void collective(Point& p, int repetitions) {
    if (p.algorithm != "beside_gemm") {
      p.time_us = collectives_->time(p, repetitions);
      return;
    }
    // Products queued on a stream of their own for longer than the collective lasts; the device divides itself between the two.
    Point product;
    product.m = product.n = product.k = 8192;
    GemmKernel beside(blas_, product, 0, memory(), 1, *stream_);
    const double one = elapsed_us(*stream_, *begin_, *end_, "multiplying", [&] { beside.launch(0, *stream_); });
    Point alone = p;
    alone.algorithm.clear();
    const std::vector<double> quiet = collectives_->time(alone, 3);
    const double expected = 4 * 5 * static_cast<double>(repetitions + 8) * *std::max_element(quiet.begin(), quiet.end());
    const int queued = std::clamp(static_cast<int>(expected / std::max(1.0, one)) + 1, 1, 1000);
    for (int i = 0; i < queued; ++i) beside.launch(i, *stream_);
    p.time_us = collectives_->time(p, repetitions);
    check(cudaSetDevice(device_), "choosing a device");
    check(cudaStreamSynchronize(*stream_), "multiplying beside a collective");
  }

  Ranks* ranks_;
  std::string problem_;
  int device_ = 0;
  cudaDeviceProp properties_{};
  cublasLtHandle_t blas_ = nullptr;
  std::unique_ptr<Monitor> monitor_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> begin_, end_;
  std::unique_ptr<Collectives> collectives_;
};

}  // namespace
}  // namespace orrery::measure

extern "C" orrery::measure::Backend* orrery_cuda(orrery::measure::Ranks* ranks) { return new orrery::measure::Cuda(ranks); }
