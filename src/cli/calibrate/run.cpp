// orrery calibrate run: measure the machine that this runs on.
#include <ostream>

#include <fmt/format.h>

#include "calibrate.hpp"
#include "orrery/measure/run.hpp"

namespace orrery::cli {

namespace {

class Run : public Verb {
 public:
  void define(Arguments arguments) override {
    arguments.checked("--backend", backend_, "host: the CPU's BLAS and memory", [](const std::string& v) { return v == "host" ? "" : "accepted is host: the CUDA back end is not built yet"; });
    arguments.checked("--shapes", shapes_, "quick (under a minute) | standard (under five)", [](const std::string& v) {
      return v == "quick" || v == "standard" ? "" : v == "full" ? "full is not built yet; accepted are quick, standard" : "accepted are quick, standard";
    });
    arguments.text("--gpu", gpu_, "the device that this machine is: a catalogue name or a file, kept in the set", "NAME");
    arguments.number("--repetitions", repetitions_, 1, 10000, "of each shape");
    arguments.number("--threads", threads_, 1, 4096, "of the BLAS");
    arguments.number("--seed", seed_, 0, std::int64_t{1} << 53, "of data and order");
    arguments.text("-o,--output", out_, "write the set to FILE", "FILE");
    arguments.flag("--quiet", quiet_, "no progress");
  }

  int run(Streams& s) override {
    if (out_.empty()) return usage_error(s, "calibrate: run: -o FILE is required");
    std::string name;
    if (!gpu_.empty()) {
      const auto gpu = read_gpu(gpu_, "");
      if (!gpu) return refused(s, gpu.error());
      name = gpu_;
    }
    measure::RunOptions options;
    options.shapes = shapes_;
    options.repetitions = static_cast<int>(repetitions_);
    options.threads = static_cast<int>(threads_.value_or(0));
    options.seed = static_cast<std::uint64_t>(seed_);
    constexpr std::size_t kEvery = 25;
    if (!quiet_)
      options.progress = [&](std::size_t done, std::size_t all, double left) {
        if (done % kEvery == 0 || done == all) s.err << fmt::format("orrery: {} of {} points, {:.0f} s left\n", done, all, left);
      };
    auto set = measure::run_host(options);
    if (!set) return refused(s, set.error());
    set->gpu = name;
    if (const auto written = document::write_file(out_, document::dump(calibration::to_value(*set), -1) + "\n"); !written) return refused(s, written.error());
    return print(s, fmt::format("{} points of {} repetitions\n", set->points.size(), repetitions_));
  }

 private:
  std::string backend_ = "host", shapes_ = "quick", gpu_, out_;
  std::int64_t repetitions_ = 20, seed_ = 1;
  std::optional<std::int64_t> threads_;
  bool quiet_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_calibrate_run() { return std::make_unique<Run>(); }

}  // namespace orrery::cli
