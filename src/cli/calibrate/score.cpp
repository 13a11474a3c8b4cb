// orrery calibrate score: how well a profile predicts what was measured.
#include <ostream>

#include <fmt/format.h>

#include "calibrate.hpp"

namespace orrery::cli {

namespace {

using document::Value;

class Score : public Verb {
 public:
  void define(Arguments arguments) override {
    arguments.positional("PROFILE", profile_, "a catalogue name or a file");
    measurements_.define(arguments);
    arguments.flag("--buckets", buckets_, "errors by powers of two of m, n, k and the like as well");
    arguments.text("--json", output_.json, "write JSON to FILE, or to standard output with -", "FILE");
    arguments.flag("--quiet", output_.quiet, "no warnings");
  }

  int run(Streams& s) override {
    const auto profile = read_profile(profile_);
    if (!profile) return refused(s, profile.error());
    const auto set = measurements_.read(s, output_.quiet);
    if (!set) return refused(s, set.error());
    const auto gpu = read_gpu(measurements_.gpu, set->gpu.empty() ? profile->gpu : set->gpu);
    if (!gpu) return refused(s, gpu.error());
    const fit::Score score = fit::score(set->points, *gpu, *profile);
    if (score.pairs.empty()) {
      const fit::Unusable& u = score.unusable.front();
      return refused(s, {{u.from, "", fmt::format("the profile {} predicts none of {} points: {}", profile_, score.unusable.size(), u.reason)}});
    }
    if (!output_.quiet) s.err << unusable_table(score.unusable);
    std::vector<fit::ClassError> parts;
    if (buckets_)
      for (const fit::ClassError& c : score.classes)
        for (const char* extent : {"m", "n", "k", "flops", "seq", "heads", "bytes"})
          for (fit::ClassError& b : fit::buckets(c.name, extent, score.pairs)) parts.push_back(std::move(b));
    Value json = Value::Object{{"schema", "orrery/score/1"}, {"profile", profile->name}, {"gpu", gpu->name}, {"classes", to_value(score.classes)},
                               {"unusable", static_cast<std::int64_t>(score.unusable.size())}};
    if (buckets_) json.set("buckets", to_value(parts));
    std::string text = table(score.classes);
    if (buckets_) text += "\n" + table(parts);
    return deliver(s, output_, json, text);
  }

 private:
  std::string profile_;
  MeasurementOptions measurements_;
  bool buckets_ = false;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Verb> make_calibrate_score() { return std::make_unique<Score>(); }

}  // namespace orrery::cli
