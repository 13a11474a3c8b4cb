#include "orrery/calibration/measurements.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "orrery/base/assert.hpp"
#include "orrery/base/text.hpp"

namespace orrery::calibration {
namespace {

using document::Value;

/// What others call our types. tf32, fp32, … of PyTorch, cuBLAS (cudaDataType) and the inference frameworks' tables.
constexpr std::array<std::pair<std::string_view, std::string_view>, 26> kAliases = {{
    {"bf16", "bf16"}, {"bfloat16", "bf16"}, {"torch.bfloat16", "bf16"}, {"r_16bf", "bf16"},
    {"fp16", "fp16"}, {"half", "fp16"}, {"float16", "fp16"}, {"torch.float16", "fp16"}, {"r_16f", "fp16"},
    {"fp32", "fp32"}, {"float", "fp32"}, {"float32", "fp32"}, {"torch.float32", "fp32"}, {"r_32f", "fp32"},
    {"tf32", "tf32"}, {"fp8", "fp8"}, {"fp8_e4m3", "fp8"}, {"float8_e4m3fn", "fp8"}, {"r_8f_e4m3", "fp8"},
    {"fp8_block", "fp8_block"}, {"mxfp8", "mxfp8"}, {"mxfp6", "mxfp6"}, {"fp4", "fp4"}, {"nvfp4", "fp4"},
    {"int8", "int8"}, {"sq", "int8"},
}};

const std::vector<std::string>& collective_names() {
  static const std::vector<std::string> names = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "send_recv"};
  return names;
}
const std::vector<std::string>& stream_names() {
  static const std::vector<std::string> names = {"copy", "elementwise", "norm", "softmax", "permute", "embedding", "cross_entropy", "optimizer", "reduce", "cast"};
  return names;
}

std::string text(const Value& v) { return v.is_string() ? v.as_string() : std::string(); }
std::int64_t integer(const Value& v, std::int64_t otherwise) { return v.is_int() ? v.as_int() : otherwise; }
bool truth(const Value& v, bool otherwise) { return v.is_bool() ? v.as_bool() : otherwise; }
std::optional<double> number(const Value& v) { return v.is_number() ? std::optional(v.as_double()) : std::nullopt; }

class PointReader {
 public:
  PointReader(const std::string& file, const std::string& pointer, Diagnostics& problems) : file_(file), pointer_(pointer), problems_(problems) {}

  std::optional<Point> read(const Value& v) {
    const std::size_t before = problems_.size();
    Point p;
    const std::string kind = text(v.at("kind"));
    p.kind = kind == "attention" ? Point::Kind::kAttention : kind == "stream" ? Point::Kind::kStream : kind == "collective" ? Point::Kind::kCollective : Point::Kind::kGemm;
    p.context = text(v.at("context"));
    p.power_w = number(v.at("power_w"));
    p.clock_mhz = number(v.at("clock_mhz"));
    p.temperature_c = number(v.at("temperature_c"));
    p.throttle = text(v.at("throttle"));
    p.from = text(v.at("from"));
    if (p.from.empty()) p.from = file_ + ":" + pointer_;
    if (v.at("time_us").is_array())
      for (const Value& t : v.at("time_us").items()) p.time_us.push_back(t.is_number() ? t.as_double() : 0);
    if (p.time_us.empty() || std::any_of(p.time_us.begin(), p.time_us.end(), [](double t) { return !(t > 0) || !std::isfinite(t); }))
      refuse("/time_us", "times are positive numbers of microseconds, one at least");
    switch (p.kind) {
      case Point::Kind::kGemm: gemm(v, p); break;
      case Point::Kind::kAttention: attention(v, p); break;
      case Point::Kind::kStream: stream(v, p); break;
      case Point::Kind::kCollective: collective(v, p); break;
    }
    if (problems_.size() > before) return std::nullopt;
    return p;
  }

