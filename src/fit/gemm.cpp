// GEMM: the tile and wave model's parameters of one type, then layouts, alignment and sustained clocks where such rows are there.
//
// The library's menu of tiles is not known. Two are tried as a whole, the better one is kept: large tiles that fill an SM and smaller ones two at
// a time (kernels that start a CTA per tile), or single tiles of all sizes (persistent kernels). The rates of smaller tiles are three
// parameters, one per size class; all else is as calibration::GemmProfile says.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "fit/kinds.hpp"
#include "fit/quantile.hpp"
#include "fit/shapes.hpp"

namespace orrery::fit {
namespace {

using calibration::GemmProfile;
using calibration::Parameter;
using calibration::Point;

enum At : std::size_t { kEfficiency, kOverhead, kLaunch, kBandwidth, kHardness, kMiddle, kSmall, kSmallest, kClock, kL2Fraction, kL2Factor, kWeightL2, kRatio, kQuantise, kQuantiseBandwidth, kCount };

/// A tile with the size class of its rate: 0 the best, then kMiddle, kSmall, kSmallest.
struct MenuTile {
  int m, n, per_sm;
  std::size_t rate;
};
const std::vector<std::vector<MenuTile>>& menus() {
  static const std::vector<std::vector<MenuTile>> all = {
      {{256, 128, 1, 0}, {128, 256, 1, 0}, {128, 192, 1, 0}, {192, 128, 1, 0}, {128, 128, 1, kMiddle}, {64, 256, 1, 0}, {256, 64, 1, 0}, {128, 64, 1, kSmall}, {64, 128, 1, kSmall},
       {64, 64, 1, kSmallest}},
      {{256, 128, 1, 0}, {128, 256, 1, 0}, {128, 128, 2, kMiddle}, {64, 256, 1, kSmall}, {256, 64, 1, kSmall}, {128, 64, 2, kSmall}, {64, 128, 2, kSmall}, {64, 64, 2, kSmallest}},
  };
  return all;
}

GemmProfile profile_of(std::span<const double> v, std::size_t menu, bool sustained) {
  GemmProfile g;
  g.efficiency.value = v[kEfficiency];
  g.wave_overhead_us.value = v[kOverhead];
  g.launch_us.value = v[kLaunch];
  g.bandwidth_efficiency.value = v[kBandwidth];
  g.wave_hardness.value = v[kHardness];
  // FLOPs at which half of the throttling has set in, in ln of 1e9.
  (sustained ? g.sustained_flops : g.burst_flops).value = 1e9 * std::exp(v[kClock]);
  g.sustained_ratio.value = v[kRatio];
  g.l2_fraction.value = v[kL2Fraction];
  g.l2_bandwidth_factor.value = v[kL2Factor];
  g.weight_l2_fraction.value = v[kWeightL2];
  g.quantise_us.value = v[kQuantise];
  g.quantise_bandwidth.value = v[kQuantiseBandwidth];
  g.layout_nn.value = g.layout_nt_accumulate.value = 1;
  g.align_penalty.value = 1;
  g.tiles.clear();
  for (const MenuTile& t : menus()[menu]) g.tiles.push_back({t.m, t.n, t.per_sm, t.rate == 0 ? 1.0 : v[t.rate]});
  return g;
}

/// Parameters' starts and bounds. What the data cannot tell keeps its start: bounds that coincide.
/// `launch`: of other rows on this device, where all of these hold a quantisation's start as well: the two cannot be told apart. `burst`: the FLOPs at which
/// a burst throttles, where they are known: rows at one clock hardly tell throttling from what else long kernels lose, and the depth of sustained clocks is
/// known against that onset.
Model model_of(std::size_t menu, const Problem& problem, const cluster::Gpu& gpu, double peak, bool sustained, bool quantised, double hardness, double ratio, const Parameter* launch, const Parameter* burst) {
  Model m;
  m.start = {0.75, 2.5, 1.5, 0.75, hardness, 0.95, 0.85, 0.65, sustained ? 2.0 : 8.0, 0.5, 1.5, 0.2, sustained ? 1.15 : ratio, quantised ? 6.0 : 0.0, 0.4};
  m.low = {0.2, 0, 0, 0.2, 0, 0.3, 0.25, 0.15, sustained ? 0.0 : 3.0, 0.1, 1, 0.02, sustained ? 1.0 : ratio, 0, 0.1};
  m.high = {1, 30, 20, 1, 1, 1, 1, 1, sustained ? 5.0 : 14.0, 1, 8, 1, sustained ? 1.4 : ratio, quantised ? 40.0 : 0.0, 1};
  if (burst != nullptr) m.low[kClock] = m.high[kClock] = m.start[kClock] = std::log(burst->value / 1e9);
  if (launch != nullptr) m.low[kLaunch] = m.high[kLaunch] = m.start[kLaunch] = launch->value;
  if (!quantised) m.low[kQuantiseBandwidth] = m.high[kQuantiseBandwidth] = m.start[kQuantiseBandwidth];
  if (!(gpu.l2.value() > 0)) {
    m.start[kL2Factor] = 1;
    m.start[kWeightL2] = 0;
    for (const At at : {kL2Fraction, kL2Factor, kWeightL2}) m.low[at] = m.high[at] = m.start[at];
  }
  m.log_predicted = [&problem, &gpu, peak, menu, sustained](std::span<const double> v, std::span<const std::size_t> rows, std::span<double> out) {
    const GemmTimer timer(gpu, peak, profile_of(v, menu, sustained), sustained ? cost::Clocks::kSustained : cost::Clocks::kBurst);
    for (std::size_t i = 0; i < rows.size(); ++i) out[i] = std::log(gemm_us(timer, *problem.points[rows[i]]));
  };
  return m;
}

/// 16 bytes of the contiguous extents of a forward product.
bool is_aligned(const Point& p) {
  const int elements = p.dtype == "fp32" || p.dtype == "tf32" ? 4 : p.dtype == "bf16" || p.dtype == "fp16" ? 8 : p.dtype == "fp4" ? 32 : 16;
  return p.k % elements == 0 && p.n % elements == 0;
}

/// Median of measured over predicted of some rows, as a parameter; nothing where there are fewer than five.
std::optional<Parameter> ratio(const std::vector<double>& ratios, Origin origin, double least, double most) {
  constexpr std::size_t kFew = 5;
  if (ratios.size() < kFew) return std::nullopt;
  const auto bound = [&](double v) { return std::clamp(v, least, most); };
  return parameter(bound(quantile(ratios, 0.5)), bound(quantile(ratios, 0.05)), bound(quantile(ratios, 0.95)), origin);
}

class GemmFit {
 public:
  GemmFit(std::string dtype, const cluster::Gpu& gpu, const Options& options, Fitted& out)
      : dtype_(std::move(dtype)), gpu_(gpu), peak_(*peak_of(gpu, dtype_)), options_(options), out_(out) {}

