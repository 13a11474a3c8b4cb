#pragma once
// What the two halves of orrery sweep share: rows as text.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.hpp"
#include "orrery/document/value.hpp"

namespace orrery::cli {

std::unique_ptr<Verb> make_sweep_show();

/// A number of a row, or of its set; nullptr where it has none.
const document::Value* row_member(const document::Value& row, const std::string& name);
/// Whether less is better, of the numbers of a row.
bool less_is_better(std::string_view name);
/// Names of the numbers of a row, in its order.
const std::vector<std::string>& row_numbers();

/// The rows given as a table of at most 80 columns; what does not fit beside the numbers stands on a line below.
std::string rows_table(const std::vector<document::Value>& rows);

}  // namespace orrery::cli
