#include "orrery/calibration/profile.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "orrery/base/text.hpp"

namespace orrery::calibration {
namespace {

using document::Value;

/// What a parameter may be.
enum class Range { kShare, kPositive, kNotNegative, kAtLeastOne, kExponent };

class Reader {
 public:
  Reader(std::string file, Diagnostics& problems) : file_(std::move(file)), problems_(problems) {}

  void refuse(const std::string& pointer, std::string text) { problems_.push_back({file_, pointer, std::move(text)}); }

  /// Reads {value, low, high, origin}; an absent or null parameter keeps its default.
  void parameter(const Value& parent, const std::string& at, std::string_view key, Range range, Parameter& out) {
    const Value& v = parent.at(key);
    if (v.is_null()) return;
    const std::string pointer = fmt::format("{}/{}", at, key);
    if (!v.is_object() || !v.at("value").is_number()) return refuse(pointer, "expected an object with a number \"value\"");
    Parameter p;
    p.value = v.at("value").as_double();
    p.low = v.at("low").is_number() ? v.at("low").as_double() : p.value;
    p.high = v.at("high").is_number() ? v.at("high").as_double() : p.value;
    p.origin = origin(v.at("origin"), pointer + "/origin");
    if (!(p.low <= p.value && p.value <= p.high)) refuse(pointer, fmt::format("value {} lies outside its interval {} to {}", p.value, p.low, p.high));
    if (const auto text = complaint(range, p.value); !text.empty()) refuse(pointer + "/value", fmt::format("found {}; {}", p.value, text));
    out = p;
  }

  Origin origin(const Value& v, const std::string& pointer) {
    if (v.is_null()) return Origin::kDefault;
    if (v.is_string()) {
      for (std::size_t i = 0; i < kOriginCount; ++i)
        if (kOriginNames[i] == v.as_string()) return static_cast<Origin>(i);
      const std::vector<std::string> names(kOriginNames.begin(), kOriginNames.end());
      refuse(pointer, fmt::format("unknown origin \"{}\"{}", v.as_string(), did_you_mean(v.as_string(), names)));
    } else {
      refuse(pointer, "expected the name of an origin");
    }
    return Origin::kDefault;
  }

  int integer(const Value& parent, const std::string& at, std::string_view key, std::int64_t least, std::int64_t most, int fallback) {
    const Value& v = parent.at(key);
    if (v.is_null()) return fallback;
    if (!v.is_int() || v.as_int() < least || v.as_int() > most) {
      refuse(fmt::format("{}/{}", at, key), fmt::format("expected an integer from {} to {}", least, most));
      return fallback;
    }
    return static_cast<int>(v.as_int());
  }

  std::string text(const Value& parent, const std::string& at, std::string_view key) {
    const Value& v = parent.at(key);
    if (v.is_null()) return "";
    if (v.is_string()) return v.as_string();
    refuse(fmt::format("{}/{}", at, key), "expected a string");
    return "";
  }

  std::vector<std::string> texts(const Value& parent, const std::string& at, std::string_view key) {
    std::vector<std::string> out;
    for (const Value& v : array(parent, at, key)) {
      if (v.is_string()) out.push_back(v.as_string());
      else refuse(fmt::format("{}/{}/{}", at, key, out.size()), "expected a string");
    }
    return out;
  }

  const Value::Array& array(const Value& parent, const std::string& at, std::string_view key) {
    static const Value::Array kNone;
    const Value& v = parent.at(key);
    if (v.is_null()) return kNone;
    if (v.is_array()) return v.items();
    refuse(fmt::format("{}/{}", at, key), "expected a list");
    return kNone;
  }

  const Value::Object& object(const Value& parent, const std::string& at, std::string_view key) {
    static const Value::Object kNone;
    const Value& v = parent.at(key);
    if (v.is_null()) return kNone;
    if (v.is_object()) return v.members();
    refuse(fmt::format("{}/{}", at, key), "expected an object");
    return kNone;
  }

