#pragma once
// Segments of all roles: equal ones are priced once; durations by (segment, hardware variant, mode) for the engine.
#include <memory>
#include <string>
#include <vector>

#include "orrery/lower/lower.hpp"

namespace orrery::lower {

/// Prices segments. Keeps its own copies of distinct operation lists.
class SegmentPricer final : public engine::SegmentTimes {
 public:
  /// variants: speed of each hardware variant, variant 0 first.
  SegmentPricer(const World& world, const std::vector<double>& variants);

  /// The segment that takes longest, on the device or for the host: in words, and how long.
  struct Longest {
    const program::Segment* segment = nullptr;
    double seconds = 0;
  };
  [[nodiscard]] Longest longest() const;

  [[nodiscard]] SegmentCost cost(std::uint32_t role, std::uint32_t segment) const;
  /// The host delay before which a merged segment cannot start: max over its kernels of (issued by) - (device time before it).
  [[nodiscard]] Seconds lead(std::uint32_t role, std::uint32_t segment) const;
  [[nodiscard]] std::uint32_t launches(std::uint32_t role, std::uint32_t segment) const;
  [[nodiscard]] Seconds host_time(std::uint32_t role, std::uint32_t segment) const;

  SimTime duration(std::uint32_t program, std::uint32_t segment, std::uint32_t variant, std::int32_t sms, std::int64_t hbm) const override;

 private:
  struct Distinct {
    const program::Segment* segment = nullptr;
    SegmentCost cost;
    Seconds lead{}, host{};
    std::uint32_t launches = 0;
  };
  [[nodiscard]] const Distinct& at(std::uint32_t role, std::uint32_t segment) const { return distinct_[index_[role][segment]]; }

  std::vector<cost::GpuCost> gpus_;  // by variant
  std::vector<Distinct> distinct_;
  std::vector<std::vector<std::uint32_t>> index_;
};

/// What is too long for simulated time ends after it: the engine, or the check of its input, says so.
SimTime sim_time_or_too_long(Seconds s);

std::uint32_t kernel_launches(const workload::Operation& operation);

}  // namespace orrery::lower
