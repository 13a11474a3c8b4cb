#pragma once
// Parametric kernel models with their profile's numbers resolved for one device: plain values, no look-ups and no allocation in a call.
// Each time is nondecreasing in work and nonincreasing in every rate, and never below the roofline.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "orrery/base/origin.hpp"
#include "orrery/calibration/profile.hpp"
#include "orrery/workload/operation.hpp"

namespace orrery::cost {

/// Whether clocks have settled under the power limit (training) or a few kernels run from idle (how most GEMM tables are measured).
enum class Clocks : std::uint8_t { kSustained, kBurst };

/// What of the device is left to a kernel, in SI units.
struct Available {
  double sms = 1;          ///< integer value
  double bandwidth = 1;    ///< B/s
};

/// A seconds value, and how long one wave of the kernel takes.
struct KernelTime {
  double total = 0, wave = 0;
};

/// GEMM by tiles and waves (calibration::GemmProfile).
class GemmModel {
 public:
  GemmModel() = default;
  /// sm_rate: dense FLOP/s of one SM at the clocks in force; l2: bytes, 0 where unknown.
  GemmModel(const calibration::GemmProfile& profile, double sm_rate, double l2, Clocks clocks);
  /// operands: bytes of both in memory where they are fewer than the product's own (a convolution repeats its input); 0: the product's.
  [[nodiscard]] KernelTime time(const workload::Gemm& g, const Available& device, double in_bytes, double out_bytes, double operand_bytes = 0) const;
  /// share: rate of a grouped kernel over that of one product (calibration::GroupedProfile).
  [[nodiscard]] KernelTime grouped(const workload::GroupedGemm& g, const Available& device, double in_bytes, double out_bytes, double share) const;
  [[nodiscard]] Origin origin(const workload::Gemm& g) const {
    const Origin dense = g.accumulate ? origin_accumulate_ : origin_;
    return g.sparse ? weaker(dense, origin_sparse_) : dense;
  }

 private:
  struct Tile { std::int64_t m = 1, n = 1; double seconds_per_k = 0, per_sm = 1; };
  static constexpr std::size_t kMaxTiles = 24;
  std::array<Tile, kMaxTiles> tiles_{};
  std::size_t tile_count_ = 0;
  std::array<double, 8> splits_{};
  std::size_t split_count_ = 1;
  double overhead_ = 0, launch_ = 0, bandwidth_efficiency_ = 1, hardness_ = 1;
  double nn_ = 1, nt_accumulate_ = 1, align_ = 1, sparse_ = 1;     ///< time factors
  double throttle_ = 0, throttle_flops_ = 1, l2_ = 0;
  double l2_resident_ = 0, l2_saving_ = 0;                         ///< bytes; share of the memory time that residence saves
  double sm_rate_ = 1;
  calibration::ResidualTable residual_;
  Origin origin_ = Origin::kDefault, origin_accumulate_ = Origin::kDefault, origin_sparse_ = Origin::kDefault;
};

/// Fused attention of one kernel (calibration::AttentionProfile), over its head dims.
class AttentionModel {
 public:
  AttentionModel() = default;
  /// entries: of one kernel; may be empty (defaults). sm_rate: dense 16-bit FLOP/s of one SM. special_rate: results per second of its
  /// special function units; 0: not known.
  AttentionModel(std::vector<calibration::AttentionProfile> entries, double sm_rate, double special_rate);
  [[nodiscard]] KernelTime time(const workload::Attention& a, const Available& device) const;
  [[nodiscard]] Origin origin() const { return origin_; }

 private:
  struct Row { double dim = 128, forward = 0, backward = 0, causal = 0, full = 0, fill = 1, launch = 0, tile = 128; };
  std::vector<calibration::ResidualTable> residuals_;  ///< one per row
  std::array<Row, 8> rows_{};
  std::size_t count_ = 0;
  double sm_rate_ = 1, special_rate_ = 0;
  Origin origin_ = Origin::kDefault;
};

/// Memory-bound kernels of one class (calibration::StreamProfile).
class StreamModel {
 public:
  StreamModel() = default;
  /// l2_resident: bytes that a tensor may have to be found in L2; 0: this class reads nothing that was just written.
  StreamModel(const calibration::StreamProfile& profile, double l2_resident, double l2_factor);
  [[nodiscard]] KernelTime time(const workload::Stream& s, const Available& device) const;
  [[nodiscard]] Origin origin() const { return origin_; }

 private:
  double efficiency_ = 1, half_bytes_ = 0, launch_ = 0, l2_resident_ = 0, l2_saving_ = 0;
  Origin origin_ = Origin::kDefault;
};

}  // namespace orrery::cost
