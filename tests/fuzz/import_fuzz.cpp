// Any bytes as a file of measurements: read or refused, never a crash or a hang. Built with -DORRERY_FUZZ=ON and clang; run it on the corpus:
//   build/fuzz/tests/fuzz_import tests/fuzz/import -max_total_time=600
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "orrery/measure/import.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto read = orrery::measure::import_text(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz", {});
  if (!read) return 0;
  for (const auto& p : read->set.points)
    for (const double t : p.time_us)
      if (!(t > 0)) std::abort();
  return 0;
}