  ResidualTable residual(const Value& parent, const std::string& at) {
    ResidualTable t;
    const Value& v = parent.at("residual");
    if (v.is_null()) return t;
    const std::string pointer = at + "/residual";
    if (!v.is_object()) {
      refuse(pointer, "expected an object");
      return t;
    }
    const auto& axes = array(v, pointer, "axes");
    if (axes.size() != 3) refuse(pointer + "/axes", "a residual table has three axes");
    for (std::size_t d = 0; d < 3 && d < axes.size(); ++d)
      for (const Value& x : axes[d].is_array() ? axes[d].items() : Value::Array()) t.axes[d].push_back(x.is_number() ? x.as_double() : 0);
    for (const Value& x : array(v, pointer, "thousandths")) t.values.push_back(x.is_int() ? static_cast<int>(std::clamp<std::int64_t>(x.as_int(), -9999, 9999)) : 9999);
    if (const std::string text = t.complaint(); !text.empty()) {
      refuse(pointer, text);
      return {};
    }
    return t;
  }

  std::vector<double> numbers(const Value& parent, const std::string& at, std::string_view key) {
    std::vector<double> out;
    for (const Value& v : array(parent, at, key)) {
      if (v.is_number()) out.push_back(v.as_double());
      else refuse(fmt::format("{}/{}", at, key), "expected numbers only");
    }
    return out;
  }

