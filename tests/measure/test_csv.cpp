#include "catch.h"
#include "orrery/measure/import.hpp"

using namespace orrery;
using measure::import_csv;
using measure::ImportOptions;

TEST_CASE("a table of dtype, m, n, k and time_us is read as it is") {
  const auto t = import_csv("dtype,m,n,k,time_us\nbfloat16,128,256,512,7.5\nhalf,1,2,3,1\n", "t.csv", {});
  REQUIRE(t.has_value());
  REQUIRE(t->set.points.size() == 2);
  const auto& p = t->set.points[0];
  CHECK(p.dtype == "bf16");
  CHECK(p.m == 128);
  CHECK(p.n == 256);
  CHECK(p.k == 512);
  CHECK(p.time_us == std::vector<double>{7.5});
  CHECK(p.from == "t.csv:2");
  CHECK(t->set.points[1].dtype == "fp16");
  CHECK(t->refused.empty());
}

TEST_CASE("a row that is no measurement is refused with its line, the others count") {
  const auto t = import_csv("# a comment\nm,n,k,time_us\n128,128,128,2\n128,x,128,2\n128,128,128,-1\n128,128,128\n0,1,1,1\n256,256,256,3\n", "t.csv", {});
  REQUIRE(t.has_value());
  CHECK(t->set.points.size() == 2);
  const std::vector<measure::Refused> expected = {{"t.csv", 4, "n is \"x\"; expected a whole number from 1"},
                                                  {"t.csv", 5, "time_us is \"-1\"; expected a positive number"},
                                                  {"t.csv", 6, "no time"},
                                                  {"t.csv", 7, "m is \"0\"; expected a whole number from 1"}};
  CHECK(t->refused == expected);
}

TEST_CASE("columns are mapped by option, separators found, quotes and units understood") {
  ImportOptions o;
  o.columns = {{"m", "rows"}, {"time_ms", "t"}};
  o.context = "sustained";
  const auto t = import_csv("rows;N;K;t;Precision\r\n64;\"32\";16;0.5;float8_e4m3fn\r\n", "t.csv", o);
  REQUIRE(t.has_value());
  const auto& p = t->set.points.front();
  CHECK(p.m == 64);
  CHECK(p.n == 32);
  CHECK(p.dtype == "fp8");
  CHECK(p.time_us.front() == Approx(500));
  CHECK(p.context == "sustained");
}

TEST_CASE("attention, streams and collectives are told by their columns") {
  const auto a = import_csv("batch,seq,heads,kv_heads,head_dim,time_us\n2,1024,8,2,128,50\n", "a.csv", {});
  REQUIRE(a.has_value());
  CHECK(a->set.points.front().kind == calibration::Point::Kind::kAttention);
  CHECK(a->set.points.front().seq_kv == 1024);
  CHECK(a->set.points.front().kv_heads == 2);
  const auto s = import_csv("stream,read_bytes,write_bytes,time_us\ncopy,1048576,1048576,3\n", "s.csv", {});
  REQUIRE(s.has_value());
  CHECK(s->set.points.front().stream == "copy");
  const auto c = import_csv("collective,bytes,ranks,time_us\nall_reduce,1048576,8,30\n", "c.csv", {});
  REQUIRE(c.has_value());
  CHECK(c->set.points.front().ranks == 8);
}

TEST_CASE("what is no table of times says what one looks like") {
  const auto t = import_csv("hello,world\n1,2\n", "t.csv", {});
  REQUIRE_FALSE(t.has_value());
  CHECK(t.error().front().text ==
        "line 1 is no heading of a table of times: expected a time (time_us, time_ms, time_s) and m, n, k; or seq, heads, head_dim; or stream, read_bytes, write_bytes; or collective, bytes, "
        "ranks; other names are mapped by --column OURS=THEIRS");
  CHECK(import_csv("", "t.csv", {}).error().front().text == "holds no table of times: it is empty");
  CHECK(import_csv("m,n,k,time_us\n", "t.csv", {}).error().front().text == "a heading and no rows");
  CHECK(import_csv("m,n,k,time_us\n1,1,1,no\n", "t.csv", {}).error().front().text == "no row is a measurement; line 2: time_us is \"no\"; expected a positive number");
}

TEST_CASE("a table cut anywhere, or with any byte changed, is read or refused, never more") {
  const std::string whole = "dtype,m,n,k,time_us\nbfloat16,128,256,512,7.5\n\"half\",1,2,3,1e3\nfp8,1,2,3,1e-300\n";
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    const auto t = measure::import_text(std::string_view(whole).substr(0, cut), "t.csv", {});
    if (t)
      for (const auto& p : t->set.points) CHECK(p.time_us.front() > 0);
  }
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (const char c : {'\0', '"', ',', '\n', '\xff', '9', '-'}) {
      std::string bent = whole;
      bent[i] = c;
      const auto t = measure::import_text(bent, "t.csv", {});
      if (t)
        for (const auto& p : t->set.points) CHECK(p.m >= 1);
    }
}

TEST_CASE("a log of nccl-tests is points of its collective, whatever it is called") {
  const std::string log =
      "# nThread 1 nGpus 2 minBytes 8 maxBytes 128 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n"
      "#  Rank  0 Group  0 Pid 100 on node1 device  0 [0x00] NVIDIA H100 80GB HBM3\n#  Rank  1 Group  0 Pid 100 on node1 device  1 [0x00] NVIDIA H100 80GB HBM3\n#\n"
      "#                                                              out-of-place                       in-place\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
      "     1048576        262144     float     sum      -1    30.00   34.95   34.95      0    30.00   34.95   34.95      0\n"
      "     2097152        524288     float     sum      -1    40.00   52.43   52.43      0    40.00   52.43   52.43      0\n";
  const auto t = measure::import_text(log, "x.log", {});
  if (!t) FAIL_CHECK(to_string(t.error().front()));
  REQUIRE(t.has_value());
  REQUIRE(t->set.points.size() == 2);
  const auto& p = t->set.points[1];
  CHECK(p.kind == calibration::Point::Kind::kCollective);
  CHECK(p.bytes == 2097152);
  CHECK(p.ranks == 2);
  CHECK(p.time_us.front() == 40);
  CHECK(p.from == "x.log:11");
}
