#include <cmath>

#include <fmt/format.h>

#include "orrery/base/assert.hpp"
#include "orrery/base/result.hpp"
#include "orrery/base/sim_time.hpp"

namespace orrery {

void assertion_failed(const char* condition, const char* reason, const char* file, int line) {
  throw InternalError(fmt::format("{}:{}: {} must hold: {}", file, line, condition, reason));
}

SimTime to_sim_time(Seconds s) {
  const double ps = std::ceil(s.value() * kPicosecondsPerSecond);
  ORRERY_ASSERT(ps >= 0 && ps < 0x1p62, "durations are finite, not negative and below 53 days");
  return static_cast<SimTime>(ps);
}

std::string to_string(const Diagnostic& d) {
  if (d.file.empty() && d.pointer.empty()) return d.text;
  if (d.pointer.empty()) return fmt::format("{}: {}", d.file, d.text);
  return fmt::format("{}:{}: {}", d.file, d.pointer, d.text);
}

}  // namespace orrery
