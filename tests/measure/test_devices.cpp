#include "catch.h"
#include "orrery/measure/devices.hpp"

using namespace orrery::measure;

TEST_CASE("devices are listed, or it is said why there are none") {
  const Devices d = devices();
  CHECK(d.devices.empty() == !d.problem.empty());
  CHECK(to_string(d).ends_with("\n"));
}

TEST_CASE("a device prints its name, SMs and memory; a build without CUDA says so") {
  CHECK(to_string(Devices{"CUDA 13.0", {{"NVIDIA H200", 132, 9, 0, std::int64_t{141} << 30}}, ""}) == "CUDA 13.0: NVIDIA H200, 132 SMs, compute capability 9.0, 141.00 GiB\n");
  CHECK(to_string(Devices{"", {}, "this build has no CUDA toolkit"}) == "no CUDA: this build has no CUDA toolkit\n");
  CHECK(to_string(Devices{"CUDA 13.0", {}, "no CUDA-capable device is detected"}) == "CUDA 13.0: no CUDA-capable device is detected\n");
}
