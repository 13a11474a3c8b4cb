// The statistics of the gate. Distributions are Boost.Math's; the exact distribution of U is counted, as no library has it.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <boost/math/distributions/normal.hpp>

#include "orrery/base/assert.hpp"
#include "orrery/base/random.hpp"
#include "orrery/calibration/gate.hpp"

namespace orrery::calibration {
namespace {

constexpr std::size_t kExact = 20;

double median_of(std::vector<double> v) {
  const std::size_t half = v.size() / 2;
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(half), v.end());
  if (v.size() % 2 == 1) return v[half];
  return 0.5 * (v[half] + *std::max_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(half)));
}

/// P(U <= u) under the null hypothesis, by the number of arrangements with each U: f(u; n, m) = f(u - m; n - 1, m) + f(u; n, m - 1).
double exact_tail(std::size_t n, std::size_t m, std::size_t u) {
  // Gaussian binomial coefficient: its coefficients count the arrangements. Multiply by (1 - q^(m+i)) and divide by (1 - q^i), i = 1 … n.
  std::vector<double> count(n * m + 1, 0.0);
  count[0] = 1;
  for (std::size_t i = 1; i <= n; ++i) {
    for (std::size_t k = n * m; k + 1 > m + i; --k) count[k] -= count[k - m - i];
    for (std::size_t k = i; k <= n * m; ++k) count[k] += count[k - i];
  }
  const double all = std::accumulate(count.begin(), count.end(), 0.0);
  return std::accumulate(count.begin(), count.begin() + static_cast<std::ptrdiff_t>(std::min(u, n * m)) + 1, 0.0) / all;
}

}  // namespace

double mann_whitney_p(std::span<const double> a, std::span<const double> b) {
  const std::size_t n = a.size(), m = b.size();
  if (n == 0 || m == 0) return 1;
  std::vector<std::pair<double, bool>> all;
  for (const double x : a) all.emplace_back(x, false);
  for (const double x : b) all.emplace_back(x, true);
  std::sort(all.begin(), all.end());
  double rank_sum = 0, ties = 0;  // of a
  for (std::size_t i = 0; i < all.size();) {
    std::size_t j = i;
    while (j < all.size() && all[j].first == all[i].first) ++j;
    const double rank = 0.5 * static_cast<double>(i + j + 1), same = static_cast<double>(j - i);
    if (j - i > 1) ties += same * same * same - same;
    for (std::size_t k = i; k < j; ++k)
      if (!all[k].second) rank_sum += rank;
    i = j;
  }
  const double nd = static_cast<double>(n), md = static_cast<double>(m), total = nd + md;
  const double ua = rank_sum - nd * (nd + 1) / 2;
  const double u = std::min(ua, nd * md - ua);
  if (ties == 0 && n <= kExact && m <= kExact) return std::min(1.0, 2 * exact_tail(n, m, static_cast<std::size_t>(std::llround(u))));
  const double variance = nd * md / 12 * (total + 1 - ties / (total * (total - 1)));
  if (!(variance > 0)) return 1;
  const double z = (u - nd * md / 2 + 0.5) / std::sqrt(variance);  // continuity
  return std::min(1.0, 2 * boost::math::cdf(boost::math::normal(), std::min(0.0, z)));
}

std::pair<double, double> theil_sen(std::span<const double> x, std::span<const double> y) {
  ORRERY_ASSERT(x.size() == y.size() && x.size() >= 2, "a line is of two points at least");
  std::vector<double> slopes, intercepts;
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = i + 1; j < x.size(); ++j)
      if (x[i] != x[j]) slopes.push_back((y[j] - y[i]) / (x[j] - x[i]));
  ORRERY_ASSERT(!slopes.empty(), "two abscissas differ");
  const double slope = median_of(slopes);
  for (std::size_t i = 0; i < x.size(); ++i) intercepts.push_back(y[i] - slope * x[i]);
  return {slope, median_of(intercepts)};
}

std::size_t conformal_index(std::size_t n, double alpha) {
  const double exact = (static_cast<double>(n) + 1) * (1 - alpha);
  // (n + 1)(1 - alpha) is often whole, and its rounding must not push it over.
  return std::min(n, static_cast<std::size_t>(std::ceil(exact - 1e-9)));
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::vector<double> out(p.size());
  double least = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    least = std::max(least, std::min(1.0, p[order[i]] * static_cast<double>(p.size() - i)));
    out[order[i]] = least;
  }
  return out;
}

std::pair<double, double> ratio_interval(std::span<const double> a, std::span<const double> b, double level, std::uint64_t seed, const std::string& stream) {
  constexpr std::size_t kResamples = 400;
  ORRERY_ASSERT(!a.empty() && !b.empty(), "medians are of something");
  std::vector<double> ratios, one(a.size()), other(b.size());
  std::uint64_t index = 0;
  for (std::size_t r = 0; r < kResamples; ++r) {
    const auto draw = [&](std::span<const double> from, std::vector<double>& to) {
      for (double& x : to) x = from[static_cast<std::size_t>(random_uniform(seed, stream, index++) * static_cast<double>(from.size()))];
    };
    draw(a, one);
    draw(b, other);
    ratios.push_back(median_of(other) / median_of(one));
  }
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double q) { return ratios[static_cast<std::size_t>(std::lround(q * static_cast<double>(kResamples - 1)))]; };
  return {at((1 - level) / 2), at((1 + level) / 2)};
}

Split split(std::span<const double> values) {
  constexpr std::size_t kLeast = 6;
  constexpr double kAshman = 3;  // two groups whose means stand three widths apart (Ashman, Bird, Zepf, AJ 108 (1994) 2348, ask for two)
  Split out;
  if (values.size() < kLeast) return out;
  std::vector<double> v(values.begin(), values.end());
  std::sort(v.begin(), v.end());
  const double n = static_cast<double>(v.size());
  double sum = 0, squares = 0;
  for (const double x : v) sum += x;
  for (const double x : v) squares += (x - sum / n) * (x - sum / n);
  if (!(squares > 0)) return out;
  double left = 0;
  std::size_t best = 0;
  for (std::size_t i = 1; i < v.size(); ++i) {
    left += v[i - 1];
    const double k = static_cast<double>(i), d = left / k - (sum - left) / (n - k);
    const double explained = k * (n - k) / n * d * d / squares;
    if (explained > out.explained) out = {explained, left / k, (sum - left) / (n - k), (n - k) / n, false}, best = i;
  }
  double within = 0;
  for (std::size_t i = 0; i < v.size(); ++i) within += std::pow(v[i] - (i < best ? out.low : out.high), 2);
  const double width = std::sqrt(within / n);
  // A group of one is an outlier, not a second mode.
  const bool both = best >= 2 && v.size() - best >= 2;
  // A normal distribution split at its middle explains 2/pi of its variance and stands 2.6 widths apart.
  out.two = both && (out.high - out.low) > kAshman * std::max(width, 1e-12) * (1 + 4 / n);
  return out;
}

}  // namespace orrery::calibration
