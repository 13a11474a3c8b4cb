#include "orrery/cost/nearest.hpp"

#include <cmath>

#include "cost/collective_curves.hpp"

namespace orrery::cost {

std::optional<NearestMeasured> nearest_measured(collective::Kind kind, double bytes, std::string_view algorithm, std::int64_t ranks, std::int64_t domains, int nccl_version,
                                                const calibration::Profile& profile) {
  const calibration::CollectiveCurve* curve = find_curve(profile.collectives, to_string(kind), algorithm, true, ranks, domains, nccl_version);
  if (curve == nullptr) return std::nullopt;
  std::size_t best = 0;
  for (std::size_t i = 1; i < curve->bytes.size(); ++i) {
    if (std::abs(std::log(curve->bytes[i] / bytes)) < std::abs(std::log(curve->bytes[best] / bytes))) best = i;
  }
  return NearestMeasured{curve->bytes[best], curve->time_us[best], curve->origin, bytes >= curve->bytes.front() && bytes <= curve->bytes.back()};
}

}  // namespace orrery::cost
