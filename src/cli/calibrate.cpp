// orrery calibrate: each of its verbs is a file of its own under calibrate/.
#include <array>

#include "calibrate/calibrate.hpp"
#include "command.hpp"
#include "common.hpp"

namespace orrery::cli {

namespace {

struct Sub {
  const char* name;
  const char* about;
  std::unique_ptr<Verb> (*make)();
};
constexpr std::array kSubs = {
    Sub{"run", "measure this machine", make_calibrate_run},
    Sub{"import", "tables and logs as a measurement set", make_calibrate_import},
    Sub{"fit", "fit a profile to measurements", make_calibrate_fit},
    Sub{"check", "hold new measurements against a baseline: the gate of CI", make_calibrate_check},
    Sub{"score", "predict measured points with a profile, fit nothing", make_calibrate_score},
    Sub{"show", "what a profile is good for, with pictures", make_calibrate_show},
};

class Calibrate : public Verb {
 public:
  void define(Arguments arguments) override {
    for (std::size_t i = 0; i < kSubs.size(); ++i) {
      verbs_[i] = kSubs[i].make();
      verbs_[i]->define(arguments.subcommand(kSubs[i].name, kSubs[i].about, chosen_[i]));
    }
  }
  int run(Streams& s) override {
    for (std::size_t i = 0; i < kSubs.size(); ++i)
      if (chosen_[i]) return verbs_[i]->run(s);
    return usage_error(s, "calibrate: a verb is missing");
  }

 private:
  std::array<std::unique_ptr<Verb>, kSubs.size()> verbs_;
  std::array<bool, kSubs.size()> chosen_{};
};

}  // namespace

std::unique_ptr<Verb> make_calibrate() { return std::make_unique<Calibrate>(); }

}  // namespace orrery::cli
