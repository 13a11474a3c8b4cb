#include <stdexcept>

#include "catch.h"
#include "orrery/search/search.hpp"

using namespace orrery;

namespace {

document::Document scenario(const std::vector<document::Override>& sets = {}) {
  const auto d = document::load_scenario_text(
      R"({"schema": "orrery/scenario/1", "model": "llama-3.1-8b",
          "training": {"sequence_length": 4096, "global_batch": 32, "micro_batch": 1, "recompute": "full"},
          "parallelism": {"tp": 2, "pp": 2, "zero": 1},
          "cluster": {"node": "dgx-h100", "nodes": 1}, "stack": "megatron-core"})",
      "small.json", "", sets);
  REQUIRE(d);
  return *d;
}

struct Heard : engine::Sink {
  std::vector<std::string> calls;
  bool wants(std::uint32_t) const override { return true; }
  void ran(std::uint32_t rank, std::uint32_t stream, std::uint32_t instruction, SimTime launched, SimTime started, SimTime ended) override {
    calls.push_back("ran " + std::to_string(rank) + " " + std::to_string(stream) + " " + std::to_string(instruction) + " " + std::to_string(launched) + " " +
                    std::to_string(started) + " " + std::to_string(ended));
  }
  void memory(std::uint32_t rank, SimTime at, std::uint32_t kind, std::int64_t bytes) override {
    calls.push_back("memory " + std::to_string(rank) + " " + std::to_string(at) + " " + std::to_string(kind) + " " + std::to_string(bytes));
  }
};

}  // namespace

TEST_CASE("every index is worked on once, on any number of threads") {
  for (int threads : {1, 2, 7, 64})
    for (std::size_t count : {0U, 1U, 5U, 100U}) {
      std::vector<int> touched(count, 0);
      search::for_each(count, threads, [&](std::size_t i) { ++touched[i]; });
      CHECK(touched == std::vector<int>(count, 1));
    }
}

TEST_CASE("an exception in a run comes out, the first by index") {
  CHECK_THROWS_WITH(search::for_each(10, 3, [](std::size_t i) {
                      if (i >= 4) throw std::runtime_error(std::to_string(i));
                    }),
                    "4");
}

TEST_CASE("a recorder repeats what it heard, in order, of the ranks that it wants") {
  search::Recorder recorder({5, 2, 5});
  CHECK(recorder.ranks() == std::vector<std::uint32_t>{2, 5});
  CHECK(recorder.wants(5));
  CHECK_FALSE(recorder.wants(3));
  recorder.ran(2, 1, 7, 10, 20, 30);
  recorder.memory(5, 11, 3, -4);
  Heard heard;
  recorder.replay(heard);
  CHECK(heard.calls == std::vector<std::string>{"ran 2 1 7 10 20 30", "memory 5 11 3 -4"});
}

TEST_CASE("a prediction's parts agree: the breakdown sums to the step, exposed rows to their columns, kinds to the peak") {
  const auto p = search::predict(scenario());
  REQUIRE(p);
  const metrics::Summary& s = p->summary;
  double sum = s.breakdown.compute_s + s.breakdown.optimizer_s + s.breakdown.bubble_s + s.breakdown.other_s, exposed = 0, rows = 0;
  for (double x : s.breakdown.exposed_comm_s) exposed += x;
  CHECK(sum + exposed == Approx(s.step_s).epsilon(1e-9));
  for (const auto& r : s.collectives) rows += r.exposed_s;
  CHECK(rows == Approx(exposed).epsilon(1e-9));
  std::int64_t kinds = 0;
  for (const auto& [name, bytes] : s.memory.by_kind) kinds += bytes;
  CHECK(kinds == s.memory.peak_bytes);
  double origins = 0;
  for (double o : s.origins) origins += o;
  CHECK(origins == Approx(1).epsilon(1e-9));
  CHECK(s.throughput.mfu);
  CHECK(*s.throughput.mfu > 0.05);
  CHECK(*s.throughput.mfu < *s.throughput.hfu);  // full recompute
}

TEST_CASE("many scenarios give the same on one thread and on four, refusals in their places") {
  std::vector<document::Document> list;
  for (const char* tp : {"1", "2", "4", "3"}) list.push_back(scenario({{"/parallelism/tp", tp}}));
  const auto one = search::predict_all(list, {}, 1), four = search::predict_all(list, {}, 4);
  REQUIRE(one.size() == 4);
  REQUIRE(four.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    REQUIRE(one[i].has_value() == (i != 3));
    REQUIRE(four[i].has_value() == (i != 3));
    if (i == 3) continue;
    CHECK(one[i]->summary.step_ps == four[i]->summary.step_ps);
    CHECK(one[i]->summary.breakdown.exposed_comm_s == four[i]->summary.breakdown.exposed_comm_s);
    CHECK(one[i]->summary.memory.by_kind == four[i]->summary.memory.by_kind);
    CHECK(one[i]->scenario.value == four[i]->scenario.value);
  }
}
