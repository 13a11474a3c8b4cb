// orrery calibrate fit: measurements to a profile, with the error on what it did not see.
#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include "calibrate.hpp"

namespace orrery::cli {

namespace {

using document::Value;

class Fit : public Verb {
 public:
  void define(Arguments arguments) override {
    measurements_.define(arguments);
    arguments.text("-o,--output", out_, "write the profile to FILE", "FILE");
    arguments.text("--base", base_, "a profile whose parameters stay where the measurements say nothing", "NAME");
    arguments.text("--name", name_, "of the profile; else the file's");
    arguments.repeated("--source", sources_, "a citation; with one the profile counts as published, not as measured", "TEXT");
    arguments.number("--folds", folds_, 2, 100, "of cross-validation");
    arguments.number("--bootstrap", bootstrap_, 0, 10000, "resamples for intervals");
    arguments.number("--seed", seed_, 0, std::int64_t{1} << 53, "of folds and resamples");
    arguments.flag("--no-residuals", residuals_, "parameters alone, no table of what they leave", false);
    arguments.text("--json", output_.json, "write JSON to FILE, or to standard output with -", "FILE");
    arguments.flag("--quiet", output_.quiet, "no warnings");
  }

  int run(Streams& s) override {
    if (out_.empty()) return usage_error(s, "calibrate: fit: -o FILE is required");
    const auto set = measurements_.read(s, output_.quiet);
    if (!set) return refused(s, set.error());
    calibration::Profile base;
    if (!base_.empty()) {
      auto read = read_profile(base_);
      if (!read) return refused(s, read.error());
      base = std::move(*read);
    }
    const auto gpu = read_gpu(measurements_.gpu, set->gpu.empty() ? base.gpu : set->gpu);
    if (!gpu) return refused(s, gpu.error());
    fit::Options options;
    options.seed = static_cast<std::uint64_t>(seed_);
    options.folds = static_cast<int>(folds_);
    options.bootstrap = static_cast<int>(bootstrap_);
    options.origin = sources_.empty() && set->sources.empty() ? Origin::kMeasured : Origin::kPublished;
    options.residuals = residuals_;
    auto fitted = fit::fit(set->points, *gpu, base, options);
    if (!fitted) return refused(s, fitted.error());
    calibration::Profile& p = fitted->profile;
    p.name = name_.empty() ? stem(out_) : name_;
    if (p.gpu.empty() || base_.empty()) p.gpu = gpu->name;
    if (p.architecture.empty()) p.architecture = gpu->architecture;
    add_sources(p, *set);
    if (!output_.quiet) {
      s.err << unusable_table(fitted->unusable);
      for (const std::string& note : fitted->notes) s.err << "orrery: warning: " << note << "\n";
    }
    if (const auto written = document::write_file(out_, calibration::to_text(p)); !written) return refused(s, written.error());
    return deliver(s, output_, json(*fitted, gpu->name), text(*fitted));
  }

 private:
  static std::string stem(const std::string& path) {
    const std::size_t slash = path.find_last_of('/');
    const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
    return file.ends_with(".json") ? file.substr(0, file.size() - 5) : file;
  }

  void add_sources(calibration::Profile& p, const calibration::MeasurementSet& set) const {
    const auto add = [&](const std::string& text) {
      if (std::find(p.sources.begin(), p.sources.end(), text) == p.sources.end()) p.sources.push_back(text);
    };
    for (const std::string& text : set.sources) add(text);
    for (const std::string& text : sources_) add(text);
    std::string where;
    for (const auto& [key, value] : set.environment) where += fmt::format("{}{} {}", where.empty() ? "" : ", ", key, value);
    if (!where.empty()) add("measured with " + where);
    if (p.sources.empty()) add(fmt::format("measured: {}", measurements_.files.front()));
  }

  static Value json(const fit::Fitted& f, const std::string& gpu) {
    Value::Array unusable, modes, notes;
    for (const fit::Unusable& u : f.unusable) unusable.push_back(Value::Object{{"from", u.from}, {"reason", u.reason}});
    for (const fit::Modes& m : f.modes)
      modes.push_back(Value::Object{{"class", m.name}, {"slower_by", m.ratio}, {"share_slow", m.share_slow}, {"together", to_value({m.together})}, {"apart", to_value({m.apart})}});
    for (const std::string& n : f.notes) notes.emplace_back(n);
    return Value::Object{{"schema", "orrery/fit/1"}, {"profile", f.profile.name}, {"gpu", gpu}, {"held_out", to_value(f.held_out)}, {"parameters_only", to_value(f.parameters_only)},
                         {"modes", std::move(modes)}, {"unusable", std::move(unusable)}, {"notes", std::move(notes)}};
  }

  static std::string text(const fit::Fitted& f) {
    std::string out = "held out: every point predicted by a fit that did not see its group\n" + table(f.held_out);
    if (!f.parameters_only.empty()) out += "\nthe same by parameters alone, without residual tables\n" + table(f.parameters_only);
    for (const fit::Modes& m : f.modes)
      out += fmt::format("\n{}: two clocks, {:.0f} % of the points {:.2f} times slower; as one clock {:.1f} / {:.1f} %, each at its own {:.1f} / {:.1f} %\n", m.name, 100 * m.share_slow, m.ratio,
                         100 * m.together.median, 100 * m.together.p90, 100 * m.apart.median, 100 * m.apart.p90);
    return out;
  }

  MeasurementOptions measurements_;
  std::string out_, base_, name_;
  std::vector<std::string> sources_;
  std::int64_t folds_ = 10, bootstrap_ = 20, seed_ = 1;
  bool residuals_ = true;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Verb> make_calibrate_fit() { return std::make_unique<Fit>(); }

}  // namespace orrery::cli