  void run(const std::vector<const Point*>& points) {
    std::vector<const Point*> burst, sustained, others;
    for (const Point* p : points) {
      const bool plain = p->layout == "tn" && !p->accumulate && p->batch == 1 && is_aligned(*p);
      (!plain ? others : p->context == "sustained" ? sustained : burst).push_back(p);
    }
    // Kernels are fitted on the clocks that more rows have; the other rows then fix the clocks' own parameters.
    const bool at_sustained = burst.size() < sustained.size();
    const std::vector<const Point*>& main = at_sustained ? sustained : burst;
    const std::string name = "gemm/" + dtype_;
    Problem problem = collect(name, main);
    const bool quantised = std::any_of(main.begin(), main.end(), [](const Point* p) { return quantises(*p); });
    const bool all_quantised = std::all_of(main.begin(), main.end(), [](const Point* p) { return quantises(*p); });
    const std::optional<Parameter> launch = all_quantised ? launch_of_others() : std::nullopt;
    const GemmProfile was = known();
    const Parameter* burst_onset = !at_sustained && was.burst_flops.origin != Origin::kDefault && was.burst_flops.value > 0 ? &was.burst_flops : nullptr;
    for (const double hardness : {0.1, 0.9})
      for (std::size_t menu = 0; menu < menus().size(); ++menu) problem.models.push_back(model_of(menu, problem, gpu_, peak_, at_sustained, quantised, hardness, was.sustained_ratio.value, launch ? &*launch : nullptr, burst_onset));
    const Outcome o = solve(problem, options_);
    if (!o.determined) {
      out_.notes.push_back(fmt::format("{}: {} points of forward products are too few to fit", name, main.size()));
      return;
    }
    report_class(name, o, out_);
    write(o, at_sustained, quantised);
    if (launch) out_.profile.gemm[dtype_].launch_us = *launch;
    if (burst_onset != nullptr) out_.profile.gemm[dtype_].burst_flops = was.burst_flops;
    GemmProfile& g = out_.profile.gemm[dtype_];
    clocks(g, at_sustained ? burst : sustained, !at_sustained, name);
    layouts(g, others, at_sustained);
  }

