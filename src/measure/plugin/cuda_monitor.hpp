#pragma once
// Clocks, power, temperature and throttle reasons of a device as it runs, through the driver's management library. Reads only.
#include <string>

#include "orrery/calibration/measurements.hpp"

namespace orrery::measure {

/// The library is the driver's and has no link-time part on every machine: it is opened by name, and its stable entry points are called (NVML API
/// reference: nvmlDeviceGetClockInfo, nvmlDeviceGetPowerUsage, nvmlDeviceGetTemperature, nvmlDeviceGetCurrentClocksThrottleReasons).
class Monitor {
 public:
  explicit Monitor(const std::string& pci_bus_id);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;
  [[nodiscard]] std::string driver() const { return driver_; }  ///< "" where it does not say
  void log(calibration::Point& p) const;

 private:
  template <class Function>
  Function entry(const char* name) const;
  void* library_ = nullptr;
  void* device_ = nullptr;
  std::string driver_;
};

}  // namespace orrery::measure
