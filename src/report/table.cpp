// The table for a terminal: what the numbers mean, how fast, where the time goes, whether it fits.
#include <algorithm>
#include <cmath>

#include "orrery/report/report.hpp"
#include "report/lines.hpp"

namespace orrery::report {

namespace {

using metrics::Summary;

constexpr std::size_t kCollectivesShown = 6;

std::string title(const Summary& s, const document::Value& scenario) {
  const document::Value& name = scenario.at("name");
  const std::string what = fmt::format("{} on {} x {}", s.basis.model, s.ranks, s.basis.gpu);
  const bool named = name.is_string() && !name.as_string().empty() && name.as_string() != what;
  return fitted(named ? fmt::format("{}: {}", name.as_string(), what) : what, kColumns);
}

/// Whether the model has attention that a mask could change.
bool attends(const document::Value& scenario) {
  const document::Value& family = scenario.at("model").at("family");
  return family != document::Value("convolutional") && family != document::Value("mlp") && family != document::Value("recommendation");
}

/// Whether rates are told by sample: images and rows of tables are what people count there.
bool by_sample(const document::Value& scenario) {
  const document::Value& family = scenario.at("model").at("family");
  return !attends(scenario) || family == document::Value("vision_transformer") || family == document::Value("diffusion_transformer");
}

/// Dense peak and clock assumed, FLOP convention, stack and NCCL version, and what the step time stands on.
std::string meaning(const Summary& s, const document::Value& scenario) {
  std::string origins;
  for (std::size_t i = 0; i < kOriginCount; ++i)
    if (s.origins[i] >= 0.0005) origins += fmt::format("{}{} {:.0f}%", origins.empty() ? "" : ", ", kOriginNames[i], std::round(100 * s.origins[i]));
  const std::string peak = s.throughput.peak_tflops ? fmt::format("{:.0f} TFLOP/s", *s.throughput.peak_tflops) : "unknown";
  return wrapped(fmt::format("dense {} peak {} at {:.0f} MHz; exact FLOPs{}; {}, NCCL {}; time by origin: {}", s.throughput.peak_dtype, peak, s.basis.clock_mhz,
                             !attends(scenario) ? "" : s.basis.causal ? ", causal" : ", full attention", s.basis.stack, s.basis.nccl_version, origins.empty() ? "none" : origins));
}

std::string row(std::string_view name, const std::string& value, const std::string& remark = "") {
  const std::string line = fmt::format("  {:<22}{:>14}{}{}", name, value, remark.empty() ? "" : "  ", remark);
  return fitted(line, kColumns) + "\n";
}

std::string speed(const Summary& s, bool samples) {
  const metrics::Throughput& t = s.throughput;
  const auto of_peak = [](std::string_view name, const std::optional<double>& v) {
    return v ? fmt::format("{} {}", name, percent(*v)) : fmt::format("{} unknown", name);
  };
  std::string out = row("step", seconds(s.step_s), fmt::format("{} to {} ({})", seconds(s.low_s), seconds(s.high_s), s.band_basis));
  const double tokens_per_sample = t.samples_per_s > 0 ? t.tokens_per_s / t.samples_per_s : 1;
  out += row(samples ? "samples/s" : "tokens/s", fmt::format("{:.0f}", samples ? t.samples_per_s : t.tokens_per_s),
             fmt::format("{:.1f} per GPU", samples ? t.tokens_per_s_per_gpu / tokens_per_sample : t.tokens_per_s_per_gpu));
  out += row("model TFLOP/s/GPU", fmt::format("{:.1f}", t.model_tflops_per_gpu), of_peak("MFU", t.mfu));
  out += row("hardware TFLOP/s/GPU", fmt::format("{:.1f}", t.hardware_tflops_per_gpu), of_peak("HFU", t.hfu));
  if (s.stages.size() > 1)
    out += row("pipeline efficiency", percent(t.pipeline_efficiency), fmt::format("closed form {}", percent(t.closed_form_efficiency)));
  if (s.energy) out += row("GPU energy", fmt::format("{:.4g} J", s.energy->step_j), fmt::format("{:.0f} W mean, {:.3g} J/token", s.energy->gpu_mean_w, s.energy->j_per_token));
  return out;
}

std::string time_row(std::string_view name, double part, double whole) { return row(name, seconds(part), whole > 0 ? percent(part / whole) : ""); }

std::string where_time_goes(const Summary& s) {
  const metrics::Breakdown& b = s.breakdown;
  std::string out = "\n  mean over ranks\n" + time_row("compute", b.compute_s, s.step_s);
  for (std::size_t c = 0; c < metrics::kOperationClasses; ++c) {
    std::string name = std::string("  ") + metrics::kOperationClassNames[c];
    std::replace(name.begin(), name.end(), '_', ' ');
    if (s.compute_by_class_s[c] > 0) out += time_row(name, s.compute_by_class_s[c], s.step_s);
  }
  out += time_row("optimizer", b.optimizer_s, s.step_s);
  for (std::size_t x = 0; x < metrics::kExposedAxes; ++x)
    if (b.exposed_comm_s[x] > 0) out += time_row(fmt::format("exposed {}", metrics::kExposedAxisNames[x]), b.exposed_comm_s[x], s.step_s);
  out += time_row("bubble", b.bubble_s, s.step_s);
  return out + time_row("launch, host", b.other_s, s.step_s);
}

std::string collectives(const Summary& s) {
  std::vector<const metrics::CollectiveRow*> rows;
  for (const metrics::CollectiveRow& r : s.collectives) rows.push_back(&r);
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) { return std::pair(a->exposed_s, a->time_s) > std::pair(b->exposed_s, b->time_s); });
  if (rows.empty()) return "";
  const std::size_t shown = std::min(rows.size(), kCollectivesShown);
  std::string out = fmt::format("\n  {:<26}{:>6}{:>11}{:>12}{:>12}{:>9}\n", "collective", "ranks", "size", "in flight", "exposed", "busbw");
  for (std::size_t i = 0; i < shown; ++i) {
    const metrics::CollectiveRow& r = *rows[i];
    const std::string name = fmt::format("{} {} {}", collective::to_string(r.kind), workload::to_string(r.axis), collective::to_string(r.algorithm));
    out += fmt::format("  {:<26}{:>6}{:>11}{:>12}{:>12}{:>9.1f}\n", fitted(name, 26), r.ranks, bytes(static_cast<double>(r.bytes)), seconds(r.time_s), seconds(r.exposed_s),
                       r.busbw_gb_per_s);
  }
  if (shown < rows.size()) out += fmt::format("  and {} smaller rows in the JSON report\n", rows.size() - shown);
  return out;
}

