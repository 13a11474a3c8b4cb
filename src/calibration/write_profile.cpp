// A profile as the document that read_profile reads back.
#include <fmt/format.h>

#include "orrery/calibration/profile.hpp"

namespace orrery::calibration {
namespace {

using document::Value;

class Writer {
 public:
  explicit Writer(Value& to) : to_(to) {}
  /// A parameter that equals its default says nothing.
  void operator()(const char* key, const Parameter& p, const Parameter& unstated) {
    if (p == unstated) return;
    to_.set(key, Value::Object{{"value", p.value}, {"low", p.low}, {"high", p.high}, {"origin", std::string(to_string(p.origin))}});
  }

 private:
  Value& to_;
};

Value residual(const ResidualTable& t) {
  Value::Array axes, values;
  for (const auto& axis : t.axes) {
    Value::Array extents;
    for (const double x : axis) {
      const auto whole = static_cast<std::int64_t>(x);
      if (static_cast<double>(whole) == x) extents.emplace_back(whole);
      else extents.emplace_back(x);
    }
    axes.emplace_back(std::move(extents));
  }
  for (const int v : t.values) values.emplace_back(static_cast<std::int64_t>(v));
  return Value::Object{{"axes", std::move(axes)}, {"thousandths", std::move(values)}};
}

Value gemm(const GemmProfile& g) {
  const GemmProfile d;
  Value v = Value::Object{};
  Writer w(v);
  w("efficiency", g.efficiency, d.efficiency);
  w("wave_overhead_us", g.wave_overhead_us, d.wave_overhead_us);
  w("launch_us", g.launch_us, d.launch_us);
  w("bandwidth_efficiency", g.bandwidth_efficiency, d.bandwidth_efficiency);
  w("wave_hardness", g.wave_hardness, d.wave_hardness);
  w("layout_nn", g.layout_nn, d.layout_nn);
  w("layout_nt_accumulate", g.layout_nt_accumulate, d.layout_nt_accumulate);
  w("align_penalty", g.align_penalty, d.align_penalty);
  w("sparse_efficiency", g.sparse_efficiency, d.sparse_efficiency);
  w("sustained_ratio", g.sustained_ratio, d.sustained_ratio);
  w("sustained_flops", g.sustained_flops, d.sustained_flops);
  w("burst_flops", g.burst_flops, d.burst_flops);
  w("l2_fraction", g.l2_fraction, d.l2_fraction);
  w("l2_bandwidth_factor", g.l2_bandwidth_factor, d.l2_bandwidth_factor);
  w("weight_l2_fraction", g.weight_l2_fraction, d.weight_l2_fraction);
  w("quantise_us", g.quantise_us, d.quantise_us);
  w("quantise_bandwidth", g.quantise_bandwidth, d.quantise_bandwidth);
  Value::Array tiles;
  for (const Tile& t : g.tiles) tiles.push_back(Value::Object{{"m", t.m}, {"n", t.n}, {"per_sm", t.per_sm}, {"factor", t.factor}});
  v.set("tiles", std::move(tiles));
  v.set("split_k_max", g.split_k_max);
  if (!g.residual.empty()) v.set("residual", residual(g.residual));
  return v;
}

Value attention(const AttentionProfile& a) {
  const AttentionProfile d;
  Value v = Value::Object{{"kernel", a.kernel}, {"dim", a.dim}};
  Writer w(v);
  w("forward_efficiency", a.forward_efficiency, d.forward_efficiency);
  w("backward_efficiency", a.backward_efficiency, d.backward_efficiency);
  w("saturation_causal", a.saturation_causal, d.saturation_causal);
  w("saturation_full", a.saturation_full, d.saturation_full);
  w("fill_exponent", a.fill_exponent, d.fill_exponent);
  w("launch_us", a.launch_us, d.launch_us);
  v.set("query_tile", a.query_tile);
  if (!a.residual.empty()) v.set("residual", residual(a.residual));
  return v;
}

Value collective(const CollectiveCurve& c) {
  Value v = Value::Object{{"kind", c.kind}, {"ranks", c.ranks}, {"nodes", c.nodes}};
  if (!c.algorithm.empty()) v.set("algorithm", c.algorithm);
  if (c.nccl_version != 0) v.set("nccl_version", c.nccl_version);
  if (c.scale_up_gb_per_s > 0) v.set("scale_up_gb_per_s", c.scale_up_gb_per_s);
  if (c.nic_gb_per_s > 0) v.set("nic_gb_per_s", c.nic_gb_per_s);
  Value::Array bytes, times;
  for (const double b : c.bytes) bytes.emplace_back(b);
  for (const double t : c.time_us) times.emplace_back(t);
  v.set("bytes", std::move(bytes));
  v.set("time_us", std::move(times));
  v.set("origin", std::string(to_string(c.origin)));
  return v;
}

Value links(const LinkProfile& l) {
  const LinkProfile d;
  Value v = Value::Object{};
  Writer w(v);
  w("scale_up_efficiency", l.scale_up_efficiency, d.scale_up_efficiency);
  w("nvls_efficiency", l.nvls_efficiency, d.nvls_efficiency);
  w("pairs_efficiency", l.pairs_efficiency, d.pairs_efficiency);
  w("nic_efficiency", l.nic_efficiency, d.nic_efficiency);
  w("pcie_efficiency", l.pcie_efficiency, d.pcie_efficiency);
  w("ramp_us", l.ramp_us, d.ramp_us);
  w("network_ramp_us", l.network_ramp_us, d.network_ramp_us);
  w("latency_ratio", l.latency_ratio, d.latency_ratio);
  w("network_latency_ratio", l.network_latency_ratio, d.network_latency_ratio);
  return v;
}

Value exchange_direction(const ExchangeDirection& e) {
  const ExchangeDirection d;
  Value v = Value::Object{};
  Writer w(v);
  w("latency_us", e.latency_us, d.latency_us);
  w("token_us", e.token_us, d.token_us);
  w("token_gb_per_s", e.token_gb_per_s, d.token_gb_per_s);
  w("copy_us", e.copy_us, d.copy_us);
  w("copy_gb_per_s", e.copy_gb_per_s, d.copy_gb_per_s);
  return v;
}

void device(const Profile& p, Value& v) {
  const auto put = [&](const char* key, Value section) {
    if (!section.members().empty()) v.set(key, std::move(section));
  };
  put("links", links(p.links));
  const OverlapProfile overlap;
  const PowerProfile power;
  const L2Profile l2;
  const GroupedProfile grouped;
  const ExchangeProfile exchange;
  Value o = Value::Object{}, w = Value::Object{}, c = Value::Object{}, g = Value::Object{}, e = Value::Object{};
  Writer{o}("hbm_per_wire_byte", p.overlap.hbm_per_wire_byte, overlap.hbm_per_wire_byte);
  Writer{w}("gamma_tensor", p.power.gamma_tensor, power.gamma_tensor);
  Writer{w}("gamma_memory", p.power.gamma_memory, power.gamma_memory);
  Writer{c}("fraction", p.l2.fraction, l2.fraction);
  Writer{c}("bandwidth_factor", p.l2.bandwidth_factor, l2.bandwidth_factor);
  Writer{g}("efficiency", p.grouped.efficiency, grouped.efficiency);
  Writer{e}("scale_up_efficiency", p.exchange.scale_up_efficiency, exchange.scale_up_efficiency);
  for (const auto& [key, direction] : {std::pair{"dispatch", &p.exchange.dispatch}, std::pair{"combine", &p.exchange.combine}})
    if (Value d = exchange_direction(*direction); !d.members().empty()) e.set(key, std::move(d));
  put("overlap", std::move(o));
  put("power", std::move(w));
  put("l2", std::move(c));
  put("grouped", std::move(g));
  put("exchange", std::move(e));
}

}  // namespace

Value to_value(const Profile& p) {
  Value v = Value::Object{{"schema", "orrery/profile/1"}, {"name", p.name}, {"provenance", p.provenance}};
  const auto put = [&](const char* key, const std::string& text) {
    if (!text.empty()) v.set(key, text);
  };
  put("gpu", p.gpu);
  const auto list = [](const std::vector<std::string>& texts) {
    Value::Array all;
    for (const std::string& t : texts) all.emplace_back(t);
    return all;
  };
  if (!p.same_part.empty()) v.set("same_part", list(p.same_part));
  put("architecture", p.architecture);
  put("fabric", p.fabric);
  put("nccl_version", p.nccl_version);
  Value::Object gemms, streams;
  for (const auto& [dtype, g] : p.gemm) gemms.emplace_back(dtype, gemm(g));
  for (const auto& [kind, s] : p.stream) {
    const StreamProfile d;
    Value one = Value::Object{};
    Writer w(one);
    w("efficiency", s.efficiency, d.efficiency);
    w("half_bytes", s.half_bytes, d.half_bytes);
    w("launch_us", s.launch_us, d.launch_us);
    streams.emplace_back(kind, std::move(one));
  }
  if (!gemms.empty()) v.set("gemm", std::move(gemms));
  if (!streams.empty()) v.set("stream", std::move(streams));
  Value::Array kernels, curves;
  for (const AttentionProfile& a : p.attention) kernels.push_back(attention(a));
  for (const CollectiveCurve& c : p.collectives) curves.push_back(collective(c));
  if (!kernels.empty()) v.set("attention", std::move(kernels));
  if (!curves.empty()) v.set("collectives", std::move(curves));
  device(p, v);
  if (p.expected_error_median && p.expected_error_p90) v.set("expected_error", Value::Object{{"median", *p.expected_error_median}, {"p90", *p.expected_error_p90}});
  v.set("sources", list(p.sources));
  return v;
}

}  // namespace orrery::calibration
