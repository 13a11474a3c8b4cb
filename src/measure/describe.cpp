#include <fmt/format.h>

#include "orrery/measure/devices.hpp"

namespace orrery::measure {

std::string to_string(const Devices& d) {
  if (d.devices.empty()) return fmt::format("{}: {}\n", d.toolkit.empty() ? "no CUDA" : d.toolkit, d.problem);
  std::string text;
  for (const Device& device : d.devices) {
    text += fmt::format("{}: {}, {} SMs, compute capability {}.{}, {:.2f} GiB\n", d.toolkit, device.name, device.sm_count, device.compute_major,
                        device.compute_minor, static_cast<double>(device.memory_bytes) / (1024.0 * 1024 * 1024));
  }
  return text;
}

}  // namespace orrery::measure
