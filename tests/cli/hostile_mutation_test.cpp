// Mutations of scenarios, by bytes and by members: whatever comes in, what comes out is a diagnosis or a sound report. Every case is a
// function of (seed, number); a failure prints both. ORRERY_MUTATIONS: how many of each kind, for long runs.
#include <cmath>
#include <cstdlib>

#include "catch.h"
#include "orrery/base/random.hpp"
#include "orrery/document/document.hpp"
#include "orrery/report/report.hpp"
#include "orrery/search/search.hpp"

using namespace orrery;
using document::Value;

namespace {

constexpr std::uint64_t kSeed = 20240731;

std::uint64_t mutations(std::uint64_t otherwise) {
  const char* stated = std::getenv("ORRERY_MUTATIONS");
  return stated != nullptr ? std::strtoull(stated, nullptr, 10) : otherwise;
}

/// The k-th draw of case n, below `below`.
std::uint64_t draw(const char* stream, std::uint64_t n, std::uint64_t k, std::uint64_t below) { return random_bits(kSeed, stream, 64 * n + k) % below; }

const std::string kJob = R"({"schema": "orrery/scenario/1", "model": "llama-3.2-1b",
  "training": {"sequence_length": 2048, "global_batch": 32, "micro_batch": 1, "recompute": {"mode": "full", "layers": 2, "method": "block"}},
  "parallelism": {"tp": 2, "pp": 2, "zero": 1}, "cluster": {"node": "dgx-h100", "nodes": 2, "fabric": "infiniband-ndr-rail"}, "stack": "megatron-core",
  "events": [{"kind": "slow_gpu", "rank": 3, "speed": 0.9}, {"kind": "degraded_link", "link": "node0/nic0", "capacity": 0.5}]})";

/// The first number below v that no report may hold, with its pointer; "" where all are sound.
std::string unsound(const Value& v, const std::string& pointer) {
  if (v.is_number()) return std::isfinite(v.as_double()) && v.as_double() >= 0 ? "" : pointer;
  std::string found;
  if (v.is_array())
    for (std::size_t i = 0; i < v.items().size() && found.empty(); ++i) found = unsound(v.items()[i], pointer + "/" + std::to_string(i));
  if (v.is_object())
    for (const auto& [name, inner] : v.members())
      if (found.empty() && name != "scenario") found = unsound(inner, pointer + "/" + name);
  return found;
}

/// Whether the road took it. Everything but a diagnosis with words or a sound report fails the test.
bool travels(const std::string& text) {
  const auto scenario = document::load_scenario_text(text, "mutant.json", "", {});
  simulate::Options options;
  options.max_events = 2'000'000;
  const Result<search::Prediction> prediction = scenario ? search::predict(*scenario, options) : fail(scenario.error());
  if (!prediction) {
    REQUIRE_FALSE(prediction.error().empty());
    for (const Diagnostic& d : prediction.error()) REQUIRE_FALSE(d.text.empty());
    return false;
  }
  const Value report = report::json({prediction->summary, prediction->scenario.value, prediction->scenario.defaults_from});
  CHECK(unsound(report, "") == "");
  CHECK(report.at("step").at("time_s").as_double() > 0);
  return true;
}

void leaves(Value& v, const std::string& pointer, std::vector<std::string>& all) {
  all.push_back(pointer);
  if (v.is_array())
    for (std::size_t i = 0; i < v.items().size(); ++i) leaves(v.items()[i], pointer + "/" + std::to_string(i), all);
  if (v.is_object())
    for (auto& [name, inner] : v.members())
      if (name != "sources" && name != "unconfirmed" && name != "notes") leaves(inner, pointer + "/" + name, all);
}

Value strange(std::uint64_t which) {
  const Value values[] = {0, -1, 1, 2, 3, 7, 64, 1'000'000, std::int64_t{1} << 31, std::int64_t{1} << 53, INT64_MAX, INT64_MIN, 0.5, 1e-30, 1e-9, 1e9, 1e18, 1e308, -1e-9,
                          Value(), true, false, "", "x", "none", Value::Array{}, Value::Object{}, Value::Array{1}, Value::Array{Value::Array{}}};
  return values[which % std::size(values)];
}

Value whole_scenario() {
  const auto scenario = document::load_scenario_text(kJob, "job.json", "", {});
  REQUIRE(scenario);
  return scenario->value;
}

}  // namespace

TEST_CASE("a scenario written out in full is read again, and predicts the same", "[hostile]") {
  const auto once = document::load_scenario_text(kJob, "job.json", "", {}), again = document::load_scenario_text(document::dump(whole_scenario()), "again.json", "", {});
  REQUIRE(again);
  CHECK(again->value == once->value);
  CHECK(search::predict(*again)->summary.step_ps == search::predict(*once)->summary.step_ps);
}

TEST_CASE("bytes of a scenario changed at random are diagnosed or predicted", "[hostile]") {
  const std::uint64_t cases = mutations(400);
  for (std::uint64_t n = 0; n < cases; ++n) {
    std::string text = kJob;
    const std::uint64_t changes = 1 + draw("bytes", n, 0, 3);
    for (std::uint64_t c = 0; c < changes; ++c) {
      if (text.empty()) break;
      const std::uint64_t k = 1 + 4 * c, at = draw("bytes", n, k, text.size());
      switch (draw("bytes", n, k + 1, 4)) {
        case 0: text[at] = static_cast<char>(draw("bytes", n, k + 2, 256)); break;
        case 1: text.erase(at, 1 + draw("bytes", n, k + 2, 20)); break;
        case 2: text.insert(at, 1, "0123456789{}[],:\"-.e"[draw("bytes", n, k + 2, 20)]); break;
        default: text.resize(at + 1); break;
      }
    }
    INFO("case " << n << ": " << text);
    travels(text);
  }
}

TEST_CASE("members of a whole scenario changed at random are diagnosed or predicted", "[hostile]") {
  const Value whole = whole_scenario();
  Value copy = whole;
  std::vector<std::string> pointers;
  leaves(copy, "", pointers);
  const std::uint64_t cases = mutations(500);
  std::uint64_t taken = 0;
  for (std::uint64_t n = 0; n < cases; ++n) {
    Value mutant = whole;
    std::string what;
    const std::uint64_t changes = 1 + draw("members", n, 0, 2);
    for (std::uint64_t c = 0; c < changes; ++c) {
      const std::string& pointer = pointers[1 + draw("members", n, 1 + 3 * c, pointers.size() - 1)];
      Value* target = mutant.resolve(pointer);
      if (target == nullptr) continue;
      if (target->is_number() && draw("members", n, 2 + 3 * c, 2) == 0) {
        const double factor = std::pow(10.0, static_cast<double>(draw("members", n, 3 + 3 * c, 13)) - 6);
        const double scaled = target->as_double() * factor;
        *target = target->is_int() && scaled < 1e15 ? Value(static_cast<std::int64_t>(scaled)) : Value(scaled);
      } else {
        *target = strange(draw("members", n, 3 + 3 * c, 1000));
      }
      what += pointer + " = " + document::dump(*target, -1) + "  ";
    }
    INFO("case " << n << ": " << what);
    if (travels(document::dump(mutant))) ++taken;
  }
  CHECK(taken > cases / 20);  // a fuzzer that only ever meets the door tests nothing behind it
}
