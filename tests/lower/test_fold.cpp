#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <set>

#include "catch.h"
#include "lower/fold_inputs.hpp"
#include "lower/random_job.hpp"
#include "orrery/lower/fold.hpp"

namespace orrery::lower {
namespace {

using test::Job;
using test::make_input;

Folded fold_job(const Job& job) {
  engine::Input full = make_input(job);
  drop_free_resources(full);
  return fold(full);
}

/// 128 nodes of 8: TP 8 in the node, 8 stages, 16 replicas.
Job job_of_1024() {
  Job job;
  job.tp = 8;
  job.dp = 16;
  job.pp = 8;
  job.ranks_per_node = 8;
  job.nodes_per_leaf = 16;
  job.leaf_share = 128;
  return job;
}

std::int64_t total(const auto& items) {
  std::int64_t sum = 0;
  for (const auto& item : items) sum += item.multiplicity;
  return sum;
}

TEST_CASE("a symmetric job folds to one rank per stage, whatever its size") {
  const Folded folded = fold_job(job_of_1024());
  CHECK(folded.input.ranks.size() == 8);
  CHECK(folded.input.groups.size() == 24);    // TP and the two DP groups of each stage
  CHECK(folded.input.channels.size() == 14);  // down and up between neighbours
  for (const engine::Rank& rank : folded.input.ranks) CHECK(rank.multiplicity == 128);
  for (std::uint32_t p = 0; p < 8; ++p) CHECK(folded.input.ranks[p].lowest == 128 * p);
  CHECK(folded.input.groups[0].members == std::vector<std::uint32_t>{0});
  CHECK(folded.input.groups[0].multiplicity == 16);
}

TEST_CASE("one slow rank of 1,024 splits only what it touches") {
  Job job = job_of_1024();
  job.variants = {{517, 1}};
  const Folded folded = fold_job(job);
  // Each stage falls into: replicas of the slow rank's replica and tensor rank in all ways that a chain of channels can tell apart. A rank
  // is told apart by whether its replica and its tensor rank are the slow one's, so by at most 4 kinds per stage; its own stage has the
  // rank itself.
  CHECK(folded.input.ranks.size() <= 4 * 8 + 1);
  CHECK(folded.input.ranks.size() > 8);
  CHECK(folded.input.ranks[folded.rank_class[517]].multiplicity == 1);
}

TEST_CASE("one degraded NIC splits the groups that cross it") {
  Job job = job_of_1024();
  job.degraded_nics = {{40, 4}};
  const Folded folded = fold_job(job);
  CHECK(folded.input.ranks.size() > 8);
  CHECK(folded.input.ranks.size() <= 4 * 8 + 1);
}

TEST_CASE("ranks that all differ do not fold, and the quotient is the input itself") {
  Job job;
  for (std::uint32_t r = 0; r < job.ranks(); ++r) job.variants.emplace_back(r, r);
  engine::Input full = make_input(job);
  drop_free_resources(full);
  const Folded folded = fold(full);
  REQUIRE(folded.input.ranks.size() == full.ranks.size());
  REQUIRE(folded.input.groups.size() == full.groups.size());
  for (std::size_t g = 0; g < full.groups.size(); ++g) CHECK(folded.input.groups[g].members == full.groups[g].members);
  for (std::size_t c = 0; c < full.channels.size(); ++c) CHECK(folded.input.channels[c].receiver == full.channels[c].receiver);
}

TEST_CASE("multiplicities add up, classes are numbered by lowest member, and members share their lowest member's part") {
  REQUIRE(rc::check("random jobs", [] {
    const Job job = *test::random_job();
    engine::Input full = make_input(job);
    drop_free_resources(full);
    const Folded folded = fold(full);
    RC_ASSERT(total(folded.input.ranks) == total(full.ranks));
    RC_ASSERT(total(folded.input.groups) == total(full.groups));
    RC_ASSERT(total(folded.input.channels) == total(full.channels));
    RC_ASSERT(total(folded.input.resources) == total(full.resources));
    RC_ASSERT(folded.input.usages.size() <= full.usages.size());
    std::uint32_t next = 0;
    for (std::uint32_t r = 0; r < full.ranks.size(); ++r) {
      const engine::Rank& one = folded.input.ranks.at(folded.rank_class[r]);
      if (folded.rank_class[r] == next) {
        RC_ASSERT(one.lowest == r);
        ++next;
      }
      RC_ASSERT(folded.rank_class[r] < next);
      RC_ASSERT(one.program == full.ranks[r].program);
      RC_ASSERT(one.variant == full.ranks[r].variant);
    }
    for (std::uint32_t r = 0; r < full.resources.size(); ++r) {
      RC_ASSERT(folded.input.resources.at(folded.resource_class[r]).capacity == full.resources[r].capacity);
      RC_ASSERT(folded.input.resources[folded.resource_class[r]].passive == full.resources[r].passive);
    }
    for (const engine::Group& group : folded.input.groups) {
      RC_ASSERT(std::is_sorted(group.members.begin(), group.members.end()));
      RC_ASSERT(std::adjacent_find(group.members.begin(), group.members.end()) == group.members.end());
    }
  }));
}

TEST_CASE("every resource is crossed by the weight that the quotient puts on its class, group kind by group kind") {
  REQUIRE(rc::check("random jobs", [] {
    engine::Input full = make_input(*test::random_job());
    drop_free_resources(full);
    const Folded folded = fold(full);
    // Weights by (kind, usage set): coarser than classes, and so independent of how activities were classed. Channels: kinds from 10.
    using Sums = std::map<std::pair<std::uint32_t, std::size_t>, std::int64_t>;
    const auto sums = [](const engine::Input& input) {
      std::vector<Sums> by_resource(input.resources.size());
      const auto add = [&](engine::UsageRange range, std::uint32_t kind, std::size_t set) {
        for (std::uint32_t i = range.begin; i < range.end; ++i) by_resource[input.usages[i].resource][{kind, set}] += input.usages[i].weight;
      };
      for (const engine::Group& group : input.groups) {
        for (std::size_t set = 0; set < group.usage_sets.size(); ++set) add(group.usage_sets[set], group.kind, set);
      }
      for (const engine::Channel& channel : input.channels) add(channel.usage, 10 + channel.kind, 0);
      return by_resource;
    };
    const std::vector<Sums> of_full = sums(full), of_quotient = sums(folded.input);
    for (std::size_t r = 0; r < of_full.size(); ++r) RC_ASSERT(of_full[r] == of_quotient[folded.resource_class[r]]);
  }));
}

/// Two ranks of one program whose slots are crossed: slot 0 of one and slot 1 of the other hold the same group.
TEST_CASE("a rank class never meets one group class in two slots") {
  engine::Input full;
  engine::Program program;
  program.streams = {{}};
  full.programs = {program};
  full.ranks.resize(2);
  full.ranks[1].lowest = 1;
  full.groups.resize(2);
  for (engine::Group& group : full.groups) group.members = {0, 1};
  full.ranks[0].groups = {0, 1};
  SECTION("crossed slots are separated") {
    full.ranks[1].groups = {1, 0};
    const Folded folded = fold(full);
    CHECK(folded.input.groups.size() == 2);
    CHECK(folded.input.ranks.size() == 2);
  }
  SECTION("parallel slots are different classes from the start") {
    full.ranks[1].groups = {0, 1};
    const Folded folded = fold(full);
    CHECK(folded.input.groups.size() == 2);
    CHECK(folded.input.ranks.size() == 1);
  }
}

TEST_CASE("a ring of equal ranks folds to one rank that sends to itself") {
  engine::Input full;
  engine::Program program;
  program.streams = {{}};
  full.programs = {program};
  constexpr std::uint32_t kRanks = 6;
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    engine::Rank rank;
    rank.lowest = r;
    rank.channels = {r, (r + kRanks - 1) % kRanks};
    full.ranks.push_back(rank);
    full.resources.push_back({1000, 1, false});
    full.usages.push_back({r, 5});
    full.channels.push_back({r, (r + 1) % kRanks, {r, r + 1}, 0, 0, 1});
  }
  const Folded folded = fold(full);
  REQUIRE(folded.input.ranks.size() == 1);
  REQUIRE(folded.input.channels.size() == 1);
  CHECK(folded.input.channels[0].sender == 0);
  CHECK(folded.input.channels[0].receiver == 0);
  CHECK(folded.input.channels[0].multiplicity == kRanks);
  CHECK(folded.input.ranks[0].channels == std::vector<std::uint32_t>{0, 0});
  REQUIRE(folded.input.usages.size() == 1);
  CHECK(folded.input.usages[0].weight == 5);
  CHECK(folded.input.resources[0].multiplicity == kRanks);
}

TEST_CASE("a resource that can bind splits what crosses it, a passive one does not") {
  engine::Input full;
  engine::Program program;
  program.streams = {{}};
  full.programs = {program};
  for (std::uint32_t r = 0; r < 4; ++r) {
    engine::Rank rank;
    rank.lowest = r;
    rank.groups = {r / 2};
    full.ranks.push_back(rank);
  }
  full.resources = {{1000, 1, false}, {2000, 1, false}};
  full.usages = {{0, 3}, {1, 3}};
  full.groups.resize(2);
  full.groups[0] = {{0, 1}, {{0, 1}}, 0, 0, 1};
  full.groups[1] = {{2, 3}, {{1, 2}}, 0, 0, 1};
  SECTION("resources of different capacity") {
    CHECK(fold(full).input.groups.size() == 2);
    CHECK(fold(full).input.ranks.size() == 2);
  }
  SECTION("the same, passive") {
    full.resources[0].passive = full.resources[1].passive = true;
    const Folded folded = fold(full);
    CHECK(folded.input.groups.size() == 1);
    CHECK(folded.input.ranks.size() == 1);
    REQUIRE(folded.input.resources.size() == 2);  // each carries one of the two groups
    CHECK(folded.input.usages == std::vector<engine::Usage>{{0, 3}, {1, 3}});
  }
}

}  // namespace
}  // namespace orrery::lower
