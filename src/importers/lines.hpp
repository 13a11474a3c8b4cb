#pragma once
// Lines and words of the files that tools print.
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/importers/importers.hpp"

namespace orrery::importers {

inline std::string_view trimmed(std::string_view s) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = s.find_first_not_of(kBlank);
  return first == std::string_view::npos ? std::string_view() : s.substr(first, s.find_last_not_of(kBlank) - first + 1);
}

/// Calls each(number, line) for every line, without its end.
template <class Each>
void for_lines(std::string_view text, Each each) {
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    each(++number, text.substr(at, end - at));
    at = end + 1;
  }
}

inline std::vector<std::string> words(std::string_view line) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < line.size();) {
    const std::size_t start = line.find_first_not_of(" \t\r", i);
    if (start == std::string_view::npos) break;
    const std::size_t end = std::min(line.find_first_of(" \t\r", start), line.size());
    out.emplace_back(line.substr(start, end - start));
    i = end;
  }
  return out;
}

/// A whole number and nothing else, 0 or more.
inline std::optional<int> whole(std::string_view word) {
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() && value >= 0 ? std::optional(value) : std::nullopt;
}

/// For a message: what a line says, printable and short.
inline std::string shown(std::string_view line) {
  constexpr std::size_t kMost = 60;
  std::string out;
  for (const char c : trimmed(line).substr(0, kMost)) out += c >= ' ' && c < 127 ? c : ' ';
  return trimmed(line).size() > kMost ? out + "..." : out;
}

}  // namespace orrery::importers
