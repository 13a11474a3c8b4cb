// orrery sweep: every point of some axes down the road, into one store. The same command goes on where it stopped.
#include "sweep.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <ostream>
#include <thread>
#include <unistd.h>

#include "cli/common.hpp"
#include "orrery/report/report.hpp"
#include "orrery/search/store.hpp"
#include "report/lines.hpp"

namespace orrery::cli {

namespace {

using document::Value;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string duration(double s) {
  if (s < 90) return fmt::format("{:.0f} s", s);
  if (s < 5400) return fmt::format("{:.0f} min", s / 60);
  return fmt::format("{:.1f} h", s / 3600);
}

/// One line on a terminal, rewritten.
class Progress {
 public:
  Progress(std::ostream& err, std::uint64_t total, std::uint64_t done, bool shown) : err_(err), total_(total), first_(done), shown_(shown) {}
  void at(std::uint64_t done) {
    if (!shown_) return;
    const double spent = since(start_), rate = static_cast<double>(done - first_) / std::max(spent, 1e-9);
    constexpr std::uint64_t kWidth = 24;
    const auto filled = static_cast<std::size_t>(static_cast<double>(kWidth) * static_cast<double>(done) / static_cast<double>(std::max<std::uint64_t>(total_, 1)));
    err_ << fmt::format("\r[{:<{}}] {}/{}  {:.1f} points/s  {} left ", std::string(filled, '#'), kWidth, done, total_, rate,
                        rate > 0 ? duration(static_cast<double>(total_ - done) / rate) : "?")
         << std::flush;
  }
  void end() {
    if (shown_) err_ << "\r" << std::string(79, ' ') << "\r" << std::flush;
  }

 private:
  std::ostream& err_;
  std::uint64_t total_, first_;
  bool shown_;
  Clock::time_point start_ = Clock::now();
};

class SweepVerb : public Verb {
 public:
  void define(Arguments arguments) override {
    scenario_.define(arguments, false);
    output_.threads = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
    output_.define(arguments);
    arguments.repeated("--vary", vary_, "a member and its values (docs/sweep.md)", "PATH=VALUES");
    arguments.repeated("--zip", zip_, "as --vary, moving with the --vary before it", "PATH=VALUES");
    arguments.repeated("--where", where_, "only points where EXPR holds", "EXPR");
    arguments.text("--sample", sample_, "random:N or lhs:N points in place of the grid", "HOW");
    arguments.text("--store", store_, "the results; the same command goes on from there", "FILE");
    arguments.number("--max-runs", max_runs_, 1, INT64_MAX, "refuse a sweep of more points");
    show_ = make_sweep_show();
    show_->define(arguments.alternative("show", "print, sort and filter what a store holds", showing_));
    arguments_ = arguments;
  }

  int run(Streams& s) override {
    if (showing_) return show_->run(s);
    if (scenario_.scenario.empty()) return usage_error(s, "sweep: SCENARIO is required");
    if (store_.empty()) return usage_error(s, "sweep: --store FILE is required");
    const auto sweep = read_sweep();
    if (!sweep) return refused(s, sweep.error());
    std::vector<search::Expression> constraints;
    for (const std::string& text : where_) {
      auto e = search::Expression::make(text);
      if (!e) return refused(s, e.error());
      constraints.push_back(std::move(*e));
    }
    if (sweep->size() > static_cast<std::uint64_t>(max_runs_))
      return usage_error(s, fmt::format("sweep: {} points are more than --max-runs {}; take fewer values, --sample lhs:N, or raise --max-runs", sweep->size(), max_runs_));

    const auto text = document::read_file(scenario_.scenario);
    if (!text) return refused(s, text.error());
    const auto common = scenario_.overrides();
    if (!common) return refused(s, common.error());
    const std::string base_dir = scenario_.scenario == "-" ? std::string() : std::filesystem::path(scenario_.scenario).parent_path().string();
    const search::Load load = [&](std::span<const document::Override> sets) {
      std::vector<document::Override> all = *common;
      all.insert(all.end(), sets.begin(), sets.end());
      return document::load_scenario_text(*text, scenario_.scenario, base_dir, all);
    };
    if (const auto unknown = check_paths(*sweep, load); !unknown) return refused(s, unknown.error());
    auto store = search::Store::open(store_, definition(*text, base_dir, *common, sweep->size()));
    if (!store) return refused(s, store.error());
    return play(s, *sweep, constraints, load, *store);
  }