 private:
  /// What the base says of this type. Where it says nothing, a long kernel takes 1.15 of its boost time once clocks have settled: between what
  /// sustained tables of H200 (1.17) and B200 (1.13) and a sustained A100 (1.13) gave (docs/calibration-profiles.md).
  GemmProfile known() const {
    if (const auto found = out_.profile.gemm.find(dtype_); found != out_.profile.gemm.end()) return found->second;
    GemmProfile g;
    g.sustained_ratio = {1.15, 1.05, 1.25, Origin::kExtrapolated};
    return g;
  }

  /// The gap between kernels is the device's, whatever they multiply: a 16-bit type's, fitted here or known before.
  std::optional<Parameter> launch_of_others() const {
    for (const char* type : {"bf16", "fp16"})
      if (const auto found = out_.profile.gemm.find(type); found != out_.profile.gemm.end()) return found->second.launch_us;
    return std::nullopt;
  }

  Problem collect(const std::string& name, const std::vector<const Point*>& points) const {
    Problem problem;
    problem.name = name;
    // Equal shapes are repetitions of one: their median counts once.
    std::map<std::string, std::vector<const Point*>> by;
    for (const Point* p : points) by[calibration::key_of(*p)].push_back(p);
    for (const auto& [key, same] : by) {
      std::vector<double> times;
      for (const Point* p : same) times.push_back(calibration::median_us(*p));
      const Point* p = same.front();
      problem.points.push_back(p);
      problem.extents.push_back({static_cast<double>(p->m), static_cast<double>(p->n), static_cast<double>(p->k)});
      problem.log_measured.push_back(std::log(quantile(times, 0.5)));
      problem.group.push_back(fmt::format("{}x{}", p->n, p->k));
      problem.core.push_back(calibration::is_large(*p));
      problem.table.push_back(true);
    }
    return problem;
  }

  void write(const Outcome& o, bool sustained, bool quantised) {
    const GemmProfile was = known();
    GemmProfile g = profile_of(o.value, o.model % menus().size(), sustained);
    const auto value = [&](std::size_t i) { return parameter(o.value[i], o.low[i], o.high[i], options_.origin); };
    g.efficiency = value(kEfficiency);
    g.wave_overhead_us = value(kOverhead);
    g.launch_us = value(kLaunch);
    g.bandwidth_efficiency = value(kBandwidth);
    g.wave_hardness = value(kHardness);
    g.l2_fraction = value(kL2Fraction);
    g.l2_bandwidth_factor = value(kL2Factor);
    g.weight_l2_fraction = value(kWeightL2);
    const auto flops = [&] { return parameter(1e9 * std::exp(o.value[kClock]), 1e9 * std::exp(o.low[kClock]), 1e9 * std::exp(o.high[kClock]), options_.origin); };
    g.sustained_flops = sustained ? flops() : was.sustained_flops;
    g.burst_flops = sustained ? was.burst_flops : flops();
    g.sustained_ratio = sustained ? value(kRatio) : was.sustained_ratio;
    if (quantised) {
      g.quantise_us = value(kQuantise);
      g.quantise_bandwidth = value(kQuantiseBandwidth);
    } else {
      g.quantise_us = was.quantise_us;
      g.quantise_bandwidth = was.quantise_bandwidth;
    }
    for (calibration::Tile& t : g.tiles) t.factor = std::round(t.factor * 1e3) / 1e3;
    g.layout_nn = was.layout_nn;
    g.layout_nt_accumulate = was.layout_nt_accumulate;
    g.align_penalty = was.align_penalty;
    g.sparse_efficiency = was.sparse_efficiency;
    g.residual = o.residual;
    out_.profile.gemm[dtype_] = std::move(g);
  }