std::string gib(std::int64_t n) { return fmt::format("{:.2f} GiB", to_gib(Bytes(n))); }

std::string memory(const metrics::Memory& m) {
  std::string out = fmt::format("\n  memory of rank {}\n", m.worst_rank);
  for (const auto& [name, size] : m.by_kind) out += row(name, gib(size));
  out += row("peak", gib(m.peak_bytes), fmt::format("allocated {:.2f}, reserved {}", to_gib(Bytes(m.allocated_bytes)), gib(m.reserved_bytes)));
  if (m.host_bytes) out += row("host", gib(*m.host_bytes));
  if (m.drive_bytes) out += row("drives", gib(*m.drive_bytes));
  if (m.fits) return out + fmt::format("  fits in {}: {} to spare\n", gib(m.capacity_bytes), gib(m.capacity_bytes - m.peak_bytes));
  out += fmt::format("  does not fit in {}: {} too much\n", gib(m.capacity_bytes), gib(m.peak_bytes - m.capacity_bytes));
  for (const std::string& a : m.advice) out += "    " + a + "\n";
  return out;
}

}  // namespace

std::string table(const Subject& subject, bool bold) {
  const Summary& s = subject.summary;
  const std::string name = title(s, subject.scenario);
  return (bold ? "\x1b[1m" + name + "\x1b[0m" : name) + "\n" + meaning(s, subject.scenario) + "\n" + speed(s, by_sample(subject.scenario)) + where_time_goes(s) + collectives(s) + memory(s.memory);
}

std::string memory_table(const Subject& subject) {
  const Summary& s = subject.summary;
  std::string out = title(s, subject.scenario) + "\n" + memory(s.memory);
  if (s.stages.size() < 2) return out;
  out += fmt::format("\n  {:>5}{:>8}{:>8}{:>12}\n", "stage", "layers", "ranks", "peak GiB");
  for (const metrics::Stage& r : s.stages) out += fmt::format("  {:>5}{:>8}{:>8}{:>12.2f}\n", r.stage, r.layers, r.ranks, to_gib(Bytes(r.peak_bytes)));
  return out;
}

}  // namespace orrery::report
