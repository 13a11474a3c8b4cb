#include <array>
#include <cmath>
#include <string>

#include <rapidcheck.h>

#include "catch.h"
#include "orrery/collective/collective.hpp"

using namespace orrery;
using namespace orrery::collective;
using namespace orrery::literals;

namespace {

Shape hopper(std::int64_t ranks, std::int64_t nodes = 1) {
  Shape s;
  s.ranks = ranks;
  s.nodes = nodes;
  s.scale_up = 450_GBps;
  s.nic_per_gpu = 50_GBps;
  return s;
}
Shape blackwell(std::int64_t ranks, std::int64_t nodes = 1) {
  Shape s = hopper(ranks, nodes);
  s.arch = Arch::kBlackwell;
  s.scale_up = 900_GBps;
  return s;
}
std::string label(const Choice& c) { return std::string(to_string(c.algorithm)) + "_" + std::string(to_string(c.protocol)); }

}  // namespace

TEST_CASE("the choice is the one observed with NCCL 2.27.7 on H200 and B200") {
  struct Row { const char* id; Shape shape; Bytes bytes; const char* expected; };
  const Row rows[] = {
      {"coll.choice.hopper.n8.1MiB", hopper(8), 1_MiB, "ring_ll"},
      {"coll.choice.hopper.n8.2MiB", hopper(8), 2_MiB, "nvls_simple"},
      {"coll.choice.hopper.n4.8192MiB", hopper(4), 8_GiB, "ring_simple"},
      {"coll.choice.hopper.n5.8192MiB", hopper(5), 8_GiB, "nvls_simple"},
      {"coll.choice.hopper.n8.8192MiB", hopper(8), 8_GiB, "nvls_simple"},
      {"coll.choice.blackwell.n4.8192MiB", blackwell(4), 8_GiB, "ring_simple"},
      {"coll.choice.blackwell.n5.8192MiB", blackwell(5), 8_GiB, "ring_simple"},
      {"coll.choice.blackwell.n6.8192MiB", blackwell(6), 8_GiB, "nvls_simple"},
      {"coll.choice.blackwell.n8.8192MiB", blackwell(8), 8_GiB, "nvls_simple"},
  };
  for (const Row& row : rows) {
    INFO(row.id);
    CHECK(label(choose(Kind::kAllReduce, row.bytes, row.shape, {22700})) == row.expected);
  }
}

TEST_CASE("NCCL's scores follow its tables") {
  const Nccl v227{22700}, v228{22800};
  struct Row { const char* id; double got, expected; };
  Shape amd = hopper(32, 4);
  amd.net_overhead_us = 2;
  const auto lat = [&](Algorithm a, Protocol p, const Shape& s) { return nccl_latency_us(Kind::kAllReduce, a, p, s, v227); };
  const auto bus_of_nvls = [&](const Nccl& v) {
    return nccl_bandwidth_gb_per_s(Kind::kAllReduce, Algorithm::kNvls, Protocol::kSimple, 8_GiB, hopper(8), v);
  };
  const Row rows[] = {
      {"coll.busbw.allreduce8", busbw_factor(Kind::kAllReduce, 8), 1.75},
      {"coll.lat.ring_simple.n8", lat(Algorithm::kRing, Protocol::kSimple, hopper(8)), 56.0},
      {"coll.lat.ring_ll.n8", lat(Algorithm::kRing, Protocol::kLL, hopper(8)), 15.0},
      {"coll.lat.ring_ll128.n8", lat(Algorithm::kRing, Protocol::kLL128, hopper(8)), 40.6},
      {"coll.lat.tree_ll.n8", lat(Algorithm::kTree, Protocol::kLL, hopper(8)), 15.2},
      {"coll.lat.tree_ll.n16384", lat(Algorithm::kTree, Protocol::kLL, hopper(16384, 2048)), 125.2},
      {"coll.lat.ring_simple.n32_amd", lat(Algorithm::kRing, Protocol::kSimple, amd), 428.4},
      {"coll.lat.ring_ll.n16384", lat(Algorithm::kRing, Protocol::kLL, hopper(16384, 2048)), 39732.4},
      {"coll.nvls_bus.n8.v228", bus_of_nvls(v228) * busbw_factor(Kind::kAllReduce, 8), 595.0},
      {"coll.nvls_alg.n8.v227", bus_of_nvls(v227), 333.333333333},
      {"coll.choice.hopper.t_ll_1MiB", choose(Kind::kAllReduce, 1_MiB, hopper(8), v227).nccl_estimate.value() * 1e6, 28.0142411348},
  };
  for (const Row& row : rows) {
    INFO(row.id);
    CHECK(row.got == Approx(row.expected).epsilon(1e-9));
  }
}

