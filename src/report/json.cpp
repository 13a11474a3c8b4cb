// orrery/report/1: the contract of design 5.4, member by member and in its order.
#include "orrery/report/report.hpp"

#include <cmath>

namespace orrery::report {

namespace {

using document::Value;
using Object = Value::Object;
using metrics::Summary;

template <class T>
Value or_null(const std::optional<T>& v) {
  Value value;
  if (v) value = Value(*v);
  return value;
}
double gib(std::int64_t bytes) { return to_gib(Bytes(bytes)); }
Value text(std::string_view s) { return Value(s); }

Value defaults(const Subject& subject) {
  Object o;
  for (const auto& [pointer, from] : subject.defaults_from) o.emplace_back(pointer, Value(from));
  return o;
}

Value calibration(const Summary& s) {
  Value::Array rows;
  for (const metrics::CalibrationInfo& c : s.calibration)
    rows.push_back(Object{{"name", c.name},
                          {"provenance", c.provenance},
                          {"expected_error", Object{{"median", or_null(c.expected_error_median)}, {"p90", or_null(c.expected_error_p90)}}}});
  return rows;
}

Value named(const std::vector<std::pair<std::string, double>>& list) {
  Object o;
  for (const auto& [name, value] : list) o.emplace_back(name, std::isnan(value) ? Value() : Value(value));
  return o;
}

Value model(const Summary& s) {
  return Object{{"parameters", s.counts.parameters},
                {"parameters_without_embedding", s.counts.parameters_without_embedding},
                {"active_parameters", s.counts.active_parameters},
                {"trainable_parameters", s.counts.trainable_parameters},
                {"flops_per_token", named(metrics::flops_per_token(s.counts))}};
}

Value throughput(const metrics::Throughput& t) {
  return Object{{"tokens_per_s", t.tokens_per_s},
                {"tokens_per_s_per_gpu", t.tokens_per_s_per_gpu},
                {"samples_per_s", t.samples_per_s},
                {"skipped_steps", t.skipped_steps},
                {"useful_tokens_per_s", t.useful_tokens_per_s},
                {"model_tflops_per_gpu", t.model_tflops_per_gpu},
                {"hardware_tflops_per_gpu", t.hardware_tflops_per_gpu},
                {"mfu", or_null(t.mfu)},
                {"hfu", or_null(t.hfu)},
                {"flops_convention", "exact"},
                {"peak_tflops", or_null(t.peak_tflops)},
                {"peak_dtype", t.peak_dtype},
                {"pipeline_efficiency", t.pipeline_efficiency},
                {"pipeline_efficiency_closed_form", t.closed_form_efficiency},
                {"tflops_per_gpu", named(t.tflops_per_gpu)}};
}

Value breakdown(const metrics::Breakdown& b) {
  Object exposed;
  for (std::size_t x = 0; x < metrics::kExposedAxes; ++x) exposed.emplace_back(metrics::kExposedAxisNames[x], Value(b.exposed_comm_s[x]));
  return Object{{"compute_s", b.compute_s}, {"optimizer_s", b.optimizer_s}, {"exposed_comm_s", exposed}, {"bubble_s", b.bubble_s}, {"other_s", b.other_s}};
}

Value memory(const metrics::Memory& m) {
  std::optional<double> host_gib, drive_gib;
  if (m.host_bytes) host_gib = gib(*m.host_bytes);
  if (m.drive_bytes) drive_gib = gib(*m.drive_bytes);
  Object kinds;
  for (const auto& [name, bytes] : m.by_kind) kinds.emplace_back(name, Value(gib(bytes)));
  Value::Array advice;
  for (const std::string& a : m.advice) advice.emplace_back(a);
  return Object{{"fits", m.fits},
                {"capacity_gib", gib(m.capacity_bytes)},
                {"peak_gib", gib(m.peak_bytes)},
                {"peak_allocated_gib", gib(m.allocated_bytes)},
                {"peak_reserved_gib", gib(m.reserved_bytes)},
                {"worst_rank", m.worst_rank},
                {"host_gib", or_null(host_gib)},
                {"drive_gib", or_null(drive_gib)},
                {"by_kind_gib", kinds},
                {"advice", advice}};
}

Value origins(const Summary& s) {
  Object o;
  for (std::size_t i = 0; i < kOriginCount; ++i)
    if (s.origins[i] > 0) o.emplace_back(kOriginNames[i], Value(s.origins[i]));
  return o;
}

Value stages(const Summary& s) {
  Value::Array rows;
  for (const metrics::Stage& row : s.stages)
    rows.push_back(Object{{"stage", row.stage},
                          {"chunks", row.chunks},
                          {"layers", row.layers},
                          {"ranks", row.ranks},
                          {"compute_s", row.compute_s},
                          {"bubble_s", row.bubble_s},
                          {"peak_gib", gib(row.peak_bytes)},
                          {"peak_allocated_gib", gib(row.allocated_bytes)},
                          {"peak_reserved_gib", gib(row.reserved_bytes)}});
  return rows;
}

Value collectives(const Summary& s) {
  Value::Array rows;
  for (const metrics::CollectiveRow& row : s.collectives)
    rows.push_back(Object{{"kind", text(collective::to_string(row.kind))},
                          {"group", text(workload::to_string(row.axis))},
                          {"ranks", row.ranks},
                          {"bytes", row.bytes},
                          {"count", row.count},
                          {"time_s", row.time_s},
                          {"exposed_s", row.exposed_s},
                          {"algbw_gb_per_s", row.algbw_gb_per_s},
                          {"busbw_gb_per_s", row.busbw_gb_per_s},
                          {"algorithm", text(collective::to_string(row.algorithm))},
                          {"protocol", text(collective::to_string(row.protocol))},
                          {"channels", row.channels},
                          {"limited_by", row.limited_by},
                          {"origin", text(to_string(row.origin))}});
  return rows;
}

Value links(const Summary& s) {
  Value::Array rows;
  for (const metrics::LinkRow& row : s.links)
    rows.push_back(Object{{"link", row.link},
                          {"kind", text(cluster::to_string(row.kind))},
                          {"count", row.count},
                          {"capacity_gb_per_s", row.capacity_gb_per_s},
                          {"mean_utilisation", row.mean_utilisation},
                          {"peak_utilisation", row.peak_utilisation}});
  return rows;
}

Value energy(const Summary& s) {
  const auto member = [&](double metrics::Energy::*m) {
    std::optional<double> value;
    if (s.energy) value = (*s.energy).*m;
    return or_null(value);
  };
  return Object{{"step_j", member(&metrics::Energy::step_j)},
                {"gpu_mean_w", member(&metrics::Energy::gpu_mean_w)},
                {"j_per_token", member(&metrics::Energy::j_per_token)}};
}

Value warnings(const Summary& s) {
  Value::Array rows;
  for (const metrics::Warning& w : s.warnings) rows.push_back(Object{{"code", w.code}, {"pointer", w.pointer}, {"text", w.text}});
  return rows;
}

}  // namespace

document::Value json(const Subject& subject) {
  const Summary& s = subject.summary;
  return Object{
      {"schema", "orrery/report/1"},
      {"orrery_version", text(version())},
      {"scenario", subject.scenario},
      {"defaults_from", defaults(subject)},
      {"calibration", calibration(s)},
      {"model", model(s)},
      {"step", Object{{"time_s", s.step_s}, {"low_s", s.low_s}, {"high_s", s.high_s}, {"coverage", s.coverage}, {"band_basis", s.band_basis}}},
      {"throughput", throughput(s.throughput)},
      {"breakdown", breakdown(s.breakdown)},
      {"compute", Object{{"gemm_s", s.compute_by_class_s[0]}, {"attention_s", s.compute_by_class_s[1]}, {"memory_bound_s", s.compute_by_class_s[2]}}},
      {"memory", memory(s.memory)},
      {"origins", origins(s)},
      {"engine", Object{{"events", s.events}, {"rank_classes", s.rank_classes}, {"ranks", s.ranks}}},
      {"stages", stages(s)},
      {"collectives", collectives(s)},
      {"links", links(s)},
      {"energy", energy(s)},
      {"price", Object{{"currency", or_null(s.currency)}, {"per_gpu_hour", or_null(s.per_gpu_hour)}, {"per_million_tokens", or_null(s.per_million_tokens)}}},
      // One step says nothing of failures: what a long run keeps of its time is another command's question.
      {"goodput", Object{{"availability", Value()}, {"mttf_h", Value()}, {"checkpoint_interval_s", Value()}, {"effective_tokens_per_s", Value()}}},
      {"warnings", warnings(s)},
  };
}

}  // namespace orrery::report
