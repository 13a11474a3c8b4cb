#pragma once
// NCCL over the devices of one process, or over one device of each process that mpirun started.
#include <memory>
#include <string>
#include <vector>

#include "measure/plugin/cuda_support.hpp"
#include "measure/plugin/ranks.hpp"
#include "orrery/calibration/measurements.hpp"

namespace orrery::measure {

class Collectives {
 public:
  /// devices: of this process, in order. ranks: null where there is one process.
  Collectives(std::vector<int> devices, Ranks* ranks);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;
  [[nodiscard]] int size() const;   ///< devices of all processes
  [[nodiscard]] int nodes() const;
  /// Bytes of both buffers on one device.
  [[nodiscard]] static std::size_t buffer_bytes(const calibration::Point& p) { return 2 * static_cast<std::size_t>(p.bytes); }
  /// Times of one collective. A wrong result is a Failure.
  std::vector<double> time(const calibration::Point& p, int repetitions);

 private:
  struct Member;
  void enqueue(const calibration::Point& p);
  void hold_against(const calibration::Point& p);
  Ranks* ranks_;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace orrery::measure
