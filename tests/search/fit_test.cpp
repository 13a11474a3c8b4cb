// The largest that fits and the changes that make a job fit, against attempts whose peaks are known.
#include <algorithm>
#include <map>

#include "catch.h"
#include "orrery/search/fit.hpp"

using namespace orrery;
using namespace orrery::search;
using document::Override;

namespace {

constexpr std::int64_t kCapacity = 1000;

Prediction stated(const std::string& scenario) {
  Prediction p;
  const auto value = document::parse(scenario, "job.json");
  REQUIRE(value);
  p.scenario.value = *value;
  return p;
}

Prediction outcome(std::int64_t peak, double step_s, double tokens_per_s) {
  Prediction p;
  p.summary.memory.peak_bytes = peak;
  p.summary.memory.fits = peak <= kCapacity;
  p.summary.step_s = step_s;
  p.summary.throughput.tokens_per_s = tokens_per_s;
  return p;
}

/// An attempt that counts, and takes `peak(value)` of the one member it is given.
template <class F>
Attempt by_value(F&& peak, int& tried) {
  return [peak, &tried](const std::vector<Override>& more) -> Result<Prediction> {
    ++tried;
    REQUIRE(more.size() == 1);
    const std::int64_t value = std::stoll(more.front().value), bytes = peak(value);
    if (bytes < 0) return fail("job.json", "/training", "refused");
    return outcome(bytes, static_cast<double>(value), 1);
  };
}

const char* const kJob = R"({"training": {"sequence_length": 4096, "global_batch": 96, "micro_batch": 1, "recompute": "none", "optimizer": "adamw", "loss": {"chunks": 8}},
  "parallelism": {"dp": 4, "tp": 1, "cp": 1, "zero": 1}})";

}  // namespace

TEST_CASE("the largest microbatch is the largest divisor of a rank's sequences that fits, found by halving") {
  int tried = 0;
  const Largest l = largest_micro_batch(stated(kJob), by_value([](std::int64_t m) { return 100 + 110 * m; }, tried));
  // 24 sequences a rank: of 1, 2, 3, 4, 6, 8, 12, 24 those up to 8 take at most 980.
  CHECK(l.value == 8);
  CHECK(l.stated == 1);
  CHECK(l.peak_bytes == 980);
  CHECK(l.step_s == 8);
  CHECK_FALSE(l.bounded);
  CHECK(tried <= 4);
}

TEST_CASE("what memory does not end is said so, and so is what does not fit at all") {
  int tried = 0;
  const Largest all = largest_micro_batch(stated(kJob), by_value([](std::int64_t m) { return m; }, tried));
  CHECK(all.value == 24);
  CHECK(all.bounded);
  const Largest refused = largest_micro_batch(stated(kJob), by_value([](std::int64_t m) { return m > 6 ? -1 : m; }, tried));
  CHECK(refused.value == 6);
  CHECK(refused.bounded);
  const Largest none = largest_micro_batch(stated(kJob), by_value([](std::int64_t) { return kCapacity + 1; }, tried));
  CHECK_FALSE(none.value);
  CHECK(none.smallest == 1);
}

TEST_CASE("the longest sequence is a multiple of what tensor and context parallelism cut, to the grain") {
  for (const auto& [layout, grain] : std::map<std::string, std::int64_t>{{R"({"tp": 1, "cp": 1})", 128}, {R"({"tp": 8, "cp": 4})", 128}, {R"({"tp": 3, "cp": 2})", 384}, {R"({"tp": 8, "cp": 16})", 256}}) {
    CAPTURE(layout);
    int tried = 0;
    const Prediction job = stated(R"({"training": {"sequence_length": 4096}, "parallelism": )" + layout + "}");
    const Largest l = largest_sequence(job, by_value([](std::int64_t n) { return n / 50; }, tried));
    REQUIRE(l.value);
    CHECK(*l.value % grain == 0);
    CHECK(*l.value / 50 <= kCapacity);
    CHECK((*l.value + grain) / 50 > kCapacity);
    CHECK(tried <= 14);
  }
}

TEST_CASE("single changes that suffice are listed by tokens a second, and pairs are tried only where none does") {
  std::vector<std::vector<Override>> tried;
  const auto world = [&](std::int64_t missing) {
    tried.clear();
    return [&tried, missing](const std::vector<Override>& sets) -> Result<Prediction> {
      tried.push_back(sets);
      std::int64_t peak = kCapacity + missing;
      double rate = 100;
      for (const Override& o : sets) {
        if (o.path == "parallelism.zero") peak -= 50 * std::stoll(o.value), rate -= std::stod(o.value);
        if (o.path == "training.recompute") peak -= o.value == "full" ? 200 : 100, rate -= o.value == "full" ? 30 : 5;
        if (o.path == "training.optimizer") return fail("job.json", "/training/optimizer", "refused");
      }
      return outcome(peak, 1, rate);
    };
  };
  const auto names = [](const std::vector<Cure>& list) {
    std::vector<std::string> out;
    for (const Cure& c : list) out.push_back(c.change);
    return out;
  };
  using Names = std::vector<std::string>;
  CHECK(names(cures(stated(kJob), world(100))) == Names{"parallelism.zero=2", "parallelism.zero=3", "training.recompute=selective", "training.recompute=full"});
  CHECK(std::all_of(tried.begin(), tried.end(), [](const auto& sets) { return sets.size() == 1; }));
  // No change frees 250 alone; two of one member are no pair.
  CHECK(names(cures(stated(kJob), world(250))) == Names{"parallelism.zero=3 training.recompute=selective", "parallelism.zero=2 training.recompute=full", "parallelism.zero=3 training.recompute=full"});
  CHECK(cures(stated(kJob), world(1000)).empty());
}
