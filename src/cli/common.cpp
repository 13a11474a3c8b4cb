#include "common.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ostream>

namespace orrery::cli {

void ScenarioOptions::define(Arguments& arguments, bool required) {
  arguments.positional("SCENARIO", scenario, "a scenario file, or - for standard input", required);
  arguments.repeated("--set", sets, "change a member before defaults; VALUE is JSON or a string", "PATH=VALUE");
  arguments.number("--seed", seed, 0, std::int64_t{1} << 53, "seed of all draws");
  arguments.repeated("--calibration", calibration, "calibration profile; repeat for several, later ones win", "NAME");
  arguments.flag("--no-fold", fold, "play every rank by itself", false);
  arguments.flag("--strict", strict, "refuse what stands on datasheet or default numbers");
  arguments.number("--max-events", max_events, 1, INT64_MAX, "refuse a run of more events");
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

void OutputOptions::define(Arguments& arguments) {
  arguments.text("--json", json, "write JSON to FILE, or to standard output with -", "FILE");
  arguments.flag("--quiet", quiet, "no warnings");
  arguments.number("--threads", threads, 1, 1024, "threads, where there are several runs");
}

bool same_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || a == "-" || b == "-") return false;
  std::error_code error;
  if (!std::filesystem::exists(a, error) && !std::filesystem::exists(b, error)) return std::filesystem::weakly_canonical(a, error) == std::filesystem::weakly_canonical(b, error);
  return std::filesystem::is_regular_file(a, error) && std::filesystem::equivalent(a, b, error);
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
  std::vector<std::string> parts;
  for (const metrics::Warning& w : warnings)
    if (w.code == "unconfirmed-input") parts.push_back(w.pointer);
  const bool together = parts.size() > 1;
  if (together) s.err << fmt::format("orrery: warning: {}: no source confirms some members of {}; \"warnings\" in the JSON report names them\n", file, fmt::join(parts, ", "));
  for (const metrics::Warning& w : warnings)
    if (!together || w.code != "unconfirmed-input") s.err << "orrery: warning: " << to_string(Diagnostic{file, w.pointer, w.text}) << "\n";
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
    const metrics::Memory& m = summary.memory;
    s.err << fmt::format("orrery: does not fit: rank {} needs {:.2f} GiB of {:.2f}, {:.2f} GiB too much{}\n", m.worst_rank, to_gib(Bytes(m.peak_bytes)), to_gib(Bytes(m.capacity_bytes)),
                         to_gib(Bytes(m.peak_bytes - m.capacity_bytes)), m.advice.empty() ? "" : "; " + m.advice.front());
    code = kNo;
  }
  if (strict && strict_verdict(s, summary) != kSuccess) code = kNo;
  return code;
}

int strict_verdict(Streams& s, const metrics::Summary& summary) {
  int code = kSuccess;
  for (const Origin weak : {Origin::kDatasheet, Origin::kDefault}) {
    double share = summary.origins[static_cast<std::size_t>(weak)];
    if (share <= 0) continue;
    code = kNo;
    const std::string much = share < 0.001 ? "less than 0.1 %" : fmt::format("{:.1f} %", 100 * share);
    // What is left after communication and host is kernels. Host times are a stack's, and no stack's are measured.
    const double whole = summary.step_s - summary.breakdown.bubble_s;
    std::vector<std::string> parts;
    for (const metrics::CollectiveRow& row : summary.collectives) {
      if (row.origin != weak || row.exposed_s <= 0) continue;
      const std::string name = fmt::format("{} over {} ranks", collective::to_string(row.kind), row.ranks);
      if (std::find(parts.begin(), parts.end(), name) == parts.end()) parts.push_back(name);
      share -= row.exposed_s / whole;
    }
    const bool host = weak == Origin::kDefault && summary.breakdown.other_s > 0;
    if (host) {
      parts.emplace_back("launch and host times");
      share -= summary.breakdown.other_s / whole;
    }
    if (share > 1e-6) parts.emplace_back("kernels");
    s.err << fmt::format("orrery: --strict: {} of the step time stands on {} numbers: {}; measurements of them, as a calibration profile of {}{}, lift this\n", much, to_string(weak),
                         fmt::join(parts, ", "), summary.basis.gpu, host ? " or in the stack" : "");
  }
  return code;
}

}  // namespace orrery::cli
