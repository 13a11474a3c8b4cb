#pragma once
// Measuring the machine this runs on.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "orrery/calibration/measurements.hpp"

namespace orrery::measure {

struct RunOptions {
  std::string backend = "host";    ///< host | cuda
  std::string shapes = "quick";    ///< quick (under a minute) | standard (under five) | full; "": only those below
  std::vector<calibration::Point> more;  ///< points to time as well, those of a scenario; times in them are ignored
  int repetitions = 20;
  int threads = 0;                 ///< of the library; 0: as it chooses
  std::uint64_t seed = 1;          ///< of data and order
  bool mpi = false;                ///< this process is one of those that mpirun started
  calibration::MeasurementSet known;     ///< what an earlier run got: these points are not timed again. Rank 0's counts
  /// Called after each point with how many are done, of how many, and the seconds that are left. On rank 0.
  std::function<void(std::size_t done, std::size_t all, double left_s)> progress;
  /// Called every few seconds with what is there, so that an interrupt loses little. On rank 0.
  std::function<void(const calibration::MeasurementSet& so_far)> save;
};

struct Ran {
  calibration::MeasurementSet set;
  /// Points that this device cannot time, and those that went wrong, with the reason.
  std::vector<std::pair<std::string, std::string>> left_out, failed;
  bool first = true;  ///< rank 0, or no ranks: the one that reports
};

/// Whether the host back end was built: an OpenBLAS stood on the machine.
bool has_host_backend();

/// Times the points on this machine. Random normal data, buffers in turn that are larger than the caches together, a warm-up, the order drawn. A
/// kernel whose sampled result is wrong fails its point; the others count. Diagnostics where nothing can be timed, or where `known` is of another
/// machine or software.
Result<Ran> run(const RunOptions& options);

}  // namespace orrery::measure