TEST_CASE("versions differ where their tables do") {
  const auto lat = [](Algorithm a, Protocol p, std::int64_t n, std::int64_t k, int version) {
    return nccl_latency_us(Kind::kAllReduce, a, p, hopper(n, k), {version});
  };
  CHECK(lat(Algorithm::kTree, Protocol::kSimple, 8, 1, 22100) == Approx(2 * 7 * 28.0));        // base 0, hop 28
  CHECK(lat(Algorithm::kTree, Protocol::kSimple, 8, 1, 22300) == Approx(8.4 + 2 * 7 * 4.0));
  CHECK(lat(Algorithm::kNvls, Protocol::kSimple, 8, 1, 22000) == Approx(23.0));
  CHECK(lat(Algorithm::kNvls, Protocol::kSimple, 8, 1, 22100) == Approx(25.0));
  CHECK(lat(Algorithm::kNvlsTree, Protocol::kSimple, 64, 8, 21800) == Approx(23 + 2 * 3 * 19.0));
  CHECK(lat(Algorithm::kNvlsTree, Protocol::kSimple, 64, 8, 22800) == Approx(25 + 2 * 3 * 14.0));
  CHECK(lat(Algorithm::kNvlsTree, Protocol::kSimple, 64, 8, 22900) == Approx(25 + 2 * 3 * 20.9));
  const auto ll128 = [](int version) {
    return nccl_bandwidth_gb_per_s(Kind::kAllReduce, Algorithm::kRing, Protocol::kLL128, 8_MiB, blackwell(8), {version}) * 14 / 8;
  };
  CHECK(ll128(22700) == Approx(8 * 73.4));
  CHECK(ll128(22900) == Approx(8 * 34.5));
  CHECK(ll128(23000) == Approx(8 * 40.0));
  const auto nvls_tree = [](int version) {
    return nccl_bandwidth_gb_per_s(Kind::kAllReduce, Algorithm::kNvlsTree, Protocol::kSimple, 8_GiB, hopper(16, 2), {version}) * 30 / 16;
  };
  CHECK(nvls_tree(22800) == Approx(8 * 57.7));  // measured on two H100 nodes: 468 and 487 GB/s
}

TEST_CASE("a gather over one GPU per node is a PAT when small and a ring when large, and a ring before 2.23") {
  const Shape s = hopper(64, 64);
  for (const Kind kind : {Kind::kAllGather, Kind::kReduceScatter}) {
    CHECK(label(choose(kind, 64_KiB, s, {22700})) == "pat_simple");
    CHECK(label(choose(kind, 4_GiB, s, {22700})) == "ring_simple");
    CHECK(choose(kind, 64_KiB, s, {22200}).algorithm == Algorithm::kRing);
    CHECK(choose(kind, 64_KiB, hopper(128, 64), {22700}).algorithm == Algorithm::kRing);  // two per node: no PAT
  }
}

TEST_CASE("a large all-reduce over many NVSwitch nodes climbs trees while it is small and never walks a ring of thousands") {
  CHECK(choose(Kind::kAllReduce, 64_KiB, hopper(16384, 2048), {22700}).algorithm == Algorithm::kTree);
  CHECK(choose(Kind::kAllReduce, 256_MiB, hopper(16384, 2048), {22700}).algorithm == Algorithm::kNvlsTree);
  CHECK(choose(Kind::kAllReduce, 1_GiB, hopper(16, 2), {22700}).algorithm == Algorithm::kNvlsTree);
}

TEST_CASE("small messages use fewer channels, down to one") {
  const Shape s = hopper(8);
  CHECK(choose(Kind::kAllReduce, 8_B, s, {22700}).channels == 1);
  CHECK(choose(Kind::kAllReduce, 8_GiB, s, {22700}).channels == 16);
  CHECK(choose(Kind::kAllGather, 8_GiB, s, {22700}).channels == 24);
  // Ring LL: 512 threads x 8 B x n ranks each.
  CHECK(choose(Kind::kAllReduce, Bytes(3 * 512 * 64), s, {22700}).channels == 3);
  CHECK(choose(Kind::kAllReduce, Bytes(3 * 512 * 64 - 1), s, {22700}).channels == 2);
}

