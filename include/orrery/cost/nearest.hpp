#pragma once
// What was measured nearest to a question about a collective: the row to hold a prediction against.
#include <cstdint>
#include <optional>
#include <string>

#include "orrery/calibration/profile.hpp"
#include "orrery/collective/collective.hpp"

namespace orrery::cost {

struct NearestMeasured {
  double bytes = 0, time_us = 0;
  Origin origin = Origin::kPublished;
  bool within = true;  ///< the size asked for is not beyond the curve's ends
};

/// The point of the curve that answers for the same kind, ranks and domains (its NCCL version the nearest) whose size is nearest by factor. None where
/// there is no such curve.
std::optional<NearestMeasured> nearest_measured(collective::Kind kind, double bytes, std::string_view algorithm, std::int64_t ranks, std::int64_t domains, int nccl_version,
                                                const calibration::Profile& profile);

}  // namespace orrery::cost
