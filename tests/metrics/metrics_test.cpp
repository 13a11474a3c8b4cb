#include <numeric>

#include "catch.h"
#include "job.hpp"

using namespace orrery;
using namespace orrery::metrics;
using namespace orrery::metrics::testing;

namespace {
Summary summary(const Job& j) { return summarise(j.input, j.result, j.inputs); }
double sum(const Breakdown& b) {
  return std::accumulate(b.exposed_comm_s.begin(), b.exposed_comm_s.end(), b.compute_s + b.optimizer_s + b.bubble_s + b.other_s);
}
std::size_t at(ExposedAxis a) { return static_cast<std::size_t>(a); }
std::size_t at(Origin o) { return static_cast<std::size_t>(o); }
constexpr double us = 1e-6;
}  // namespace

TEST_CASE("the breakdown is the mean over ranks of a partition of the step") {
  const Summary s = summary(job(false));
  CHECK(s.step_s == Approx(100 * us));
  CHECK(s.breakdown.compute_s == Approx(65 * us));
  CHECK(s.breakdown.optimizer_s == Approx(5 * us));
  CHECK(s.breakdown.bubble_s == Approx(15 * us));
  CHECK(s.breakdown.other_s == Approx(5 * us));
  CHECK(s.breakdown.exposed_comm_s[at(ExposedAxis::kDp)] == Approx(7 * us));
  CHECK(s.breakdown.exposed_comm_s[at(ExposedAxis::kPp)] == Approx(3 * us));
  CHECK(sum(s.breakdown) == Approx(s.step_s).epsilon(1e-12));
  CHECK(s.compute_by_class_s[0] == Approx(32.5 * us));
  CHECK(s.compute_by_class_s[0] + s.compute_by_class_s[1] + s.compute_by_class_s[2] == Approx(s.breakdown.compute_s).epsilon(1e-12));
}

TEST_CASE("a collective's kind is its group's axis; dp covers sharding and replicas, pp what spans stages") {
  using workload::Axis;
  CHECK(exposed_axis(Axis::kTp, 1) == ExposedAxis::kTp);
  CHECK(exposed_axis(Axis::kCp, 1) == ExposedAxis::kCp);
  CHECK(exposed_axis(Axis::kEp, 1) == ExposedAxis::kEp);
  CHECK(exposed_axis(Axis::kDp, 4) == ExposedAxis::kDp);
  CHECK(exposed_axis(Axis::kDpReplicas, 4) == ExposedAxis::kDp);
  CHECK(exposed_axis(Axis::kWorld, 4) == ExposedAxis::kDp);
  CHECK(exposed_axis(Axis::kEmbedding, 4) == ExposedAxis::kPp);
  CHECK(exposed_axis(Axis::kModel, 4) == ExposedAxis::kPp);
  CHECK(exposed_axis(Axis::kModel, 1) == ExposedAxis::kTp);
}

TEST_CASE("an uncalibrated band is a factor of 1.3 either way") {
  const Summary s = summary(job(false));
  CHECK(s.low_s == Approx(s.step_s / 1.3));
  CHECK(s.high_s == Approx(s.step_s * 1.3));
  CHECK(s.coverage == 0.8);
  CHECK(s.band_basis == "uncalibrated");
}

TEST_CASE("throughput follows from tokens, FLOPs and the dense peak") {
  const Summary s = summary(job(false));  // 8,000 tokens in 100 us on 4 GPUs
  CHECK(s.throughput.tokens_per_s == Approx(8e7));
  CHECK(s.throughput.tokens_per_s_per_gpu == Approx(2e7));
  CHECK(s.throughput.samples_per_s == Approx(8e4));
  CHECK(s.throughput.model_tflops_per_gpu == Approx(1e5 * 8000 / 100e-6 / 4 / 1e12));
  CHECK(*s.throughput.mfu == Approx(s.throughput.model_tflops_per_gpu / 10));
  CHECK(*s.throughput.hfu == Approx(1.2e9 / 100e-6 / 4 / 1e12 / 10));
  CHECK(*s.throughput.peak_tflops == Approx(10));
  CHECK(s.throughput.peak_dtype == "bf16");
  CHECK(s.throughput.pipeline_efficiency == Approx((65.0 + 3) / (65 + 3 + 15)));
  CHECK(s.throughput.closed_form_efficiency == Approx(4.0 / 5));  // m = 4, p = 2
  REQUIRE(s.throughput.tflops_per_gpu.size() == 7);
  CHECK(s.throughput.tflops_per_gpu[0].second == Approx(s.throughput.model_tflops_per_gpu));
  CHECK(s.throughput.tflops_per_gpu[1].first == "megatron");
  CHECK(s.throughput.tflops_per_gpu[1].second == Approx(2 * s.throughput.model_tflops_per_gpu));
}

TEST_CASE("no peak for the precision means no utilisation, not zero") {
  Job j = job(false);
  j.inputs.training.precision = workload::DType::kFp4;
  const Summary s = summary(j);
  CHECK_FALSE(s.throughput.mfu);
  CHECK_FALSE(s.throughput.hfu);
  CHECK_FALSE(s.throughput.peak_tflops);
}

