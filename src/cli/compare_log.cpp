#include "compare_log.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace orrery::cli {
namespace {

using document::Value;
using search::Comparison;
using search::Health;

std::string size_text(std::int64_t bytes) {
  for (const auto& [scale, unit] : {std::pair{kGiB, "GiB"}, std::pair{kMiB, "MiB"}, std::pair{kKiB, "KiB"}}) {
    if (bytes >= scale && bytes % scale == 0) return fmt::format("{} {}", bytes / scale, unit);
  }
  return fmt::format("{} B", bytes);
}

std::string range_text(const search::HealthRange& r) {
  const std::string sizes = r.first == r.last ? size_text(r.first) : fmt::format("{} to {}", size_text(r.first), size_text(r.last));
  std::string state(to_string(r.health));
  if (r.stalled) state += ", stalled: larger messages took less time";
  return fmt::format("#   {:<22} {:>6.2f}x the predicted time  {}\n", sizes, r.ratio, state);
}

constexpr std::size_t kShown = 6;  // hypotheses on the screen; the JSON has all

}  // namespace

Result<ComparedLog> compare_log(const std::string& file, const simulate::CollectiveQuery& asked, std::optional<std::int64_t> ranks, std::optional<std::int64_t> gpus_per_thread, const search::Variant& variant) {
  const collective::Kind kind = asked.kind;
  const auto content = document::read_file(file);
  if (!content) return fail(content.error());
  auto log = measure::parse_nccl_log(*content, file);
  if (!log) return fail(log.error());
  ComparedLog out{file, {}, log->notes};
  std::string others;
  for (measure::NcclTable& t : log->tables) {
    if (t.collective != to_string(kind)) {
      if (others.find(t.collective) == std::string::npos) others += (others.empty() ? "" : ", ") + t.collective;
      continue;
    }
    std::vector<search::MeasuredPoint> points;
    for (const measure::NcclRow& r : t.rows) {
      if (r.bytes > 0 && (points.empty() || r.bytes > points.back().bytes)) points.push_back({r.bytes, r.time_us});
    }
    if (points.empty()) continue;
    const std::int64_t members = ranks.value_or(t.ranks > 0 ? t.ranks : asked.ranks);
    auto compared = search::compare({kind, members, {}, gpus_per_thread.value_or(std::max<std::int64_t>(1, t.gpus_per_thread))}, points, variant);
    if (!compared) return fail(compared.error());
    out.tables.push_back({std::move(t), members, std::move(*compared)});
  }
  if (out.tables.empty()) return fail(file, "", fmt::format("no rows of {}; the log holds {}", to_string(kind), others.empty() ? "nothing but rows of no bytes" : others));
  return out;
}

std::vector<simulate::CollectiveRow> ComparedLog::predicted() const {
  std::vector<simulate::CollectiveRow> rows;
  for (const ComparedTable& t : tables) {
    for (const search::ComparedRow& r : t.comparison.rows) rows.push_back(r.predicted);
  }
  return rows;
}

Value ComparedLog::json() const {
  Value::Array list;
  for (const ComparedTable& t : tables) {
    Value::Array rows, ranges, guesses;
    for (const search::ComparedRow& r : t.comparison.rows) {
      rows.push_back(Value::Object{{"bytes", r.bytes}, {"measured_us", r.measured_us}, {"predicted_us", r.predicted.time.value() * 1e6}, {"ratio", r.ratio()},
                                   {"health", to_string(r.health)}, {"stalled", r.stalled}});
    }
    for (const search::HealthRange& r : t.comparison.ranges) {
      ranges.push_back(Value::Object{{"first_bytes", r.first}, {"last_bytes", r.last}, {"ratio", r.ratio}, {"health", to_string(r.health)}, {"stalled", r.stalled}});
    }
    for (const search::Hypothesis& h : t.comparison.hypotheses) {
      Value::Array change;
      for (const document::Override& o : h.change) change.push_back(Value::Object{{"path", o.path}, {"value", o.value}});
      guesses.push_back(Value::Object{{"name", h.name}, {"text", h.text}, {"likelihood", h.likelihood}, {"error", h.error}, {"change", std::move(change)}});
    }
    list.push_back(Value::Object{{"file", file}, {"ranks", t.ranks}, {"sick", t.comparison.sick}, {"rows", std::move(rows)}, {"ranges", std::move(ranges)},
                                 {"hypotheses", std::move(guesses)}, {"unexplained", t.comparison.unexplained}});
  }
  return Value(std::move(list));
}

std::string ComparedLog::text() const {
  std::string text;
  for (const ComparedTable& t : tables) {
    const Comparison& c = t.comparison;
    text += fmt::format("# {} of {} on {} ranks{}{}\n", t.measured.collective, file, t.ranks, t.measured.gpu.empty() ? "" : ", " + t.measured.gpu,
                        t.measured.version.empty() ? "" : ", NCCL " + t.measured.version);
    text += fmt::format("#{:>13}{:>14}{:>14}{:>9}{:>9}  {}\n", "size", "measured", "predicted", "busbw", "ratio", "health; predicted algorithm, protocol, limit");
    text += fmt::format("#{:>13}{:>14}{:>14}{:>9}{:>9}\n", "(B)", "(us)", "(us)", "(GB/s)", "");
    for (const search::ComparedRow& r : c.rows) {
      const double busbw = static_cast<double>(r.bytes) / (r.measured_us * 1e3) * r.predicted.busbw.value() / r.predicted.algbw.value();
      text += fmt::format("{:>14}{:>14.2f}{:>14.2f}{:>9.2f}{:>9.2f}  {}{}; {} {} {}\n", r.bytes, r.measured_us, r.predicted.time.value() * 1e6, busbw, r.ratio(),
                          to_string(r.health), r.stalled ? ", stalled" : "", to_string(r.predicted.choice.algorithm), to_string(r.predicted.choice.protocol), r.predicted.limited_by);
    }
    text += fmt::format("# the cluster looks {}\n", c.sick ? "sick" : "healthy");
    for (const search::HealthRange& r : c.ranges) text += range_text(r);
    // Twice off on average: the right fault of the right cluster errs by far less.
    if (!c.hypotheses.empty() && c.hypotheses.front().error > std::log(2.0)) text += "# nothing that was tried explains it well; the least bad come first\n";
    if (!c.hypotheses.empty()) text += "# what would explain it, likeliest first (share; mean error)\n";
    for (std::size_t i = 0; i < std::min(kShown, c.hypotheses.size()); ++i) {
      const search::Hypothesis& h = c.hypotheses[i];
      text += fmt::format("#   {:>4.0f} %  x/{:<5.2f} {}: {}\n", h.likelihood * 100, std::exp(h.error), h.name, h.text);
    }
    if (!c.hypotheses.empty()) text += fmt::format("#   {:>4.0f} %         something that was not tried\n", c.unexplained * 100);
  }
  for (const measure::NcclNote& n : notes) text += fmt::format("# {}:{}: {}\n", file, n.line, n.text);
  return text;
}

}  // namespace orrery::cli
