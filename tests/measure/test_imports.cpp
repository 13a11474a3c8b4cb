// Outputs of NVIDIA's own benchmarks besides the log of nccl-tests: its JSON, and nvbandwidth.
#include "catch.h"
#include "orrery/measure/import.hpp"

using namespace orrery;
using measure::import_text;

namespace {

const std::string kJson = R"({
  "version": 1, "args": ["./build/all_reduce_perf", "-b", "1M", "-J", "out.json"], "nccl_version": 22809,
  "devices": [{"rank": 0, "hostname": "a"}, {"rank": 1, "hostname": "a"}, {"rank": 2, "hostname": "b"}, {"rank": 3, "hostname": "b"}],
  "results": [
    {"size": 1048576, "count": 262144, "type": "float", "redop": "sum", "root": -1, "out_of_place": {"time": 52.5, "alg_bw": 19.97, "bus_bw": 29.96, "nwrong": 0}, "in_place": {"time": 51.0}},
    {"size": 0, "count": 0, "type": "float", "out_of_place": {"time": 9.5, "alg_bw": 0, "bus_bw": 0}},
    {"size": 2097152, "count": 524288, "type": "float", "out_of_place": {"time": "N/A"}}
  ]})";

const std::string kBandwidth = R"(nvbandwidth Version: v0.5
Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     55.63     27.00

SUM host_to_device_memcpy_ce 82.63

Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A    276.07
 1    276.36       N/A

Running device_to_device_bidirectional_memcpy_read_ce.
memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)
           0         1
 0       N/A    520.00
)";

}  // namespace

TEST_CASE("nccl-tests' JSON is read as its log is") {
  const auto read = import_text(kJson, "run.json", {});
  REQUIRE(read.has_value());
  REQUIRE(read->set.points.size() == 1);
  const calibration::Point& p = read->set.points.front();
  CHECK(p.collective == "all_reduce");
  CHECK(p.bytes == 1048576);
  CHECK(p.ranks == 4);
  CHECK(p.nodes == 2);
  CHECK(p.time_us == std::vector<double>{52.5});
  CHECK(p.from == "run.json/results/0");
  CHECK(read->set.environment == std::vector<std::pair<std::string, std::string>>{{"nccl", "2.28.9"}});
  REQUIRE(read->refused.size() == 2);
  CHECK(measure::to_string(read->refused[0]) == "run.json: /results/1: nothing was sent");
  CHECK(measure::to_string(read->refused[1]) == "run.json: /results/2: no time was taken");
}

TEST_CASE("ranks that nccl-tests' JSON does not list follow from its two bandwidths") {
  const auto read = import_text(R"({"args": "all_gather_perf", "results": [{"size": 1024, "out_of_place": {"time": 10, "alg_bw": 8, "bus_bw": 7}}]})", "f", {});
  REQUIRE(read.has_value());
  CHECK(read->set.points.front().ranks == 8);
  CHECK(import_text(R"({"args": "broadcast_perf", "results": [{"size": 1024, "out_of_place": {"time": 10, "alg_bw": 8, "bus_bw": 8}}]})", "f", {}).error().front().text ==
        "no row is a measurement; /results/0: it does not say how many ranks took part");
  CHECK(import_text(R"({"results": [{"size": 1024, "out_of_place": {"time": 10}}]})", "f", {}).error().front().text == "does not say which collective was run");
}

TEST_CASE("nvbandwidth's matrices are copies of its buffer") {
  const auto read = import_text(kBandwidth, "nvb.txt", {});
  REQUIRE(read.has_value());
  REQUIRE(read->set.points.size() == 4);
  CHECK(read->set.points[0].stream == "from_host");
  CHECK(read->set.points[0].time_us.front() == Approx(512.0 * 1024 * 1024 / 55.63e3));
  CHECK(read->set.points[2].collective == "send_recv");
  CHECK(read->set.points[2].ranks == 2);
  CHECK(read->set.points[2].algorithm == "copy_engine");
  REQUIRE(read->refused.size() == 1);
  CHECK(measure::to_string(read->refused[0]) == "nvb.txt:18: device_to_device_bidirectional_memcpy_read_ce is no copy of one buffer");
}

TEST_CASE("any prefix of these files is read or refused") {
  for (const std::string& whole : {kJson, kBandwidth})
    for (std::size_t n = 0; n < whole.size(); ++n) {
      const auto read = import_text(whole.substr(0, n), "cut", {});
      if (!read) continue;
      for (const auto& p : read->set.points) CHECK(p.time_us.front() > 0);
    }
}
