// Three criteria, because each alone is fooled: a threshold by noise, a test by many samples that differ by nothing that matters, an interval by
// many keys. Holm's correction holds the chance of any false alarm among all keys of a run at the level (modelling 14.4).
#include "orrery/calibration/gate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

namespace orrery::calibration {
namespace {

constexpr std::size_t kLeastSamples = 5;   ///< of each side: with fewer no p can pass
constexpr std::size_t kLeastHistory = 6;   ///< runs before a drift can be told from noise
constexpr double kMad = 1.4826;            ///< of a normal distribution: standard deviation over MAD

double median_of(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const std::size_t half = v.size() / 2;
  return v.size() % 2 == 1 ? v[half] : 0.5 * (v[half - 1] + v[half]);
}

using Samples = std::map<std::string, std::vector<double>>;
Samples samples(const MeasurementSet& set) {
  Samples out;
  for (const Point& p : set.points) {
    std::vector<double>& s = out[key_of(p)];
    s.insert(s.end(), p.time_us.begin(), p.time_us.end());
  }
  return out;
}

void compare_environment(const MeasurementSet& a, const MeasurementSet& b, GateResult& out) {
  std::map<std::string, std::pair<std::string, std::string>> by;
  for (const auto& [key, value] : a.environment) by[key].first = value;
  for (const auto& [key, value] : b.environment) by[key].second = value;
  for (const auto& [key, values] : by)
    if (values.first != values.second)
      out.environment.push_back(fmt::format("{}: {} -> {}", key, values.first.empty() ? "not stated" : values.first, values.second.empty() ? "not stated" : values.second));
  if (a.gpu != b.gpu)
    out.unusable.push_back(fmt::format("the baseline was measured on {}, the new set on {}: other devices have other times", a.gpu.empty() ? "an unnamed device" : a.gpu,
                                       b.gpu.empty() ? "an unnamed device" : b.gpu));
}

/// Why a lost key may be another key of the new set: the same shape in another type, or on another scale.
std::string lost_note(const std::string& key, const Samples& fresh) {
  static constexpr std::array<const char*, 9> kTypes = {"fp32", "tf32", "fp16", "bf16", "fp8_block", "fp8", "mxfp8", "fp4", "int8"};
  for (const char* from : kTypes) {
    const std::string word = fmt::format(" {} ", from);
    const std::size_t at = key.find(word);
    if (at == std::string::npos) continue;
    for (const char* to : kTypes) {
      std::string other = key;
      other.replace(at, word.size(), fmt::format(" {} ", to));
      if (other != key && fresh.contains(other)) return fmt::format("the new set has this shape as {}: was the type swapped?", to);
    }
  }
  return "the new set does not have it";
}

/// A change by a power of ten that is no slow-down: another unit.
std::string unit_note(double ratio) {
  for (const double unit : {1e-6, 1e-3, 1e3, 1e6})
    if (std::abs(std::log(ratio / unit)) < std::log(1.5)) return fmt::format("about {} times the baseline: was the unit changed?", unit);
  return "";
}

/// Whether a key's medians, oldest first, rose for good at some run.
bool drifts(const std::vector<double>& medians, double practical) {
  if (medians.size() < kLeastHistory) return false;
  // Most likely point of change: the cut that explains most of the variance, three runs on either side at least.
  constexpr std::size_t kPart = 3;
  double most = -1, left = 0, sum = 0;
  std::size_t at = kPart;
  for (const double m : medians) sum += m;
  for (std::size_t i = 1; i + kPart <= medians.size(); ++i) {
    left += medians[i - 1];
    const double k = static_cast<double>(i), n = static_cast<double>(medians.size()), d = (sum - left) / (n - k) - left / k;
    if (i >= kPart && k * (n - k) * d * d > most) most = k * (n - k) * d * d, at = i;
  }
  const std::span<const double> before(medians.data(), at), after(medians.data() + at, medians.size() - at);
  // With few runs the smallest p there is decides how many must agree.
  return mann_whitney_p(before, after) < 0.05 && median_of({after.begin(), after.end()}) > (1 + practical) * median_of({before.begin(), before.end()});
}

}  // namespace

const char* to_string(Change c) {
  switch (c) {
    case Change::kSame: return "same";
    case Change::kSlower: return "slower";
    case Change::kFaster: return "faster";
    case Change::kLost: return "lost";
    case Change::kNew: return "new";
    case Change::kBimodal: return "bimodal";
    case Change::kTooFew: return "too few samples";
    case Change::kDrift: return "drifts";
  }
  return "";
}

bool GateResult::failed() const {
  return std::any_of(keys.begin(), keys.end(), [](const KeyChange& k) { return k.change == Change::kSlower || k.change == Change::kLost || k.change == Change::kBimodal || k.change == Change::kDrift; });
}

std::size_t GateResult::count(Change c) const {
  return static_cast<std::size_t>(std::count_if(keys.begin(), keys.end(), [&](const KeyChange& k) { return k.change == c; }));
}

GateResult gate(const MeasurementSet& baseline, const MeasurementSet& fresh, const GateOptions& options) {
  GateResult out;
  compare_environment(baseline, fresh, out);
  const Samples before = samples(baseline), after = samples(fresh);
  std::vector<Samples> history;
  for (const MeasurementSet& set : options.history) history.push_back(samples(set));

  std::vector<double> p;
  std::vector<std::size_t> tested;  // index of each p in keys
  for (const auto& [key, old] : before) {
    KeyChange k;
    k.key = key;
    k.baseline_us = median_of(old);
    k.threshold = options.practical;
    const auto now = after.find(key);
    if (now == after.end()) {
      k.change = Change::kLost;
      k.note = lost_note(key, after);
      out.keys.push_back(std::move(k));
      continue;
    }
    k.new_us = median_of(now->second);
    k.ratio = k.new_us / k.baseline_us;
    std::vector<double> medians;
    for (const Samples& s : history)
      if (const auto found = s.find(key); found != s.end()) medians.push_back(median_of(found->second));
    if (medians.size() >= 3) {
      const double centre = median_of(medians);
      std::vector<double> off;
      for (const double m : medians) off.push_back(std::abs(m / centre - 1));
      k.threshold = std::max(k.threshold, 3 * kMad * median_of(off));
    }
    medians.push_back(k.new_us);
    if (old.size() < kLeastSamples || now->second.size() < kLeastSamples) {
      k.change = Change::kTooFew;
      k.note = fmt::format("{} and {} repetitions; the test needs {} of each", old.size(), now->second.size(), kLeastSamples);
      // What is off by a power of ten needs no test.
      if (const std::string unit = unit_note(k.ratio); !unit.empty()) k.change = k.ratio > 1 ? Change::kSlower : Change::kFaster, k.note = unit;
    } else {
      p.push_back(mann_whitney_p(old, now->second));
      tested.push_back(out.keys.size());
      if (drifts(medians, k.threshold)) k.note = "drift";
    }
    out.keys.push_back(std::move(k));
  }
  for (const auto& [key, now] : after)
    if (!before.contains(key)) {
      KeyChange k;
      k.key = key;
      k.change = Change::kNew;
      k.new_us = median_of(now);
      out.keys.push_back(std::move(k));
    }

  const std::vector<double> corrected = holm(p);
  for (std::size_t i = 0; i < tested.size(); ++i) {
    KeyChange& k = out.keys[tested[i]];
    const auto &old = before.at(k.key), &now = after.at(k.key);
    k.p = corrected[i];
    const bool drift = k.note == "drift";
    k.note.clear();
    const bool moved = std::abs(k.ratio - 1) > k.threshold && k.p < options.significance;
    if (moved) std::tie(k.low, k.high) = ratio_interval(old, now, options.level, options.seed, "gate " + k.key);
    else k.low = k.high = k.ratio;
    if (moved && (k.low > 1 + options.practical || k.high < 1 - options.practical)) {
      k.change = k.ratio > 1 ? Change::kSlower : Change::kFaster;
      k.note = unit_note(k.ratio);
      continue;
    }
    const Split was = split(old), is = split(now);
    if (is.two && !was.two && is.high / is.low > 1 + 2 * k.threshold) {
      k.change = Change::kBimodal;
      k.note = fmt::format("{:.0f} % of the repetitions take {:.3g} us, the others {:.3g}: two clocks or two kernels", 100 * is.share_high, is.high, is.low);
    } else if (drift) {
      k.change = Change::kDrift;
      k.note = "slower than the earlier runs of its history, though not than the baseline by itself";
    }
  }
  std::sort(out.keys.begin(), out.keys.end(), [](const KeyChange& a, const KeyChange& b) { return a.key < b.key; });
  return out;
}

}  // namespace orrery::calibration
