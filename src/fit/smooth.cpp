// The mean of the middle half by weight rather than of all: the library picks one kernel for a region of shapes, so that neighbours agree but for a few
// that got another kernel, and a mean of all would smear those over the region. Weights fall with |ln distance|, an exponential in each extent, because kernel
// choice follows tile counts, that is ratios of extents.
#include "fit/smooth.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace orrery::fit {
namespace {

constexpr double kSame = 1.02;      ///< extents nearer than this are one node (4096 and 4097)
constexpr double kApart = 1.06;     ///< neighbours on an axis are at least so far apart where it has many nodes, and this times as far until
constexpr std::size_t kDense = 48;  ///< there are no more nodes than these
constexpr double kCut = 7;          ///< weights below exp(-7) are none
constexpr double kTail = 0.25;      ///< share of the weight that is left out at either end
constexpr double kDoubt = 0.02;     ///< weight of the vote for 0, against 1 of a shape at the node

std::vector<double> thinned(const std::vector<double>& sorted, double apart) {
  std::vector<double> out;
  for (const double x : sorted)
    if (out.empty() || x >= out.back() * apart) out.push_back(x);
  if (!sorted.empty() && out.back() < sorted.back() / kSame) out.push_back(sorted.back());
  return out;
}

}  // namespace

std::array<std::vector<double>, 3> axes_of(std::span<const std::array<double, 3>> shapes) {
  std::array<std::vector<double>, 3> axes;
  for (std::size_t d = 0; d < 3; ++d) {
    std::vector<double> all;
    for (const auto& s : shapes) all.push_back(s[d]);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    axes[d] = thinned(all, kSame);
    for (double apart = kApart; axes[d].size() > kDense; apart *= kApart) axes[d] = thinned(all, apart);
  }
  return axes;
}

calibration::ResidualTable smooth(std::span<const Residual> residuals, const std::array<std::vector<double>, 3>& axes, const Reach& reach) {
  calibration::ResidualTable table;
  table.axes = axes;
  if (residuals.empty()) return {};
  // Residuals by their place on axis 1, so that a node looks only at those in its reach; then in order of value, for medians.
  std::vector<std::size_t> order(residuals.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(residuals[a].value, residuals[a].extents) < std::pair(residuals[b].value, residuals[b].extents);
  });
  std::array<std::vector<double>, 3> place;
  for (std::size_t d = 0; d < 3; ++d)
    for (const std::size_t i : order) place[d].push_back(std::log(residuals[i].extents[d]) / reach[d]);
  std::vector<std::pair<double, double>> near;  // value, weight
  std::vector<std::uint32_t> in0, in1;
  std::vector<double> far0, far1;
  for (const double x0 : axes[0]) {
    const double l0 = std::log(x0) / reach[0];
    in0.clear(), far0.clear();
    for (std::size_t i = 0; i < order.size(); ++i)
      if (const double far = std::abs(place[0][i] - l0); far < kCut) in0.push_back(static_cast<std::uint32_t>(i)), far0.push_back(far);
    for (const double x1 : axes[1]) {
      const double l1 = std::log(x1) / reach[1];
      in1.clear(), far1.clear();
      for (std::size_t i = 0; i < in0.size(); ++i)
        if (const double far = far0[i] + std::abs(place[1][in0[i]] - l1); far < kCut) in1.push_back(in0[i]), far1.push_back(far);
      for (const double x2 : axes[2]) {
        const double l2 = std::log(x2) / reach[2];
        near.clear();
        double total = kDoubt;
        bool zero = false;  // whether the vote for 0 has been cast, in order of value
        for (std::size_t i = 0; i < in1.size(); ++i) {
          const double far = far1[i] + std::abs(place[2][in1[i]] - l2);
          if (far >= kCut) continue;
          const double value = residuals[order[in1[i]]].value, weight = std::exp(-far);
          if (!zero && value > 0) near.emplace_back(0, kDoubt), zero = true;
          near.emplace_back(value, weight);
          total += weight;
        }
        if (!zero) near.emplace_back(0, kDoubt);
        double passed = 0, sum = 0, inside = 0;
        for (const auto& [value, weight] : near) {
          const double from = std::max(passed, kTail * total), to = std::min(passed + weight, (1 - kTail) * total);
          passed += weight;
          if (to <= from) continue;
          sum += value * (to - from);
          inside += to - from;
        }
        const double middle = inside > 0 ? sum / inside : 0;
        table.values.push_back(static_cast<int>(std::lround(std::clamp(middle, -2.0, 2.0) * 1000)));
      }
    }
  }
  return table;
}

calibration::ResidualTable smooth(std::vector<Residual> residuals, const std::array<std::vector<double>, 3>& axes, const std::vector<Reach>& stages) {
  calibration::ResidualTable all;
  for (const Reach& reach : stages) {
    const calibration::ResidualTable one = smooth(residuals, axes, reach);
    for (Residual& r : residuals) r.value -= one.at(r.extents);
    if (all.empty()) all = one;
    else
      for (std::size_t i = 0; i < all.values.size(); ++i) all.values[i] = std::clamp(all.values[i] + one.values[i], -2000, 2000);
  }
  return all;
}

}  // namespace orrery::fit
