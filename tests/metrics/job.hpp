#pragma once
// A hand-made job of four GPUs and what an engine would say of it: two stages of two data-parallel ranks, full or folded to two classes.
#include "orrery/metrics/metrics.hpp"

namespace orrery::metrics::testing {

inline constexpr std::uint32_t kComputeAccount = 2, kOptimizerAccount = 3, kDpAccount = 4, kPpAccount = 5;

struct Job {
  engine::Input input;
  engine::Result result;
  Inputs inputs;
};

/// Per stage, in microseconds of a step of 100: {bubble, host, compute, optimizer, dp, pp}.
inline constexpr std::array<std::array<std::int64_t, 6>, 2> kTimes = {{{20, 5, 60, 5, 6, 4}, {10, 5, 70, 5, 8, 2}}};
inline constexpr SimTime kMicrosecond = 1'000'000;

inline Job job(bool folded) {
  Job j;
  const std::int64_t alike = folded ? 2 : 1;
  j.input.accounts = 6;
  j.input.memory_kinds = 6;
  j.input.programs.resize(2);
  j.input.transfers.resize(3);
  for (std::uint32_t rank = 0; rank < (folded ? 2 : 4); ++rank) {
    const std::uint32_t stage = folded ? rank : rank / 2;
    engine::Rank r;
    r.program = stage;
    r.multiplicity = alike;
    r.lowest = folded ? 2 * rank : rank;
    j.input.ranks.push_back(r);
    engine::RankResult ran;
    for (std::int64_t us : kTimes[stage]) ran.account_ps.push_back(us * kMicrosecond);
    ran.finish = 100 * kMicrosecond;
    ran.peak_kind_bytes = {10 * kGiB, 20 * kGiB, 30 * kGiB, (stage == 0 ? 12 : 4) * kGiB, 1 * kGiB, 2 * kGiB};
    for (std::int64_t b : ran.peak_kind_bytes) ran.peak_bytes += b;
    j.result.ranks.push_back(ran);
  }
  j.result.end = 100 * kMicrosecond;
  j.result.events = folded ? 50 : 100;
  // Both ranks of a stage together: compute 120 and 140 us, optimizer 10 each.
  j.result.segment_ps = {{120 * kMicrosecond, 10 * kMicrosecond}, {140 * kMicrosecond, 10 * kMicrosecond}};
  // Two gradient reductions of 10 us (one a stage), four sends of 3 us of which two make each of two sizes.
  j.result.transfers = {{2, 20 * kMicrosecond}, {2, 6 * kMicrosecond}, {2, 6 * kMicrosecond}};
  // Two links of every rank: an idle one, and one that carried 1 MB, at most half of its 1 byte/ps.
  for (std::uint32_t rank = 0; rank < (folded ? 2 : 4); ++rank)
    for (std::uint32_t port = 0; port < 2; ++port) {
      j.input.resources.push_back({.capacity = std::int64_t{1} << engine::kRateBits, .multiplicity = alike, .passive = false});
      j.result.resources.push_back({.load = port == 0 ? 0 : int128{1'000'000} << engine::kWeightBits, .peak = port == 0 ? 0 : std::int64_t{1} << (engine::kRateBits - 1)});
      j.inputs.links.push_back({port == 0 ? cluster::LinkKind::kNic : cluster::LinkKind::kScaleUp, BytesPerSecond(1e12), (folded ? 2 * rank : rank) * 2 + port});
    }
  Inputs& in = j.inputs;
  in.link_name = [](std::uint32_t link) { return "node0/" + std::string(link % 2 == 0 ? "nic" : "gpu") + std::to_string(link / 2); };
  in.accounts = {{Account::Kind::kWaitsForPeer, {}}, {Account::Kind::kWaitsForHost, {}}, {Account::Kind::kCompute, {}}, {Account::Kind::kOptimizer, {}},
                 {Account::Kind::kComm, workload::Axis::kDp}, {Account::Kind::kComm, workload::Axis::kPp}};
  const auto reduce = TransferInfo{.kind = collective::Kind::kAllReduce, .axis = workload::Axis::kDp, .ranks = 2, .bytes = 2'000'000, .limited_by = "scale_up",
                                   .origin = Origin::kPublished, .account = kDpAccount};
  auto send = TransferInfo{.kind = collective::Kind::kSendRecv, .axis = workload::Axis::kPp, .ranks = 2, .bytes = 300'000,
                           .algorithm = collective::Algorithm::kPairs, .limited_by = "scale_up", .origin = Origin::kDatasheet, .account = kPpAccount};
  in.transfers = {reduce, send, send};
  in.transfers[2].bytes = 600'000;
  for (std::int64_t stage = 0; stage < 2; ++stage) {
    ProgramInfo p;
    p.stage = stage;
    SegmentInfo compute, optimizer;
    compute.account = kComputeAccount;
    compute.origin_ps[static_cast<std::size_t>(Origin::kMeasured)] = 3;
    compute.origin_ps[static_cast<std::size_t>(Origin::kDefault)] = 1;
    compute.class_ps = {2, 1, 1};
    optimizer.account = kOptimizerAccount;
    optimizer.origin_ps[static_cast<std::size_t>(Origin::kDatasheet)] = 1;
    optimizer.class_ps = {0, 0, 1};
    p.segments = {compute, optimizer};
    p.kind_bytes = {10 * kGiB, 20 * kGiB, 30 * kGiB, (stage == 0 ? 12 : 4) * kGiB, 1 * kGiB, 0};
    p.allocated_bytes = p.reserved_bytes = (stage == 0 ? 73 : 65) * kGiB;
    p.framework_bytes = 2 * kGiB;
    in.programs.push_back(p);
  }
  in.memory_kinds = {"parameters", "gradients", "optimizer", "activations", "buffers", "framework"};
  in.gpus = in.full_ranks = 4;
  in.parallelism.pp = 2;
  in.parallelism.dp = 2;
  in.parallelism.layers_per_stage = {3, 1};
  in.training.global_batch = 8;
  in.training.sequence_length = 1000;
  in.counts.exact = 1e5;
  in.counts.megatron = 2e5;
  in.hardware_flops = 1.2e9;
  in.gpu.memory_capacity = Bytes(80 * kGiB);
  in.gpu.power_limit_w = in.gpu.tdp_w = 1000;
  in.gpu.peak.bf16 = tflops(10);
  return j;
}

}  // namespace orrery::metrics::testing