 private:
  static std::string complaint(Range range, double v) {
    if (!std::isfinite(v)) return "a parameter is a finite number";
    switch (range) {
      case Range::kShare: return v > 0 && v <= 1 ? "" : "a share lies above 0 and at most at 1";
      case Range::kPositive: return v > 0 ? "" : "it must be positive";
      case Range::kNotNegative: return v >= 0 ? "" : "it must not be negative";
      case Range::kAtLeastOne: return v >= 1 ? "" : "it must be at least 1";
      case Range::kExponent: return v >= 0 && v <= 1 ? "" : "it lies from 0 to 1";
    }
    return "";
  }
  std::string file_;
  Diagnostics& problems_;
};

GemmProfile read_gemm(Reader& r, const Value& v, const std::string& at) {
  GemmProfile g;
  r.parameter(v, at, "efficiency", Range::kShare, g.efficiency);
  r.parameter(v, at, "wave_overhead_us", Range::kNotNegative, g.wave_overhead_us);
  r.parameter(v, at, "launch_us", Range::kNotNegative, g.launch_us);
  r.parameter(v, at, "bandwidth_efficiency", Range::kShare, g.bandwidth_efficiency);
  r.parameter(v, at, "wave_hardness", Range::kExponent, g.wave_hardness);
  r.parameter(v, at, "layout_nn", Range::kPositive, g.layout_nn);
  r.parameter(v, at, "layout_nt_accumulate", Range::kPositive, g.layout_nt_accumulate);
  r.parameter(v, at, "align_penalty", Range::kAtLeastOne, g.align_penalty);
  r.parameter(v, at, "sparse_efficiency", Range::kShare, g.sparse_efficiency);
  r.parameter(v, at, "sustained_ratio", Range::kAtLeastOne, g.sustained_ratio);
  r.parameter(v, at, "sustained_flops", Range::kPositive, g.sustained_flops);
  r.parameter(v, at, "burst_flops", Range::kPositive, g.burst_flops);
  r.parameter(v, at, "l2_fraction", Range::kShare, g.l2_fraction);
  r.parameter(v, at, "l2_bandwidth_factor", Range::kAtLeastOne, g.l2_bandwidth_factor);
  r.parameter(v, at, "weight_l2_fraction", Range::kExponent, g.weight_l2_fraction);
  r.parameter(v, at, "quantise_us", Range::kNotNegative, g.quantise_us);
  r.parameter(v, at, "quantise_bandwidth", Range::kShare, g.quantise_bandwidth);
  g.residual = r.residual(v, at);
  g.split_k_max = r.integer(v, at, "split_k_max", 1, 16, g.split_k_max);
  if (const auto& tiles = r.array(v, at, "tiles"); !tiles.empty()) {  // none stated: the default menu
    g.tiles.clear();
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      const std::string p = fmt::format("{}/tiles/{}", at, i);
      Tile t{r.integer(tiles[i], p, "m", 1, 4096, 0), r.integer(tiles[i], p, "n", 1, 4096, 0), r.integer(tiles[i], p, "per_sm", 1, 8, 1), 1};
      if (tiles[i].at("factor").is_number()) t.factor = tiles[i].at("factor").as_double();
      if (!(t.factor > 0 && t.factor <= 1)) r.refuse(p + "/factor", fmt::format("found {}; a share lies above 0 and at most at 1", t.factor));
      if (t.m == 0 || t.n == 0) r.refuse(p, "a tile states its m and n");
      g.tiles.push_back(t);
    }
    if (g.tiles.size() > 24) r.refuse(at + "/tiles", "a menu holds 1 to 24 tiles");
  }
  return g;
}

AttentionProfile read_attention(Reader& r, const Value& v, const std::string& at) {
  AttentionProfile a;
  a.kernel = r.text(v, at, "kernel");
  if (a.kernel.empty()) r.refuse(at + "/kernel", "an attention entry names its kernel");
  a.dim = r.integer(v, at, "dim", 1, 4096, a.dim);
  r.parameter(v, at, "forward_efficiency", Range::kShare, a.forward_efficiency);
  r.parameter(v, at, "backward_efficiency", Range::kShare, a.backward_efficiency);
  r.parameter(v, at, "saturation_causal", Range::kNotNegative, a.saturation_causal);
  r.parameter(v, at, "saturation_full", Range::kNotNegative, a.saturation_full);
  r.parameter(v, at, "fill_exponent", Range::kExponent, a.fill_exponent);
  r.parameter(v, at, "launch_us", Range::kNotNegative, a.launch_us);
  a.residual = r.residual(v, at);
  a.query_tile = r.integer(v, at, "query_tile", 1, 4096, a.query_tile);
  return a;
}

CollectiveCurve read_curve(Reader& r, const Value& v, const std::string& at) {
  CollectiveCurve c;
  c.kind = r.text(v, at, "kind");
  if (c.kind.empty()) r.refuse(at + "/kind", "a curve names its collective");
  c.algorithm = r.text(v, at, "algorithm");
  c.ranks = r.integer(v, at, "ranks", 1, 1 << 24, 0);
  c.nodes = r.integer(v, at, "nodes", 1, 1 << 24, 1);
  if (c.ranks == 0) r.refuse(at + "/ranks", "a curve states its ranks");
  c.nccl_version = r.integer(v, at, "nccl_version", 0, 99999, 0);
  for (const auto& [key, out] : {std::pair{"scale_up_gb_per_s", &c.scale_up_gb_per_s}, std::pair{"nic_gb_per_s", &c.nic_gb_per_s}}) {
    const Value& speed = v.at(key);
    if (speed.is_null()) continue;
    if (speed.is_number() && speed.as_double() > 0) *out = speed.as_double();
    else r.refuse(fmt::format("{}/{}", at, key), "expected a positive number");
  }
  c.bytes = r.numbers(v, at, "bytes");
  c.time_us = r.numbers(v, at, "time_us");
  if (!v.at("origin").is_null()) c.origin = r.origin(v.at("origin"), at + "/origin");
  if (c.bytes.empty() || c.bytes.size() != c.time_us.size()) {
    r.refuse(at, fmt::format("{} sizes and {} times; a curve has as many of each, and one at least", c.bytes.size(), c.time_us.size()));
  } else {
    for (std::size_t i = 0; i < c.bytes.size(); ++i) {
      const bool rises = i == 0 || (c.bytes[i] > c.bytes[i - 1] && c.time_us[i] >= c.time_us[i - 1]);
      if (!(c.bytes[i] > 0) || !(c.time_us[i] > 0) || !rises) {
        r.refuse(fmt::format("{}/bytes/{}", at, i), "sizes must rise, and times must be positive and not fall");
        break;
      }
    }
  }
  return c;
}

void read_device(Reader& r, const Value& v, const std::string& at, Profile& p) {
  const Value& links = v.at("links");
  r.parameter(links, at + "/links", "scale_up_efficiency", Range::kShare, p.links.scale_up_efficiency);
  r.parameter(links, at + "/links", "nic_efficiency", Range::kShare, p.links.nic_efficiency);
  r.parameter(links, at + "/links", "pcie_efficiency", Range::kShare, p.links.pcie_efficiency);
  r.parameter(links, at + "/links", "nvls_efficiency", Range::kShare, p.links.nvls_efficiency);
  r.parameter(links, at + "/links", "pairs_efficiency", Range::kShare, p.links.pairs_efficiency);
  r.parameter(links, at + "/links", "ramp_us", Range::kNotNegative, p.links.ramp_us);
  r.parameter(links, at + "/links", "network_ramp_us", Range::kNotNegative, p.links.network_ramp_us);
  r.parameter(links, at + "/links", "latency_ratio", Range::kPositive, p.links.latency_ratio);
  r.parameter(links, at + "/links", "network_latency_ratio", Range::kPositive, p.links.network_latency_ratio);
  r.parameter(v.at("overlap"), at + "/overlap", "hbm_per_wire_byte", Range::kNotNegative, p.overlap.hbm_per_wire_byte);
  r.parameter(v.at("power"), at + "/power", "gamma_tensor", Range::kExponent, p.power.gamma_tensor);
  r.parameter(v.at("power"), at + "/power", "gamma_memory", Range::kExponent, p.power.gamma_memory);
  r.parameter(v.at("l2"), at + "/l2", "fraction", Range::kShare, p.l2.fraction);
  r.parameter(v.at("l2"), at + "/l2", "bandwidth_factor", Range::kAtLeastOne, p.l2.bandwidth_factor);
  const auto direction = [&](const char* name, ExchangeDirection& d) {
    r.parameter(v.at("exchange").at(name), at + "/exchange/" + name, "latency_us", Range::kNotNegative, d.latency_us);
    r.parameter(v.at("exchange").at(name), at + "/exchange/" + name, "token_us", Range::kNotNegative, d.token_us);
    r.parameter(v.at("exchange").at(name), at + "/exchange/" + name, "token_gb_per_s", Range::kPositive, d.token_gb_per_s);
    r.parameter(v.at("exchange").at(name), at + "/exchange/" + name, "copy_us", Range::kNotNegative, d.copy_us);
    r.parameter(v.at("exchange").at(name), at + "/exchange/" + name, "copy_gb_per_s", Range::kPositive, d.copy_gb_per_s);
  };
  direction("dispatch", p.exchange.dispatch);
  direction("combine", p.exchange.combine);
  r.parameter(v.at("exchange"), at + "/exchange", "scale_up_efficiency", Range::kShare, p.exchange.scale_up_efficiency);
  r.parameter(v.at("grouped"), at + "/grouped", "efficiency", Range::kShare, p.grouped.efficiency);
}

}  // namespace

