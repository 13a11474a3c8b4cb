// Attention, per kernel and head dim: rate, saturation, fill and launch of the forward kernel for each of three query tiles, the best of which is
// kept; then the rate of the backward kernel and the saturation without a mask, where such rows are there.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "fit/kinds.hpp"
#include "fit/quantile.hpp"
#include "fit/shapes.hpp"

namespace orrery::fit {
namespace {

using calibration::AttentionProfile;
using calibration::Point;

enum At : std::size_t { kRate, kSaturation, kFill, kLaunch };
constexpr std::array<int, 3> kQueryTiles = {64, 128, 256};
constexpr std::int64_t kShort = 256;  ///< tokens below which a launch is all there is

class AttentionFit {
 public:
  AttentionFit(std::string kernel, int dim, const cluster::Gpu& gpu, const Options& options, Fitted& out) : kernel_(std::move(kernel)), dim_(dim), gpu_(gpu), options_(options), out_(out) {
    const double bf16 = peak_of(gpu, "bf16").value_or(0), fp16 = peak_of(gpu, "fp16").value_or(0);
    sm_rate_ = std::max(bf16, fp16) / gpu.sm_count;
    device_ = {static_cast<double>(gpu.sm_count), gpu.memory_bandwidth.value()};
  }

  void run(const std::vector<const Point*>& points, bool several) {
    std::vector<const Point*> forward, full, backward;
    for (const Point* p : points) (p->backward ? backward : p->causal && p->seq_q == p->seq_kv ? forward : full).push_back(p);
    const std::string name = "attention/" + kernel_ + (several ? fmt::format("/{}", dim_) : "");
    if (!(sm_rate_ > 0)) return;
    Problem problem = collect(name, forward);
    for (const int tile : kQueryTiles) problem.models.push_back(model(problem, tile));
    const Outcome o = solve(problem, options_);
    if (!o.determined) {
      out_.notes.push_back(fmt::format("{}: {} causal forward points are too few to fit", name, forward.size()));
      return;
    }
    report_class(name, o, out_);
    write(o, full, backward);
  }

 private:
  Problem collect(const std::string& name, const std::vector<const Point*>& points) const {
    Problem problem;
    problem.name = name;
    for (const Point* p : points) {
      problem.points.push_back(p);
      problem.extents.push_back({static_cast<double>(p->batch), static_cast<double>(p->seq_q), static_cast<double>(p->heads)});
      problem.log_measured.push_back(std::log(calibration::median_us(*p)));
      problem.group.push_back(fmt::format("{}/{}", p->heads, p->kv_heads));
      problem.core.push_back(p->seq_q >= kShort);
      problem.table.push_back(true);
    }
    return problem;
  }

  AttentionProfile profile(std::span<const double> v, int tile) const {
    AttentionProfile a;
    a.kernel = kernel_;
    a.dim = dim_;
    a.forward_efficiency.value = v[kRate];
    a.saturation_causal.value = v[kSaturation];
    a.saturation_full.value = 0.5 * v[kSaturation];
    a.fill_exponent.value = v[kFill];
    a.launch_us.value = v[kLaunch];
    a.query_tile = tile;
    return a;
  }
  double us(const AttentionProfile& a, const Point& p) const { return cost::AttentionModel({a}, sm_rate_, 0).time(attention_of(p), device_).total * 1e6; }

  Model model(const Problem& problem, int tile) const {
    Model m;
    m.start = {0.55, 300, 0.7, 8};
    m.low = {0.02, 0, 0, 0};
    m.high = {1, 2000, 1, 60};
    m.log_predicted = [this, &problem, tile](std::span<const double> v, std::span<const std::size_t> rows, std::span<double> out) {
      const cost::AttentionModel timer({profile(v, tile)}, sm_rate_, 0);
      for (std::size_t i = 0; i < rows.size(); ++i) out[i] = std::log(timer.time(attention_of(*problem.points[rows[i]]), device_).total * 1e6);
    };
    return m;
  }