  /// Throttling at the clocks that the kernels were not fitted on: its depth and onset, everything else as it is.
  void clocks(GemmProfile& g, const std::vector<const Point*>& points, bool sustained, const std::string& name) {
    if (points.empty()) return;
    Problem problem = collect(name + (sustained ? "/sustained" : "/burst"), points);
    Model m;
    m.start = {sustained ? 1.15 : g.sustained_ratio.value, sustained ? 2.0 : 8.0};
    m.low = {sustained ? 1.0 : g.sustained_ratio.value, sustained ? 0.0 : 3.0};
    m.high = {sustained ? 1.4 : g.sustained_ratio.value, sustained ? 5.0 : 14.0};
    const auto with = [&, sustained](std::span<const double> v) {
      GemmProfile one = g;
      if (sustained) one.sustained_ratio.value = v[0];
      (sustained ? one.sustained_flops : one.burst_flops).value = 1e9 * std::exp(v[1]);
      return one;
    };
    m.log_predicted = [&, sustained](std::span<const double> v, std::span<const std::size_t> rows, std::span<double> out) {
      const GemmTimer timer(gpu_, peak_, with(v), sustained ? cost::Clocks::kSustained : cost::Clocks::kBurst);
      for (std::size_t i = 0; i < rows.size(); ++i) out[i] = std::log(gemm_us(timer, *problem.points[rows[i]]));
    };
    problem.models = {m};
    Options without = options_;
    without.residuals = false;
    const Outcome o = solve(problem, without);
    if (!o.determined) {
      out_.notes.push_back(fmt::format("{}: {} points are too few to fit", problem.name, points.size()));
      return;
    }
    report_class(problem.name, o, out_);
    if (sustained) g.sustained_ratio = parameter(o.value[0], o.low[0], o.high[0], options_.origin);
    (sustained ? g.sustained_flops : g.burst_flops) = parameter(1e9 * std::exp(o.value[1]), 1e9 * std::exp(o.low[1]), 1e9 * std::exp(o.high[1]), options_.origin);
  }

  /// Input gradients, weight gradients that accumulate, and contiguous extents that are no multiple of 16 bytes, against forward products.
  void layouts(GemmProfile& g, const std::vector<const Point*>& points, bool sustained) {
    GemmProfile plain = g;
    plain.layout_nn.value = plain.layout_nt_accumulate.value = plain.align_penalty.value = 1;
    std::vector<double> nn, nt, unaligned;
    for (const Point* p : points) {
      const bool at = p->context == "sustained" || (p->context.empty() && sustained);
      const double r = calibration::median_us(*p) / gemm_us(GemmTimer(gpu_, peak_, plain, at ? cost::Clocks::kSustained : cost::Clocks::kBurst), *p);
      if (p->layout == "nn" && is_aligned(*p)) nn.push_back(1 / r);
      else if (p->layout == "nt" && p->accumulate) nt.push_back(1 / r);
      else if (p->layout == "tn" && !is_aligned(*p)) unaligned.push_back(r);
    }
    if (const auto p = ratio(nn, options_.origin, 0.5, 1.2)) g.layout_nn = *p;
    if (const auto p = ratio(nt, options_.origin, 0.3, 1.2)) g.layout_nt_accumulate = *p;
    if (const auto p = ratio(unaligned, options_.origin, 1, 8)) g.align_penalty = *p;
  }

  std::string dtype_;
  const cluster::Gpu& gpu_;
  double peak_;
  const Options& options_;
  Fitted& out_;
};

}  // namespace

void fit_gemm(const std::vector<const Point*>& points, const cluster::Gpu& gpu, const Options& options, Fitted& out) {
  std::map<std::string, std::vector<const Point*>> by;
  for (const Point* p : points)
    if (p->kind == Point::Kind::kGemm) by[p->dtype].push_back(p);
  for (const auto& [dtype, some] : by) GemmFit(dtype, gpu, options, out).run(some);
}

}  // namespace orrery::fit