 private:
  void refuse(const std::string& at, std::string why) { problems_.push_back({file_, pointer_ + at, std::move(why)}); }
  void dtype(const Value& v, Point& p) {
    p.dtype = dtype_name(v.is_string() ? v.as_string() : "bf16");
    if (p.dtype.empty()) refuse("/dtype", fmt::format("unknown dtype \"{}\"{}", text(v), did_you_mean(text(v), dtype_names())));
  }
  std::int64_t need(const Value& v, const char* key) {
    if (v.at(key).is_int() && v.at(key).as_int() > 0) return v.at(key).as_int();
    refuse(std::string("/") + key, "expected a positive integer");
    return 1;
  }
  void gemm(const Value& v, Point& p) {
    dtype(v.at("dtype"), p);
    p.m = need(v, "m");
    p.n = need(v, "n");
    p.k = need(v, "k");
    p.batch = integer(v.at("batch"), 1);
    if (v.at("layout").is_string()) p.layout = text(v.at("layout"));
    p.accumulate = truth(v.at("accumulate"), false);
    p.quantise = text(v.at("quantise"));
  }
  void attention(const Value& v, Point& p) {
    dtype(v.at("dtype"), p);
    p.batch = integer(v.at("batch"), 1);
    p.seq_q = need(v, "seq_q");
    p.seq_kv = integer(v.at("seq_kv"), p.seq_q);
    p.heads = need(v, "heads");
    p.kv_heads = integer(v.at("kv_heads"), p.heads);
    p.head_dim = need(v, "head_dim");
    p.causal = truth(v.at("causal"), true);
    p.backward = truth(v.at("backward"), false);
    p.kernel = text(v.at("kernel"));
  }
  void stream(const Value& v, Point& p) {
    p.stream = text(v.at("stream"));
    if (std::find(stream_names().begin(), stream_names().end(), p.stream) == stream_names().end())
      refuse("/stream", fmt::format("unknown kind of stream \"{}\"{}", p.stream, did_you_mean(p.stream, stream_names())));
    p.read_bytes = integer(v.at("read_bytes"), 0);
    p.write_bytes = integer(v.at("write_bytes"), 0);
    if (p.read_bytes <= 0 && p.write_bytes <= 0) refuse("", "a stream states what it reads or writes");
  }
  void collective(const Value& v, Point& p) {
    p.collective = text(v.at("collective"));
    if (std::find(collective_names().begin(), collective_names().end(), p.collective) == collective_names().end())
      refuse("/collective", fmt::format("unknown collective \"{}\"{}", p.collective, did_you_mean(p.collective, collective_names())));
    p.algorithm = text(v.at("algorithm"));
    p.bytes = need(v, "bytes");
    p.ranks = static_cast<int>(std::min<std::int64_t>(need(v, "ranks"), 1 << 24));
    p.nodes = static_cast<int>(std::clamp<std::int64_t>(integer(v.at("nodes"), 1), 1, 1 << 24));
  }

  const std::string& file_;
  std::string pointer_;
  Diagnostics& problems_;
};

Value point_value(const Point& p) {
  Value v;
  const auto put = [&](const char* key, const std::string& t) {
    if (!t.empty()) v.set(key, t);
  };
  const auto put_number = [&](const char* key, const std::optional<double>& n) {
    if (n) v.set(key, *n);
  };
  switch (p.kind) {
    case Point::Kind::kGemm:
      v = Value::Object{{"kind", "gemm"}, {"dtype", p.dtype}, {"m", p.m}, {"n", p.n}, {"k", p.k}};
      if (p.batch != 1) v.set("batch", p.batch);
      if (p.layout != "tn") v.set("layout", p.layout);
      if (p.accumulate) v.set("accumulate", true);
      put("quantise", p.quantise);
      break;
    case Point::Kind::kAttention:
      v = Value::Object{{"kind", "attention"}, {"dtype", p.dtype}, {"batch", p.batch}, {"seq_q", p.seq_q}, {"seq_kv", p.seq_kv}, {"heads", p.heads}, {"kv_heads", p.kv_heads},
                        {"head_dim", p.head_dim}, {"causal", p.causal}, {"backward", p.backward}};
      put("kernel", p.kernel);
      break;
    case Point::Kind::kStream:
      v = Value::Object{{"kind", "stream"}, {"stream", p.stream}, {"read_bytes", p.read_bytes}, {"write_bytes", p.write_bytes}};
      break;
    case Point::Kind::kCollective:
      v = Value::Object{{"kind", "collective"}, {"collective", p.collective}, {"bytes", p.bytes}, {"ranks", p.ranks}, {"nodes", p.nodes}};
      put("algorithm", p.algorithm);
      break;
  }
  put("context", p.context);
  Value::Array times;
  for (const double t : p.time_us) times.emplace_back(t);
  v.set("time_us", std::move(times));
  put_number("power_w", p.power_w);
  put_number("clock_mhz", p.clock_mhz);
  put_number("temperature_c", p.temperature_c);
  put("throttle", p.throttle);
  put("from", p.from);
  return v;
}

}  // namespace

