// Tables of times, as benchmarks write them: a heading, then a row for every shape.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "orrery/base/text.hpp"
#include "orrery/measure/import.hpp"

namespace orrery::measure {
namespace {

using calibration::Point;

constexpr std::size_t kMostRefused = 1000;      ///< of one file: the list is for a reader
constexpr std::size_t kMostColumns = 1000;
constexpr std::int64_t kMostExtent = std::int64_t{1} << 48;

/// Names that tables give to our columns, ours first.
struct Column {
  const char* name;
  std::vector<const char*> also;
};
const std::vector<Column>& columns() {
  static const std::vector<Column> all = {
      {"dtype", {"gemm_dtype", "data_type", "datatype", "precision", "type"}},
      {"m", {}}, {"n", {}}, {"k", {}},
      {"layout", {"trans", "transpose"}},
      {"accumulate", {}}, {"quantise", {"quantize"}},
      {"batch", {"batch_size", "b"}},
      {"seq_q", {"seq", "seqlen", "seq_len", "isl", "sequence_length"}},
      {"seq_kv", {"seqlen_k", "kv_len"}},
      {"heads", {"num_heads", "nheads", "n_heads"}},
      {"kv_heads", {"num_kv_heads", "num_key_value_heads", "n_kv_heads"}},
      {"head_dim", {"headdim", "d"}},
      {"causal", {"is_causal"}}, {"backward", {}}, {"kernel", {"kernel_source", "backend"}},
      {"stream", {}}, {"read_bytes", {}}, {"write_bytes", {}},
      {"collective", {"operation", "op_name"}}, {"algorithm", {"algo"}},
      {"bytes", {"message_size", "size", "size_bytes"}}, {"ranks", {"num_gpus", "gpus"}}, {"nodes", {"num_nodes"}},
      {"context", {}},
      {"time_us", {"latency_us", "us", "time(us)"}},
      {"time_ms", {"latency_ms", "latency", "ms", "time(ms)"}},
      {"time_s", {"seconds", "time(s)"}},
      {"power_w", {"power"}}, {"clock_mhz", {"sm_clock_mhz"}}, {"temperature_c", {}}, {"throttle", {}},
  };
  return all;
}

std::string trimmed(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front())) != 0) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back())) != 0) s.remove_suffix(1);
  return std::string(s);
}
std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return s;
}

/// Cells of a line; nothing where a quote does not end.
std::optional<std::vector<std::string>> cells(std::string_view line, char separator) {
  std::vector<std::string> out;
  std::string cell;
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      cell += c;
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == separator && !quoted) {
      out.push_back(trimmed(cell));
      cell.clear();
      if (out.size() > kMostColumns) return std::nullopt;
    } else {
      cell += c;
    }
  }
  if (quoted) return std::nullopt;
  out.push_back(trimmed(cell));
  return out;
}

std::optional<double> number(const std::string& s) {
  double v = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  return error == std::errc() && end == s.data() + s.size() && std::isfinite(v) ? std::optional(v) : std::nullopt;
}

/// One row's cells under our names.
class Row {
 public:
  Row(const std::map<std::string, std::size_t>& heading, const std::vector<std::string>& row) : heading_(heading), row_(row) {}

