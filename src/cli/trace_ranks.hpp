#pragma once
// Which ranks a trace shows.
#include <cstdint>
#include <string>
#include <vector>

#include "orrery/document/document.hpp"

namespace orrery::cli {

/// "0,8,16-19" as ranks, ascending. At most 4,096 of them: a trace is to be looked at.
Result<std::vector<std::uint32_t>> read_ranks(const std::string& list);
/// The lowest rank of every pipeline stage; rank 0 alone where the layout is none.
std::vector<std::uint32_t> stage_ranks(const document::Value& scenario);

}  // namespace orrery::cli
