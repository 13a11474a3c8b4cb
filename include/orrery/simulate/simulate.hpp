#pragma once
// The road: a resolved scenario to what ran.
#include <memory>
#include <string>
#include <vector>

#include "orrery/calibration/profile.hpp"
#include "orrery/cluster/cluster.hpp"
#include "orrery/document/document.hpp"
#include "orrery/engine/run.hpp"
#include "orrery/lower/fold.hpp"
#include "orrery/lower/lower.hpp"
#include "orrery/plan/plan.hpp"
#include "orrery/program/build.hpp"

namespace orrery::simulate {

struct Options {
  bool fold = true;
  bool strict = false;                  ///< refuse what stands on datasheet or default numbers
  std::int64_t max_events = INT64_MAX;
  std::vector<std::uint32_t> traced;    ///< ranks whose instructions go to `sink`, in its wants()
  engine::Sink* sink = nullptr;
};

/// One step, played. Every part of the road is kept, so that metrics and reports read values instead of asking again.
struct Outcome {
  document::Document scenario;          ///< resolved, with what the plan derived filled in
  program::Job job;
  std::int64_t gpus = 0;
  std::unique_ptr<cluster::Cluster> cluster;
  std::unique_ptr<plan::Grid> grid;
  std::unique_ptr<program::Program> program;
  calibration::Profile profile;
  std::vector<calibration::Profile> profiles;  ///< those that it was merged from, best last
  std::unique_ptr<lower::Lowered> lowered;
  lower::Folded folded;                 ///< identity classes without folding
  engine::Result result;                ///< by class
  workload::ModelCounts counts;
  Diagnostics warnings;
};

/// Plays the scenario. Diagnostics where it cannot be: bad layout, links, a verifier's finding, a stuck run, too many events.
Result<Outcome> simulate(const document::Document& scenario, const Options& options = {});

}  // namespace orrery::simulate
