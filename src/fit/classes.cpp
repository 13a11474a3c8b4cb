// The procedure of a class, whatever it is: parameters by a robust fit, a table of what they leave, errors on groups that were held out of
// both, intervals by resampling groups (modelling 1.6, 14.1, 14.2).
#include "fit/classes.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "fit/quantile.hpp"
#include "orrery/base/random.hpp"

namespace orrery::fit {
namespace {

constexpr std::size_t kMostRows = 2500;     ///< that parameters are fitted on: intervals stop shrinking far below
constexpr std::size_t kLeastRows = 8;       ///< fewer do not hold a handful of parameters
constexpr int kIterations = 40, kRefit = 12;
constexpr double kLeastInterval = 0.02;     ///< half width: a clock or a driver moves any parameter by so much

/// Rows in an order that only the seed decides, at most `most` of them.
std::vector<std::size_t> draw(const std::vector<std::size_t>& rows, std::size_t most, std::uint64_t seed, const std::string& stream) {
  std::vector<std::pair<std::uint64_t, std::size_t>> keyed;
  for (const std::size_t r : rows) keyed.emplace_back(random_bits(seed, stream, r), r);
  std::sort(keyed.begin(), keyed.end());
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < std::min(most, keyed.size()); ++i) out.push_back(keyed[i].second);
  std::sort(out.begin(), out.end());
  return out;
}

/// The fold of every row: groups dealt out in a drawn order, so that folds are of equal size.
std::vector<int> folds_of(const std::vector<std::string>& group, int folds, std::uint64_t seed) {
  std::map<std::string, int> fold;
  for (const std::string& g : group) fold.emplace(g, 0);
  std::vector<std::pair<std::uint64_t, std::string>> order;
  std::uint64_t index = 0;
  for (const auto& [name, unused] : fold) order.emplace_back(random_bits(seed, "fit folds", index++), name);
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i) fold[order[i].second] = static_cast<int>(i % static_cast<std::size_t>(folds));
  std::vector<int> out;
  for (const std::string& g : group) out.push_back(fold[g]);
  return out;
}

std::vector<double> predict(const Model& model, std::span<const double> parameters, std::size_t rows) {
  std::vector<std::size_t> all(rows);
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<double> out(rows);
  model.log_predicted(parameters, all, out);
  return out;
}

class Solver {
 public:
  Solver(const Problem& problem, const Options& options) : p_(problem), o_(options) {
    for (std::size_t i = 0; i < p_.points.size(); ++i)
      if (p_.core[i]) core_.push_back(i);
    if (core_.size() < kLeastRows) {
      core_.resize(p_.points.size());
      std::iota(core_.begin(), core_.end(), std::size_t{0});
    }
  }

  Outcome run() {
    Outcome out;
    if (p_.points.size() < kLeastRows) return out;
    out.determined = true;
    const auto rows = draw(core_, kMostRows, o_.seed, "fit rows");
    Solution best;
    for (std::size_t i = 0; i < p_.models.size(); ++i) {
      const Solution s = minimise(p_.models[i], p_.log_measured, rows, p_.models[i].start, kIterations);
      if (i == 0 || s.loss < best.loss) {
        best = s;
        out.model = i;
      }
    }
    out.value = best.parameters;
    const Model& model = p_.models[out.model];
    intervals(model, out);
    hold_out(model, out);
    return out;
  }

 private:
  void intervals(const Model& model, Outcome& out) const {
    std::map<std::string, std::vector<std::size_t>> groups;
    for (const std::size_t r : draw(core_, kMostRows / 2, o_.seed, "fit rows")) groups[p_.group[r]].push_back(r);
    std::vector<const std::vector<std::size_t>*> list;
    for (const auto& [name, rows] : groups) list.push_back(&rows);
    std::vector<std::vector<double>> samples(out.value.size());
    for (int b = 0; b < o_.bootstrap; ++b) {
      std::vector<std::size_t> rows;
      for (std::size_t i = 0; i < list.size(); ++i) {
        const double u = random_uniform(o_.seed, "fit bootstrap", static_cast<std::uint64_t>(b) * list.size() + i);
        const auto& drawn = *list[static_cast<std::size_t>(u * static_cast<double>(list.size()))];
        rows.insert(rows.end(), drawn.begin(), drawn.end());
      }
      const Solution s = minimise(model, p_.log_measured, rows, out.value, kRefit);
      for (std::size_t j = 0; j < out.value.size(); ++j) samples[j].push_back(s.parameters[j]);
    }
    for (std::size_t j = 0; j < out.value.size(); ++j) {
      const double v = out.value[j];
      const double low = samples[j].empty() ? v : quantile(samples[j], 0.05), high = samples[j].empty() ? v : quantile(samples[j], 0.95);
      out.low.push_back(std::max(model.low[j], std::min(low, v * (1 - kLeastInterval))));
      out.high.push_back(std::min(model.high[j], std::max(high, v * (1 + kLeastInterval))));
    }
  }

  /// Residuals of rows, those whose fold is `without` left out.
  std::vector<Residual> residuals(const std::vector<double>& predicted, const std::vector<int>& fold, int without) const {
    std::vector<Residual> out;
    for (std::size_t i = 0; i < p_.points.size(); ++i)
      if (p_.table[i] && fold[i] != without) out.push_back({p_.extents[i], p_.log_measured[i] - predicted[i]});
    return out;
  }

