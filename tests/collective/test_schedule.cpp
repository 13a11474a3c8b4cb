// Every algorithm is written down as transfers, run on symbols, and counted.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "catch.h"
#include "orrery/collective/collective.hpp"

using namespace orrery;
using namespace orrery::collective;
using namespace orrery::literals;

namespace {

Shape shape_of(int nodes, int per_node) {
  Shape s;
  s.nodes = nodes;
  s.ranks = nodes * per_node;
  s.scale_up = 450_GBps;
  s.nic_per_gpu = 50_GBps;
  s.sharp = true;
  return s;
}
int owner(const Schedule& s, int chunk) { return chunk * s.ranks / s.chunks; }

using Held = std::vector<std::vector<std::multiset<int>>>;  ///< [vertex][chunk]: whose contributions

/// Runs the transfers: everything of one step leaves before anything arrives.
Held run(Kind kind, const Schedule& s) {
  Held held(static_cast<std::size_t>(s.ranks + s.switches), std::vector<std::multiset<int>>(static_cast<std::size_t>(s.chunks)));
  for (int rank = 0; rank < s.ranks; ++rank) {
    for (int chunk = 0; chunk < s.chunks; ++chunk) {
      const bool has = kind == Kind::kAllGather ? owner(s, chunk) == rank : kind == Kind::kBroadcast ? rank == 0 : true;
      if (has) held[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)] = {rank};
    }
  }
  for (std::size_t i = 0; i < s.steps.size();) {
    const Held before = held;
    std::set<std::pair<int, int>> replaced;
    const int now = s.steps[i].step;
    for (; i < s.steps.size() && s.steps[i].step == now; ++i) {
      const Step& t = s.steps[i];
      const auto& sent = before[static_cast<std::size_t>(t.from)][static_cast<std::size_t>(t.chunk)];
      auto& there = held[static_cast<std::size_t>(t.to)][static_cast<std::size_t>(t.chunk)];
      REQUIRE(!sent.empty());  // nobody sends what it does not have
      if (t.reduce) {
        there.insert(sent.begin(), sent.end());
      } else {
        CHECK(replaced.insert({t.to, t.chunk}).second);
        there = sent;
      }
    }
  }
  return held;
}

void check_result(Kind kind, const Schedule& s) {
  const Held held = run(kind, s);
  std::multiset<int> all;
  for (int rank = 0; rank < s.ranks; ++rank) all.insert(rank);
  for (int rank = 0; rank < s.ranks; ++rank) {
    for (int chunk = 0; chunk < s.chunks; ++chunk) {
      const auto& got = held[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)];
      const int from = kind == Kind::kAllGather ? owner(s, chunk) : 0;
      if (kind == Kind::kAllReduce) CHECK(got == all);
      if (kind == Kind::kReduceScatter && owner(s, chunk) == rank) CHECK(got == all);
      if (kind == Kind::kReduce && rank == 0) CHECK(got == all);
      if (kind == Kind::kAllGather || kind == Kind::kBroadcast) CHECK(got == std::multiset<int>{from});
    }
  }
}

struct Load { double intra_out = 0, intra_in = 0, inter_out = 0, inter_in = 0; };

/// Bytes per rank in units of the buffer. A switch of a node is inside, the fabric's is outside.
std::vector<Load> loads(const Schedule& s, const Shape& shape) {
  std::vector<Load> out(static_cast<std::size_t>(s.ranks));
  const int g = static_cast<int>(ranks_per_node(shape));
  const auto node = [&](int v) { return v < s.ranks ? v / g : s.switches == 1 && shape.nodes > 1 ? -1 : v - s.ranks; };
  for (const Step& t : s.steps) {
    const bool inside = node(t.from) == node(t.to);
    const double bytes = 1.0 / s.chunks;
    if (t.from < s.ranks) (inside ? out[static_cast<std::size_t>(t.from)].intra_out : out[static_cast<std::size_t>(t.from)].inter_out) += bytes;
    if (t.to < s.ranks) (inside ? out[static_cast<std::size_t>(t.to)].intra_in : out[static_cast<std::size_t>(t.to)].inter_in) += bytes;
  }
  return out;
}

