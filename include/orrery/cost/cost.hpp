#pragma once
// Operations to seconds, by mode, with origin.
#include <array>
#include <string>

#include "orrery/base/origin.hpp"
#include "orrery/base/units.hpp"
#include "orrery/calibration/profile.hpp"
#include "orrery/cluster/parts.hpp"
#include "orrery/collective/collective.hpp"
#include "orrery/cost/models.hpp"
#include "orrery/workload/operation.hpp"

namespace orrery::cost {

/// What communication holds while a kernel runs.
struct Mode {
  int sms = 0;             ///< SMs taken from the GPU
  BytesPerSecond hbm{};    ///< memory bandwidth taken
};
struct Duration {
  Seconds time{};
  Origin origin = Origin::kDefault;
};

/// Device time of operations on one GPU under one profile. Pure; monotone in work and in rates; never under the roofline.
class GpuCost {
 public:
  /// speed: all its clocks (event slow_gpu). attention_kernel: as the stack names it ("fa2", "fa3", "cudnn"); "": the profile's first.
  /// Requires a device with SMs, a memory bandwidth and at least one peak.
  GpuCost(const cluster::Gpu& gpu, const calibration::Profile& profile, double speed = 1.0, std::string attention_kernel = "",
          Clocks clocks = Clocks::kSustained);
  [[nodiscard]] Duration gemm(const workload::Gemm& g, const Mode& mode = {}) const;
  [[nodiscard]] Duration attention(const workload::Attention& a, const Mode& mode = {}) const;
  [[nodiscard]] Duration stream(const workload::Stream& s, const Mode& mode = {}) const;
  [[nodiscard]] Duration grouped(const workload::GroupedGemm& g, const Mode& mode = {}) const;
  /// The cheapest algorithm that fits, as a library picks it (convolution.cpp).
  [[nodiscard]] Duration convolution(const workload::Convolution& c, const Mode& mode = {}) const;
  /// Any of the five; requires that it is no Comm.
  [[nodiscard]] Duration operation(const workload::Operation& op, const Mode& mode = {}) const;
  /// One wave of the kernel: how long a communication kernel waits for SMs that it holds.
  [[nodiscard]] Seconds wave(const workload::Operation& op) const;
  /// Whether the device has matrix units for this type; a GEMM in another type runs in the next wider one that it has.
  [[nodiscard]] bool supports(workload::DType type) const;

 private:
  static constexpr std::size_t kDTypes = 9, kStreams = 10;
  [[nodiscard]] Available available(const Mode& mode) const;
  [[nodiscard]] KernelTime gemm_kernel(const workload::Gemm& g, const Mode& mode) const;
  [[nodiscard]] KernelTime grouped_kernel(const workload::GroupedGemm& g, const Mode& mode) const;
  [[nodiscard]] KernelTime implicit_gemm(const workload::Convolution& c, const Available& device) const;
  [[nodiscard]] KernelTime winograd(const workload::Convolution& c, std::int64_t tile, const Available& device) const;
  [[nodiscard]] KernelTime convolution_kernel(const workload::Convolution& c, const Available& device) const;

  cluster::Gpu gpu_;
  double speed_ = 1, memory_clock_ = 1;
  std::array<GemmModel, kDTypes> gemm_{};
  std::array<bool, kDTypes> native_{};
  calibration::GroupedProfile grouped_{};
  AttentionModel attention_;
  Origin attention_origin_ = Origin::kDefault;
  std::array<StreamModel, kStreams> stream_{};
};

/// A lone collective: latency that uses no bandwidth, then transfer. transfer >= bytes / capacity on the undegraded route is the caller's.
struct CollectiveTime {
  Seconds latency{}, transfer{};
  Origin origin = Origin::kDefault;
};
/// Measured curve inside its range, NCCL's composition and fitted link efficiencies outside (modelling 6.5).
CollectiveTime collective_time(collective::Kind kind, Bytes bytes, const collective::Choice& choice, const collective::Shape& shape,
                               const collective::Nccl& nccl, const calibration::Profile& profile);
/// Point to point: inside a domain or across the fabric (wire latency from the route).
CollectiveTime point_to_point_time(Bytes bytes, const collective::Shape& shape, bool same_domain, Seconds wire_latency, const calibration::Profile& profile);

}  // namespace orrery::cost
