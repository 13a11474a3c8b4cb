// orrery calibrate show: what a profile is good for. Its parameters; with measurements also errors by size, and measured against fitted as a
// picture in the terminal and as SVG.
#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>

#include <fmt/format.h>

#include "calibrate.hpp"

namespace orrery::cli {

namespace {

using document::Value;

/// A cloud of (measured, predicted / measured) of one class, on logarithmic axes.
struct Cloud {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

constexpr double kMost = 2;  ///< the picture's edge: twice, or half

std::vector<Cloud> clouds_of(const fit::Score& score) {
  std::map<std::string, Cloud> by;
  for (const fit::Pair& p : score.pairs) {
    Cloud& c = by[calibration::class_of(*p.point)];
    c.name = calibration::class_of(*p.point);
    c.points.emplace_back(p.measured_us, std::clamp(p.predicted_us / p.measured_us, 1 / kMost, kMost));
  }
  std::vector<Cloud> out;
  for (auto& [name, c] : by) out.push_back(std::move(c));
  return out;
}

std::pair<double, double> range_of(const Cloud& c) {
  double low = c.points.front().first, high = low;
  for (const auto& [us, ratio] : c.points) low = std::min(low, us), high = std::max(high, us);
  return {low, std::max(high, low * 1.001)};
}

std::string terminal(const Cloud& c) {
  constexpr int kWidth = 72, kHeight = 13;
  const auto [low, high] = range_of(c);
  std::vector<std::vector<int>> count(kHeight, std::vector<int>(kWidth, 0));
  int most = 1;
  for (const auto& [us, ratio] : c.points) {
    const auto x = static_cast<std::size_t>(std::lround((kWidth - 1) * std::log(us / low) / std::log(high / low)));
    const auto y = static_cast<std::size_t>(std::lround((kHeight - 1) * 0.5 * (1 - std::log(ratio) / std::log(kMost))));
    most = std::max(most, ++count[y][x]);
  }
  std::string out = fmt::format("{}: predicted / measured over measured time, {:.3g} us to {:.3g} us\n", c.name, low, high);
  for (int y = 0; y < kHeight; ++y) {
    const double ratio = std::pow(kMost, 1 - 2.0 * y / (kHeight - 1));
    out += y % 3 == 0 ? fmt::format("{:>6.2f} |", ratio) : "       |";
    std::string line;
    for (int x = 0; x < kWidth; ++x) {
      const int n = count[static_cast<std::size_t>(y)][static_cast<std::size_t>(x)];
      line += n == 0 ? (y == kHeight / 2 ? '-' : ' ') : n * 20 > most ? (n * 4 > most ? '#' : 'o') : '.';
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  return out;
}

std::string svg(const std::vector<Cloud>& clouds, const std::string& title) {
  constexpr double kWidth = 640, kHeight = 260, kLeft = 60, kTop = 34, kPlotWidth = 560, kPlotHeight = 190;
  std::string out = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n<title>{}</title>\n", kWidth,
                                kHeight * static_cast<double>(clouds.size()), title);
  for (std::size_t i = 0; i < clouds.size(); ++i) {
    const Cloud& c = clouds[i];
    const auto [low, high] = range_of(c);
    const double top = kHeight * static_cast<double>(i) + kTop;
    const auto y = [&, top](double ratio) { return top + kPlotHeight * 0.5 * (1 - std::log(ratio) / std::log(kMost)); };
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\">{}: predicted / measured over measured time ({} points)</text>\n", kLeft, top - 12, c.name, c.points.size());
    for (const double ratio : {0.5, 0.8, 1.0, 1.25, 2.0})
      out += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/><text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft, kLeft + kPlotWidth, y(ratio), y(ratio),
                         ratio == 1.0 ? "#555" : "#ddd", kLeft - 6, y(ratio) + 4, ratio);
    const double first = std::ceil(std::log10(low)), last = std::floor(std::log10(high));
    for (double decade = first; decade <= last; ++decade) {
      const double x = kLeft + kPlotWidth * std::log(std::pow(10, decade) / low) / std::log(high / low);
      out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:g} us</text>\n", x, top + kPlotHeight + 16, std::pow(10, decade));
    }
    constexpr std::size_t kShown = 4000;  // a picture of more dots says nothing more
    const std::size_t step = (c.points.size() + kShown - 1) / kShown;
    for (std::size_t j = 0; j < c.points.size(); j += step)
      out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"1.6\" fill=\"#1f77b4\" fill-opacity=\"0.35\"/>\n",
                         kLeft + kPlotWidth * std::log(c.points[j].first / low) / std::log(high / low), y(c.points[j].second));
  }
  return out + "</svg>\n";
}

