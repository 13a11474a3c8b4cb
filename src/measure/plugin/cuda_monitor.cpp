#include "measure/plugin/cuda_monitor.hpp"

#include <dlfcn.h>

#include <array>
#include <utility>

namespace orrery::measure {
namespace {

constexpr unsigned kSmClock = 1, kGpuTemperature = 0;  ///< NVML_CLOCK_SM, NVML_TEMPERATURE_GPU
/// nvmlClocksEventReasons: bits that mean a clock below the one asked for.
constexpr std::array<std::pair<unsigned long long, const char*>, 6> kReasons = {{{0x4, "power cap"}, {0x8, "hardware slow-down"}, {0x10, "sync boost"}, {0x20, "software thermal"},
                                                                                 {0x40, "hardware thermal"}, {0x80, "power brake"}}};

}  // namespace

template <class Function>
Function Monitor::entry(const char* name) const {
  return library_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library_, name));
}

Monitor::Monitor(const std::string& pci_bus_id) {
  library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  const auto start = entry<int (*)()>("nvmlInit_v2");
  if (start == nullptr || start() != 0) return;
  if (const auto find = entry<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2"); find == nullptr || find(pci_bus_id.c_str(), &device_) != 0) device_ = nullptr;
  char text[96] = {};
  if (const auto version = entry<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion"); version != nullptr && version(text, sizeof text) == 0) driver_ = text;
}

Monitor::~Monitor() {
  if (const auto stop = entry<int (*)()>("nvmlShutdown"); stop != nullptr) stop();
  if (library_ != nullptr) dlclose(library_);
}

void Monitor::log(calibration::Point& p) const {
  if (device_ == nullptr) return;
  unsigned value = 0;
  unsigned long long reasons = 0;
  if (const auto f = entry<int (*)(void*, unsigned, unsigned*)>("nvmlDeviceGetClockInfo"); f != nullptr && f(device_, kSmClock, &value) == 0) p.clock_mhz = value;
  if (const auto f = entry<int (*)(void*, unsigned*)>("nvmlDeviceGetPowerUsage"); f != nullptr && f(device_, &value) == 0) p.power_w = value * 1e-3;
  if (const auto f = entry<int (*)(void*, unsigned, unsigned*)>("nvmlDeviceGetTemperature"); f != nullptr && f(device_, kGpuTemperature, &value) == 0) p.temperature_c = value;
  if (const auto f = entry<int (*)(void*, unsigned long long*)>("nvmlDeviceGetCurrentClocksThrottleReasons"); f != nullptr && f(device_, &reasons) == 0)
    for (const auto& [bit, name] : kReasons)
      if ((reasons & bit) != 0) p.throttle += (p.throttle.empty() ? "" : ", ") + std::string(name);
}

}  // namespace orrery::measure