  [[nodiscard]] std::string text(const char* name) const {
    const auto at = heading_.find(name);
    return at == heading_.end() || at->second >= row_.size() ? std::string() : row_[at->second];
  }
  std::int64_t extent(const char* name, std::optional<std::int64_t> otherwise = std::nullopt, std::int64_t least = 1) {
    const std::string t = text(name);
    if (t.empty() && otherwise) return *otherwise;
    const auto v = number(t);
    if (v && *v >= static_cast<double>(least) && *v <= static_cast<double>(kMostExtent) && *v == std::floor(*v)) return static_cast<std::int64_t>(*v);
    refuse(fmt::format("{} is \"{}\"; expected a whole number from {}", name, t, least));
    return least;
  }
  bool truth(const char* name, bool otherwise) {
    const std::string t = lower(text(name));
    if (t.empty()) return otherwise;
    if (t == "1" || t == "true" || t == "yes") return true;
    if (t == "0" || t == "false" || t == "no") return false;
    refuse(fmt::format("{} is \"{}\"; expected true or false", name, t));
    return otherwise;
  }
  std::optional<double> number_of(const char* name) const { return number(text(name)); }
  void refuse(std::string why) {
    if (problem_.empty()) problem_ = std::move(why);
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  const std::map<std::string, std::size_t>& heading_;
  const std::vector<std::string>& row_;
  std::string problem_;
};

/// Our column names -> where they stand.
std::map<std::string, std::size_t> heading_of(const std::vector<std::string>& names, const ImportOptions& options) {
  std::map<std::string, std::size_t> found;
  const auto place = [&](const std::string& theirs) -> std::optional<std::size_t> {
    for (std::size_t i = 0; i < names.size(); ++i)
      if (lower(names[i]) == lower(theirs)) return i;
    return std::nullopt;
  };
  for (const Column& c : columns()) {
    if (const auto mapped = options.columns.find(c.name); mapped != options.columns.end()) {
      if (const auto at = place(mapped->second)) found[c.name] = *at;
      continue;
    }
    auto at = place(c.name);
    for (const char* also : c.also)
      if (!at) at = place(also);
    if (at) found[c.name] = *at;
  }
  return found;
}

bool has(const std::map<std::string, std::size_t>& heading, std::initializer_list<const char*> names) {
  return std::all_of(names.begin(), names.end(), [&](const char* n) { return heading.contains(n); });
}

std::optional<Point::Kind> kind_of(const std::map<std::string, std::size_t>& heading) {
  if (!has(heading, {"time_us"}) && !has(heading, {"time_ms"}) && !has(heading, {"time_s"})) return std::nullopt;
  if (has(heading, {"m", "n", "k"})) return Point::Kind::kGemm;
  if (has(heading, {"seq_q", "heads", "head_dim"})) return Point::Kind::kAttention;
  if (has(heading, {"stream"}) && (has(heading, {"read_bytes"}) || has(heading, {"write_bytes"}))) return Point::Kind::kStream;
  if (has(heading, {"collective", "bytes", "ranks"})) return Point::Kind::kCollective;
  return std::nullopt;
}

void dtype(Row& row, const ImportOptions& options, Point& p) {
  std::string stated = row.text("dtype");
  if (stated.empty()) stated = options.dtype;
  if (stated.empty()) stated = "bf16";
  p.dtype = calibration::dtype_name(stated);
  if (p.dtype.empty()) row.refuse(fmt::format("unknown dtype \"{}\"{}", stated, did_you_mean(stated, calibration::dtype_names())));
}

Point point(Row& row, Point::Kind kind, const ImportOptions& options) {
  Point p;
  p.kind = kind;
  const auto word = [&](const char* name, const std::string& otherwise) {
    const std::string t = row.text(name);
    return t.empty() ? otherwise : t;
  };
  switch (kind) {
    case Point::Kind::kGemm:
      dtype(row, options, p);
      p.m = row.extent("m");
      p.n = row.extent("n");
      p.k = row.extent("k");
      p.batch = row.extent("batch", 1);
      p.layout = lower(word("layout", "tn"));
      if (p.layout != "tn" && p.layout != "nn" && p.layout != "nt") row.refuse(fmt::format("layout is \"{}\"; accepted are tn, nn, nt", p.layout));
      p.accumulate = row.truth("accumulate", false);
      p.quantise = lower(word("quantise", options.quantise));
      if (!p.quantise.empty() && p.quantise != "none" && p.quantise != "dynamic") row.refuse(fmt::format("quantise is \"{}\"; accepted are none, dynamic", p.quantise));
      break;
    case Point::Kind::kAttention:
      dtype(row, options, p);
      p.batch = row.extent("batch", 1);
      p.seq_q = row.extent("seq_q");
      p.seq_kv = row.extent("seq_kv", p.seq_q);
      p.heads = row.extent("heads");
      p.kv_heads = row.extent("kv_heads", p.heads);
      p.head_dim = row.extent("head_dim");
      p.causal = row.truth("causal", true);
      p.backward = row.truth("backward", false);
      p.kernel = word("kernel", options.kernel);
      break;
    case Point::Kind::kStream:
      p.stream = lower(row.text("stream"));
      p.read_bytes = row.extent("read_bytes", 0, 0);
      p.write_bytes = row.extent("write_bytes", 0, 0);
      break;
    case Point::Kind::kCollective:
      p.collective = lower(row.text("collective"));
      p.algorithm = row.text("algorithm");
      p.bytes = row.extent("bytes");
      p.ranks = static_cast<int>(std::min<std::int64_t>(row.extent("ranks"), 1 << 24));
      p.nodes = static_cast<int>(std::min<std::int64_t>(row.extent("nodes", 1), 1 << 24));
      break;
  }
  p.context = lower(word("context", options.context));
  if (!p.context.empty() && p.context != "burst" && p.context != "sustained") row.refuse(fmt::format("context is \"{}\"; accepted are burst, sustained", p.context));
  for (const auto& [name, to_us] : {std::pair{"time_us", 1.0}, std::pair{"time_ms", 1e3}, std::pair{"time_s", 1e6}}) {
    const std::string t = row.text(name);
    if (t.empty()) continue;
    const auto v = number(t);
    if (v && *v > 0 && std::isfinite(*v * to_us)) p.time_us = {*v * to_us};
    else row.refuse(fmt::format("{} is \"{}\"; expected a positive number", name, t));
    break;
  }
  if (p.time_us.empty()) row.refuse("no time");
  p.power_w = row.number_of("power_w");
  p.clock_mhz = row.number_of("clock_mhz");
  p.temperature_c = row.number_of("temperature_c");
  p.throttle = row.text("throttle");
  return p;
}

char separator_of(std::string_view line) {
  for (const char c : {',', '\t', ';'})
    if (line.find(c) != std::string_view::npos) return c;
  return ',';
}

}  // namespace

