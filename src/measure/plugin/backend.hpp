#pragma once
// A device that points are timed on. Header only: a back end that lives in a library of its own (CUDA) shares nothing else with the program.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "measure/plugin/ranks.hpp"
#include "orrery/calibration/measurements.hpp"

namespace orrery::measure {

class Backend {
 public:
  virtual ~Backend() = default;
  /// Why nothing can be timed here, in the device's own words; "" where something can.
  [[nodiscard]] virtual std::string problem() const = 0;
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::string>> environment() const = 0;
  /// What a set of shapes means on this device: "quick", "standard" or "full".
  [[nodiscard]] virtual std::vector<calibration::Point> shapes(const std::string& set) const = 0;
  /// Why this point cannot be timed here (a type without a unit, more memory than there is); "" where it can.
  [[nodiscard]] virtual std::string refusal(const calibration::Point& p) const = 0;
  /// Fills in time_us and what was logged beside it. "" or what went wrong and during what; a wrong result of a kernel is wrong.
  virtual std::string time(calibration::Point& p, int repetitions, std::uint64_t seed) = 0;
};

/// Entry of the CUDA library: the device that matches this process's place on its machine, or every device where `ranks` is null.
using MakeBackend = Backend* (*)(Ranks* ranks);

}  // namespace orrery::measure