class Show : public Verb {
 public:
  void define(Arguments arguments) override {
    arguments.positional("PROFILE", profile_, "a catalogue name or a file");
    arguments.repeated("--measurements", measurements_.files, "what to hold it against; repeat for several", "FILE");
    measurements_.define(arguments, false);
    arguments.text("--svg", svg_, "write the picture of measured against predicted to FILE", "FILE");
    arguments.flag("--quiet", quiet_, "no warnings");
  }

  int run(Streams& s) override {
    const auto profile = read_profile(profile_);
    if (!profile) return refused(s, profile.error());
    std::string text = parameters(*profile);
    if (measurements_.files.empty()) {
      if (!svg_.empty()) return usage_error(s, "calibrate: show: --svg needs --measurements");
      return print(s, text);
    }
    const auto set = measurements_.read(s, quiet_);
    if (!set) return refused(s, set.error());
    const auto gpu = read_gpu(measurements_.gpu, set->gpu.empty() ? profile->gpu : set->gpu);
    if (!gpu) return refused(s, gpu.error());
    const fit::Score score = fit::score(set->points, *gpu, *profile);
    if (!quiet_) s.err << unusable_table(score.unusable);
    if (score.pairs.empty()) return refused(s, {{profile_, "", "predicts none of the points"}});
    std::vector<fit::ClassError> sizes;
    for (const fit::ClassError& c : score.classes)
      for (const char* extent : {"flops", "seq", "bytes"})
        for (fit::ClassError& b : fit::buckets(c.name, extent, score.pairs)) sizes.push_back(std::move(b));
    text += "\n" + table(score.classes) + "\n" + table(sizes);
    const std::vector<Cloud> clouds = clouds_of(score);
    for (const Cloud& c : clouds) text += "\n" + terminal(c);
    if (!svg_.empty())
      if (const auto written = document::write_file(svg_, svg(clouds, profile->name)); !written) return refused(s, written.error());
    return print(s, text);
  }

 private:
  static std::string row(const std::string& name, const calibration::Parameter& p) {
    return fmt::format("  {:<44}{:>12.4g}  {:.4g} to {:.4g}, {}\n", name, p.value, p.low, p.high, to_string(p.origin));
  }

  static std::string parameters(const calibration::Profile& p) {
    std::string out = fmt::format("{}: {}, {}\n", p.name, p.provenance, p.gpu.empty() ? (p.architecture.empty() ? "any device" : p.architecture) : p.gpu);
    if (p.expected_error_median && p.expected_error_p90) out += fmt::format("  held-out error {:.1f} % median, {:.1f} % p90\n", 100 * *p.expected_error_median, 100 * *p.expected_error_p90);
    for (const auto& [dtype, g] : p.gemm) {
      const std::string at = "gemm/" + dtype + " ";
      out += row(at + "efficiency", g.efficiency) + row(at + "wave_overhead_us", g.wave_overhead_us) + row(at + "launch_us", g.launch_us) +
             row(at + "bandwidth_efficiency", g.bandwidth_efficiency) + row(at + "wave_hardness", g.wave_hardness) + row(at + "sustained_ratio", g.sustained_ratio);
      if (!g.residual.empty()) out += fmt::format("  {:<44}{:>12}\n", at + "residuals at shapes", g.residual.values.size());
    }
    for (const auto& a : p.attention) {
      const std::string at = fmt::format("attention/{} {} ", a.kernel, a.dim);
      out += row(at + "forward_efficiency", a.forward_efficiency) + row(at + "backward_efficiency", a.backward_efficiency) + row(at + "saturation_causal", a.saturation_causal) +
             row(at + "fill_exponent", a.fill_exponent) + row(at + "launch_us", a.launch_us);
    }
    for (const auto& [kind, stream] : p.stream) out += row("stream/" + kind + " efficiency", stream.efficiency) + row("stream/" + kind + " half_bytes", stream.half_bytes);
    for (const auto& c : p.collectives) out += fmt::format("  {:<44}{:>12}  sizes, {}\n", fmt::format("{} {} ranks on {} nodes", c.kind, c.ranks, c.nodes), c.bytes.size(), to_string(c.origin));
    for (const std::string& source : p.sources) out += "  " + source + "\n";
    return out;
  }

  std::string profile_, svg_;
  MeasurementOptions measurements_;
  bool quiet_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_calibrate_show() { return std::make_unique<Show>(); }

}  // namespace orrery::cli