const std::vector<std::string>& dtype_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [alias, name] : kAliases) all.emplace_back(alias);
    return all;
  }();
  return names;
}

std::string dtype_name(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const auto& [alias, name] : kAliases)
    if (alias == lower) return std::string(name);
  return "";
}

Result<MeasurementSet> read_measurements(const Value& v, const std::string& file, const std::string& pointer) {
  MeasurementSet set;
  set.name = text(v.at("name"));
  set.gpu = text(v.at("gpu"));
  if (v.at("environment").is_object())
    for (const auto& [key, value] : v.at("environment").members()) set.environment.emplace_back(key, text(value));
  if (v.at("sources").is_array())
    for (const Value& s : v.at("sources").items()) set.sources.push_back(text(s));
  Diagnostics problems;
  if (v.at("points").is_array()) {
    const auto& points = v.at("points").items();
    for (std::size_t i = 0; i < points.size() && problems.size() < 20; ++i)
      if (auto p = PointReader(file, fmt::format("{}/points/{}", pointer, i), problems).read(points[i])) set.points.push_back(std::move(*p));
  }
  if (!problems.empty()) {
    problems.resize(std::min<std::size_t>(problems.size(), 20));
    return fail(std::move(problems));
  }
  return set;
}

Value to_value(const MeasurementSet& set) {
  Value v = Value::Object{{"schema", "orrery/measurements/1"}, {"name", set.name}};
  if (!set.gpu.empty()) v.set("gpu", set.gpu);
  Value::Object environment;
  for (const auto& [key, value] : set.environment) environment.emplace_back(key, value);
  if (!environment.empty()) v.set("environment", std::move(environment));
  Value::Array sources, points;
  for (const std::string& s : set.sources) sources.emplace_back(s);
  for (const Point& p : set.points) points.push_back(point_value(p));
  v.set("sources", std::move(sources));
  v.set("points", std::move(points));
  return v;
}

double median_us(const Point& p) {
  ORRERY_ASSERT(!p.time_us.empty(), "a point has a time");
  std::vector<double> t = p.time_us;
  std::sort(t.begin(), t.end());
  const std::size_t half = t.size() / 2;
  return t.size() % 2 == 1 ? t[half] : 0.5 * (t[half - 1] + t[half]);
}

std::string class_of(const Point& p) {
  switch (p.kind) {
    case Point::Kind::kGemm: return "gemm/" + p.dtype;
    case Point::Kind::kAttention: return "attention/" + (p.kernel.empty() ? std::string("any") : p.kernel);
    case Point::Kind::kStream: return "stream/" + p.stream;
    case Point::Kind::kCollective: return "collective/" + p.collective;
  }
  return "";
}

std::string key_of(const Point& p) {
  std::string key;
  switch (p.kind) {
    case Point::Kind::kGemm:
      key = fmt::format("gemm {} {} {}x{}x{}{}{}{}", p.dtype, p.layout, p.m, p.n, p.k, p.batch == 1 ? "" : fmt::format(" batch {}", p.batch), p.accumulate ? " accumulate" : "",
                        p.quantise == "dynamic" ? " quantise" : "");
      break;
    case Point::Kind::kAttention:
      key = fmt::format("attention {} {} {} {} batch {} seq {}x{} heads {}/{} dim {}", p.kernel.empty() ? "any" : p.kernel, p.dtype, p.backward ? "backward" : "forward", p.causal ? "causal" : "full",
                        p.batch, p.seq_q, p.seq_kv, p.heads, p.kv_heads, p.head_dim);
      break;
    case Point::Kind::kStream: key = fmt::format("stream {} read {} write {}", p.stream, p.read_bytes, p.write_bytes); break;
    case Point::Kind::kCollective:
      key = fmt::format("collective {} {} bytes {} ranks {} nodes{}", p.collective, p.bytes, p.ranks, p.nodes, p.algorithm.empty() ? "" : " " + p.algorithm);
      break;
  }
  return p.context.empty() ? key : key + " " + p.context;
}

bool is_large(const Point& p) {
  constexpr std::int64_t kExtent = 128, kMiB = 1 << 20, kTokens = 1024;
  switch (p.kind) {
    case Point::Kind::kGemm: return p.m >= kExtent && p.n >= kExtent && p.k >= kExtent;
    case Point::Kind::kAttention: return p.seq_q >= kTokens;
    case Point::Kind::kStream: return p.read_bytes + p.write_bytes >= kMiB;
    case Point::Kind::kCollective: return p.bytes >= kMiB;
  }
  return false;
}

}  // namespace orrery::calibration
