#pragma once
// What the parts of the CUDA back end share: errors with what was running, owned memory, streams and events, times of launches.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

namespace orrery::measure {

/// An error of a library, named with what was running. Ends one point; it does not leave this library.
struct Failure {
  std::string text;
};
inline void check(cudaError_t e, const std::string& during) {
  if (e != cudaSuccess) throw Failure{during + ": CUDA: " + cudaGetErrorString(e)};
}
inline void check(cublasStatus_t e, const std::string& during) {
  if (e != CUBLAS_STATUS_SUCCESS) throw Failure{during + ": cuBLASLt: " + cublasLtGetStatusString(e)};
}
inline void check(ncclResult_t e, const std::string& during) {
  if (e != ncclSuccess) throw Failure{during + ": NCCL: " + ncclGetErrorString(e)};
}

class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::size_t bytes) { check(cudaMalloc(&at_, bytes > 0 ? bytes : 1), "allocating " + std::to_string(bytes) + " bytes"); }
  DeviceMemory(DeviceMemory&& o) noexcept : at_(std::exchange(o.at_, nullptr)) {}
  DeviceMemory& operator=(DeviceMemory&& o) noexcept {
    std::swap(at_, o.at_);
    return *this;
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { cudaFree(at_); }
  [[nodiscard]] char* at(std::size_t offset = 0) const { return static_cast<char*>(at_) + offset; }
  [[nodiscard]] float* floats(std::size_t offset = 0) const { return static_cast<float*>(at_) + offset; }

 private:
  void* at_ = nullptr;
};

class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT: a stream is what the library takes

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "making an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }  // NOLINT: an event is what the library takes

 private:
  cudaEvent_t event_ = nullptr;
};

/// Several launches recorded once and started together, so that no host stands between them.
class Graph {
 public:
  Graph(cudaStream_t stream, int launches, const std::function<void(int)>& launch) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording a graph");
    try {
      for (int i = 0; i < launches; ++i) launch(i);
    } catch (const Failure&) {
      cudaGraph_t unfinished = nullptr;
      cudaStreamEndCapture(stream, &unfinished);
      if (unfinished != nullptr) cudaGraphDestroy(unfinished);
      throw;
    }
    check(cudaStreamEndCapture(stream, &graph_), "recording a graph");
    check(cudaGraphInstantiate(&run_, graph_, 0), "making a graph ready");
  }
  ~Graph() {
    if (run_ != nullptr) cudaGraphExecDestroy(run_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void start(cudaStream_t stream) const { check(cudaGraphLaunch(run_, stream), "starting a graph"); }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t run_ = nullptr;
};

/// Microseconds between two moments on a stream.
template <class Work>
double elapsed_us(cudaStream_t stream, const Event& begin, const Event& end, const std::string& during, Work&& work) {
  check(cudaEventRecord(begin, stream), during);
  work();
  check(cudaEventRecord(end, stream), during);
  check(cudaEventSynchronize(end), during);
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin, end), during);
  return 1e3 * static_cast<double>(ms);
}

}  // namespace orrery::measure
