// Grouped products: the sum of ceilings. Exchanges of tokens: against what was measured, and the limits of the model.
#include <algorithm>
#include <cmath>
#include <vector>

#include "devices.hpp"
#include "orrery/collective/collective.hpp"
#include "orrery/document/document.hpp"
#include "orrery/workload/experts.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

constexpr int kSms = 100;

/// A device of one tile kind without memory limits, launches or clocks; grouped kernels at full rate.
cost::GpuCost device(double hardness = 1) {
  calibration::Profile p;
  p.gemm["bf16"] = plain_gemm(1, 0, 0, 1, hardness, {{128, 128, 1, 1}});
  p.grouped.efficiency = exactly(1);
  return cost::GpuCost(bare_gpu(kSms, kSms, 0, 1e9), p);
}
workload::GroupedGemm experts(std::vector<std::int64_t> tokens, std::int64_t n, std::int64_t k, workload::GemmLayout layout = workload::GemmLayout::kTN) {
  workload::GroupedGemm g;
  g.one = gemm(0, n, k);
  g.one.layout = layout;
  if (layout == workload::GemmLayout::kNT) g.one.m = n, g.one.n = k, g.one.k = 0;
  g.tokens = std::move(tokens);
  return g;
}
double tiles(const workload::GroupedGemm& g, double k, double hardness = 1) { return device(hardness).grouped(g).time.value() / (2.0 * 128 * 128 * k / 1e12); }

collective::Shape shape(std::int64_t ranks, std::int64_t nodes, double scale_up, double nic) {
  collective::Shape s;
  s.ranks = ranks;
  s.nodes = nodes;
  s.scale_up = gb_per_s(scale_up);
  s.nic_per_gpu = gb_per_s(nic);
  return s;
}

calibration::Profile shipped(const char* name) {
  const auto document = document::load("profile", document::Value(name), "job.json", "/calibration", ORRERY_SOURCE_DIR);
  REQUIRE(document.has_value());
  const auto profile = calibration::read_profile(document->value, "job.json", "/calibration");
  REQUIRE(profile.has_value());
  return *profile;
}

/// Seconds of a DeepEP exchange.
double exchange(const calibration::Profile& p, collective::Shape s, std::int64_t tokens, std::int64_t hidden, std::int64_t per_token, std::int64_t experts, int sms, bool combine,
                std::int64_t limit = 0) {
  const double element = combine ? 2 : 1 + 4.0 / 128;
  s.tokens = {.per_token = per_token,
              .domains = workload::distinct_places(experts, per_token, s.nodes, limit),
              .ranks = workload::distinct_places(experts, per_token, s.ranks),
              .combine = combine,
              .bytes = static_cast<double>(hidden) * element,
              .sms = sms};
  const collective::Choice choice{collective::Algorithm::kDeduplicated, collective::Protocol::kSimple, sms, Seconds(0)};
  const auto bytes = static_cast<std::int64_t>(static_cast<double>(tokens * per_token * hidden) * element);
  const cost::CollectiveTime t = cost::collective_time(collective::Kind::kAllToAll, Bytes(bytes), choice, s, {}, p);
  return (t.latency + t.transfer).value();
}

}  // namespace

TEST_CASE("a grouped product costs the sum of ceilings over its experts, in whole waves of all of them together") {
  // 100 experts of 128 rows and one column tile fill 100 SMs once; one row more in each is a second tile, and a second wave.
  CHECK(tiles(experts(std::vector<std::int64_t>(100, 128), 128, 512), 512) == Approx(1));
  CHECK(tiles(experts(std::vector<std::int64_t>(100, 129), 128, 512), 512) == Approx(2));
  // 50 experts of 256 rows: as many tiles as 100 of 128.
  CHECK(tiles(experts(std::vector<std::int64_t>(50, 256), 128, 512), 512) == Approx(1));
  // A mean of 128 rows that is 1 and 255 in turn: 50 x 1 + 50 x 2 tiles.
  std::vector<std::int64_t> uneven;
  for (int i = 0; i < 50; ++i) uneven.insert(uneven.end(), {1, 255});
  CHECK(tiles(experts(uneven, 128, 512), 512) == Approx(2));
  CHECK(tiles(experts(uneven, 128, 512), 512, 0) == Approx(1.5));
}

TEST_CASE("the weight gradient groups over tokens: time goes with their sum, and an expert without any costs nothing") {
  const auto work = [](std::vector<std::int64_t> tokens) { return device(0).grouped(experts(std::move(tokens), 1280, 1280, workload::GemmLayout::kNT)).time.value(); };
  CHECK(work({512, 512}) == Approx(work({256, 768})));
  CHECK(work({512, 512, 0, 0}) == Approx(work({512, 512})));
  CHECK(work({0, 0}) == 0);
}

TEST_CASE("one after another, each expert's product pays its own last wave") {
  workload::GroupedGemm g = experts({128, 128, 128, 128}, 128, 512);
  CHECK(tiles(g, 512) == Approx(1));
  g.launch = workload::GroupLaunch::kOneByOne;
  CHECK(tiles(g, 512) == Approx(4));
}

