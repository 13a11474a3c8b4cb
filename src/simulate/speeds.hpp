#pragma once
// Ranks whose clocks differ: the slow_gpu and speed_spread events (design 5.5).
#include <string>
#include <vector>

#include "orrery/document/value.hpp"
#include "orrery/lower/lower.hpp"

namespace orrery::simulate {

/// Speeds of the ranks that differ from 1, by rank. speed_spread draws a truncated normal per rank, rounded to 0.1 % so that ranks of
/// equal speed still fold; a slow_gpu on top of it multiplies.
Result<std::vector<lower::RankSpeed>> read_speeds(const document::Value& events, std::int64_t ranks, std::uint64_t seed, const std::string& file);

}  // namespace orrery::simulate
