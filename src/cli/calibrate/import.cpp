// orrery calibrate import: tables and logs that people have, as one measurement set.
#include <map>

#include <fmt/format.h>

#include "calibrate.hpp"

namespace orrery::cli {

namespace {

using document::Value;

class Import : public Verb {
 public:
  void define(Arguments arguments) override {
    measurements_.define(arguments);
    arguments.text("-o,--output", out_, "write the set to FILE; else to standard output", "FILE");
    arguments.text("--name", name_, "of the set");
    arguments.repeated("--source", sources_, "a citation", "TEXT");
    arguments.repeated("--environment", environment_, "driver, cuda, nccl, clocks, date, …", "KEY=VALUE");
    arguments.flag("--quiet", quiet_, "no list of refused lines");
  }

  int run(Streams& s) override {
    auto set = measurements_.read(s, quiet_);
    if (!set) return refused(s, set.error());
    if (!measurements_.gpu.empty()) {
      const auto gpu = read_gpu(measurements_.gpu, "");
      if (!gpu) return refused(s, gpu.error());
      set->gpu = gpu->name;
    }
    if (!name_.empty()) set->name = name_;
    set->sources.insert(set->sources.end(), sources_.begin(), sources_.end());
    for (const std::string& e : environment_) {
      const std::size_t equals = e.find('=');
      if (equals == std::string::npos || equals == 0) return usage_error(s, fmt::format("calibrate: import: --environment {}: expected KEY=VALUE", e));
      set->environment.emplace_back(e.substr(0, equals), e.substr(equals + 1));
    }
    const std::string json = document::dump(calibration::to_value(*set), -1) + "\n";
    if (out_.empty()) return print(s, json);
    if (const auto written = document::write_file(out_, json); !written) return refused(s, written.error());
    std::map<std::string, std::size_t> classes;
    for (const calibration::Point& p : set->points) ++classes[calibration::class_of(p)];
    std::string text = fmt::format("{} points\n", set->points.size());
    for (const auto& [name, count] : classes) text += fmt::format("  {:>8}  {}\n", count, name);
    return print(s, text);
  }

 private:
  MeasurementOptions measurements_;
  std::string out_, name_;
  std::vector<std::string> sources_, environment_;
  bool quiet_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_calibrate_import() { return std::make_unique<Import>(); }

}  // namespace orrery::cli
