// orrery memory: the memory part of a simulation, what fits beside it, and the worst rank's step as a picture.
#include <fmt/format.h>

#include "command.hpp"
#include "common.hpp"
#include "orrery/report/memory_chart.hpp"
#include "orrery/search/fit.hpp"

namespace orrery::cli {

namespace {

std::string gib(std::int64_t bytes) { return fmt::format("{:.2f}", to_gib(Bytes(bytes))); }

std::string told(const search::Largest& l) {
  if (!l.value) return fmt::format("  {:<26} none: not even {} fits\n", l.member, l.smallest);
  return fmt::format("  {:<26}{:>9}  (now {}) {} GiB, step {:.4g} s{}\n", l.member, *l.value, l.stated, gib(l.peak_bytes), l.step_s,
                     l.bounded ? "; memory is not what ends it" : "");
}

class Memory : public Verb {
 public:
  void define(Arguments arguments) override {
    scenario_.define(arguments);
    output_.define(arguments);
    arguments.flag("--largest", largest_, "the largest microbatch and the longest sequence that fit");
    arguments.flag("--chart", chart_, "print the worst rank's memory over the step, a letter per kind");
    arguments.text("--timeline", timeline_, "draw the worst rank's memory over the step, every kind stacked (SVG)", "FILE");
  }

  int run(Streams& s) override {
    const auto overrides = scenario_.overrides();
    if (!overrides) return refused(s, overrides.error());
    const auto document = document::load_scenario(scenario_.scenario, *overrides);
    if (!document) return refused(s, document.error());
    if (timeline_ == "-") return usage_error(s, "--timeline -: a picture goes to a file; standard output is for the table or --json -");
    if (!timeline_.empty() && same_file(timeline_, output_.json)) return usage_error(s, fmt::format("--timeline and --json both write {}", timeline_));
    if (same_file(timeline_, scenario_.scenario)) return usage_error(s, fmt::format("--timeline {} would replace the scenario", timeline_));
    const auto prediction = search::predict(*document, scenario_.options());
    if (!prediction) return refused(s, prediction.error());
    Extra extra;
    if (!timeline_.empty() || chart_) {
      if (const int code = draw(s, *document, prediction->summary, extra); code != kSuccess) return code;
    }
    print_warnings(s, output_, prediction->summary.warnings, document->file);
    const report::Subject shown = subject(*prediction);
    what_fits(*prediction, *overrides, extra);
    if (const int code = deliver(s, output_, with(report::json(shown), extra), report::memory_table(shown) + extra.text); code != kSuccess) return code;
    return verdict(s, *prediction, scenario_.strict);
  }

 private:
  /// What is told beside the memory part of the report: as text, and as members of the report's "memory".
  struct Extra {
    std::string text;
    document::Value::Object members;
  };

  static document::Value with(document::Value report, const Extra& extra) {
    document::Value::Object all = report.members();
    for (auto& [name, value] : all) {
      if (name != "memory") continue;
      document::Value::Object memory = value.members();
      memory.insert(memory.end(), extra.members.begin(), extra.members.end());
      value = document::Value(std::move(memory));
    }
    return document::Value(std::move(all));
  }

  static document::Value timeline(const report::MemorySvg& memory, const metrics::Summary& summary) {
    constexpr std::size_t kColumns = 200;
    const auto kinds = [&](const std::vector<std::int64_t>& held) {
      document::Value::Object object;
      for (std::size_t k = 0; k < held.size(); ++k) object.emplace_back(memory.kinds()[k], document::Value(to_gib(Bytes(held[k]))));
      return object;
    };
    document::Value::Array columns;
    for (const report::MemorySvg::Column& c : memory.columns(kColumns, summary.step_ps)) {
      columns.emplace_back(document::Value::Object{{"at_s", to_seconds(c.at).value()}, {"by_kind_gib", kinds(c.held)}});
    }
    const report::MemorySvg::Peak peak = memory.peak();
    return document::Value::Object{{"rank", summary.memory.worst_rank}, {"peak_at_s", to_seconds(peak.at).value()}, {"peak_gib", to_gib(Bytes(peak.bytes))},
                                   {"by_kind_gib", kinds(peak.held)},   {"columns", std::move(columns)}};
  }