TEST_CASE("every precision has its own dense peak") {
  cluster::Gpu gpu;
  gpu.peak = {tflops(1), tflops(2), tflops(3), tflops(4), tflops(5), tflops(6), tflops(7), tflops(8)};
  using workload::DType;
  const std::vector<std::pair<DType, double>> expected = {{DType::kFp32, 1}, {DType::kTf32, 2}, {DType::kFp16, 3}, {DType::kBf16, 4}, {DType::kFp8, 5},
                                                          {DType::kMxfp8, 5}, {DType::kMxfp6, 6}, {DType::kFp4, 7}, {DType::kInt8, 8}};
  for (const auto& [type, peak] : expected) CHECK(dense_peak(gpu, type)->value() == Approx(peak * 1e12));
}

TEST_CASE("memory is that of the lowest rank with the highest peak, and its kinds sum to it") {
  Job j = job(false);
  j.inputs.programs[0].reserved_bytes = 80 * kGiB;
  j.inputs.programs[0].framework_bytes = 5 * kGiB / 2;
  const Summary s = summary(j);
  CHECK(s.memory.worst_rank == 0);
  CHECK(s.memory.allocated_bytes == 73 * kGiB);
  CHECK(s.memory.reserved_bytes == 80 * kGiB);
  CHECK(s.memory.peak_bytes == s.memory.reserved_bytes + 2 * kGiB + kGiB / 2);
  std::int64_t kinds = 0;
  for (const auto& [name, bytes] : s.memory.by_kind) kinds += bytes;
  CHECK(kinds == s.memory.peak_bytes);
  CHECK(s.memory.by_kind.back().first == "framework");
  CHECK_FALSE(s.memory.fits);
  j.inputs.gpu.memory_capacity = Bytes(s.memory.peak_bytes);
  CHECK(summary(j).memory.fits);
  CHECK(summary(j).memory.advice.empty());
  j.inputs.gpu.memory_capacity = Bytes(s.memory.peak_bytes - 1);
  CHECK_FALSE(summary(j).memory.fits);
}

TEST_CASE("a job that does not fit says what would free how much, largest first") {
  Job j = job(false);
  j.inputs.gpu.memory_capacity = Bytes(60 * kGiB);  // 75 needed; of 60 GiB of states two ranks would share half
  j.inputs.training.micro_batch = 2;
  CHECK(summary(j).memory.advice ==
        std::vector<std::string>{"zero 3 frees up to 30.0 GiB", "twice the tp or pp frees up to 30.0 GiB", "zero 2 frees up to 25.0 GiB",
                                 "zero 1 frees up to 15.0 GiB", "recompute frees up to 12.0 GiB, not enough alone",
                                 "micro_batch 1 frees up to 6.0 GiB, not enough alone"});
  j.inputs.parallelism.zero = 3;
  j.inputs.training.micro_batch = 1;
  j.inputs.training.recompute.mode = workload::RecomputeMode::kFull;
  CHECK(summary(j).memory.advice == std::vector<std::string>{"twice the tp or pp frees up to 30.0 GiB"});
}

TEST_CASE("stages carry their own layers, ranks, mean times and highest peak") {
  const Summary s = summary(job(false));
  REQUIRE(s.stages.size() == 2);
  CHECK((s.stages[0].stage == 0 && s.stages[0].layers == 3 && s.stages[0].ranks == 2 && s.stages[0].chunks == 1));
  CHECK((s.stages[1].stage == 1 && s.stages[1].layers == 1 && s.stages[1].ranks == 2));
  CHECK(s.stages[0].compute_s == Approx(60 * us));
  CHECK(s.stages[1].compute_s == Approx(70 * us));
  CHECK(s.stages[0].bubble_s == Approx(20 * us));
  CHECK(s.stages[0].peak_bytes == 75 * kGiB);
  CHECK(s.stages[0].allocated_bytes == 73 * kGiB);
  CHECK(s.stages[1].reserved_bytes == 65 * kGiB);
  CHECK(s.stages[1].peak_bytes == 67 * kGiB);
}