TEST_CASE("a grouped product is never faster than its FLOPs at peak, and rises with every expert's rows") {
  const cost::GpuCost gpu = device(0.3);
  for (std::int64_t rows = 1; rows < 3000; rows = rows * 3 / 2 + 1) {
    const workload::GroupedGemm g = experts({rows, 700, 64}, 1024, 2048), more = experts({rows + 1, 700, 64}, 1024, 2048);
    CHECK(gpu.grouped(g).time.value() >= g.flops().value() / (kSms * 1e12) * (1 - 1e-12));
    CHECK(gpu.grouped(more).time >= gpu.grouped(g).time);
  }
}

TEST_CASE("DeepEP exchanges on 8 H100 are within 12 % of the published measurements, median over shapes, sizes and SMs") {
  // ai-dynamo/aiconfigurator at 095f58a, deepep normal, sglang 0.5.12: hidden, experts per token, experts, tokens, SMs, dispatch us, combine us.
  struct Row { std::int64_t hidden, per_token, experts, tokens; int sms; double dispatch_us, combine_us; };
  const Row rows[] = {{2048, 8, 128, 4096, 4, 1123.3, 1264.5}, {2048, 8, 128, 4096, 8, 591.06, 673.39},  {2048, 8, 128, 4096, 24, 228.69, 316.39}, {7168, 8, 256, 4096, 4, 2068.5, 3897.3},
                      {7168, 8, 256, 4096, 12, 753.97, 1416.8}, {7168, 8, 256, 4096, 24, 498.36, 960.61}, {4096, 2, 8, 4096, 4, 792.69, 1383.2},    {4096, 2, 8, 4096, 24, 173.33, 316.82},
                      {5120, 1, 128, 4096, 8, 360.15, 796.98},  {4096, 22, 512, 4096, 16, 546.7, 873.81}, {4096, 22, 512, 4096, 24, 414.81, 780.78}, {7168, 6, 384, 4096, 20, 419.71, 856.41},
                      {2048, 8, 128, 128, 8, 46.233, 54.431},   {2048, 8, 128, 1024, 12, 126.42, 149.2},  {2048, 8, 128, 65536, 8, 9188.4, 9921.3}};
  const calibration::Profile p = shipped("h100");
  std::vector<double> errors;
  for (const Row& r : rows) {
    for (const bool combine : {false, true}) {
      const double us = exchange(p, shape(8, 1, 450, 50), r.tokens, r.hidden, r.per_token, r.experts, r.sms, combine) * 1e6;
      errors.push_back(std::abs(us / (combine ? r.combine_us : r.dispatch_us) - 1));
    }
  }
  std::sort(errors.begin(), errors.end());
  CHECK(errors[errors.size() / 2] < 0.12);
  CHECK(errors.back() < 0.3);
}

TEST_CASE("DeepEP exchanges on one to eight nodes of H800 are within 12 % of the published rates") {
  // DeepEP docs/legacy.md: 4096 tokens of 7168, top 8 of 256 in at most 4 groups, fp8 dispatch, bf16 combine; 200 GB/s NVLink, 50 GB/s NIC. The
  // rate counts a token once per domain it goes to, its own included; on one node once per rank.
  struct Row { std::int64_t ranks; double dispatch_gb_per_s, combine_gb_per_s; };
  const calibration::Profile p = shipped("h100");
  for (const Row& r : {Row{8, 153, 158}, Row{16, 43, 43}, Row{32, 58, 57}, Row{64, 51, 50}}) {
    INFO(r.ranks);
    const double domains = r.ranks == 8 ? workload::distinct_places(256, 8, 8, 0) : workload::distinct_places(256, 8, r.ranks / 8, 4);
    const double dispatch = exchange(p, shape(r.ranks, r.ranks / 8, 200, 50), 4096, 7168, 8, 256, 20, false, 4);
    const double combine = exchange(p, shape(r.ranks, r.ranks / 8, 200, 50), 4096, 7168, 8, 256, 20, true, 4);
    CHECK(4096 * 7168 * 1.03125 * domains / dispatch / 1e9 == Approx(r.dispatch_gb_per_s).epsilon(0.12));
    CHECK(4096 * 7168 * 2.0 * domains / combine / 1e9 == Approx(r.combine_gb_per_s).epsilon(0.12));
  }
}

TEST_CASE("an exchange never beats its wires, and more SMs never slow it") {
  const calibration::Profile p = shipped("h100");
  double last = INFINITY;
  for (int sms = 2; sms <= 64; sms += 2) {
    const double t = exchange(p, shape(8, 1, 450, 50), 8192, 7168, 8, 256, sms, true);
    CHECK(t <= last);
    CHECK(t >= 8192 * 7168 * 2.0 * workload::distinct_places(256, 8, 8) * 7 / 8 / 450e9);
    last = t;
  }
}
