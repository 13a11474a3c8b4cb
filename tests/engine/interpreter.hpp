#pragma once
// A second engine, slow and plain: it walks from one candidate time to the next, looks at everything every time, keeps no queue, lets the
// host live in its own time and solves the whole network densely. What it finds must be what the engine finds, to the picosecond.
#include "build_input.hpp"

namespace orrery::engine::testing {

/// Result::{end, ranks, segment_ps, transfers, resources.load} of an input that ends. Throws std::logic_error where it gets stuck.
Result interpret(const Input& in, const SegmentTimes& times);

}  // namespace orrery::engine::testing
