// Layouts are nccl-tests' own of several years (src/common.cu, writeBenchmarkLineBody); rows are of public logs, named where they stand.
#include "catch.h"
#include "orrery/measure/nccl_log.hpp"

using namespace orrery;
using namespace orrery::measure;

namespace {

NcclLog read(const std::string& text) {
  const auto log = parse_nccl_log(text, "a.log");
  INFO((log ? std::string() : to_string(log.error().front())));
  REQUIRE(log);
  return *log;
}

std::string refusal(const std::string& text) {
  const auto log = parse_nccl_log(text, "a.log");
  REQUIRE_FALSE(log);
  return to_string(log.error().front());
}

/// cscs-docs docs/software/communication/nccl.md, shortened.
const std::string kModern =
    "$ srun -N2 --mpi=pmix /nccl-tests-2.17.1/build/all_reduce_perf -b 8 -e 128M -f 2\n"
    "# Collective test starting: all_reduce_perf\n"
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid 204199 on  node02 device  0 [0009:01:00] NVIDIA GH200 120GB\n"
    "#  Rank  1 Group  0 Pid 155254 on  node01 device  0 [0009:01:00] NVIDIA GH200 120GB\n"
    "NCCL version 2.28.7+cuda13.0\n"
    "#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
    "           8             2     float     sum      -1    17.93    0.00    0.00      0    17.72    0.00    0.00      0\n"
    "  1073741824     268435456     float     sum      -1    43980   24.41   24.41      0    44094   24.35   24.35      0\n"
    "# Out of bounds values : 0 OK\n"
    "# Avg bus bandwidth    : 19.7866\n"
    "# Collective test concluded: all_reduce_perf\n";

}  // namespace

TEST_CASE("a modern log gives collective, ranks, nodes, GPU, version and both halves of each row") {
  const NcclLog log = read(kModern);
  CHECK(log.notes.empty());
  REQUIRE(log.tables.size() == 1);
  const NcclTable& t = log.tables.front();
  CHECK(t.collective == "all_reduce");
  CHECK(t.collective_named);
  CHECK(t.dtype == "float");
  CHECK(t.redop == "sum");
  CHECK(t.ranks == 2);
  CHECK(t.nodes == 2);
  CHECK(t.gpu == "NVIDIA GH200 120GB");
  CHECK(t.version == "2.28.7");
  REQUIRE(t.rows.size() == 2);
  CHECK(t.rows[1].line == 12);
  CHECK(t.rows[1].bytes == 1073741824);
  CHECK(t.rows[1].time_us == 43980);
  CHECK(t.rows[1].algbw == 24.41);
  CHECK(t.rows[1].in_place_us == 44094);
}

TEST_CASE("the layout of 2019 to 2021: no root, errors instead of counts, no reduction for all-to-all, no such column for all-gather") {
  // microsoft/superbenchmark tests/data
  const std::string ranks = "#   Rank  0 Pid 1 on localhost device  0 [0x00] A100-SXM4-40GB\n#   Rank  1 Pid 1 on localhost device  1 [0x00] A100-SXM4-40GB\n";
  const NcclLog reduce = read(ranks + "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
                                      "hostname:3442:3442 [0] NCCL INFO Launch mode Parallel\n"
                                      "  8589934592    2147483648   float     sum    63896  134.44  134.44    N/A    63959  134.30  134.30    N/A\n");
  CHECK(reduce.tables.front().collective == "all_reduce");
  CHECK_FALSE(reduce.tables.front().collective_named);
  CHECK(reduce.tables.front().rows.front().time_us == 63896);
  CHECK(reduce.tables.front().gpu == "A100-SXM4-40GB");
  const NcclLog exchange = read(ranks + "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
                                        "         128            16   float            89.00    0.00    0.00    N/A    85.13    0.00    0.00    N/A\n");
  CHECK(exchange.tables.front().collective == "all_to_all");
  const NcclLog gather = read(ranks + "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error\n"
                                      "         128            16   float    89.00    0.00    0.00    N/A    85.13    0.00    0.00    N/A\n");
  CHECK(gather.tables.front().collective == "all_gather");
}

TEST_CASE("a time without a decimal point is not taken for a root, with or without a heading") {
  // tinygrad/open-gpu-kernel-modules pull 22: the heading is lost, the last row cut
  const NcclLog log = read("    33554432       8388608     float     sum      -1   3966.7    8.46   12.69      0   3942.4    8.51   12.77      0\n"
                           "    67108864      16777216     float     sum      -1     7888    8.51   12.76      0   78\n");
  CHECK(log.tables.front().rows.back().time_us == 7888);
  CHECK(log.tables.front().ranks == 4);  // 12.69 / 8.46 = 2 x 3/4
  const NcclLog rooted = read(" 1048576  262144  float  sum  0  3251  0.32  0.32  0  1503  0.70  0.70  0\n");
  CHECK(rooted.tables.front().collective == "reduce");
  CHECK(rooted.tables.front().rows.front().time_us == 3251);
  const NcclLog rootless = read(" 1073741824  268435456  float  sum  35215  30.49  57.17  4e-07  35198  30.51  57.20  4e-07\n");
  CHECK(rootless.tables.front().collective == "all_reduce");
  CHECK(rootless.tables.front().ranks == 16);
}

