#include "orrery/report/memory_chart.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "orrery/base/units.hpp"

namespace orrery::report {
namespace {

constexpr std::size_t kColumns = 72, kRows = 16;

double gib(std::int64_t bytes) { return to_gib(Bytes(bytes)); }

/// Kinds begin with different letters.
char letter(const std::string& kind) { return kind.empty() ? '?' : static_cast<char>(std::toupper(static_cast<unsigned char>(kind.front()))); }

}  // namespace

std::string memory_chart(const MemorySvg& memory, SimTime end, std::int64_t capacity) {
  const std::vector<MemorySvg::Column> columns = memory.columns(kColumns, end);
  const std::vector<std::string>& kinds = memory.kinds();
  const MemorySvg::Peak peak = memory.peak();
  const std::int64_t high = std::max<std::int64_t>({1, peak.bytes, capacity});
  std::string out;
  for (std::size_t row = 0; row < kRows; ++row) {
    // A row shows what stands at the middle of its band; the device's capacity lies in one band.
    const std::int64_t top = high / static_cast<std::int64_t>(kRows) * static_cast<std::int64_t>(kRows - row), bottom = top - high / static_cast<std::int64_t>(kRows);
    const std::int64_t middle = bottom + (top - bottom) / 2;
    const bool line = capacity > 0 && (row == 0 ? capacity > bottom : capacity > bottom && capacity <= top);
    std::string text;
    for (const MemorySvg::Column& c : columns) {
      char shown = line ? '-' : ' ';
      std::int64_t below = 0;
      for (std::size_t k = 0; k < kinds.size(); ++k) {
        if (middle >= below && middle < below + c.held[k]) shown = letter(kinds[k]);
        below += c.held[k];
      }
      text += shown;
    }
    out += fmt::format("  {:>7.1f} |{}\n", gib(top), text);
  }
  std::string mark(kColumns, ' ');
  mark[std::min<std::size_t>(kColumns - 1, static_cast<std::size_t>(static_cast<double>(kColumns) * static_cast<double>(peak.at) / static_cast<double>(std::max<SimTime>(1, end))))] = '^';
  out += fmt::format("      GiB +{}\n           {}\n", std::string(kColumns, '-'), mark);
  out += fmt::format("  0 to {:.4g} s; most at {:.4g} s: {:.2f} GiB\n ", to_seconds(end).value(), to_seconds(peak.at).value(), gib(peak.bytes));
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    if (peak.held.size() > k && std::any_of(columns.begin(), columns.end(), [k](const MemorySvg::Column& c) { return c.held[k] > 0; })) {
      out += fmt::format(" {} {} {:.2f}", letter(kinds[k]), kinds[k], gib(peak.held[k]));
    }
  }
  return out + "\n";
}

}  // namespace orrery::report
