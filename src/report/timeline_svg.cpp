// Boxes of one colour are one path, and numbers are written only where they fit: a picture of a hundred microbatches stays small.
#include "orrery/report/timeline_svg.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <tuple>

namespace orrery::report {

namespace {

using plan::Pass;

constexpr int kLeft = 64, kTop = 34, kWidth = 1100, kLane = 26, kBox = 22, kLegend = 30;
constexpr double kDigit = 6;  // width of a figure at the size used
constexpr std::int64_t kShades = 6;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

struct Look {
  const char* name;
  int hue;
};
constexpr std::array<Look, 4> kLooks = {Look{"forward", 215}, Look{"backward", 150}, Look{"input gradients", 175}, Look{"weight gradients", 35}};  // by Pass

/// Neighbouring microbatches differ in lightness; chunks beyond the first are paler.
std::string colour(Pass pass, std::int64_t microbatch, bool later_chunk) {
  return fmt::format("hsl({},{}%,{}%)", kLooks[static_cast<std::size_t>(pass)].hue, later_chunk ? 45 : 75, (later_chunk ? 66 : 48) + 3 * (microbatch % kShades));
}

/// Coordinates to a tenth of a pixel.
std::string at(double x) { return fmt::format("{:.1f}", x); }

}  // namespace

TimelineSvg::TimelineSvg(const engine::Input& input, const program::Program& program, std::vector<std::uint32_t> ranks) : input_(input), program_(program) {
  for (const std::uint32_t rank : ranks) {
    const std::uint32_t role = input_.ranks[rank].program;
    lanes_[rank].entries.resize(program_.roles[role].order.size());
    if (last_.count(role) != 0) continue;
    // The last instruction that a microbatch's pass issued to the compute stream.
    std::uint32_t issued = 0, last = 0;
    for (const program::Item& item : program_.roles[role].items) {
      const bool device = item.kind == program::ItemKind::kSegment || item.kind == program::ItemKind::kCollective || item.kind == program::ItemKind::kBatch ||
                          item.kind == program::ItemKind::kWait;
      if (!device || item.stream != program::Stream::kCompute) continue;
      if (item.microbatch >= 0) last = issued;
      ++issued;
    }
    last_[role] = last;
  }
}

bool TimelineSvg::wants(std::uint32_t rank) const { return lanes_.count(rank) != 0; }

void TimelineSvg::ran(std::uint32_t rank, std::uint32_t stream, std::uint32_t instruction, SimTime, SimTime started, SimTime ended) {
  if (stream != static_cast<std::uint32_t>(program::Stream::kCompute)) return;
  const std::uint32_t role = input_.ranks[rank].program;
  // Blocking messages are no compute, though they stand on its stream.
  if (input_.programs[role].streams[stream][instruction].op == engine::Op::kBatch) return;
  const std::vector<program::PlacedEntry>& order = program_.roles[role].order;
  Lane& lane = lanes_.at(rank);
  Box* box = &lane.end_of_step;
  if (instruction <= last_.at(role) && !order.empty()) {
    // Of a pair both begin with one instruction: its first entry has the box.
    auto after = std::upper_bound(order.begin(), order.end(), instruction, [](std::uint32_t i, const program::PlacedEntry& e) { return i < e.instruction; });
    if (after == order.begin()) return;
    auto entry = after - 1;
    while (entry != order.begin() && (entry - 1)->entry.with_next) --entry;
    box = &lane.entries[static_cast<std::size_t>(entry - order.begin())];
  }
  box->from = box->drawn ? std::min(box->from, started) : started;
  box->to = std::max(box->to, ended);
  box->drawn = true;
}

std::string TimelineSvg::svg(const std::string& title) const {
  SimTime end = 1;
  for (const auto& [rank, lane] : lanes_) {
    for (const Box& b : lane.entries) end = std::max(end, b.to);
    end = std::max(end, lane.end_of_step.to);
  }
  const double scale = static_cast<double>(kWidth) / static_cast<double>(end);
  std::map<std::string, std::string> paths;  // by colour
  std::map<bool, std::string> numbers;       // by whether of a later chunk
  std::array<bool, kLooks.size()> seen{};
  bool ends = false;
  const auto draw = [&](const std::string& fill, const Box& b, double y, double height) {
    const double x = kLeft + static_cast<double>(b.from) * scale, width = std::max(0.3, static_cast<double>(b.to - b.from) * scale);
    paths[fill] += fmt::format("M{} {}h{}v{}h-{}z", at(x), at(y), at(width), at(height), at(width));
    return std::pair{x, width};
  };
  std::string labels;
  int row = 0;
  for (const auto& [rank, lane] : lanes_) {
    const engine::Rank& r = input_.ranks[rank];
    const program::Role& role = program_.roles[r.program];
    const double y = kTop + row * kLane;
    labels += fmt::format("<text x=\"4\" y=\"{}\">stage {}</text>", at(y + 15), role.stage);
    const auto entry = [&](const plan::ScheduleEntry& e, const Box& b, double top, double height) {
      seen[static_cast<std::size_t>(e.pass)] = true;
      const auto [x, width] = draw(colour(e.pass, e.microbatch, e.chunk > 0), b, top, height);
      const std::string number = fmt::format("{}", e.microbatch);
      if (width < kDigit * static_cast<double>(number.size()) + 1) return;
      numbers[e.chunk > 0] += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>", at(x + width / 2), at(top + height / 2 + 3.5), number);
    };
    for (std::size_t k = 0; k < lane.entries.size(); ++k) {
      const Box& b = lane.entries[k];
      if (!b.drawn) continue;
      const plan::ScheduleEntry& e = role.order[k].entry;
      if (e.with_next && k + 1 < lane.entries.size()) {
        entry(e, b, y, kBox / 2.0);
        entry(role.order[k + 1].entry, b, y + kBox / 2.0, kBox / 2.0);
      } else {
        entry(e, b, y, kBox);
      }
    }
    if (lane.end_of_step.drawn) {
      draw("#bbb", lane.end_of_step, y, kBox);
      ends = true;
    }
    ++row;
  }
  const int height = kTop + row * kLane + kLegend;
  std::string out = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" font-size=\"11\">\n<title>{2}</title>\n"
                                "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n<text x=\"4\" y=\"16\" font-size=\"13\">{2}</text>\n",
                                kLeft + kWidth + 8, height, escaped(title));
  out += fmt::format("<g fill=\"#333\">{}</g>\n<g stroke=\"#fff\" stroke-width=\".6\">\n", labels);
  for (const auto& [fill, path] : paths) out += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", fill, path);
  out += "</g>\n<g text-anchor=\"middle\" font-size=\"10\">\n";
  for (const auto& [later, texts] : numbers) out += fmt::format("<g fill=\"{}\">{}</g>\n", later ? "#000" : "#fff", texts);
  out += "</g>\n";
  int x = kLeft;
  const double y = kTop + row * kLane + 8;
  const auto key = [&](const std::string& fill, const char* name) {
    out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>\n", x, at(y), fill, x + 16, at(y + 10), name);
    x += 150;
  };
  for (std::size_t p = 0; p < kLooks.size(); ++p) {
    if (seen[p]) key(colour(static_cast<Pass>(p), 0, false), kLooks[p].name);
  }
  if (numbers.count(true) != 0) key(colour(Pass::kForward, 0, true), "paler: second chunk");
  if (ends) key("#bbb", "end of step");
  return out + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.3f} ms</text>\n</svg>\n", kLeft + kWidth, at(y + 10), static_cast<double>(end) / 1e9);
}

}  // namespace orrery::report
