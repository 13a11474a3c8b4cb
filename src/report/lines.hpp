#pragma once
// Text for a terminal: rows, wrapped sentences, and numbers with the unit that suits them.
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string>
#include <string_view>

namespace orrery::report {

inline constexpr std::size_t kColumns = 80;

/// Words of `text`, broken at spaces before column 80; the first line starts with `first` spaces, the others with `indent`.
inline std::string wrapped(std::string_view text, std::size_t indent = 2, std::size_t first = 0) {
  std::string out, line(first, ' ');
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool blank = line.find_first_not_of(' ') == std::string::npos;
    if (!blank && line.size() + 1 + word.size() > kColumns) {
      out += line + "\n";
      line = std::string(indent, ' ');
      line += word;
    } else {
      if (!blank) line += ' ';
      line += word;
    }
  }
  return out + line + "\n";
}

/// At most `width` bytes of a name, the end replaced by ".." where it is longer.
inline std::string fitted(std::string_view name, std::size_t width) {
  return name.size() <= width ? std::string(name) : std::string(name.substr(0, width - 2)) + "..";
}

inline std::string seconds(double s) {
  if (s >= 1) return fmt::format("{:.3f} s", s);
  if (s >= 1e-3) return fmt::format("{:.3f} ms", s * 1e3);
  return fmt::format("{:.3f} us", s * 1e6);
}

inline std::string bytes(double n) {
  constexpr std::array<std::string_view, 5> units = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (n >= 1024 && unit + 1 < units.size()) {
    n /= 1024;
    ++unit;
  }
  return fmt::format("{:.4g} {}", n, units[unit]);
}

inline std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

}  // namespace orrery::report
