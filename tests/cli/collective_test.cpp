// orrery collective from the command line: nccl-tests' numbers, one row a size, and what it refuses.
#include <sstream>

#include "catch.h"
#include "command.hpp"
#include "orrery/document/value.hpp"

using namespace orrery;
using orrery::test::command;
using orrery::test::Folder;
using orrery::test::Said;

namespace {

const std::string kNode = R"({"node": "dgx-h100", "nodes": 1})";
const std::string kTwo = R"({"node": "dgx-h100", "nodes": 2, "fabric": "infiniband-ndr-rail"})";

std::vector<document::Value> rows(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"collective"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  all.insert(all.end(), {"--quiet", "--json", "-"});
  const Said said = command(all);
  INFO(said.err);
  REQUIRE(said.code == 0);
  const auto parsed = document::parse(said.out, "-");
  REQUIRE(parsed);
  CHECK(parsed->at("schema").as_string() == "orrery/collective-table/1");
  return parsed->at("rows").items();
}

}  // namespace

TEST_CASE("a collective's row obeys nccl-tests' definitions: algbw is bytes over time, busbw its factor times that") {
  struct Case { const char* kind; double factor; };
  for (const Case& c : {Case{"all_reduce", 2.0 * 15 / 16}, Case{"all_gather", 15.0 / 16}, Case{"reduce_scatter", 15.0 / 16}, Case{"all_to_all", 15.0 / 16},
                        Case{"broadcast", 1}, Case{"reduce", 1}, Case{"send_recv", 1}}) {
    INFO(c.kind);
    const auto table = rows({c.kind, "--cluster", kTwo, "--sizes", "8:1G"});
    REQUIRE(table.size() == 28);
    double last = 0;
    for (const document::Value& row : table) {
      CHECK(row.at("ranks").as_int() == 16);
      CHECK(row.at("nodes").as_int() == 2);
      const double us = row.at("time_us").as_double(), bytes = row.at("bytes").as_double();
      CHECK(us >= last);
      last = us;
      CHECK(row.at("algbw_gb_per_s").as_double() == Approx(bytes / us / 1e3));
      CHECK(row.at("busbw_gb_per_s").as_double() == Approx(c.factor * row.at("algbw_gb_per_s").as_double()));
      CHECK(row.at("low_us").as_double() < us);
      CHECK(row.at("high_us").as_double() > us);
    }
  }
}

TEST_CASE("64 MiB on eight H100 never shows the plateau of gigabytes: in-switch reduction reaches 480 GB/s only there") {
  const auto at64 = rows({"all_reduce", "--cluster", kNode, "--sizes", "64M"});
  REQUIRE(at64.size() == 1);
  CHECK(at64[0].at("busbw_gb_per_s").as_double() < 400);
  CHECK(at64[0].at("algorithm").as_string() == "nvls");
  const auto at16g = rows({"all_reduce", "--cluster", kNode, "--sizes", "16G"});
  CHECK(at16g[0].at("busbw_gb_per_s").as_double() > 440);
}

TEST_CASE("every size stands beside the measurement nearest to it, and beyond the measured ones it is extrapolated") {
  const auto table = rows({"all_reduce", "--cluster", kNode, "--sizes", "1K:64G"});
  const document::Value& exact = table[16];  // 64 MiB
  CHECK(exact.at("bytes").as_int() == 64 << 20);
  CHECK(exact.at("nearest").at("bytes").as_double() == 64 << 20);
  CHECK(exact.at("nearest").at("time_us").as_double() == Approx(exact.at("time_us").as_double()));
  CHECK(exact.at("nearest").at("busbw_gb_per_s").as_double() < 400);
  CHECK(exact.at("origin").as_string() == "published");
  CHECK(table.back().at("origin").as_string() == "extrapolated");  // measured up to 16 GiB
  CHECK(table.back().at("nearest").at("bytes").as_double() == Approx(17179869184.0));
  // Sixteen GPUs of other nodes over Ethernet: nothing was measured.
  CHECK(rows({"all_reduce", "--cluster", R"({"node": "dgx-h100", "nodes": 3, "fabric": "roce-400g-rail"})", "--sizes", "1M"})[0].at("nearest").is_null());
}

TEST_CASE("a thread that launches eight GPUs one after the other takes 34 us for anything small, and 86 us for an all-to-all") {
  // microsoft/superbenchmark, commit 700d6501, tests/data: nccl-tests -g 8 on 8 x A100 40 GB.
  const std::string node = R"({"node": "dgx-a100-40gb", "nodes": 1})";
  CHECK(rows({"all_gather", "--cluster", node, "--sizes", "1K", "--gpus-per-thread", "8"})[0].at("time_us").as_double() == Approx(34).epsilon(0.05));
  CHECK(rows({"all_to_all", "--cluster", node, "--sizes", "1K", "--gpus-per-thread", "8"})[0].at("time_us").as_double() == Approx(86).epsilon(0.05));
  CHECK(rows({"all_gather", "--cluster", node, "--sizes", "1K", "--gpus-per-thread", "8"})[0].at("limited_by").as_string() == "launches");
  const std::vector<std::string> large = {"all_gather", "--cluster", node, "--sizes", "1G"};
  std::vector<std::string> threaded = large;
  threaded.insert(threaded.end(), {"--gpus-per-thread", "8"});
  CHECK(rows(threaded)[0].at("time_us").as_double() == rows(large)[0].at("time_us").as_double());
}

