#pragma once
// Small text services for messages.
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Levenshtein distance in bytes.
std::size_t edit_distance(std::string_view a, std::string_view b);
/// The candidate nearest to word, or "" where none is near enough to help (distance > max(2, |word|/3)). Ties: first in order.
std::string nearest_name(std::string_view word, std::span<const std::string> candidates);
/// ` did you mean "x"?` with its leading "; ", or "" where nothing is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace orrery
