#pragma once
// The accelerators of the machine that Orrery runs on. This module is the only code that links CUDA; without a toolkit at configure time
// it says so.
#include <cstdint>
#include <string>
#include <vector>

namespace orrery::measure {

struct Device {
  std::string name;
  int sm_count = 0;
  int compute_major = 0, compute_minor = 0;
  std::int64_t memory_bytes = 0;  ///< what the driver reports
};

struct Devices {
  std::string toolkit;            ///< "CUDA 13.0"; empty where this build has none
  std::vector<Device> devices;
  std::string problem;            ///< why there are none: no toolkit, no driver, no device; in the runtime's own words where it has some
};

/// Never throws and never changes a device's settings.
Devices devices();

/// For people: one line a device, or why there is none.
std::string to_string(const Devices& d);

}  // namespace orrery::measure
