// orrery calibrate run: measure the machine that this runs on.
#include <filesystem>
#include <ostream>

#include <fmt/format.h>

#include "calibrate.hpp"
#include "scenario_points.hpp"
#include "orrery/measure/run.hpp"

namespace orrery::cli {

namespace {

std::string list(const std::vector<std::pair<std::string, std::string>>& points, const char* what) {
  constexpr std::size_t kMost = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(points.size(), kMost); ++i) text += fmt::format("orrery: {} {}: {}\n", what, points[i].first, points[i].second);
  if (points.size() > kMost) text += fmt::format("orrery: {} {} more\n", what, points.size() - kMost);
  return text;
}

class Run : public Verb {
 public:
  void define(Arguments arguments) override {
    arguments.checked("--backend", backend_, "host: the CPU's BLAS and memory | cuda: the GPUs of this machine", [](const std::string& v) { return v == "host" || v == "cuda" ? "" : "accepted are host, cuda"; });
    arguments.checked("--shapes", shapes_, "quick (under a minute) | standard (under five) | full", [](const std::string& v) {
      return v == "quick" || v == "standard" || v == "full" ? "" : "accepted are quick, standard, full";
    });
    arguments.repeated("--for", scenarios_, "time the kernels and collectives of this scenario instead; may be given several times", "SCENARIO");
    arguments.text("--gpu", gpu_, "the device that this machine is: a catalogue name or a file, kept in the set", "NAME");
    arguments.number("--repetitions", repetitions_, 1, 10000, "of each shape");
    arguments.number("--threads", threads_, 1, 4096, "of the BLAS");
    arguments.number("--seed", seed_, 0, std::int64_t{1} << 53, "of data and order");
    arguments.flag("--mpi", mpi_, "this process is one of those that mpirun started: collectives between them");
    arguments.flag("--resume", resume_, "keep what is in the output file of an interrupted run, time the rest");
    arguments.text("-o,--output", out_, "write the set to FILE", "FILE");
    arguments.flag("--quiet", quiet_, "no progress");
  }

  int run(Streams& s) override {
    if (out_.empty()) return usage_error(s, "calibrate: run: -o FILE is required");
    measure::RunOptions options;
    if (!gpu_.empty()) {
      const auto gpu = read_gpu(gpu_, "");
      if (!gpu) return refused(s, gpu.error());
    }
    for (const std::string& path : scenarios_) {
      auto points = points_of_scenario(path);
      if (!points) return refused(s, points.error());
      options.more.insert(options.more.end(), points->begin(), points->end());
    }
    options.backend = backend_;
    options.shapes = scenarios_.empty() ? shapes_ : "";
    options.repetitions = static_cast<int>(repetitions_);
    options.threads = static_cast<int>(threads_.value_or(0));
    options.seed = static_cast<std::uint64_t>(seed_);
    options.mpi = mpi_;
    std::error_code error;
    if (resume_ && std::filesystem::exists(out_, error)) {
      auto known = measure::import_path(out_, {});
      if (!known) return refused(s, known.error());
      options.known = std::move(known->set);
    }
    constexpr std::size_t kEvery = 25;
    if (!quiet_)
      options.progress = [&](std::size_t done, std::size_t all, double left) {
        if (done % kEvery == 0 || done == all) s.err << fmt::format("orrery: {} of {} points, {:.0f} s left\n", done, all, left);
      };
    options.save = [&](const calibration::MeasurementSet& set) { static_cast<void>(write(set)); };
    const auto ran = measure::run(options);
    if (!ran) return refused(s, ran.error());
    if (!ran->first) return 0;
    if (!quiet_) s.err << list(ran->left_out, "not timed:");
    s.err << list(ran->failed, "failed:");
    if (const auto written = write(ran->set); !written) return refused(s, written.error());
    const int code = print(s, fmt::format("{} points of {} repetitions\n", ran->set.points.size(), repetitions_));
    return ran->failed.empty() ? code : 1;
  }

 private:
  Result<bool> write(calibration::MeasurementSet set) const {
    set.gpu = gpu_;
    return document::write_file(out_, document::dump(calibration::to_value(set), -1) + "\n");
  }
  std::string backend_ = "host", shapes_ = "quick", gpu_, out_;
  std::vector<std::string> scenarios_;
  std::int64_t repetitions_ = 20, seed_ = 1;
  std::optional<std::int64_t> threads_;
  bool quiet_ = false, mpi_ = false, resume_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_calibrate_run() { return std::make_unique<Run>(); }

}  // namespace orrery::cli