Result<Profile> read_profile(const Value& v, const std::string& file, const std::string& at) {
  if (!v.is_object()) return fail(file, at, "expected an object");
  Diagnostics problems;
  Reader r(file, problems);
  Profile p;
  p.name = r.text(v, at, "name");
  p.provenance = r.text(v, at, "provenance");
  if (p.provenance != "measured" && p.provenance != "published" && p.provenance != "datasheet")
    r.refuse(at + "/provenance", fmt::format("found \"{}\"; accepted are \"measured\", \"published\", \"datasheet\"", p.provenance));
  p.gpu = r.text(v, at, "gpu");
  p.architecture = r.text(v, at, "architecture");
  p.fabric = r.text(v, at, "fabric");
  p.nccl_version = r.text(v, at, "nccl_version");
  p.same_part = r.texts(v, at, "same_part");
  p.sources = r.texts(v, at, "sources");
  for (const auto& [dtype, gemm] : r.object(v, at, "gemm"))
    if (!gemm.is_null()) p.gemm[dtype] = read_gemm(r, gemm, fmt::format("{}/gemm/{}", at, dtype));
  for (const auto& [kind, stream] : r.object(v, at, "stream")) {
    if (stream.is_null()) continue;
    const std::string here = fmt::format("{}/stream/{}", at, kind);
    StreamProfile& s = p.stream[kind];
    r.parameter(stream, here, "efficiency", Range::kShare, s.efficiency);
    r.parameter(stream, here, "half_bytes", Range::kNotNegative, s.half_bytes);
    r.parameter(stream, here, "launch_us", Range::kNotNegative, s.launch_us);
  }
  const auto& attention = r.array(v, at, "attention");
  for (std::size_t i = 0; i < attention.size(); ++i) p.attention.push_back(read_attention(r, attention[i], fmt::format("{}/attention/{}", at, i)));
  const auto& curves = r.array(v, at, "collectives");
  for (std::size_t i = 0; i < curves.size(); ++i) p.collectives.push_back(read_curve(r, curves[i], fmt::format("{}/collectives/{}", at, i)));
  read_device(r, v, at, p);
  const Value& error = v.at("expected_error");
  if (error.at("median").is_number()) p.expected_error_median = error.at("median").as_double();
  if (error.at("p90").is_number()) p.expected_error_p90 = error.at("p90").as_double();
  if (!problems.empty()) {
    if (problems.size() > 20) problems.resize(20);
    return fail(std::move(problems));
  }
  return p;
}

