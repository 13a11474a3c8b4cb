// orrery collective --compare: times are of public logs of nccl-tests, named where they stand, a few sizes each.
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "catch.h"
#include "command.hpp"
#include "orrery/document/value.hpp"

using namespace orrery;
using orrery::test::command;
using orrery::test::Folder;
using orrery::test::Said;

namespace {

using Times = std::vector<std::pair<std::int64_t, double>>;

/// The log that nccl-tests would have written.
std::string log_of(const std::string& program, std::int64_t ranks, double factor, const Times& times) {
  std::string text = fmt::format("# Collective test starting: {}_perf\n# nThread 1 nGpus 1 minBytes 8 maxBytes 17179869184\n", program);
  for (std::int64_t r = 0; r < ranks; ++r) text += fmt::format("#  Rank {:2} Group  0 Pid  7 on node{:02} device  {} [0x00] NVIDIA\n", r, r / 8, r % 8);
  text += "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n";
  for (const auto& [bytes, us] : times) {
    const double algbw = static_cast<double>(bytes) / us / 1e3;
    text += fmt::format("{} {} float sum -1 {:.2f} {:.2f} {:.2f} 0 {:.2f} {:.2f} {:.2f} 0\n", bytes, bytes / 4, us, algbw, algbw * factor, us, algbw, algbw * factor);
  }
  return text;
}

document::Value compared(const std::string& cluster, const std::string& log) {
  const Said said = command({"collective", "all_reduce", "--cluster", cluster, "--compare", log, "--quiet", "--json", "-"});
  INFO(said.err);
  REQUIRE(said.code == 0);
  const auto parsed = document::parse(said.out, "-");
  REQUIRE(parsed);
  return parsed->at("comparison").items().front();
}

/// Place of a hypothesis, from 0; 99 where it was not tried.
std::size_t place(const document::Value& comparison, const std::string& name) {
  const auto& list = comparison.at("hypotheses").items();
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].at("name").as_string() == name) return i;
  }
  return 99;
}

/// What the prediction says of the cluster, as if it had been measured there.
Times predicted(const std::string& cluster, const std::string& sizes) {
  const Said said = command({"collective", "all_reduce", "--cluster", cluster, "--sizes", sizes, "--quiet", "--json", "-"});
  INFO(said.err);
  REQUIRE(said.code == 0);
  Times times;
  const auto parsed = document::parse(said.out, "-");
  REQUIRE(parsed);
  for (const document::Value& row : parsed->at("rows").items()) times.emplace_back(row.at("bytes").as_int(), row.at("time_us").as_double());
  return times;
}

const std::string kAlps = R"({"node": "alps-gh200", "nodes": 2, "fabric": "slingshot-200g"})";
const std::string kTwo = R"({"node": "dgx-h100", "nodes": 2, "fabric": "infiniband-ndr-rail"})";

}  // namespace

TEST_CASE("a healthy log is called healthy and nothing is guessed: eight H100, NVIDIA dgxc-benchmarking nccl/README.md") {
  const Folder folder;
  const std::string log = folder.write("a.log", log_of("all_reduce", 8, 1.75, {{1 << 20, 27.37}, {16 << 20, 123.8}, {64 << 20, 324.7}, {256 << 20, 1112.5}, {1 << 30, 4029.4}}));
  const auto c = compared(R"({"node": "dgx-h100", "nodes": 1})", log);
  CHECK_FALSE(c.at("sick").as_bool());
  CHECK(c.at("ranks").as_int() == 8);
  CHECK(c.at("hypotheses").items().empty());
  const Said said = command({"collective", "all_reduce", "--cluster", R"({"node": "dgx-h100", "nodes": 1})", "--compare", log});
  CHECK(said.out.find("# the cluster looks healthy\n") != std::string::npos);
}

