// nvbandwidth prints, per test, a line "Running NAME.", a heading and a matrix of GB/s between devices:
//   memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
//              0         1
//    0     55.63     55.64
// A test copies a buffer of 512 MiB unless -b says another number of MiB; the command line is not in the output, so that the default counts. A time of
// one copy follows from the rate.
#include "measure/nvbandwidth.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace orrery::measure {
namespace {

constexpr double kBuffer = 512.0 * 1024 * 1024;

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = line.find_first_not_of(" \t\r", at);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
    out.push_back(line.substr(begin, end - begin));
    at = end;
  }
  return out;
}

std::optional<double> number(std::string_view word) {
  double v = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), v);
  if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(v)) return std::nullopt;
  return v;
}

/// What a test's name says it moves; nothing where a rate of it is no time of one copy (both ways at once, all to one, latencies).
std::optional<calibration::Point> point_of(std::string_view test) {
  using calibration::Point;
  const auto has = [&](std::string_view part) { return test.find(part) != std::string_view::npos; };
  if (has("bidirectional") || has("all_to") || has("to_all") || has("latency") || has("local") || has("multicast")) return std::nullopt;
  Point p;
  p.kind = Point::Kind::kStream;
  if (has("host_to_device")) {
    p.stream = "from_host";
    p.write_bytes = static_cast<std::int64_t>(kBuffer);
  } else if (has("device_to_host")) {
    p.stream = "to_host";
    p.read_bytes = static_cast<std::int64_t>(kBuffer);
  } else if (has("device_to_device")) {
    p.kind = Point::Kind::kCollective;
    p.collective = "send_recv";
    p.algorithm = has("_sm") ? "copy_kernel" : "copy_engine";
    p.bytes = static_cast<std::int64_t>(kBuffer);
    p.ranks = 2;
  } else {
    return std::nullopt;
  }
  return p;
}

}  // namespace

bool is_nvbandwidth(std::string_view text) { return text.find("bandwidth (GB/s)") != std::string_view::npos && text.find("Running ") != std::string_view::npos; }

Result<Imported> import_nvbandwidth(std::string_view text, const std::string& file, const ImportOptions& options) {
  Imported out;
  std::string test;
  bool matrix = false;
  std::size_t columns = 0, line_number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++line_number;
    const auto cells = words(line);
    if (cells.size() == 2 && cells[0] == "Running" && cells[1].size() < 100) {
      test = std::string(cells[1].substr(0, cells[1].size() - (cells[1].ends_with('.') ? 1 : 0)));
      matrix = false;
      continue;
    }
    if (line.find("bandwidth (GB/s)") != std::string_view::npos) {
      matrix = true;
      columns = 0;
      continue;
    }
    if (!matrix) continue;
    if (cells.empty() || cells[0] == "SUM") {
      matrix = false;
      continue;
    }
    if (columns == 0) {
      columns = cells.size();  // the heading: device numbers
      continue;
    }
    auto kind = point_of(test);
    if (!kind) {
      out.refused.push_back({file, line_number, fmt::format("{} is no copy of one buffer", test.empty() ? "the test" : test)});
      continue;
    }
    if (cells.size() != columns + 1) {
      out.refused.push_back({file, line_number, "the row is cut short"});
      continue;
    }
    for (std::size_t c = 1; c < cells.size(); ++c) {
      if (cells[c] == "N/A") continue;  // a device and itself
      const auto rate = number(cells[c]);
      if (!rate || *rate <= 0 || *rate > 1e6) {
        out.refused.push_back({file, line_number, fmt::format("\"{}\" is no rate", cells[c].substr(0, 20))});
        continue;
      }
      calibration::Point p = *kind;
      p.context = options.context;
      p.time_us = {kBuffer / (*rate * 1e3)};
      p.from = fmt::format("{}:{}", file, line_number);
      out.set.points.push_back(std::move(p));
    }
  }
  if (out.set.points.empty()) return fail(file, "", fmt::format("no row of nvbandwidth is a measurement; {}", out.refused.empty() ? "it holds no matrix" : to_string(out.refused.front())));
  return out;
}

}  // namespace orrery::measure