 private:
  Result<search::Sweep> read_sweep() const {
    std::vector<search::Axis> axes;
    Diagnostics problems;
    std::size_t vary = 0, zip = 0;
    for (const std::string& option : arguments_->order()) {
      if (option != "--vary" && option != "--zip") continue;
      auto axis = search::read_axis(option == "--vary" ? vary_[vary++] : zip_[zip++]);
      if (!axis) {
        problems.insert(problems.end(), axis.error().begin(), axis.error().end());
        continue;
      }
      axis->zipped = option == "--zip";
      axes.push_back(std::move(*axis));
    }
    if (!problems.empty()) return fail(problems);
    if (sample_.empty()) return search::Sweep::grid(std::move(axes));
    const std::size_t colon = sample_.find(':');
    const std::string how = sample_.substr(0, colon), count = colon == std::string::npos ? "" : sample_.substr(colon + 1);
    const bool digits = !count.empty() && count.size() < 10 && std::all_of(count.begin(), count.end(), [](char c) { return c >= '0' && c <= '9'; });
    if ((how != "random" && how != "lhs") || !digits || std::stoull(count) == 0)
      return fail("", "", fmt::format("--sample {}: expected random:N or lhs:N, N a whole number from 1 to 999999999", sample_));
    if (std::stoull(count) > static_cast<std::uint64_t>(max_runs_)) return fail("", "", fmt::format("sweep: {} points are more than --max-runs {}", count, max_runs_));
    return search::Sweep::sample(std::move(axes), how == "lhs" ? search::Sampling::kLatinHypercube : search::Sampling::kRandom, std::stoull(count),
                                 static_cast<std::uint64_t>(scenario_.seed.value_or(0)));
  }

  /// A path that no scenario has would be refused at every point: it is said once, before anything is stored.
  static Result<bool> check_paths(const search::Sweep& sweep, const search::Load& load) {
    for (const search::Axis& axis : sweep.axes()) {
      const auto one = load(std::vector<document::Override>{{axis.path, axis.between ? fmt::format("{}", axis.between->low) : axis.values[0]}});
      if (one) continue;
      for (const Diagnostic& d : one.error())
        if (d.text.find("unknown") != std::string::npos && (d.pointer.empty() || search::dotted(d.pointer) == search::dotted(axis.path))) return fail(d);
    }
    return true;
  }

  Value definition(const std::string& text, const std::string& base_dir, const std::vector<document::Override>& common, std::uint64_t points) const {
    Value::Array sets, axes, where;
    for (const document::Override& o : common) sets.push_back(Value::Object{{"path", o.path}, {"value", o.value}});
    std::size_t vary = 0, zip = 0;
    for (const std::string& option : arguments_->order()) {
      if (option == "--vary") axes.push_back(Value::Object{{"vary", vary_[vary++]}});
      if (option == "--zip") axes.push_back(Value::Object{{"zip", zip_[zip++]}});
    }
    for (const std::string& e : where_) where.emplace_back(e);
    return Value::Object{{"schema", "orrery/sweep/1"},
                         {"orrery_version", Value(report::version())},
                         {"scenario", text},
                         {"base_dir", base_dir},
                         {"set", sets},
                         {"axes", axes},
                         {"where", where},
                         {"sample", sample_.empty() ? Value() : Value(sample_)},
                         {"fold", Value(scenario_.fold)},
                         {"strict", Value(scenario_.strict)},
                         {"points", Value(static_cast<std::int64_t>(points))}};
  }

