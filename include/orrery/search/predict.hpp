#pragma once
// One trip down the road with its numbers: what simulate, whatif, memory, sweep and search all ask for.
#include "orrery/metrics/metrics.hpp"
#include "orrery/simulate/simulate.hpp"

namespace orrery::search {

struct Prediction {
  simulate::Outcome outcome;
  metrics::Summary summary;
};

Result<Prediction> predict(const document::Document& scenario, const simulate::Options& options = {});

}  // namespace orrery::search
