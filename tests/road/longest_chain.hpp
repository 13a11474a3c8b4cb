#pragma once
// How many durations can follow one another in a run, whatever they are: the longest chain of segments and transfers that wait for each
// other by stream order, events, the host's waits and meetings. The critical path is one such chain.
#include <cstdint>

#include "orrery/engine/input.hpp"

namespace orrery::test {

/// Requires a sound input whose host never waits for its run-ahead.
std::int64_t longest_chain(const engine::Input& input);

}  // namespace orrery::test
