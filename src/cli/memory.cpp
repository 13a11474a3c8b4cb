// orrery memory: the memory part of a simulation, what fits beside it, and the worst rank's step as a picture.
#include <fmt/format.h>

#include "command.hpp"
#include "common.hpp"
#include "orrery/report/memory_svg.hpp"
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
    if (!timeline_.empty()) {
      if (const int code = draw(s, *document, prediction->summary); code != kSuccess) return code;
    }
    print_warnings(s, output_, prediction->summary.warnings, document->file);
    const report::Subject shown = subject(*prediction);
    if (const int code = deliver(s, output_, report::json(shown), report::memory_table(shown) + what_fits(*prediction, *overrides)); code != kSuccess) return code;
    return verdict(s, *prediction, scenario_.strict);
  }

 private:
  /// Plays the step once more and listens to the worst rank.
  int draw(Streams& s, const document::Document& document, const metrics::Summary& summary) const {
    search::Recorder recorder({static_cast<std::uint32_t>(summary.memory.worst_rank)});
    simulate::Options options = scenario_.options();
    options.sink = &recorder;
    const auto outcome = simulate::simulate(document, options);
    if (!outcome) return refused(s, outcome.error());
    report::MemorySvg picture(recorder.ranks().front(), search::describe(*outcome).memory_kinds);
    recorder.replay(picture);
    const std::string title = fmt::format("tensors of rank {}: {} GiB at {:.3f} s; the line is the device's {} GiB", summary.memory.worst_rank, gib(picture.peak().bytes),
                                          to_seconds(picture.peak().at).value(), gib(summary.memory.capacity_bytes));
    if (const auto written = document::write_file(timeline_, picture.svg(title, summary.step_ps, summary.memory.capacity_bytes)); !written) return refused(s, written.error());
    return kSuccess;
  }

  std::string what_fits(const search::Prediction& stated, const std::vector<document::Override>& overrides) const {
    const bool cures = !stated.summary.memory.fits;
    if ((!largest_ && !cures) || output_.quiet) return {};
    const search::Attempt attempt = [&](const std::vector<document::Override>& more) -> Result<search::Prediction> {
      std::vector<document::Override> all = overrides;
      all.insert(all.end(), more.begin(), more.end());
      const auto changed = document::load_scenario(scenario_.scenario, all);
      if (!changed) return fail(changed.error());
      return search::predict(*changed, scenario_.options());
    };
    std::string out;
    if (largest_) out += "\n  largest that fits, all else equal\n" + told(search::largest_micro_batch(stated, attempt)) + told(search::largest_sequence(stated, attempt));
    if (!cures) return out;
    const std::vector<search::Cure> list = search::cures(stated, attempt);
    out += list.empty() ? "\n  no one or two of the usual changes make it fit\n" : "\n  changes with which it fits, cheapest first\n";
    for (const search::Cure& c : list) out += fmt::format("  {:<52}{:>8} GiB{:>10.4g} s\n", c.change, gib(c.peak_bytes), c.step_s);
    return out;
  }

  ScenarioOptions scenario_;
  OutputOptions output_;
  bool largest_ = false;
  std::string timeline_;
};

}  // namespace

std::unique_ptr<Verb> make_memory() { return std::make_unique<Memory>(); }

}  // namespace orrery::cli
