// Streams: launch, bandwidth and the size at half of it, by kind. Collectives: the median time at each size, made monotone.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "fit/kinds.hpp"
#include "fit/quantile.hpp"
#include "fit/shapes.hpp"

namespace orrery::fit {

using calibration::Point;

void fit_streams(const std::vector<const Point*>& points, const cluster::Gpu& gpu, const Options& options, Fitted& out) {
  std::map<std::string, std::vector<const Point*>> by;
  for (const Point* p : points)
    if (p->kind == Point::Kind::kStream) by[p->stream].push_back(p);
  for (const auto& [kind, some] : by) {
    Problem problem;
    problem.name = "stream/" + kind;
    for (const Point* p : some) {
      const auto bytes = static_cast<double>(p->read_bytes + p->write_bytes);
      problem.points.push_back(p);
      problem.extents.push_back({bytes, 1, 1});
      problem.log_measured.push_back(std::log(calibration::median_us(*p)));
      problem.group.push_back(fmt::format("{}", static_cast<int>(std::log2(bytes))));
      problem.core.push_back(true);
      problem.table.push_back(false);
    }
    Model m;
    m.start = {0.8, std::log(4e6), 2};
    m.low = {0.05, std::log(1e3), 0};
    m.high = {1, std::log(1e9), 200};
    const auto profile = [](std::span<const double> v) {
      calibration::StreamProfile s;
      s.efficiency.value = v[0];
      s.half_bytes.value = std::exp(v[1]);
      s.launch_us.value = v[2];
      return s;
    };
    m.log_predicted = [&](std::span<const double> v, std::span<const std::size_t> rows, std::span<double> to) {
      const calibration::StreamProfile s = profile(v);
      for (std::size_t i = 0; i < rows.size(); ++i) to[i] = std::log(stream_us(s, gpu, *problem.points[rows[i]]));
    };
    problem.models = {m};
    Options without = options;
    without.residuals = false;
    const Outcome o = solve(problem, without);
    if (!o.determined) {
      out.notes.push_back(fmt::format("stream/{}: {} points are too few to fit", kind, some.size()));
      continue;
    }
    report_class(problem.name, o, out);
    calibration::StreamProfile& s = out.profile.stream[kind];
    s.efficiency = parameter(o.value[0], o.low[0], o.high[0], options.origin);
    s.half_bytes = parameter(std::exp(o.value[1]), std::exp(o.low[1]), std::exp(o.high[1]), options.origin);
    s.launch_us = parameter(o.value[2], o.low[2], o.high[2], options.origin);
  }
}

namespace {

/// Nearest rising sequence in the sense of least squares of logarithms: pools of adjacent violators (Ayer et al. 1955).
void make_monotone(std::vector<double>& log_times) {
  struct Pool {
    double sum = 0;
    std::size_t count = 0;
  };
  std::vector<Pool> pools;
  for (const double t : log_times) {
    pools.push_back({t, 1});
    while (pools.size() > 1) {
      const Pool& b = pools.back();
      Pool& a = pools[pools.size() - 2];
      if (a.sum / static_cast<double>(a.count) <= b.sum / static_cast<double>(b.count)) break;
      a.sum += b.sum;
      a.count += b.count;
      pools.pop_back();
    }
  }
  std::size_t at = 0;
  for (const Pool& p : pools)
    for (std::size_t i = 0; i < p.count; ++i) log_times[at++] = p.sum / static_cast<double>(p.count);
}

}  // namespace

void fit_collectives(const std::vector<const Point*>& points, const Options& options, Fitted& out) {
  struct Key {
    std::string kind, algorithm;
    int ranks = 0, nodes = 0;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::map<std::int64_t, std::vector<double>>> by;
  for (const Point* p : points)
    if (p->kind == Point::Kind::kCollective) by[{p->collective, p->algorithm, p->ranks, p->nodes}][p->bytes].push_back(calibration::median_us(*p));
  for (const auto& [key, sizes] : by) {
    std::vector<double> log_times;
    calibration::CollectiveCurve c;
    c.kind = key.kind;
    c.algorithm = key.algorithm;
    c.ranks = key.ranks;
    c.nodes = key.nodes;
    c.origin = options.origin;
    for (const auto& [bytes, times] : sizes) {
      c.bytes.push_back(static_cast<double>(bytes));
      log_times.push_back(std::log(quantile(times, 0.5)));
    }
    // Left out one by one, from what its neighbours say: what the curve is worth between sizes.
    std::vector<double> errors, signs;
    for (std::size_t i = 1; i + 1 < log_times.size(); ++i) {
      const double x = std::log(c.bytes[i] / c.bytes[i - 1]) / std::log(c.bytes[i + 1] / c.bytes[i - 1]);
      signs.push_back(std::exp(log_times[i - 1] + x * (log_times[i + 1] - log_times[i - 1]) - log_times[i]) - 1);
      errors.push_back(std::abs(signs.back()));
    }
    if (!errors.empty()) {
      const std::string name = fmt::format("collective/{}/{}x{}", key.kind, key.ranks, key.nodes);
      out.held_out.push_back({name, errors.size(), quantile(errors, 0.5), quantile(errors, 0.9), quantile(signs, 0.5)});
    }
    make_monotone(log_times);
    for (const double t : log_times) c.time_us.push_back(std::exp(t));
    auto& all = out.profile.collectives;
    const auto known = std::find_if(all.begin(), all.end(), [&](const auto& o) { return o.kind == c.kind && o.algorithm == c.algorithm && o.ranks == c.ranks && o.nodes == c.nodes; });
    if (known == all.end()) all.push_back(std::move(c));
    else *known = std::move(c);
  }
}

}  // namespace orrery::fit