TEST_CASE("sockets in place of the fabric's plugin are among the first three: two nodes of GH200, eth-cscs/cscs-docs nccl.md") {
  const Folder folder;
  const auto healthy = compared(kAlps, folder.write("a.log", log_of("all_reduce", 8, 1.75, {{8, 17.93}, {1024, 20.35}, {32768, 39.61}, {1 << 20, 164.3}, {4 << 20, 292.7}, {16 << 20, 461.7}, {64 << 20, 1090.5}, {128 << 20, 1916.4}})));
  CHECK_FALSE(healthy.at("sick").as_bool());
  const auto sick = compared(kAlps, folder.write("b.log", log_of("all_reduce", 8, 1.75, {{8, 85.47}, {1024, 373.0}, {32768, 184.1}, {1 << 20, 1502.2}, {4 << 20, 1443.1}, {16 << 20, 5036.9}, {64 << 20, 21253}, {128 << 20, 43293}})));
  CHECK(sick.at("sick").as_bool());
  std::size_t best = 99;
  for (const char* name : {"sockets_on_the_nics", "sockets_on_one_nic", "sockets_on_25g", "sockets_on_10g"}) best = std::min(best, place(sick, name));
  CHECK(best < 3);
}

TEST_CASE("sizes that take longer than larger ones are stalled: two nodes of H100 with a healthy floor and a healthy plateau") {
  const Folder folder;
  const auto c = compared(kTwo, folder.write("a.log", log_of("all_reduce", 16, 1.875, {{1024, 39.56}, {4096, 40.82}, {65536, 1656.1}, {131072, 1660.1}, {262144, 580.3}, {1 << 20, 764.0}, {1 << 30, 5961.9}, {std::int64_t{8} << 30, 34409}, {std::int64_t{16} << 30, 68195}})));
  CHECK(c.at("sick").as_bool());
  const auto& ranges = c.at("ranges").items();
  CHECK(ranges.front().at("health").as_string() != "sick");
  CHECK(ranges.back().at("health").as_string() == "healthy");
  bool stalled = false;
  for (const auto& r : ranges) stalled = stalled || (r.at("stalled").as_bool() && r.at("first_bytes").as_int() == 65536);
  CHECK(stalled);
}

TEST_CASE("a fault that was put into the cluster is found again, first of all") {
  struct Case { const char* name; std::string cluster; };
  const Folder folder;
  for (const Case& fault : {Case{"one_nic", R"({"node": {"extends": "dgx-h100", "nics": 1}, "nodes": 2, "fabric": "infiniband-ndr-rail"})"},
                            Case{"pcie_instead_of_nvlink", R"({"node": {"extends": "dgx-h100", "scale_up_kind": "pcie"}, "nodes": 2, "fabric": "infiniband-ndr-rail"})"},
                            Case{"ll_forced", R"({"node": "dgx-h100", "nodes": 2, "fabric": "infiniband-ndr-rail", "nccl": {"proto": "ll"}})"}}) {
    INFO(fault.name);
    const auto c = compared(kTwo, folder.write("a.log", log_of("all_reduce", 16, 1.875, predicted(fault.cluster, "1K:8G"))));
    CHECK(c.at("sick").as_bool());
    CHECK(place(c, fault.name) == 0);
    CHECK(c.at("hypotheses").items().front().at("error").as_double() < 0.01);
    double sum = 0;
    for (const auto& h : c.at("hypotheses").items()) sum += h.at("likelihood").as_double();
    CHECK(c.at("unexplained").as_double() > 0);
    CHECK(sum + c.at("unexplained").as_double() == Approx(1));
  }
}

TEST_CASE("a log that holds another collective, or none, is refused") {
  const Folder folder;
  const std::string log = folder.write("a.log", log_of("broadcast", 8, 1, {{1024, 20}}));
  const Said other = command({"collective", "all_reduce", "--cluster", kTwo, "--compare", log});
  CHECK(other.code == 2);
  CHECK(other.err == "orrery: " + log + ": no rows of all_reduce; the log holds broadcast\n");
  const std::string none = folder.write("b.log", "nothing\n");
  CHECK(command({"collective", "all_reduce", "--cluster", kTwo, "--compare", none}).err == "orrery: " + none + ": no table of nccl-tests: a row starts with size, count and type\n");
}
