// A baseline against changed scenarios, and the terms of the step that explain each difference.
#include <algorithm>
#include <cmath>

#include "orrery/report/report.hpp"
#include "report/lines.hpp"

namespace orrery::report {

namespace {

using document::Value;
using Object = Value::Object;

std::vector<std::pair<std::string, double>> terms(const metrics::Summary& s) {
  std::vector<std::pair<std::string, double>> list;
  for (std::size_t c = 0; c < metrics::kOperationClasses; ++c) list.emplace_back(metrics::kOperationClassNames[c], s.compute_by_class_s[c]);
  list.emplace_back("optimizer", s.breakdown.optimizer_s);
  for (std::size_t x = 0; x < metrics::kExposedAxes; ++x) list.emplace_back(std::string("exposed_comm.") + metrics::kExposedAxisNames[x], s.breakdown.exposed_comm_s[x]);
  list.emplace_back("bubble", s.breakdown.bubble_s);
  list.emplace_back("other", s.breakdown.other_s);
  return list;
}

Value difference_json(const std::vector<Term>& terms) {
  Value::Array rows;
  for (const Term& t : terms)
    rows.push_back(Object{{"term", t.name}, {"baseline_s", t.baseline_s}, {"changed_s", t.changed_s}, {"difference_s", t.difference_s()}});
  return rows;
}

}  // namespace

std::vector<Term> difference(const metrics::Summary& baseline, const metrics::Summary& changed) {
  const auto before = terms(baseline), after = terms(changed);
  std::vector<Term> list;
  for (std::size_t i = 0; i < before.size(); ++i) list.push_back({before[i].first, before[i].second, after[i].second});
  std::sort(list.begin(), list.end(), [](const Term& a, const Term& b) {
    const double da = std::abs(a.difference_s()), db = std::abs(b.difference_s());
    return da != db ? da > db : a.name < b.name;
  });
  return list;
}

document::Value whatif_json(const Subject& baseline, std::span<const Alternative> alternatives) {
  Value::Array rows;
  for (const Alternative& a : alternatives) {
    Object row{{"name", a.name}};
    Value::Array problems;
    for (const Diagnostic& d : a.problems) problems.push_back(Object{{"file", d.file}, {"pointer", d.pointer}, {"text", d.text}});
    row.emplace_back("refused", problems);
    Value ratio, terms_of_it, report;  // null where there is no answer
    if (a.subject != nullptr) {
      if (baseline.summary.step_s > 0) ratio = Value(a.subject->summary.step_s / baseline.summary.step_s);
      terms_of_it = difference_json(difference(baseline.summary, a.subject->summary));
      report = json(*a.subject);
    }
    row.emplace_back("step_ratio", std::move(ratio));
    row.emplace_back("difference", std::move(terms_of_it));
    row.emplace_back("report", std::move(report));
    rows.emplace_back(std::move(row));
  }
  return Object{{"schema", "orrery/whatif/1"}, {"orrery_version", Value(version())}, {"baseline", json(baseline)}, {"alternatives", rows}};
}

std::string whatif_table(const Subject& baseline, std::span<const Alternative> alternatives) {
  const metrics::Summary& base = baseline.summary;
  std::string out = table(baseline);
  for (const Alternative& a : alternatives) {
    out += fmt::format("\n{}\n", fitted("what if " + a.name, kColumns));
    if (a.subject == nullptr) {
      for (const Diagnostic& d : a.problems) out += wrapped("refused: " + to_string(d), 4, 2);
      continue;
    }
    const metrics::Summary& changed = a.subject->summary;
    const auto compared = [&](std::string_view name, const std::string& was, const std::string& is, const std::string& by) {
      std::string line = fmt::format("  {:<24}{:>16}{:>16}{:>16}", name, was, is, by);
      line.erase(line.find_last_not_of(' ') + 1);
      return line + "\n";
    };
    out += compared("", "baseline", "changed", "difference");
    const auto signed_seconds = [](double s) { return fmt::format("{}{}", s < 0 ? '-' : '+', seconds(std::abs(s))); };
    out += compared("step", seconds(base.step_s), seconds(changed.step_s), fmt::format("{:+.1f} %", base.step_s > 0 ? 100 * (changed.step_s / base.step_s - 1) : 0));
    out += compared("model TFLOP/s/GPU", fmt::format("{:.1f}", base.throughput.model_tflops_per_gpu), fmt::format("{:.1f}", changed.throughput.model_tflops_per_gpu),
                    fmt::format("{:+.1f}", changed.throughput.model_tflops_per_gpu - base.throughput.model_tflops_per_gpu));
    out += compared("peak memory", fmt::format("{:.2f} GiB", to_gib(Bytes(base.memory.peak_bytes))), fmt::format("{:.2f} GiB", to_gib(Bytes(changed.memory.peak_bytes))),
                    fmt::format("{:+.2f} GiB", to_gib(Bytes(changed.memory.peak_bytes - base.memory.peak_bytes))));
    out += compared("fits", base.memory.fits ? "yes" : "no", changed.memory.fits ? "yes" : "no", "");
    std::string terms;
    for (const Term& t : difference(base, changed))
      if (t.difference_s() != 0) terms += compared(t.name, seconds(t.baseline_s), seconds(t.changed_s), signed_seconds(t.difference_s()));
    out += terms.empty() ? "  no part of the step differs\n" : "  explained by\n" + terms;
  }
  return out;
}

}  // namespace orrery::report