Result<Imported> import_csv(std::string_view text, const std::string& file, const ImportOptions& options) {
  Imported out;
  std::map<std::string, std::size_t> heading;
  std::optional<Point::Kind> kind;
  char separator = ',';
  std::size_t number_of_line = 0;
  const auto refuse = [&](std::string why) {
    if (out.refused.size() < kMostRefused) out.refused.push_back({file, number_of_line, std::move(why)});
  };
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number_of_line;
    if (number_of_line == 1 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    if (trimmed(line.substr(0, 4096)).empty() || line.front() == '#') continue;
    if (!kind) separator = separator_of(line);
    const auto row = cells(line, separator);
    if (!row) {
      refuse("a quoted cell does not end, or there are too many cells");
      continue;
    }
    if (!kind) {
      heading = heading_of(*row, options);
      kind = kind_of(heading);
      if (!kind)
        return fail(file, "", fmt::format("line {} is no heading of a table of times: expected a time (time_us, time_ms, time_s) and m, n, k; or seq, heads, head_dim; or stream, read_bytes, "
                                          "write_bytes; or collective, bytes, ranks; other names are mapped by --column OURS=THEIRS", number_of_line));
      continue;
    }
    Row r(heading, *row);
    Point p = point(r, *kind, options);
    if (!r.problem().empty()) {
      refuse(r.problem());
      continue;
    }
    p.from = fmt::format("{}:{}", file, number_of_line);
    out.set.points.push_back(std::move(p));
  }
  if (!kind) return fail(file, "", "holds no table of times: it is empty");
  if (out.set.points.empty()) return fail(file, "", out.refused.empty() ? "a heading and no rows" : fmt::format("no row is a measurement; line {}: {}", out.refused.front().line, out.refused.front().text));
  return out;
}

}  // namespace orrery::measure