namespace {

/// A parameter that was not stated equals its default and does not win.
template <class Section>
void take(Parameter Section::*member, Section& base, const Section& over) {
  if (!(over.*member == Section{}.*member)) base.*member = over.*member;
}

template <class Item, class Key>
void take_items(std::vector<Item>& base, const std::vector<Item>& over, Key key) {
  for (const Item& item : over) {
    const auto found = std::find_if(base.begin(), base.end(), [&](const Item& b) { return key(b) == key(item); });
    if (found == base.end()) base.push_back(item);
    else *found = item;
  }
}

}  // namespace

Profile merge(Profile base, const Profile& over) {
  base.name = over.name;
  base.provenance = over.provenance;
  base.gpu = over.gpu;
  base.architecture = over.architecture;
  base.fabric = over.fabric;
  base.same_part = over.same_part;
  if (!over.nccl_version.empty()) base.nccl_version = over.nccl_version;
  for (const auto& [dtype, gemm] : over.gemm) base.gemm[dtype] = gemm;
  for (const auto& [kind, stream] : over.stream) base.stream[kind] = stream;
  // The kernels of the profile that wins come first: the first one is what an unnamed kernel means.
  std::vector<AttentionProfile> kernels = over.attention;
  for (const AttentionProfile& a : base.attention) {
    const bool replaced = std::any_of(over.attention.begin(), over.attention.end(), [&](const AttentionProfile& o) { return o.kernel == a.kernel && o.dim == a.dim; });
    if (!replaced) kernels.push_back(a);
  }
  base.attention = std::move(kernels);
  take_items(base.collectives, over.collectives, [](const CollectiveCurve& c) { return std::tie(c.kind, c.algorithm, c.ranks, c.nodes, c.nccl_version); });
  take(&LinkProfile::scale_up_efficiency, base.links, over.links);
  take(&LinkProfile::nic_efficiency, base.links, over.links);
  take(&LinkProfile::pcie_efficiency, base.links, over.links);
  take(&LinkProfile::nvls_efficiency, base.links, over.links);
  take(&LinkProfile::pairs_efficiency, base.links, over.links);
  take(&LinkProfile::ramp_us, base.links, over.links);
  take(&LinkProfile::network_ramp_us, base.links, over.links);
  take(&LinkProfile::latency_ratio, base.links, over.links);
  take(&LinkProfile::network_latency_ratio, base.links, over.links);
  take(&OverlapProfile::hbm_per_wire_byte, base.overlap, over.overlap);
  take(&PowerProfile::gamma_tensor, base.power, over.power);
  take(&PowerProfile::gamma_memory, base.power, over.power);
  take(&L2Profile::fraction, base.l2, over.l2);
  take(&L2Profile::bandwidth_factor, base.l2, over.l2);
  const auto take_direction = [&](ExchangeDirection& b, const ExchangeDirection& o) {
    take(&ExchangeDirection::latency_us, b, o);
    take(&ExchangeDirection::token_us, b, o);
    take(&ExchangeDirection::token_gb_per_s, b, o);
    take(&ExchangeDirection::copy_us, b, o);
    take(&ExchangeDirection::copy_gb_per_s, b, o);
  };
  take_direction(base.exchange.dispatch, over.exchange.dispatch);
  take_direction(base.exchange.combine, over.exchange.combine);
  take(&ExchangeProfile::scale_up_efficiency, base.exchange, over.exchange);
  take(&GroupedProfile::efficiency, base.grouped, over.grouped);
  if (over.expected_error_median) base.expected_error_median = over.expected_error_median;
  if (over.expected_error_p90) base.expected_error_p90 = over.expected_error_p90;
  base.sources.insert(base.sources.end(), over.sources.begin(), over.sources.end());
  return base;
}

}  // namespace orrery::calibration
