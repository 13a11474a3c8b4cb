#pragma once
// Links as engine resources, loads on them as usages, and times as transfers: doubles end here.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "groups.hpp"

namespace orrery::lower {

constexpr double kRateUnitsPerBytePerSecond = 0x1p40 / kPicosecondsPerSecond;
constexpr double kWeightOne = 0x1p24;

/// What no 64 bits hold is beyond every bound that is checked later.
std::int64_t whole(double units);
std::int64_t rate_units(BytesPerSecond b);

/// Links become engine resources when something crosses them.
class Resources {
 public:
  Resources(const World& world, Lowered& out) : world_(world), out_(out), of_link_(world.cluster.links().size(), engine::kNone) {}
  std::uint32_t of(LinkId link);
  /// Of the first link whose rate cannot be played; "" where there is none.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  // Bytes/s. Below, a capacity is a few rate units and rounding shows; above, it is more than the engine's 2^50 rate units.
  static constexpr double kLeastRate = 1e4, kMostRate = 1e15;
  const World& world_;
  Lowered& out_;
  std::string problem_;
  std::vector<std::uint32_t> of_link_;
};

/// Usage of a flow pattern, `flows` flows of equal bytes on its busiest hop.
engine::UsageRange add_usage(std::span<const LinkLoad> loads, double reference, Resources& resources, Lowered& out);

struct Slowest {
  double seconds_per_byte = 0;  ///< of one byte of the pattern, undegraded
  cluster::LinkKind kind = cluster::LinkKind::kScaleUp;
};
Slowest slowest_link(std::span<const LinkLoad> loads, const World& world);

/// Seconds and bytes to an engine transfer. wire: bytes that the busiest GPU port moves.
void add_transfer(Seconds latency, Seconds transfer, double reference, double wire, std::uint32_t usage_set, int sms, const World& world, TransferRow row, Lowered& out);

}  // namespace orrery::lower
