// A step has far more allocations than a picture has columns: of those that share one the highest sum is drawn, so that no peak is lost.
#include "orrery/report/memory_svg.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "orrery/base/units.hpp"

namespace orrery::report {
namespace {

constexpr int kLeft = 70, kTop = 34, kWidth = 1000, kHeight = 320, kBottom = 40, kTicks = 5;
constexpr std::array<int, 6> kHues = {215, 150, 35, 275, 0, 100};

std::int64_t sum(const std::vector<std::int64_t>& held) { return std::accumulate(held.begin(), held.end(), std::int64_t{0}); }

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, static_cast<unsigned char>(c) < 0x20 ? ' ' : c);
  return out;
}

double gib(std::int64_t bytes) { return to_gib(Bytes(bytes)); }

}  // namespace

void MemorySvg::memory(std::uint32_t rank, SimTime at, std::uint32_t kind, std::int64_t bytes) {
  if (rank != rank_ || kind >= held_.size()) return;
  held_[kind] = bytes;
  if (!samples_.empty() && samples_.back().at == at && sum(held_) >= sum(samples_.back().held)) {
    samples_.back().held = held_;
  } else {
    samples_.push_back({at, held_});
  }
}

MemorySvg::Peak MemorySvg::peak() const {
  Peak p;
  for (const Sample& s : samples_) {
    if (sum(s.held) > p.bytes) p = {s.at, sum(s.held), s.held};
  }
  return p;
}

std::vector<MemorySvg::Column> MemorySvg::columns(std::size_t count, SimTime end) const {
  std::vector<Column> out;
  std::vector<std::int64_t> now(kinds_.size(), 0);
  std::size_t next = 0;
  for (std::size_t c = 0; c < count; ++c) {
    const auto until = static_cast<double>(end) * static_cast<double>(c + 1) / static_cast<double>(count);
    const double begin = static_cast<double>(end) * static_cast<double>(c) / static_cast<double>(count);
    for (; next < samples_.size() && static_cast<double>(samples_[next].at) <= begin; ++next) now = samples_[next].held;
    Column column{static_cast<SimTime>(begin), now};
    for (; next < samples_.size() && (static_cast<double>(samples_[next].at) < until || c + 1 == count); ++next) {
      now = samples_[next].held;
      if (sum(now) > sum(column.held)) column.held = now;
    }
    out.push_back(std::move(column));
  }
  return out;
}

std::string MemorySvg::svg(const std::string& title, SimTime end, std::int64_t capacity) const {
  const Peak most = peak();
  const std::int64_t high = std::max<std::int64_t>({1, most.bytes, capacity});
  const auto x = [&](SimTime at) { return kLeft + kWidth * static_cast<double>(at) / static_cast<double>(std::max<SimTime>(1, end)); };
  const auto y = [&](std::int64_t bytes) { return kTop + kHeight * (1 - static_cast<double>(bytes) / static_cast<double>(high)); };
  std::vector<const Sample*> columns;  // the highest of each column, in order
  int last = -1;
  for (const Sample& s : samples_) {
    const int column = static_cast<int>(x(s.at));
    if (column != last) columns.push_back(&s);
    else if (sum(s.held) > sum(columns.back()->held)) columns.back() = &s;
    last = column;
  }
  std::string out = fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" font-family="sans-serif" font-size="12">)", kLeft + kWidth + 20, kTop + kHeight + kBottom);
  out += fmt::format("\n<text x=\"{}\" y=\"18\">{}</text>\n", kLeft, escaped(title));
  std::vector<std::int64_t> below(columns.size(), 0);
  int legend = kLeft;
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    std::string top, bottom;
    bool any = false;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const double from = x(columns[i]->at), to = i + 1 < columns.size() ? x(columns[i + 1]->at) : x(end);
      const std::int64_t upper = below[i] + columns[i]->held[k];
      any = any || columns[i]->held[k] > 0;
      top += fmt::format("{}{:.1f},{:.1f} {:.1f},{:.1f}", i == 0 ? "M" : " ", from, y(upper), to, y(upper));
      bottom = fmt::format(" {:.1f},{:.1f} {:.1f},{:.1f}", to, y(below[i]), from, y(below[i])) + bottom;
      below[i] = upper;
    }
    if (!any) continue;
    const std::string colour = fmt::format("hsl({},60%,55%)", kHues[k % kHues.size()]);
    out += fmt::format("<path fill=\"{}\" d=\"{}{}Z\"><title>{}</title></path>\n", colour, top, bottom, escaped(kinds_[k]));
    out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>\n", legend, kTop + kHeight + 24, colour, legend + 14,
                       kTop + kHeight + 33, escaped(kinds_[k]));
    legend += 120;
  }
  for (int t = 0; t <= kTicks; ++t) {
    const std::int64_t bytes = high / kTicks * t;
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.1f}</text>\n", kLeft - 6, y(bytes) + 4, gib(bytes));
  }
  out += fmt::format("<text x=\"{}\" y=\"{}\">GiB</text>\n", kLeft - 40, kTop - 10);
  if (capacity > 0) out += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"black\" stroke-dasharray=\"6,4\"/>\n", kLeft, kLeft + kWidth, y(capacity), y(capacity));
  out += fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\" stroke=\"black\"/>\n", x(most.at), x(most.at), kTop, kTop + kHeight);
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.3f} s</text>\n</svg>\n", kLeft + kWidth, kTop + kHeight + 14, to_seconds(end).value());
  return out;
}

}  // namespace orrery::report
