// orrery simulate: the road, once.
#include <fmt/format.h>

#include "command.hpp"
#include "common.hpp"
#include "orrery/report/timeline_svg.hpp"
#include "orrery/report/trace.hpp"
#include "trace_ranks.hpp"

namespace orrery::cli {

namespace {

class Simulate : public Verb {
 public:
  void define(Arguments arguments) override {
    scenario_.define(arguments);
    output_.define(arguments);
    arguments.text("--trace", trace_, "write a timeline for Perfetto or chrome://tracing", "FILE");
    arguments.text("--timeline", timeline_, "draw the pipeline: a lane per stage, a box per pass (SVG)", "FILE");
    arguments.text("--trace-ranks", trace_ranks_, "ranks that both show, as 0,8,16-19; unless given the lowest of every stage", "LIST");
    arguments.checked("--trace-format", trace_format_, "chrome, or perfetto (not built yet)", [](const std::string& format) {
      if (format == "chrome") return std::string();
      return format == "perfetto" ? std::string("\"perfetto\" is not built yet; Perfetto opens chrome") : fmt::format("\"{}\" is unknown; use chrome", format);
    });
    arguments.not_built("--html");
    arguments.not_built("--openmetrics");
  }

  int run(Streams& s) override {
    const auto overrides = scenario_.overrides();
    if (!overrides) return refused(s, overrides.error());
    const auto document = document::load_scenario(scenario_.scenario, *overrides);
    if (!document) return refused(s, document.error());

    if (trace_ == "-") return usage_error(s, "--trace -: a trace goes to a file; standard output is for the table or --json -");
    if (!trace_.empty() && same_file(trace_, output_.json)) return usage_error(s, fmt::format("--trace and --json both write {}", trace_));
    if (same_file(trace_, scenario_.scenario)) return usage_error(s, fmt::format("--trace {} would replace the scenario", trace_));
    if (same_file(output_.json, scenario_.scenario)) return usage_error(s, fmt::format("--json {} would replace the scenario", output_.json));

    if (timeline_ == "-") return usage_error(s, "--timeline -: a picture goes to a file; standard output is for the table or --json -");
    for (const auto& [option, path] : {std::pair<const char*, const std::string&>{"--trace", trace_}, {"--json", output_.json}}) {
      if (!timeline_.empty() && same_file(timeline_, path)) return usage_error(s, fmt::format("--timeline and {} both write {}", option, timeline_));
    }
    if (same_file(timeline_, scenario_.scenario)) return usage_error(s, fmt::format("--timeline {} would replace the scenario", timeline_));

    simulate::Options options = scenario_.options();
    std::optional<search::Recorder> recorder;
    if (!trace_.empty() || !timeline_.empty()) {
      auto ranks = trace_ranks_.empty() ? Result<std::vector<std::uint32_t>>(stage_ranks(document->value)) : read_ranks(trace_ranks_);
      if (!ranks) return refused(s, ranks.error());
      recorder.emplace(std::move(*ranks));
      options.sink = &*recorder;
    } else if (!trace_ranks_.empty()) {
      return usage_error(s, "--trace-ranks says what a trace shows, but no --trace or --timeline FILE is asked for");
    }

    const auto outcome = simulate::simulate(*document, options);
    if (!outcome) return refused(s, outcome.error());
    const search::Prediction prediction = search::summarise(*outcome);
    if (recorder) {
      if (const int code = write_trace(s, *recorder, *outcome); code != kSuccess) return code;
    }
    print_warnings(s, output_, prediction.summary.warnings, document->file);
    const report::Subject shown = subject(prediction);
    if (const int code = deliver(s, output_, report::json(shown), report::table(shown, s.bold)); code != kSuccess) return code;
    return verdict(s, prediction, scenario_.strict);
  }

 private:
  int write_trace(Streams& s, const search::Recorder& recorder, const simulate::Outcome& outcome) const {
    const engine::Input& full = outcome.lowered->input;
    if (recorder.ranks().back() >= full.ranks.size())
      return usage_error(s, fmt::format("--trace-ranks: there is no rank {}; the job has {}", recorder.ranks().back(), full.ranks.size()));
    if (!timeline_.empty()) {
      report::TimelineSvg picture(full, *outcome.program, recorder.ranks());
      recorder.replay(picture);
      const plan::Parallelism& p = outcome.job.parallelism;
      const std::string title = fmt::format("{}: {} stages, {} chunks per rank, {} microbatches", plan::to_string(p.schedule), p.pp, plan::chunks_per_rank(p),
                                            plan::microbatches(p, outcome.job.training));
      if (const auto written = document::write_file(timeline_, picture.svg(title)); !written) return refused(s, written.error());
    }
    if (trace_.empty()) return kSuccess;
    const metrics::Inputs inputs = search::describe_full(outcome);
    report::ChromeTrace trace(full, inputs, *outcome.program, recorder.ranks());
    recorder.replay(trace);
    if (const auto written = document::write_file(trace_, trace.json()); !written) return refused(s, written.error());
    return kSuccess;
  }

  ScenarioOptions scenario_;
  OutputOptions output_;
  std::string trace_, timeline_, trace_ranks_, trace_format_ = "chrome";
};

}  // namespace

std::unique_ptr<Verb> make_simulate() { return std::make_unique<Simulate>(); }

}  // namespace orrery::cli