TEST_CASE("prefixes of MPI and Slurm, even inside a row, are no part of it") {
  const NcclLog mpi = read("[0]     33554432       8388608     float     sum      -1[0]    2180.1   15.39   29.50      0[0]    2285.2   14.68   28.14      0\n");
  CHECK(mpi.tables.front().rows.front().time_us == 2180.1);
  CHECK(mpi.tables.front().ranks == 24);
  const NcclLog tagged = read("[1,0]<stdout>:     33554432       8388608     float     sum      -1    2180.1   15.39   29.50      0    2285.2   14.68   28.14      0\n");
  CHECK(tagged.tables.front().label.empty());
  const NcclLog slurm = read(" 0:        65536           512     float    none      -1    107.5    0.61    0.59      0    105.6    0.62    0.60      0\n");
  CHECK(slurm.tables.front().label == "0:");
  CHECK(slurm.tables.front().collective == "all_gather");
  CHECK(slurm.tables.front().ranks == 32);
}

TEST_CASE("a column before the size tells tables apart") {
  // NVIDIA/nccl issue 527: one size on 1, 2, 3 and 4 nodes
  const NcclLog log = read("   1   1073741824     268435456     float     sum   8142.6  131.87  230.77  2e-07   8141.2  131.89  230.81  2e-07\n"
                           "   3   1073741824     268435456     float     sum    64782   16.57   31.77  7e-07    64827   16.56   31.75  7e-07\n");
  REQUIRE(log.tables.size() == 2);
  CHECK(log.tables[0].ranks == 8);
  CHECK(log.tables[1].label == "3");
  CHECK(log.tables[1].ranks == 24);
}

TEST_CASE("columns tell reduce-scatter, all-to-all, send and receive, and broadcast apart") {
  CHECK(read(" 128  4  float  sum  -1  32.31  0.00  0.00  0  25.35  0.01  0.00  0\n").tables.front().collective == "reduce_scatter");
  CHECK(read(" 262144  32768  float  none  -1  42.91  6.11  3.05  0  46.84  5.60  2.80  N/A\n").tables.front().collective == "all_to_all");
  CHECK(read(" 512  128  float  sum  -1  34.24  0.01  0.01  0  34.15  0.01  0.01  N/A\n").tables.front().collective == "send_recv");
  CHECK(read(" 512  128  float  none  0  34.24  0.01  0.01  0  34.15  0.01  0.01  0\n").tables.front().collective == "broadcast");
}

TEST_CASE("data types swept in one run are tables of their own") {
  const NcclLog log = read(" 42949672960   21474836480  bfloat16     sum      -1   166329  258.22  484.17       0   166459  258.02  483.79       0\n"
                           " 10737418240   10737418240    f8e4m3     sum      -1  55722.7  192.69  361.30       0  55771.5  192.53  360.98       0\n"
                           " 10737418240   10737418240    f8e5m2     sum      -1  55699.2  192.78  361.45       0  55692.9\n");
  REQUIRE(log.tables.size() == 3);
  CHECK(log.tables[1].dtype == "f8e4m3");
  CHECK(log.tables[2].collective == "all_reduce");
  CHECK_FALSE(log.tables[2].rows.front().in_place_us);
}

TEST_CASE("the ratio of the bandwidths gives large rank counts as the only power of two, and nothing where several fit") {
  CHECK(read(" 17179869184  4294967296  float  sum  -1  93457  183.83  367.29  0  93420  183.90  367.44  0\n").tables.front().ranks == 1024);
  CHECK(read(" 512  128  float  sum  -1  93.96  0.01  0.01  0  93.9  0.01  0.01  0\n").tables.front().ranks == 0);
}

TEST_CASE("two processes that print into one log are noticed, not averaged") {
  // NVIDIA/nccl-tests issue 182
  CHECK(refusal("           8             2     float     sum      -1    40.64    0.00    0.00      0    45.02    0.00    0.00      0\n"
                "          16             4     float     sum      -1    49.66    0.00    0.00      0    48.21    0.00    0.00      0\n"
                "           8             2     float     sum      -1    46.80    0.00    0.00      0    56.22    0.00    0.00      0\n") ==
        "a.log: line 3: the sizes start again without a new heading: several processes print into one log; run one binary built with MPI=1");
}

TEST_CASE("runs one after the other are tables of their own") {
  const NcclLog log = read(kModern + kModern);
  REQUIRE(log.tables.size() == 2);
  CHECK(log.tables[1].ranks == 2);
  CHECK(log.tables[1].collective_named);
}

TEST_CASE("a row cut short is left out with its line, and a text without a table is refused") {
  const NcclLog log = read(kModern + "  2147483648     536870912     float     sum      -1    8798\n");
  CHECK(log.notes == std::vector<NcclNote>{{16, "a row of 2147483648 bytes is cut short"}});
  CHECK(log.tables.size() == 1);
  CHECK(refusal("no rows here\n") == "a.log: no table of nccl-tests: a row starts with size, count and type");
  CHECK(refusal("") == "a.log: no table of nccl-tests: a row starts with size, count and type");
  CHECK(refusal("  8  2  float  sum  -1  nan  0.00  0.00  0\n") == "a.log: line 1: a row of 8 bytes is cut short");
  CHECK(refusal("  8  2  float\n") == "a.log: line 1: a row of 8 bytes is cut short");
}

TEST_CASE("headings without their hash, elided ranks and commas of a launcher do not disturb") {
  const NcclLog log = read("#  Rank  0 Group  0 Pid 568399 on   node02 device  0 [0008:06:00] NVIDIA GB300\n...\n"
                           "#  Rank 63 Group  0 Pid 480833 on   node01 device  3 [0019:06:00] NVIDIA GB300\n"
                           "       size         count      type   redop    root     time   algbw   busbw  wrong     time   algbw   busbw  wrong\n"
                           "  8589934592    2147483648     float     sum      -1    18842  455.88  897.52      0    18790  457.15  900.01      0\n");
  CHECK(log.tables.front().ranks == 64);
  CHECK(log.tables.front().nodes == 0);  // the list is not complete
}
