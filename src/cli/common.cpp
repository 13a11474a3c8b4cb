#include "common.hpp"

#include <fmt/format.h>
#include <ostream>

namespace orrery::cli {

void ScenarioOptions::define(CLI::App& app) {
  app.add_option("SCENARIO", scenario, "a scenario file, or - for standard input")->required();
  app.add_option("--set", sets, "PATH=VALUE: change a member before defaults; VALUE is JSON or a string")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("PATH=VALUE");
  app.add_option("--seed", seed, "seed of all draws");
  app.add_option("--calibration", calibration, "calibration profile; repeat for several, later ones win")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("!--no-fold", fold, "play every rank by itself");
  app.add_flag("--strict", strict, "refuse what stands on datasheet or default numbers");
  app.add_option("--max-events", max_events, "refuse a run of more events")->check(CLI::PositiveNumber);
}

Result<document::Override> read_set(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return fail("", "", fmt::format("--set {}: expected PATH=VALUE", text));
  return document::Override{text.substr(0, equals), text.substr(equals + 1)};
}

Result<std::vector<document::Override>> ScenarioOptions::overrides() const {
  std::vector<document::Override> list;
  Diagnostics problems;
  for (const std::string& text : sets) {
    auto set = read_set(text);
    if (set)
      list.push_back(std::move(*set));
    else
      problems.insert(problems.end(), set.error().begin(), set.error().end());
  }
  if (!problems.empty()) return fail(problems);
  if (seed) list.push_back({"/seed", fmt::format("{}", *seed)});
  if (!calibration.empty()) {
    document::Value::Array names;
    for (const std::string& name : calibration) names.emplace_back(name);
    list.push_back({"/calibration", document::dump(names.size() == 1 ? names[0] : document::Value(names), -1)});
  }
  return list;
}

simulate::Options ScenarioOptions::options() const {
  simulate::Options o;
  o.fold = fold;
  o.strict = strict;
  o.max_events = max_events;
  return o;
}

void OutputOptions::define(CLI::App& app) {
  app.add_option("--json", json, "write JSON to FILE, or to standard output with -")->type_name("FILE");
  app.add_flag("--quiet", quiet, "no warnings");
  app.add_option("--threads", threads, "threads, where there are several runs")->check(CLI::PositiveNumber);
}

void not_built(CLI::App& app, const std::string& name, const std::string& what) {
  app.add_option_function<std::string>(name, [](const std::string&) {}, what + " (not built yet)")
      ->check([](const std::string&) { return std::string("not built yet"); })
      ->group("");
}

int print(Streams& s, const std::string& text) {
  s.out << text << std::flush;
  if (s.out) return kSuccess;
  return usage_error(s, "standard output cannot be written");
}

int usage_error(Streams& s, const std::string& text) {
  s.err << "orrery: " << text << "\n";
  return kBadInput;
}

int refused(Streams& s, const Diagnostics& problems) {
  for (const Diagnostic& d : problems) s.err << "orrery: " << to_string(d) << "\n";
  return kBadInput;
}

void print_warnings(Streams& s, const OutputOptions& output, const std::vector<metrics::Warning>& warnings, const std::string& file) {
  if (output.quiet) return;
  for (const metrics::Warning& w : warnings) s.err << "orrery: warning: " << to_string(Diagnostic{file, w.pointer, w.text}) << "\n";
}

int deliver(Streams& s, const OutputOptions& output, const document::Value& json, const std::string& text) {
  if (output.json_to_stdout()) return print(s, document::dump(json) + "\n");
  if (!output.json.empty()) {
    if (const auto written = document::write_file(output.json, document::dump(json) + "\n"); !written) return refused(s, written.error());
  }
  return print(s, text);
}

report::Subject subject(const search::Prediction& prediction) { return {prediction.summary, prediction.scenario.value, prediction.scenario.defaults_from}; }

int verdict(Streams& s, const search::Prediction& prediction, bool strict) {
  int code = kSuccess;
  const metrics::Summary& summary = prediction.summary;
  if (!summary.memory.fits) {
    s.err << fmt::format("orrery: does not fit: rank {} needs {:.2f} GiB of {:.2f}\n", summary.memory.worst_rank, to_gib(Bytes(summary.memory.peak_bytes)),
                         to_gib(Bytes(summary.memory.capacity_bytes)));
    code = kNo;
  }
  if (strict) {
    for (Origin weak : {Origin::kDatasheet, Origin::kDefault}) {
      const double share = summary.origins[static_cast<std::size_t>(weak)];
      if (share <= 0) continue;
      s.err << fmt::format("orrery: --strict: {:.1f} % of the step time stands on {} numbers\n", 100 * share, to_string(weak));
      code = kNo;
    }
  }
  return code;
}

}  // namespace orrery::cli
