// One point of a sweep down the road, and its row.
#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include "orrery/base/units.hpp"
#include "orrery/search/sweep.hpp"

namespace orrery::search {

namespace {

using document::Value;

/// FNV-1a (Fowler, Noll and Vo), 64 bits.
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 14695981039346656037ULL;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return h;
}

Value optional(const std::optional<double>& v) { return v ? Value(*v) : Value(); }

PointRow without_times(PointRow row, const Diagnostics& problems, PointOutcome outcome) {
  row.outcome = outcome;
  Value::Array list;
  for (const Diagnostic& d : problems) list.push_back(Value::Object{{"pointer", d.pointer}, {"text", d.text}});
  row.reason = problems.empty() ? "" : reason_of(problems[0].pointer, problems[0].text);
  row.json.set("outcome", Value(to_string(outcome)));
  row.json.set("reasons", Value(std::move(list)));
  return row;
}

PointRow with_times(PointRow row, const Prediction& p) {
  const metrics::Summary& s = p.summary;
  double exposed = 0;
  for (const double e : s.breakdown.exposed_comm_s) exposed += e;
  row.outcome = s.memory.fits ? PointOutcome::kFits : PointOutcome::kDoesNotFit;
  row.json.set("outcome", Value(to_string(row.outcome)));
  row.json.set("reasons", Value(Value::Array{}));
  row.json.set("scenario_hash", Value(fmt::format("{:016x}", hash(document::dump(p.scenario.value, -1)))));
  row.json.set("gpus", Value(s.ranks));
  row.json.set("step_s", Value(s.step_s));
  row.json.set("low_s", Value(s.low_s));
  row.json.set("high_s", Value(s.high_s));
  row.json.set("tokens_per_s", Value(s.throughput.tokens_per_s));
  row.json.set("tokens_per_s_per_gpu", Value(s.throughput.tokens_per_s_per_gpu));
  row.json.set("model_tflops_per_gpu", Value(s.throughput.model_tflops_per_gpu));
  row.json.set("mfu", optional(s.throughput.mfu));
  row.json.set("peak_gib", Value(to_gib(Bytes(s.memory.peak_bytes))));
  row.json.set("capacity_gib", Value(to_gib(Bytes(s.memory.capacity_bytes))));
  row.json.set("compute_s", Value(s.breakdown.compute_s));
  row.json.set("exposed_comm_s", Value(exposed));
  row.json.set("bubble_s", Value(s.breakdown.bubble_s));
  row.json.set("j_per_token", s.energy ? Value(s.energy->j_per_token) : Value());
  row.json.set("currency", s.currency ? Value(*s.currency) : Value());
  row.json.set("price_per_million_tokens", optional(s.per_million_tokens));
  return row;
}

}  // namespace

std::string_view to_string(PointOutcome o) {
  switch (o) {
    case PointOutcome::kFits: return "fits";
    case PointOutcome::kDoesNotFit: return "does_not_fit";
    case PointOutcome::kRefused: return "refused";
    case PointOutcome::kExcluded: break;
  }
  return "excluded";
}

std::string reason_of(const std::string& pointer, const std::string& text) { return pointer.empty() ? text : pointer + ": " + text; }

std::string dotted(std::string_view path) {
  if (path.starts_with("/")) path.remove_prefix(1);
  std::string text(path);
  std::replace(text.begin(), text.end(), '/', '.');
  return text;
}

const Value* find_path(const Value& value, std::string_view path) {
  std::string pointer = "/" + std::string(path);
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  return value.resolve(pointer);
}

PointRow run_point(const Sweep& sweep, std::span<const Expression> constraints, std::uint64_t index, const Load& load, const simulate::Options& options) {
  PointRow row;
  row.index = index;
  row.json = Value::Object{{"schema", "orrery/sweep-row/1"}, {"index", Value(static_cast<std::int64_t>(index))}};
  const auto point = sweep.at(index);
  if (!point) return without_times(std::move(row), point.error(), PointOutcome::kRefused);
  Value::Object set;
  for (const document::Override& o : point->sets) {
    const auto value = document::parse(o.value, "");
    set.emplace_back(dotted(o.path), value ? *value : Value(o.value));
  }
  const Value chosen(set);
  row.json.set("set", chosen);
  if (point->same != nullptr) {
    const std::string text = fmt::format("the same as another point: {} varies only if {}", dotted(point->same->path), point->same->condition->text());
    return without_times(std::move(row), {Diagnostic{"", "", text}}, PointOutcome::kExcluded);
  }

  // What the axes alone decide is decided before the scenario is read.
  const document::Document* resolved = nullptr;
  const auto value_of = [&](const std::string& name) -> const Value* {
    for (const auto& [path, value] : chosen.members())
      if (path == name) return &value;
    return resolved == nullptr ? nullptr : find_path(resolved->value, name);
  };
  const auto decide = [&](const Expression& e) -> std::optional<PointRow> {
    const auto holds = e.holds(value_of);
    if (!holds) return without_times(row, holds.error(), PointOutcome::kRefused);
    if (!*holds) return without_times(row, {Diagnostic{"", "", fmt::format("not {}", e.text())}}, PointOutcome::kExcluded);
    return std::nullopt;
  };
  const auto by_axes = [&](const Expression& e) { return std::all_of(e.names().begin(), e.names().end(), [&](const std::string& n) { return value_of(n) != nullptr; }); };
  for (const Expression& e : constraints)
    if (by_axes(e))
      if (auto excluded = decide(e)) return std::move(*excluded);

  const auto document = load(point->sets);
  if (!document) return without_times(std::move(row), document.error(), PointOutcome::kRefused);
  resolved = &*document;
  for (const Expression& e : constraints)
    if (auto excluded = decide(e)) return std::move(*excluded);

  const auto prediction = predict(*document, options);
  if (!prediction) return without_times(std::move(row), prediction.error(), PointOutcome::kRefused);
  return with_times(std::move(row), *prediction);
}

std::string reason_class(std::string_view reason) {
  const auto digit = [&](std::size_t i) { return i < reason.size() && reason[i] >= '0' && reason[i] <= '9'; };
  std::string text;
  for (std::size_t i = 0; i < reason.size();) {
    const bool starts = digit(i) && (i == 0 || reason[i - 1] == ' ' || reason[i - 1] == '/' || reason[i - 1] == '(');
    std::size_t end = i;
    while (starts && (digit(end) || ((reason[end] == '.' || reason[end] == ',') && digit(end + 1)))) ++end;
    const bool word = end < reason.size() && std::isalpha(static_cast<unsigned char>(reason[end])) != 0;  // "1f1b"
    if (starts && !word) {
      text += 'N';
      i = end;
    } else {
      end = std::max(end, i + 1);
      text.append(reason.substr(i, end - i));
      i = end;
    }
  }
  return text;
}

}  // namespace orrery::search
