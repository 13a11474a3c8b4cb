#include <algorithm>

#include "catch.h"
#include "orrery/lower/fold.hpp"

namespace orrery::lower {
namespace {

constexpr std::int64_t kOne = std::int64_t{1} << engine::kWeightBits;

/// One resource of capacity 100 and transfers of cap 60, 40 and 41; ranks, groups, channels and streams as a case needs them.
class Scene {
 public:
  explicit Scene(std::uint32_t ranks, std::uint32_t streams) {
    in_.resources = {{100, 1, false}};
    for (const std::int64_t cap : {60, 40, 41}) {
      engine::Transfer t;
      t.cap = cap;
      t.work = 1000;
      in_.transfers.push_back(t);
    }
    for (std::uint32_t r = 0; r < ranks; ++r) {
      engine::Rank rank;
      rank.program = rank.lowest = r;
      in_.ranks.push_back(rank);
      in_.programs.emplace_back();
      in_.programs.back().streams.resize(streams);
    }
  }
  /// A group that puts `weight` on the resource. Returns its number.
  std::uint32_t group(std::vector<std::uint32_t> members, std::int64_t weight = kOne) {
    const auto g = static_cast<std::uint32_t>(in_.groups.size());
    for (const std::uint32_t r : members) in_.ranks[r].groups.push_back(g);
    in_.groups.push_back({std::move(members), {usage(weight)}, 0, 0, 1});
    return g;
  }
  void channel(std::uint32_t from, std::uint32_t to) {
    const auto c = static_cast<std::uint32_t>(in_.channels.size());
    in_.ranks[from].channels.push_back(c);
    in_.ranks[to].channels.push_back(c);
    in_.channels.push_back({from, to, usage(kOne), 0, 0, 1});
  }
  /// Every member runs a collective of the group on a stream.
  void collective(std::uint32_t g, std::uint32_t stream, std::uint32_t transfer) {
    for (const std::uint32_t r : in_.groups[g].members) {
      const auto& slots = in_.ranks[r].groups;
      engine::Program& program = in_.programs[r];
      const auto slot = static_cast<std::uint32_t>(std::find(slots.begin(), slots.end(), g) - slots.begin());
      program.streams[stream].push_back({engine::Op::kCollective, static_cast<std::uint32_t>(program.collectives.size()), engine::kNone, engine::kNone});
      program.collectives.push_back({slot, transfer});
    }
  }
  void batch(std::uint32_t rank, std::uint32_t stream, std::vector<engine::PointToPoint> pairs) {
    engine::Program& program = in_.programs[rank];
    program.streams[stream].push_back({engine::Op::kBatch, static_cast<std::uint32_t>(program.batches.size()), engine::kNone, engine::kNone});
    program.batches.push_back(std::move(pairs));
  }
  bool passive() {
    drop_free_resources(in_);
    return in_.resources[0].passive;
  }
  engine::Input& input() { return in_; }

 private:
  engine::UsageRange usage(std::int64_t weight) {
    in_.usages.push_back({0, weight});
    const auto n = static_cast<std::uint32_t>(in_.usages.size());
    return {n - 1, n};
  }
  engine::Input in_;
};

TEST_CASE("a resource that nothing crosses is passive") { CHECK(Scene(1, 1).passive()); }

TEST_CASE("one stream counts its largest collective, two streams add: 60 + 40 fits 100, 60 + 41 does not") {
  const auto streams = [](std::uint32_t second_stream, std::uint32_t second_transfer) {
    Scene scene(2, 2);
    const std::uint32_t g = scene.group({0, 1});
    scene.collective(g, 0, 0);
    scene.collective(g, second_stream, second_transfer);
    return scene.passive();
  };
  CHECK(streams(0, 2));
  CHECK(streams(1, 1));
  CHECK_FALSE(streams(1, 2));
}

TEST_CASE("the bound counts weights: a lone collective of cap 60 binds beyond a weight of 100/60") {
  const auto with_weight = [](std::int64_t weight) {
    Scene scene(2, 1);
    scene.collective(scene.group({0, 1}, weight), 0, 0);
    return scene.passive();
  };
  CHECK(with_weight(kOne * 100 / 60));
  CHECK_FALSE(with_weight(kOne * 100 / 60 + 1));
}

TEST_CASE("groups that share a stream of a common rank exclude one another, groups without a common rank add") {
  Scene shared(3, 1);
  const std::uint32_t a = shared.group({0, 1}), b = shared.group({1, 2});
  shared.collective(a, 0, 0);
  shared.collective(b, 0, 2);
  CHECK(shared.passive());

  Scene apart(4, 1);
  const std::uint32_t c = apart.group({0, 1}), d = apart.group({2, 3});
  apart.collective(c, 0, 0);
  apart.collective(d, 0, 2);
  CHECK_FALSE(apart.passive());

  Scene two_streams(3, 2);
  const std::uint32_t e = two_streams.group({0, 1}), f = two_streams.group({1, 2});
  two_streams.collective(e, 0, 0);
  two_streams.collective(f, 1, 2);
  CHECK_FALSE(two_streams.passive());
}

TEST_CASE("a batch can have all its pairs in flight at once, batches of one stream exclude one another") {
  const auto batches = [](bool together) {
    Scene scene(3, 1);
    scene.channel(0, 1);
    scene.channel(0, 2);
    if (together) {
      scene.batch(0, 0, {{true, 0, 0}, {true, 1, 2}});
    } else {
      scene.batch(0, 0, {{true, 0, 0}});
      scene.batch(0, 0, {{true, 1, 2}});
    }
    scene.batch(1, 0, {{false, 0, 0}});
    scene.batch(2, 0, {{false, 0, 2}});
    return scene.passive();
  };
  CHECK(batches(false));
  CHECK_FALSE(batches(true));
}

TEST_CASE("two senders into one receiving stream exclude one another") {
  Scene scene(3, 2);
  scene.channel(0, 2);
  scene.channel(1, 2);
  scene.batch(0, 0, {{true, 0, 0}});
  scene.batch(1, 0, {{true, 0, 2}});
  scene.batch(2, 0, {{false, 0, 0}});
  SECTION("in batches of one stream") {
    scene.batch(2, 0, {{false, 1, 2}});
    CHECK(scene.passive());
  }
  SECTION("but not in batches of two streams") {
    scene.batch(2, 1, {{false, 1, 2}});
    CHECK_FALSE(scene.passive());
  }
}

TEST_CASE("collectives and pairs add") {
  Scene scene(2, 2);
  scene.collective(scene.group({0, 1}), 0, 0);
  scene.channel(0, 1);
  SECTION("60 + 40 fits") {
    scene.batch(0, 1, {{true, 0, 1}});
    scene.batch(1, 1, {{false, 0, 1}});
    CHECK(scene.passive());
  }
  SECTION("60 + 41 does not") {
    scene.batch(0, 1, {{true, 0, 2}});
    scene.batch(1, 1, {{false, 0, 2}});
    CHECK_FALSE(scene.passive());
  }
}

TEST_CASE("a transfer without work holds no bandwidth") {
  Scene scene(2, 2);
  const std::uint32_t g = scene.group({0, 1});
  scene.collective(g, 0, 0);
  scene.collective(g, 1, 2);
  scene.input().transfers[2].work = 0;
  CHECK(scene.passive());
}

}  // namespace
}  // namespace orrery::lower