  /// Plays the step once more and listens to the worst rank.
  int draw(Streams& s, const document::Document& document, const metrics::Summary& summary, Extra& extra) const {
    search::Recorder recorder({static_cast<std::uint32_t>(summary.memory.worst_rank)});
    simulate::Options options = scenario_.options();
    options.sink = &recorder;
    const auto outcome = simulate::simulate(document, options);
    if (!outcome) return refused(s, outcome.error());
    report::MemorySvg picture(recorder.ranks().front(), search::describe(*outcome).memory_kinds);
    recorder.replay(picture);
    extra.members.emplace_back("timeline", timeline(picture, summary));
    if (chart_) extra.text += fmt::format("\n  tensors of rank {} over the step\n", summary.memory.worst_rank) + report::memory_chart(picture, summary.step_ps, summary.memory.capacity_bytes);
    if (timeline_.empty()) return kSuccess;
    const std::string title = fmt::format("tensors of rank {}: {} GiB at {:.3f} s; the line is the device's {} GiB", summary.memory.worst_rank, gib(picture.peak().bytes),
                                          to_seconds(picture.peak().at).value(), gib(summary.memory.capacity_bytes));
    if (const auto written = document::write_file(timeline_, picture.svg(title, summary.step_ps, summary.memory.capacity_bytes)); !written) return refused(s, written.error());
    return kSuccess;
  }

  static document::Value told_json(const search::Largest& l) {
    return document::Value::Object{{"member", l.member}, {"stated", l.stated}, {"value", l.value ? document::Value(*l.value) : document::Value()}, {"smallest_tried", l.smallest},
                                   {"bounded", l.bounded}, {"peak_gib", to_gib(Bytes(l.peak_bytes))}, {"step_s", l.step_s}};
  }

  void what_fits(const search::Prediction& stated, const std::vector<document::Override>& overrides, Extra& extra) const {
    const bool cures = !stated.summary.memory.fits;
    if ((!largest_ && !cures) || (output_.quiet && output_.json.empty())) return;
    const search::Attempt attempt = [&](const std::vector<document::Override>& more) -> Result<search::Prediction> {
      std::vector<document::Override> all = overrides;
      all.insert(all.end(), more.begin(), more.end());
      const auto changed = document::load_scenario(scenario_.scenario, all);
      if (!changed) return fail(changed.error());
      return search::predict(*changed, scenario_.options());
    };
    std::string& out = extra.text;
    if (largest_) {
      const search::Largest micro = search::largest_micro_batch(stated, attempt), sequence = search::largest_sequence(stated, attempt);
      out += "\n  largest that fits, all else equal\n" + told(micro) + told(sequence);
      extra.members.emplace_back("largest", document::Value::Array{told_json(micro), told_json(sequence)});
    }
    if (!cures) return;
    const std::vector<search::Cure> list = search::cures(stated, attempt);
    out += list.empty() ? "\n  no one or two of the usual changes make it fit\n" : "\n  changes with which it fits, cheapest first\n";
    document::Value::Array changes;
    for (const search::Cure& c : list) {
      out += fmt::format("  {:<52}{:>8} GiB{:>10.4g} s\n", c.change, gib(c.peak_bytes), c.step_s);
      changes.emplace_back(document::Value::Object{{"change", c.change}, {"peak_gib", to_gib(Bytes(c.peak_bytes))}, {"step_s", c.step_s}});
    }
    extra.members.emplace_back("changes", std::move(changes));
  }

  ScenarioOptions scenario_;
  OutputOptions output_;
  bool largest_ = false, chart_ = false;
  std::string timeline_;
};

}  // namespace

std::unique_ptr<Verb> make_memory() { return std::make_unique<Memory>(); }

}  // namespace orrery::cli