TEST_CASE("NICs of every host of a scale-up domain carry its traffic: two racks of GB200 do not share four") {
  // oracle-quickstart, GB200: an all-to-all of 128 GPUs in two racks over RoCE, 4 GiB in 48.1 ms.
  const auto table = rows({"all_to_all", "--cluster", R"({"node": {"extends": "gb200-tray", "nvlink_domain_nodes": 16}, "nodes": 32, "fabric": "roce-400g-rail"})", "--sizes", "4G"});
  CHECK(table[0].at("time_us").as_double() == Approx(48079).epsilon(0.12));
}

TEST_CASE("a scenario is a cluster too, ranks may be fewer, and NCCL's version decides its tables") {
  const Folder folder;
  const std::string job = folder.write("job.json", orrery::test::kSmall);
  CHECK(rows({"all_gather", "--cluster", job, "--sizes", "1M", "--ranks", "4"})[0].at("ranks").as_int() == 4);
  // NVLS-tree's latency over the network fell in 2.20 (NCCL src/graph/tuning.cc), so at 1 MiB it wins only since then.
  CHECK(rows({"all_reduce", "--cluster", kTwo, "--sizes", "1M", "--nccl-version", "2.18"})[0].at("algorithm").as_string() == "tree");
  CHECK(rows({"all_reduce", "--cluster", kTwo, "--sizes", "1M", "--nccl-version", "2.27"})[0].at("algorithm").as_string() == "nvls_tree");
}

TEST_CASE("the table has one line a size under nccl-tests' first columns") {
  const Said said = command({"collective", "all_reduce", "--cluster", kNode, "--sizes", "1M:4M", "--quiet"});
  CHECK(said.code == 0);
  std::istringstream lines(said.out);
  std::string line;
  std::vector<std::string> all;
  while (std::getline(lines, line)) all.push_back(line);
  REQUIRE(all.size() == 7);
  CHECK(all[0] == "# all_reduce on 8 ranks of 1 x dgx-h100, NCCL 2.27.3; predicted, out of place");
  CHECK(all[1] == "#         size         count      time    algbw    busbw  algorithm, protocol, channels, limit, origin; nearest measured (B, us, GB/s)");
  CHECK(all[3].starts_with("       1048576        262144"));
  CHECK(all[6].starts_with("# average bus bandwidth "));
}

TEST_CASE("collective refuses what it cannot answer, in words") {
  const auto error = [](const std::vector<std::string>& arguments) {
    const Said said = command(arguments);
    CHECK(said.code == 2);
    CHECK(said.out.empty());
    return said.err;
  };
  CHECK(error({"collective", "allreduce", "--cluster", kNode}) == "orrery: collective: unknown kind \"allreduce\"; did you mean \"all_reduce\"?\n");
  CHECK(error({"collective", "all_reduce"}) == "orrery: collective: --cluster is required\n");
  CHECK(error({"collective", "all_reduce", "--cluster", kNode, "--sizes", "16G:8"}) ==
        "orrery: collective: --sizes: \"16G:8\" is no range of sizes; use BEGIN:END with 1 to 1024T as 8, 64K, 16M or 4G, such as 8:16G\n");
  for (const char* bad : {"0:8", "x", "8:", ":8", "8:16X", "-8:8", "99999999999999999999", "1:9999999G"}) {
    INFO(bad);
    CHECK(error({"collective", "all_reduce", "--cluster", kNode, "--sizes", bad}).find("is no range of sizes") != std::string::npos);
  }
  CHECK(error({"collective", "all_reduce", "--cluster", kNode, "--ranks", "16"}) ==
        "orrery: --cluster:/cluster: 16 ranks, but the cluster has 8 GPUs; use at most that, or raise /cluster/nodes\n");
  CHECK(error({"collective", "all_reduce", "--cluster", R"({"node": "dgx-h100", "nodes": 2})"}) ==
        "orrery: --cluster:/cluster/fabric: 2 nodes of dgx-h100 do not share one scale-up domain; name a fabric\n");
  CHECK(error({"collective", "all_reduce", "--cluster", "nowhere.json"}).find("no such file; --cluster takes") != std::string::npos);
  CHECK(error({"collective", "all_reduce", "--cluster", "{\"node\": "}).find("--cluster:") != std::string::npos);
  CHECK(error({"collective", "all_reduce", "--cluster", R"({"node": "dgx-h100", "nodes": 1, "fabrik": 1})"}) ==
        "orrery: --cluster:/cluster/fabrik: unknown member; did you mean \"fabric\"?\n");
}