TEST_CASE("the choice is always one that NCCL enables") {
  CHECK(rc::check([] {
    Shape s;
    s.nodes = *rc::gen::element<std::int64_t>(1, 2, 3, 4, 16, 256, 2048);
    s.ranks = s.nodes * *rc::gen::element<std::int64_t>(1, 2, 4, 5, 8, 72);
    s.arch = *rc::gen::element(Arch::kVolta, Arch::kAmpere, Arch::kHopper, Arch::kBlackwell, Arch::kOther);
    s.cpu = *rc::gen::element(CpuVendor::kIntel, CpuVendor::kAmd, CpuVendor::kArm);
    s.nvlink = *rc::gen::arbitrary<bool>();
    s.nvswitch = s.nvlink && *rc::gen::arbitrary<bool>();
    s.nvls = s.nvswitch && *rc::gen::arbitrary<bool>();
    s.sharp = *rc::gen::arbitrary<bool>();
    s.scale_up = gb_per_s(*rc::gen::inRange(10, 900));
    s.nic_per_gpu = gb_per_s(*rc::gen::inRange(1, 100));
    s.gpus_per_nic = *rc::gen::element<std::int64_t>(1, 2, 8);
    const Nccl nccl{*rc::gen::element(21800, 22000, 22300, 22700, 22800, 22900, 23000)};
    const auto kind = *rc::gen::element(Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter, Kind::kAllToAll, Kind::kBroadcast, Kind::kReduce,
                                        Kind::kSendRecv);
    const Bytes bytes(*rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 40));
    if (s.ranks == 1) return;
    const Choice c = choose(kind, bytes, s, nccl);
    RC_ASSERT(possible(kind, c.algorithm, c.protocol, s, nccl));
    RC_ASSERT(nccl_bandwidth_gb_per_s(kind, c.algorithm, c.protocol, bytes, s, nccl) > 0);
    RC_ASSERT(c.channels >= 1 && c.channels <= 64);
    RC_ASSERT(c.nccl_estimate.value() > 0);
    RC_ASSERT(footprint_sms(c, s) == c.channels);
  }));
}

TEST_CASE("single GPUs without a scale-up link still talk over their NICs") {
  Shape s = hopper(4, 4);
  s.scale_up = BytesPerSecond(0);
  s.nvlink = s.nvswitch = s.nvls = false;
  for (const Kind kind : {Kind::kAllReduce, Kind::kAllGather, Kind::kAllToAll, Kind::kSendRecv}) {
    const Choice c = choose(kind, 1_MiB, s, {22700});
    CHECK(c.nccl_estimate.value() > 0);
    CHECK(std::isfinite(c.nccl_estimate.value()));
  }
}

TEST_CASE("one rank needs no collective") {
  const Choice c = choose(Kind::kAllReduce, 1_GiB, hopper(1), {22700});
  CHECK(c.nccl_estimate == Seconds(0));
  CHECK(footprint_sms(c, hopper(1)) == 0);
  CHECK(hops(Kind::kAllReduce, c.algorithm, hopper(1)).intra_out == 0);
}

TEST_CASE("an all-to-all posts to every peer, so its latency grows with the group; a send does not") {
  const auto us = [](Kind kind, std::int64_t n, std::int64_t k) { return nccl_latency_us(kind, Algorithm::kPairs, Protocol::kSimple, hopper(n, k), {22700}); };
  CHECK(us(Kind::kAllToAll, 2, 1) == Approx(6.6 + 0.6));
  CHECK(us(Kind::kAllToAll, 8, 1) == Approx(6.6 + 0.6 + 6 * 0.4));
  CHECK(us(Kind::kAllToAll, 64, 64) == Approx(6.6 + 5.0 + 62 * 1.0));
  CHECK(us(Kind::kAllToAll, 64, 8) == Approx(6.6 + 0.6 + 6 * 0.4 + 2.7 + 6 * 1.0));  // 56 remote peers, 8 to a rail
  CHECK(us(Kind::kSendRecv, 64, 64) == Approx(6.6 + 5.0));
}

TEST_CASE("a node with one GPU splits its NIC into two channels, which lets trees use all of it") {
  Shape s = hopper(64, 64);
  // 2 channels x 24 GB/s x 0.92, plain tree pattern 0.85, half for the two directions of a reduction.
  CHECK(nccl_bandwidth_gb_per_s(Kind::kAllReduce, Algorithm::kTree, Protocol::kSimple, 8_GiB, s, {22700}) == Approx(2 * 24 * 0.92 * 0.85 / 2));
  CHECK(choose(Kind::kAllReduce, 32_MiB, s, {22700}).algorithm == Algorithm::kTree);
}
