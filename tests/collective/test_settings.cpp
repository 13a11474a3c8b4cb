// NCCL's environment: which algorithms, protocols and channels are left. Words: NCCL user guide, "Environment variables".
#include "catch.h"
#include "orrery/collective/collective.hpp"

using namespace orrery;
using namespace orrery::collective;

namespace {

Shape hopper(std::int64_t ranks, std::int64_t nodes) {
  Shape s;
  s.ranks = ranks;
  s.nodes = nodes;
  s.scale_up = gb_per_s(450);
  s.nic_per_gpu = gb_per_s(50);
  return s;
}

Nccl algo(const std::string& text) {
  Nccl nccl;
  REQUIRE(limit_algorithms(text, nccl).empty());
  return nccl;
}
Nccl proto(const std::string& text) {
  Nccl nccl;
  REQUIRE(limit_protocols(text, nccl).empty());
  return nccl;
}
Choice at(Kind kind, std::int64_t mib, const Shape& shape, const Nccl& nccl) { return choose(kind, Bytes(mib * kMiB), shape, nccl); }

}  // namespace

TEST_CASE("a list of algorithms leaves these, a caret all others, whatever the case") {
  const Shape one = hopper(8, 1);
  CHECK(at(Kind::kAllReduce, 1024, one, Nccl{}).algorithm == Algorithm::kNvls);
  CHECK(at(Kind::kAllReduce, 1024, one, algo("Ring")).algorithm == Algorithm::kRing);
  CHECK(at(Kind::kAllReduce, 1024, one, algo("^NVLS")).algorithm == Algorithm::kRing);
  CHECK(at(Kind::kAllReduce, 1024, one, algo("tree")).algorithm == Algorithm::kTree);
  CHECK(at(Kind::kAllReduce, 1024, hopper(64, 8), algo("nvlstree")).algorithm == Algorithm::kNvlsTree);
  const Algorithm without = at(Kind::kAllReduce, 1024, hopper(64, 8), algo("^nvls,nvlstree")).algorithm;
  CHECK((without == Algorithm::kTree || without == Algorithm::kRing));
}

TEST_CASE("a list of one function leaves the others alone") {
  const Shape one = hopper(8, 1);
  const Nccl nccl = algo("allreduce:tree;allgather:ring");
  CHECK(at(Kind::kAllReduce, 1024, one, nccl).algorithm == Algorithm::kTree);
  CHECK(at(Kind::kReduceScatter, 1024, one, nccl).algorithm == at(Kind::kReduceScatter, 1024, one, Nccl{}).algorithm);
}

TEST_CASE("a list of protocols leaves these") {
  const Shape one = hopper(8, 1);
  CHECK(at(Kind::kAllGather, 1024, one, proto("LL")).protocol == Protocol::kLL);
  CHECK(at(Kind::kAllGather, 1024, one, proto("^simple")).protocol == Protocol::kLL128);
  CHECK(choose(Kind::kAllReduce, Bytes(8), one, proto("simple")).protocol == Protocol::kSimple);
}

TEST_CASE("settings that leave nothing that could run are as none, and exchanges between pairs have none") {
  const Shape one = hopper(8, 1);
  CHECK(at(Kind::kBroadcast, 16, one, algo("nvlstree")) == at(Kind::kBroadcast, 16, one, Nccl{}));
  CHECK(at(Kind::kAllToAll, 16, one, algo("tree")) == at(Kind::kAllToAll, 16, one, Nccl{}));
  CHECK(unlimited(algo("tree")) == Nccl{});
}

TEST_CASE("channels stay within their limits") {
  const Shape one = hopper(8, 1);
  Nccl nccl;
  nccl.max_channels = 4;
  CHECK(at(Kind::kAllGather, 8192, one, nccl).channels == 4);
  nccl = {};
  nccl.min_channels = 12;
  CHECK(choose(Kind::kAllGather, Bytes(8), one, nccl).channels == 12);
}

TEST_CASE("what is no name is refused with the nearest one, and changes nothing") {
  Nccl nccl;
  CHECK(limit_algorithms("rign", nccl) == "unknown algorithm \"rign\"; did you mean \"ring\"?; known are tree, ring, collnetdirect, collnetchain, nvls, nvlstree, pat");
  CHECK(limit_protocols("", nccl) == "unknown protocol \"\"; did you mean \"ll\"?; known are ll, ll128, simple");
  CHECK(limit_algorithms("alltoall:ring", nccl) == "unknown function \"alltoall\"; known are broadcast, reduce, allgather, reducescatter, allreduce");
  CHECK(nccl == Nccl{});
}