TEST_CASE("collective rows: one per kind, axis, ranks, bytes and algorithm; their exposed times sum to the breakdown's") {
  const Summary s = summary(job(false));
  REQUIRE(s.collectives.size() == 3);
  const CollectiveRow& reduce = s.collectives[0];
  CHECK(reduce.kind == collective::Kind::kAllReduce);
  CHECK(reduce.count == 2);
  CHECK(reduce.time_s == Approx(10 * us));      // 2 x 10 us x 2 ranks over 4 ranks
  CHECK(reduce.exposed_s == Approx(7 * us));
  CHECK(reduce.algbw_gb_per_s == Approx(2e6 / 10e-6 / 1e9));
  CHECK(reduce.busbw_gb_per_s == Approx(reduce.algbw_gb_per_s));  // 2(n-1)/n = 1 for two ranks
  // The two sends share an account; both were in flight for as long, so each has half of what was exposed.
  CHECK(s.collectives[1].bytes == 300'000);
  CHECK(s.collectives[2].bytes == 600'000);
  CHECK(s.collectives[1].exposed_s == Approx(1.5 * us));
  double exposed = 0;
  for (const CollectiveRow& row : s.collectives) exposed += row.exposed_s;
  CHECK(exposed == Approx(s.breakdown.exposed_comm_s[at(ExposedAxis::kDp)] + s.breakdown.exposed_comm_s[at(ExposedAxis::kPp)]).epsilon(1e-12));
}

TEST_CASE("a transfer that never ran makes no row") {
  Job j = job(false);
  j.result.transfers[0] = {0, 0};
  CHECK(summary(j).collectives.size() == 2);
}

TEST_CASE("links are grouped by kind, capacity, load and peak, named by the lowest") {
  const Summary s = summary(job(false));
  REQUIRE(s.links.size() == 2);
  CHECK(s.links[0].link == "node0/gpu0");
  CHECK(s.links[0].count == 4);
  CHECK(s.links[0].capacity_gb_per_s == Approx(1000));
  CHECK(s.links[0].mean_utilisation == Approx(1e6 / (1e12 * 100e-6)));
  CHECK(s.links[0].peak_utilisation == Approx(0.5));
  CHECK(s.links[1].link == "node0/nic0");
  CHECK(s.links[1].mean_utilisation == 0);
}

TEST_CASE("origins are shares of the accounted time and sum to one") {
  const Summary s = summary(job(false));
  // Of 340 us over all ranks: compute 260 (3/4 measured, 1/4 default), optimizer 20 datasheet, dp 28 published, pp 12 datasheet, host 20 default.
  CHECK(s.origins[at(Origin::kMeasured)] == Approx(195.0 / 340));
  CHECK(s.origins[at(Origin::kPublished)] == Approx(28.0 / 340));
  CHECK(s.origins[at(Origin::kDatasheet)] == Approx(32.0 / 340));
  CHECK(s.origins[at(Origin::kDefault)] == Approx(85.0 / 340));
  CHECK(std::accumulate(s.origins.begin(), s.origins.end(), 0.0) == Approx(1).epsilon(1e-12));
}

TEST_CASE("energy is power by activity over the step; nothing is known without a power limit") {
  const Summary s = summary(job(false));
  // Tensor 48.75 us at 1000 W; memory-bound 16.25 + 5 at 625; communication 10 at 375; waiting 20 at 300.
  const double joules = (48.75 * 1000 + 21.25 * 625 + 10 * 375 + 20 * 300) * us;
  REQUIRE(s.energy);
  CHECK(s.energy->step_j == Approx(4 * joules));
  CHECK(s.energy->gpu_mean_w == Approx(joules / (100 * us)));
  CHECK(s.energy->j_per_token == Approx(4 * joules / 8000));
  Job j = job(false);
  j.inputs.gpu.power_limit_w = 500;  // a cap below what memory-bound kernels would draw
  CHECK(summary(j).energy->gpu_mean_w == Approx((48.75 * 500 + 21.25 * 500 + 10 * 375 + 20 * 300) / 100));
  j.inputs.gpu.power_limit_w = j.inputs.gpu.tdp_w = 0;
  CHECK_FALSE(summary(j).energy);
}

TEST_CASE("a price comes only from a price") {
  Job j = job(false);
  CHECK_FALSE(summary(j).per_million_tokens);
  j.inputs.price_per_gpu_hour = 3.6;
  CHECK(*summary(j).per_million_tokens == Approx(0.001 / 2e7 * 1e6));
}

TEST_CASE("a folded and a full run have the same summary but for what the engine did") {
  const Summary full = summary(job(false)), folded = summary(job(true));
  CHECK(folded.rank_classes == 2);
  CHECK(full.rank_classes == 4);
  CHECK(folded.ranks == full.ranks);
  CHECK(folded.breakdown.compute_s == full.breakdown.compute_s);
  CHECK(folded.breakdown.exposed_comm_s == full.breakdown.exposed_comm_s);
  CHECK(folded.origins == full.origins);
  CHECK(folded.memory.by_kind == full.memory.by_kind);
  CHECK(folded.memory.worst_rank == full.memory.worst_rank);
  CHECK(folded.energy->step_j == full.energy->step_j);
  REQUIRE(folded.stages.size() == full.stages.size());
  for (std::size_t i = 0; i < full.stages.size(); ++i) {
    CHECK(folded.stages[i].ranks == full.stages[i].ranks);
    CHECK(folded.stages[i].compute_s == full.stages[i].compute_s);
  }
  REQUIRE(folded.links.size() == full.links.size());
  for (std::size_t i = 0; i < full.links.size(); ++i) {
    CHECK(folded.links[i].link == full.links[i].link);
    CHECK(folded.links[i].count == full.links[i].count);
    CHECK(folded.links[i].mean_utilisation == full.links[i].mean_utilisation);
  }
}