constexpr std::array kKinds = {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter, Kind::kAllToAll,
                               Kind::kBroadcast, Kind::kReduce, Kind::kSendRecv};
constexpr std::array kAlgorithms = {Algorithm::kRing, Algorithm::kTree, Algorithm::kCollNetDirect, Algorithm::kCollNetChain,
                                    Algorithm::kNvls, Algorithm::kNvlsTree, Algorithm::kPat, Algorithm::kPairs};

template <class Visit>
void every_small_case(const Visit& visit) {
  for (int nodes = 1; nodes <= 9; ++nodes) {
    for (const int per_node : {1, 2, 3, 4, 8}) {
      const Shape shape = shape_of(nodes, per_node);
      if (shape.ranks == 1 || shape.ranks > 32) continue;
      for (const Kind kind : kKinds) {
        for (const Algorithm algorithm : kAlgorithms) {
          if (possible(kind, algorithm, Protocol::kSimple, shape, {22700})) visit(kind, algorithm, shape);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("every algorithm leaves every rank with every contribution exactly once") {
  int cases = 0;
  every_small_case([&](Kind kind, Algorithm algorithm, const Shape& shape) {
    if (kind == Kind::kAllToAll || kind == Kind::kSendRecv) return;
    CAPTURE(to_string(kind), to_string(algorithm), shape.nodes, shape.ranks);
    check_result(kind, schedule(kind, algorithm, shape));
    ++cases;
  });
  CHECK(cases > 200);
}

TEST_CASE("an all-to-all moves each ordered pair's part once, to the rank it is for, through relays or not") {
  for (const auto& [nodes, per_node] : {std::pair{1, 2}, {1, 3}, {1, 8}, {1, 16}, {2, 1}, {5, 1}, {2, 2}, {3, 4}, {4, 8}}) {
    CAPTURE(nodes, per_node);
    const Schedule s = schedule(Kind::kAllToAll, Algorithm::kPairs, shape_of(nodes, per_node));
    const int n = s.ranks;
    std::vector<std::multiset<std::pair<int, int>>> held(static_cast<std::size_t>(n));  // [rank]: (receiver, sender) of the parts it has
    for (int from = 0; from < n; ++from) {
      for (int to = 0; to < n; ++to) held[static_cast<std::size_t>(from)].insert({to, from});
    }
    for (std::size_t i = 0; i < s.steps.size();) {
      const auto before = held;
      std::map<std::pair<int, int>, int> sent;  // (who, for whom): how many parts went this step
      const int now = s.steps[i].step;
      for (; i < s.steps.size() && s.steps[i].step == now; ++i) {
        const Step& t = s.steps[i];
        const auto& had = before[static_cast<std::size_t>(t.from)];
        auto part = had.lower_bound({t.chunk, 0});
        std::advance(part, sent[{t.from, t.chunk}]++);
        REQUIRE(part != had.end());
        REQUIRE(part->first == t.chunk);  // nobody sends what it does not have
        auto& own = held[static_cast<std::size_t>(t.from)];
        own.erase(own.find(*part));
        held[static_cast<std::size_t>(t.to)].insert(*part);
      }
    }
    for (int rank = 0; rank < n; ++rank) {
      std::multiset<std::pair<int, int>> due;
      for (int from = 0; from < n; ++from) due.insert({rank, from});
      CHECK(held[static_cast<std::size_t>(rank)] == due);
    }
  }
}

TEST_CASE("hops are the transfers of the busiest rank, counted") {
  every_small_case([](Kind kind, Algorithm algorithm, const Shape& shape) {
    CAPTURE(to_string(kind), to_string(algorithm), shape.nodes, shape.ranks);
    Load most;
    for (const Load& l : loads(schedule(kind, algorithm, shape), shape)) {
      most.intra_out = std::max(most.intra_out, l.intra_out);
      most.intra_in = std::max(most.intra_in, l.intra_in);
      most.inter_out = std::max(most.inter_out, l.inter_out);
      most.inter_in = std::max(most.inter_in, l.inter_in);
    }
    const Hops h = hops(kind, algorithm, shape);
    CHECK(h.inter_out == Approx(most.inter_out));
    CHECK(h.inter_in == Approx(most.inter_in));
    if (kind == Kind::kSendRecv && shape.nodes > 1) return;  // the rank that stays inside and the one that leaves are two
    // Rooted rings: the root's channels leave the node at every GPU, so no rank of a node sends all of it inside.
    if ((kind == Kind::kBroadcast || kind == Kind::kReduce) && shape.nodes > 1) {
      CHECK(h.intra_out >= most.intra_out - 1e-12);
      return;
    }
    CHECK(h.intra_out == Approx(most.intra_out));
    CHECK(h.intra_in == Approx(most.intra_in));
  });
}

TEST_CASE("what leaves arrives: bytes out equal bytes in, at ranks and at switches") {
  every_small_case([](Kind kind, Algorithm algorithm, const Shape& shape) {
    CAPTURE(to_string(kind), to_string(algorithm), shape.nodes, shape.ranks);
    const Hops h = hops(kind, algorithm, shape);
    CHECK(h.inter_out == Approx(h.inter_in));
    // A switch that only multicasts (or only reduces) makes many bytes of one (or one of many).
    if (algorithm == Algorithm::kNvls && kind != Kind::kAllReduce) {
      CHECK(std::max(h.intra_out, h.intra_in) == Approx(1.0));
    } else {
      CHECK(h.intra_out == Approx(h.intra_in));
    }
  });
}

TEST_CASE("gather and scatter inside, reduction across, make an all-reduce with the bytes of a hierarchy") {
  // Frameworks compose it (HSDP, distributed optimizer): reduce-scatter over g, all-reduce of P/g over k, all-gather over g.
  const int g = 8, k = 4;
  const double p_gib = 4;
  const double inside = hops(Kind::kReduceScatter, Algorithm::kRing, shape_of(1, g)).intra_out + hops(Kind::kAllGather, Algorithm::kRing, shape_of(1, g)).intra_out;
  const double across = hops(Kind::kAllReduce, Algorithm::kRing, shape_of(k, 1)).inter_out / g;
  {
    INFO("coll.hier.nvlink_bytes");
    CHECK(inside * p_gib == Approx(7.0).epsilon(1e-9));
  }
  {
    INFO("coll.hier.nic_bytes");
    CHECK(across * p_gib == Approx(0.75).epsilon(1e-9));
  }
  {
    INFO("coll.busbw_to_nic");  // busbw = algbw 2(n-1)/n, so the NIC's rate is the hierarchy's bytes per algbw
    const double rate = 377.34 / busbw_factor(Kind::kAllReduce, g * k) * across;
    CHECK(377.34 * 3 / 31 == Approx(36.5167741935).epsilon(1e-9));
    CHECK(rate == Approx(36.5167741935).epsilon(1e-9));
    CHECK(std::abs(rate / 36.52 - 1) < 0.001);
  }

  // The composition, symbolically: scatter inside every node, reduce each share across, gather inside.
  const int nodes = 3, local = 4;
  const Schedule scatter = schedule(Kind::kReduceScatter, Algorithm::kRing, shape_of(1, local));
  const Schedule reduce = schedule(Kind::kAllReduce, Algorithm::kRing, shape_of(nodes, 1));
  const Schedule gather = schedule(Kind::kAllGather, Algorithm::kRing, shape_of(1, local));
  const int shares = scatter.chunks, parts = reduce.chunks;
  Schedule whole{nodes * local, 0, shares * parts, {}};
  const auto append = [&](const Schedule& s, int first, const auto& rank, const auto& chunks_of) {
    for (const Step& t : s.steps) {
      for (const int chunk : chunks_of(t.chunk)) whole.steps.push_back({first + t.step, rank(t.from), rank(t.to), chunk, t.reduce});
    }
  };
  const auto every_part = [&](int share) {
    std::vector<int> out;
    for (int part = 0; part < parts; ++part) out.push_back(share * parts + part);
    return out;
  };
  for (int node = 0; node < nodes; ++node) {
    append(scatter, 0, [&](int r) { return node * local + r; }, every_part);
    append(gather, 200, [&](int r) { return node * local + r; }, every_part);
  }
  for (int l = 0; l < local; ++l) {
    append(reduce, 100, [&](int r) { return r * local + l; }, [&](int part) {
      std::vector<int> out;
      for (int share = 0; share < shares; ++share) {
        if (share * local / shares == l) out.push_back(share * parts + part);
      }
      return out;
    });
  }
  std::stable_sort(whole.steps.begin(), whole.steps.end(), [](const Step& a, const Step& b) { return a.step < b.step; });
  check_result(Kind::kAllReduce, whole);
}

TEST_CASE("closed forms of the bytes") {
  {
    INFO("coll.nvls_vs_ring.bytes");
    const double ring = hops(Kind::kAllReduce, Algorithm::kRing, shape_of(1, 8)).intra_out;
    const double nvls = hops(Kind::kAllReduce, Algorithm::kNvls, shape_of(1, 8)).intra_out;
    CHECK(ring / nvls == Approx(1.55555555556).epsilon(1e-9));
  }
  // A ring over k nodes of g GPUs puts 2(n-1)/n / g on each NIC, and nothing with one node.
  CHECK(hops(Kind::kAllReduce, Algorithm::kRing, shape_of(4, 8)).inter_out == Approx(2 * 31.0 / 32 / 8));
  CHECK(hops(Kind::kAllReduce, Algorithm::kRing, shape_of(1, 8)).inter_out == 0);
  CHECK(hops(Kind::kAllReduce, Algorithm::kRing, shape_of(64, 1)).intra_out == 0);
  CHECK(hops(Kind::kAllGather, Algorithm::kPat, shape_of(64, 1)).inter_out == Approx(63.0 / 64));
  CHECK(hops(Kind::kAllGather, Algorithm::kPat, shape_of(64, 1)).steps == 6);
  CHECK(hops(Kind::kAllReduce, Algorithm::kRing, shape_of(64, 1)).steps == 126);
  // Two trees: an inner node of one is a leaf of the other, so a large group puts twice the buffer through a node.
  Shape large = shape_of(2048, 8);
  CHECK(hops(Kind::kAllReduce, Algorithm::kTree, large).inter_out == Approx(2.0 / 8));
  // The switch halves a NIC's bytes.
  CHECK(hops(Kind::kAllReduce, Algorithm::kCollNetDirect, large).inter_out == Approx(1.0 / 8));
}

TEST_CASE("times and sizes from definitions") {
  {
    INFO("coll.time_from_busbw");
    const double ms = 4 * static_cast<double>(kGiB) * busbw_factor(Kind::kAllReduce, 32) / 377.34e9 * 1e3;
    CHECK(ms == Approx(22.05305331).epsilon(1e-9));
    CHECK(std::abs(ms / 22.05 - 1) < 0.002);
  }
  {
    INFO("coll.pp.p2p_time");
    const double bytes = 1.0 * 8192 * 16384 * 2 / 8 * hops(Kind::kSendRecv, Algorithm::kPairs, shape_of(2, 1)).inter_out;
    CHECK(bytes / 50e9 * 1e3 == Approx(0.67108864).epsilon(1e-9));
  }
  const double per_channel = 8.0 * 512 * 8 * 16 + 120.0 * 640 * 8 * 8 + 4.0 * kMiB;  // LL, LL128 and Simple slots: NCCL src/init.cc, device.h
  {
    INFO("mem.nccl.per_channel");
    CHECK(per_channel == 9633792);
  }
  {
    INFO("mem.nccl.ring24");
    CHECK(choose(Kind::kAllGather, 8_GiB, shape_of(1, 8), {22700}).channels * per_channel / kMiB == Approx(220.5).epsilon(1e-9));
  }
}
