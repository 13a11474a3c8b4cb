#pragma once
// The same flows in SimGrid (Casanova et al., doi:10.1016/j.jpdc.2014.06.008), its corrections for TCP switched off.
#include <vector>

#include "crosscheck/flow_sets.hpp"

namespace orrery::test {

struct SimgridRun {
  std::vector<double> finish;   ///< seconds of the modelled world, by flow
  double run_seconds = 0;       ///< of processor time, from the moment that all flows have started; platform and start-up apart
};
/// Plays in a child process: SimGrid's engine can live only once in each.
SimgridRun play_in_simgrid(const FlowSet& set);

}  // namespace orrery::test