  void hold_out(const Model& model, Outcome& out) const {
    const std::vector<int> fold = folds_of(p_.group, o_.folds, o_.seed);
    const auto axes = axes_of(p_.extents);
    const std::vector<double> whole = predict(model, out.value, p_.points.size());
    const std::vector<Reach> stages = o_.residuals ? choose_stages(whole, fold, axes) : std::vector<Reach>{};
    if (o_.residuals) out.residual = smooth(residuals(whole, fold, -1), axes, stages);
    for (int f = 0; f < o_.folds; ++f) {
      std::vector<std::size_t> seen, held;
      for (const std::size_t r : core_)
        if (fold[r] != f) seen.push_back(r);
      for (std::size_t i = 0; i < p_.points.size(); ++i)
        if (fold[i] == f) held.push_back(i);
      if (held.empty() || seen.size() < kLeastRows) continue;
      const Solution s = minimise(model, p_.log_measured, draw(seen, kMostRows, o_.seed, "fit rows"), out.value, kRefit);
      const std::vector<double> predicted = predict(model, s.parameters, p_.points.size());
      const calibration::ResidualTable table = o_.residuals ? smooth(residuals(predicted, fold, f), axes, stages) : calibration::ResidualTable{};
      for (const std::size_t i : held) {
        const double measured = std::exp(p_.log_measured[i]);
        out.held_out_parameters.push_back({p_.points[i], std::exp(predicted[i]), measured});
        out.held_out.push_back({p_.points[i], std::exp(predicted[i] + (p_.table[i] ? table.at(p_.extents[i]) : 0)), measured});
      }
    }
  }

  /// The stages that predict two of the folds best. One of few choices: too little to learn the folds by heart.
  std::vector<Reach> choose_stages(const std::vector<double>& predicted, const std::vector<int>& fold, const std::array<std::vector<double>, 3>& axes) const {
    const Reach far{0.5, 0.5, 0.5}, middle{0.3, 0.3, 0.3};
    std::vector<std::vector<Reach>> choices;
    for (const Reach& near : {Reach{0.05, 0.1, 0.3}, Reach{0.1, 0.1, 0.3}, Reach{0.1, 0.2, 0.2}, Reach{0.1, 0.3, 0.1}}) {
      choices.push_back({near});
      choices.push_back({far, near});
    }
    choices.push_back({middle, {0.1, 0.1, 0.3}});
    choices.push_back({far});
    std::vector<Reach> best = choices.front();
    double least = INFINITY;
    for (const std::vector<Reach>& stages : choices) {
      double sum = 0;
      std::size_t count = 0;
      for (int f = 0; f < std::min(2, o_.folds); ++f) {
        const auto table = smooth(residuals(predicted, fold, f), axes, stages);
        for (const std::size_t i : core_) {
          if (fold[i] != f || !p_.table[i]) continue;
          sum += std::abs(p_.log_measured[i] - predicted[i] - table.at(p_.extents[i]));
          ++count;
        }
      }
      if (count > 0 && sum / static_cast<double>(count) < least) {
        least = sum / static_cast<double>(count);
        best = stages;
      }
    }
    return best;
  }

  const Problem& p_;
  const Options& o_;
  std::vector<std::size_t> core_;
};

}  // namespace

Outcome solve(const Problem& problem, const Options& options) { return Solver(problem, options).run(); }

std::vector<Modes> modes_of(const std::string& name, const std::vector<Pair>& held_out) {
  // Two clocks are two normal distributions of ln(measured/predicted) of equal width: expectation-maximisation, and Ashman's D, the distance of
  // the means in widths, which is over 2 where the two can be told apart (Ashman, Bird, Zepf, AJ 108 (1994) 2348).
  constexpr std::size_t kLeast = 40;
  constexpr double kAshman = 2.5, kLeastShare = 0.05, kLeastApart = 0.08;
  std::vector<Modes> out;
  if (held_out.size() < kLeast) return out;
  std::vector<double> x;
  for (const Pair& p : held_out) x.push_back(std::log(p.measured_us / p.predicted_us));
  // The tails are outliers, not a clock.
  const double least = quantile(x, 0.01), most = quantile(x, 0.99);
  double low = quantile(x, 0.25), high = quantile(x, 0.9), width = std::max(1e-4, 0.25 * (high - low)), share = 0.3;
  for (int iteration = 0; iteration < 200; ++iteration) {
    double n1 = 0, n2 = 0, s1 = 0, s2 = 0, v = 0;
    std::vector<double> r;
    for (const double d : x) {
      if (d < least || d > most) continue;
      const double a = (1 - share) * std::exp(-0.5 * (d - low) * (d - low) / (width * width)), b = share * std::exp(-0.5 * (d - high) * (d - high) / (width * width));
      const double slow = a + b > 0 ? b / (a + b) : (d > 0.5 * (low + high) ? 1 : 0);
      n1 += 1 - slow, n2 += slow, s1 += (1 - slow) * d, s2 += slow * d;
      r.push_back(slow);
    }
    if (n1 < 1 || n2 < 1) return out;
    low = s1 / n1, high = s2 / n2;
    std::size_t i = 0;
    for (const double d : x) {
      if (d < least || d > most) continue;
      v += (1 - r[i]) * (d - low) * (d - low) + r[i] * (d - high) * (d - high);
      ++i;
    }
    width = std::max(1e-4, std::sqrt(v / (n1 + n2)));
    share = n2 / (n1 + n2);
  }
  if (high - low < kLeastApart || (high - low) / width < kAshman || share < kLeastShare || share > 1 - kLeastShare) return out;
  std::vector<Pair> apart = held_out;
  for (Pair& p : apart) {
    const double d = std::log(p.measured_us / p.predicted_us);
    p.predicted_us *= std::exp(std::abs(d - low) < std::abs(d - high) ? low : high);
  }
  out.push_back({name, std::exp(high - low), share, error_of(name, held_out), error_of(name, apart)});
  return out;
}

}  // namespace orrery::fit