  int play(Streams& s, const search::Sweep& sweep, const std::vector<search::Expression>& constraints, const search::Load& load, search::Store& store) {
    const auto stored = store.stored();
    if (!stored) return refused(s, stored.error());
    const auto threads = static_cast<int>(output_.threads);
    Progress progress(s.err, sweep.size(), stored->size(), !output_.quiet && ::isatty(STDERR_FILENO) != 0);
    std::uint64_t next = 0, done = stored->size();
    std::size_t skip = 0, batch = static_cast<std::size_t>(threads);
    while (next < sweep.size()) {
      std::vector<std::uint64_t> points;
      for (; next < sweep.size() && points.size() < batch; ++next) {
        while (skip < stored->size() && (*stored)[skip] < next) ++skip;
        if (skip == stored->size() || (*stored)[skip] != next) points.push_back(next);
      }
      if (points.empty()) continue;
      const auto start = Clock::now();
      std::vector<search::PointRow> rows(points.size());
      search::for_each(points.size(), threads, [&](std::size_t i) { rows[i] = search::run_point(sweep, constraints, points[i], load, scenario_.options()); });
      if (const auto added = store.add(rows); !added) {
        progress.end();
        return refused(s, added.error());
      }
      done += rows.size();
      progress.at(done);
      // About half a second of work between two commits: little is lost by a kill, and the disk is not what takes the time.
      const double spent = since(start);
      if (spent < 0.25) batch = std::min<std::size_t>(batch * 2, 4096);
      if (spent > 1 && batch > static_cast<std::size_t>(threads)) batch /= 2;
    }
    progress.end();
    return conclude(s, store, sweep.size());
  }

  int conclude(Streams& s, const search::Store& store, std::uint64_t points) const {
    std::map<std::string, std::int64_t> outcomes;
    std::map<std::pair<std::string, std::string>, std::int64_t> reasons;
    std::vector<Value> best;
    std::string lines;
    const bool json = output_.json_to_stdout() || !output_.json.empty();
    const auto faster = [](const Value& a, const Value& b) { return a.at("tokens_per_s_per_gpu").as_double() > b.at("tokens_per_s_per_gpu").as_double(); };
    const auto read = store.each([&](const std::string& text) {
      if (json) lines += text + "\n";
      const auto row = document::parse(text, store_);
      if (!row) return false;
      const std::string& outcome = row->at("outcome").as_string();
      ++outcomes[outcome];
      if (!row->at("reasons").items().empty()) {
        const Value& r = row->at("reasons").items()[0];
        const std::string reason = search::reason_of(r.at("pointer").as_string(), r.at("text").as_string());
        ++reasons[{outcome, outcome == "refused" ? search::reason_class(reason) : reason}];
      }
      if (outcome == "fits") {
        best.insert(std::upper_bound(best.begin(), best.end(), *row, faster), *row);
        if (best.size() > 10) best.pop_back();
      }
      return true;
    });
    if (!read) return refused(s, read.error());
    if (output_.json_to_stdout()) return print(s, lines);
    if (!output_.json.empty())
      if (const auto written = document::write_file(output_.json, lines); !written) return refused(s, written.error());

    std::string text = fmt::format("{} points: {} fit, {} do not fit, {} refused, {} excluded\n", points, outcomes["fits"], outcomes["does_not_fit"], outcomes["refused"], outcomes["excluded"]);
    std::vector<std::pair<std::int64_t, std::string>> counted;
    for (const auto& [reason, count] : reasons) counted.emplace_back(-count, reason.first + ": " + reason.second);
    std::sort(counted.begin(), counted.end());
    constexpr std::size_t kShown = 12;
    for (std::size_t i = 0; i < counted.size() && i < kShown; ++i) text += report::wrapped(fmt::format("{:>7} {}", -counted[i].first, counted[i].second), 10, 2);
    if (counted.size() > kShown) text += fmt::format("  and {} more reasons; orrery sweep show {} --where 'outcome == \"refused\"' lists them\n", counted.size() - kShown, store_);
    if (!best.empty()) text += "\nmost tokens a second and GPU\n" + rows_table(best);
    return print(s, text);
  }

  ScenarioOptions scenario_;
  OutputOptions output_;
  std::vector<std::string> vary_, zip_, where_;
  std::string sample_, store_;
  std::int64_t max_runs_ = 100'000;
  std::unique_ptr<Verb> show_;
  bool showing_ = false;
  std::optional<Arguments> arguments_;
};

}  // namespace

std::unique_ptr<Verb> make_sweep() { return std::make_unique<SweepVerb>(); }

}  // namespace orrery::cli
