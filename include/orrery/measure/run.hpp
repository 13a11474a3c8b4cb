#pragma once
// Measuring the machine this runs on.
#include <cstdint>
#include <functional>
#include <string>

#include "orrery/calibration/measurements.hpp"

namespace orrery::measure {

struct RunOptions {
  std::string shapes = "quick";    ///< quick (under a minute) | standard (under five)
  int repetitions = 20;
  int threads = 0;                 ///< of the library; 0: as it chooses
  std::uint64_t seed = 1;          ///< of data and order
  /// Called after each point with how many are done, of how many, and the seconds that are left.
  std::function<void(std::size_t done, std::size_t all, double left_s)> progress;
};

/// Whether the host back end was built: an OpenBLAS stood on the machine.
bool has_host_backend();

/// GEMMs of the CPU's BLAS (fp32, the three layouts, with and without accumulation) and streaming kernels, on this machine. Random normal data, buffers in turn
/// that are larger than the caches together, a warm-up, the order drawn. A product whose sampled entries are wrong fails its point.
Result<calibration::MeasurementSet> run_host(const RunOptions& options);

}  // namespace orrery::measure