  void write(const Outcome& o, const std::vector<const Point*>& full, const std::vector<const Point*>& backward) {
    AttentionProfile a = profile(o.value, kQueryTiles[o.model]);
    const auto value = [&](std::size_t i) { return parameter(o.value[i], o.low[i], o.high[i], options_.origin); };
    a.forward_efficiency = value(kRate);
    a.saturation_causal = value(kSaturation);
    a.fill_exponent = value(kFill);
    a.launch_us = value(kLaunch);
    auto& all = out_.profile.attention;
    const auto known = std::find_if(all.begin(), all.end(), [&](const AttentionProfile& b) { return b.kernel == kernel_ && b.dim == dim_; });
    const AttentionProfile defaults;
    const AttentionProfile& was = known == all.end() ? defaults : *known;
    // Where nobody measured the backward kernel, it keeps its ratio to the forward one, as an extrapolation.
    const double scale = a.forward_efficiency.value / was.forward_efficiency.value;
    const auto scaled = [&](const calibration::Parameter& p, double by, double most) {
      return parameter(std::min(most, p.value * by), std::min(most, p.low * by), std::min(most, p.high * by), known == all.end() ? Origin::kExtrapolated : weaker(p.origin, Origin::kExtrapolated));
    };
    a.backward_efficiency = scaled(was.backward_efficiency, scale, 1);
    a.saturation_full = scaled(was.saturation_full, a.saturation_causal.value / was.saturation_causal.value, 1e6);
    second_parameter(full, a, &AttentionProfile::saturation_full, 0, 2000);
    second_parameter(backward, a, &AttentionProfile::backward_efficiency, 0.02, 1);
    a.residual = o.residual;
    if (known == all.end()) all.push_back(std::move(a));
    else *known = std::move(a);
  }

  /// One more parameter on rows of its own.
  void second_parameter(const std::vector<const Point*>& points, AttentionProfile& a, calibration::Parameter AttentionProfile::*which, double low, double high) {
    if (points.empty()) return;
    Problem problem = collect("", points);
    Model m;
    m.start = {std::clamp((a.*which).value, low, high)};
    m.low = {low};
    m.high = {high};
    m.log_predicted = [&](std::span<const double> v, std::span<const std::size_t> rows, std::span<double> out) {
      AttentionProfile one = a;
      (one.*which).value = v[0];
      for (std::size_t i = 0; i < rows.size(); ++i) out[i] = std::log(us(one, *problem.points[rows[i]]));
    };
    problem.models = {m};
    Options without = options_;
    without.residuals = false;
    const Outcome o = solve(problem, without);
    if (!o.determined) return;
    a.*which = parameter(o.value[0], o.low[0], o.high[0], options_.origin);
    report_class(fmt::format("attention/{}/{}", kernel_, which == &AttentionProfile::backward_efficiency ? "backward" : "full"), o, out_);
  }

  std::string kernel_;
  int dim_;
  const cluster::Gpu& gpu_;
  double sm_rate_ = 0;
  cost::Available device_;
  const Options& options_;
  Fitted& out_;
};

}  // namespace

void fit_attention(const std::vector<const Point*>& points, const cluster::Gpu& gpu, const Options& options, Fitted& out) {
  std::map<std::pair<std::string, int>, std::vector<const Point*>> by;
  // A kernel without a name is the one that the profile names first.
  const std::string unnamed = out.profile.attention.empty() ? "measured" : out.profile.attention.front().kernel;
  std::map<std::string, int> dims;
  for (const Point* p : points)
    if (p->kind == Point::Kind::kAttention) by[{p->kernel.empty() ? unnamed : p->kernel, static_cast<int>(std::min<std::int64_t>(p->head_dim, 4096))}].push_back(p);
  for (const auto& [key, some] : by) ++dims[key.first];
  for (const auto& [key, some] : by) AttentionFit(key.first, key.second, gpu, options, out).run(some, dims[key.first] > 1);
}

}  // namespace orrery::fit
