// The folded run is the full run, to the bit: on random jobs, and on one of 1,024 ranks.
#include <rapidcheck.h>

#include <array>
#include <variant>

#include "catch.h"
#include "lower/fold_inputs.hpp"
#include "lower/random_job.hpp"
#include "orrery/engine/run.hpp"
#include "orrery/lower/fold.hpp"

namespace orrery::lower {
namespace {

using test::Job;

engine::Result played(const engine::Input& input) {
  const std::vector<std::string> problems = engine::check(input);
  INFO((problems.empty() ? std::string() : problems.front()));
  REQUIRE(problems.empty());
  auto outcome = engine::run(input, test::MadeUpTimes());
  if (const auto* stuck = std::get_if<engine::Stuck>(&outcome)) {
    for (const std::string& wait : stuck->waits) UNSCOPED_INFO(wait);
    FAIL("stuck at " << stuck->at);
  }
  return std::get<engine::Result>(std::move(outcome));
}

bool same(const engine::RankResult& a, const engine::RankResult& b) {
  return a.account_ps == b.account_ps && a.finish == b.finish && a.peak_bytes == b.peak_bytes && a.peak_at == b.peak_at &&
         a.peak_kind_bytes == b.peak_kind_bytes;
}

/// The first thing in which the runs differ; empty where none is.
std::string difference(const engine::Result& full, const Folded& folded, const engine::Result& quotient) {
  if (full.end != quotient.end) return "end " + std::to_string(full.end) + " against " + std::to_string(quotient.end);
  for (std::size_t r = 0; r < full.ranks.size(); ++r) {
    if (!same(full.ranks[r], quotient.ranks[folded.rank_class[r]])) return "rank " + std::to_string(r);
  }
  if (full.segment_ps != quotient.segment_ps) return "segment times";
  for (std::size_t t = 0; t < full.transfers.size(); ++t) {
    if (full.transfers[t].count != quotient.transfers[t].count) return "count of transfer " + std::to_string(t);
    if (full.transfers[t].time_ps != quotient.transfers[t].time_ps) return "time of transfer " + std::to_string(t);
  }
  for (std::size_t r = 0; r < full.resources.size(); ++r) {
    const engine::ResourceResult& one = quotient.resources[folded.resource_class[r]];
    if (full.resources[r].load != one.load) return "load of resource " + std::to_string(r);
    if (full.resources[r].peak != one.peak) return "peak of resource " + std::to_string(r);
  }
  return "";
}

/// Compares the run of all ranks with that of the fold. Returns the ranks of the fold.
std::size_t compare(const engine::Input& full) {
  const Folded folded = fold(full);
  REQUIRE(difference(played(full), folded, played(folded.input)) == "");
  return folded.input.ranks.size();
}

TEST_CASE("the folded run of a random job equals the full run to the bit") {
  REQUIRE(rc::check("random jobs", [] {
    engine::Input full = test::make_input(*test::random_job());
    drop_free_resources(full);
    RC_CLASSIFY(compare(full) < full.ranks.size(), "folds");
  }));
}

TEST_CASE("leaving out resources that can never bind changes nothing") {
  REQUIRE(rc::check("random jobs", [] {
    const engine::Input full = test::make_input(*test::random_job());
    engine::Input without = full;
    drop_free_resources(without);
    Folded same_input;
    for (std::uint32_t r = 0; r < full.ranks.size(); ++r) same_input.rank_class.push_back(r);
    for (std::uint32_t r = 0; r < full.resources.size(); ++r) same_input.resource_class.push_back(r);
    RC_ASSERT(difference(played(full), same_input, played(without)) == "");
  }));
}

TEST_CASE("a ring of equal ranks, folded to one that sends to itself, runs as the ring does") {
  constexpr std::uint32_t kRanks = 5;
  engine::Input full;
  engine::Program program;
  program.events = 3;
  program.segments = {{0, 0}, {0, 0}};
  program.batches = {{{true, 0, 0}, {false, 1, 0}}};
  program.streams = {{{engine::Op::kSegment, 0, engine::kNone, 0}, {engine::Op::kSegment, 1, 1, engine::kNone}}, {{engine::Op::kBatch, 0, 0, 1}}};
  for (const std::uint8_t stream : std::array<std::uint8_t, 3>{0, 1, 0}) program.host.push_back({engine::HostOp::kIssue, stream, 0, 1, engine::kNone, 1000, 0, 0});
  full.programs = {program};
  engine::Transfer transfer;
  transfer.latency = 777;
  transfer.cap = 900'000;
  transfer.work = int128{900'000} * 1'234'567;
  transfer.reference_bytes = 4096;
  full.transfers = {transfer};
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    engine::Rank rank;
    rank.lowest = r;
    rank.channels = {r, (r + kRanks - 1) % kRanks};
    full.ranks.push_back(rank);
    full.resources.push_back({700'000, 1, false});
    full.usages.push_back({r, std::int64_t{1} << engine::kWeightBits});
    full.channels.push_back({r, (r + 1) % kRanks, {r, r + 1}, 0, 0, 1});
  }
  CHECK(compare(full) == 1);
}

TEST_CASE("a job of 1,024 ranks runs folded as it does rank by rank, with one slow GPU and without", "[slow]") {
  Job job;
  job.tp = 8;
  job.dp = 16;
  job.pp = 8;
  job.ranks_per_node = 8;
  job.nodes_per_leaf = 16;
  job.leaf_share = 100;
  job.microbatches = 16;
  job.buckets = 3;
  SECTION("symmetric") {}
  SECTION("one slow GPU") { job.variants = {{517, 1}}; }
  SECTION("a degraded NIC") { job.degraded_nics = {{300, 3}}; }
  engine::Input full = test::make_input(job);
  drop_free_resources(full);
  CHECK(compare(full) <= 33);
}

}  // namespace
}  // namespace orrery::lower
