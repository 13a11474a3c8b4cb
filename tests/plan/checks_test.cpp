// The reference checks of this module's scope. Kind "road" plays the order lists; kind "arithmetic" is a definition.
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "catch.h"
#include "executor.hpp"

using namespace orrery::plan;
using namespace orrery::plan::testing;

namespace {

using Inputs = std::map<std::string, double>;
struct Check {
  std::string id;
  Inputs inputs;
  double expected;
  double tolerance;  ///< relative; 0: exact
  std::function<double(const Inputs&)> value;
};

std::int64_t integer(const Inputs& in, const char* name) { return static_cast<std::int64_t>(in.at(name)); }
Parallelism pipe_of(const Inputs& in, Schedule s) { return pipe(s, integer(in, "p"), in.count("v") ? integer(in, "v") : 1); }

/// Makespan in units of F with times counted in thousandths: chunk passes take F/v and B/v, a hop takes c.
double makespan(const Inputs& in, Schedule s) {
  const Parallelism p = pipe_of(in, s);
  const double unit = 1000.0 / static_cast<double>(p.vp);
  const double hop = in.count("c") ? in.at("c") * 1000.0 : 0;
  const auto times = equal_stages(p.pp, static_cast<std::int64_t>(in.at("F") * unit), static_cast<std::int64_t>(in.at("B") * unit), static_cast<std::int64_t>(hop));
  return static_cast<double>(play(p, integer(in, "m"), times).makespan) / 1000.0;
}
double kept(const Inputs& in, Schedule s, std::size_t stage) {
  return static_cast<double>(play(pipe_of(in, s), integer(in, "m"), equal_stages(integer(in, "p"), 1, 2)).kept[stage]);
}

const std::vector<Check> kChecks = {
    {"pipe.1f1b.makespan", {{"p", 8}, {"m", 32}, {"F", 1}, {"B", 2}}, 117.0, 1e-9, [](const Inputs& in) { return makespan(in, Schedule::k1F1B); }},
    {"pipe.1f1b.bubble_ratio", {{"p", 8}, {"m", 32}}, 0.21875, 1e-9,
     [](const Inputs& in) {
       const Played played = play(pipe_of(in, Schedule::k1F1B), integer(in, "m"), equal_stages(integer(in, "p"), 1, 2));
       return static_cast<double>(played.makespan - played.busy[0]) / static_cast<double>(played.busy[0]);
     }},
    {"pipe.interleaved.makespan", {{"p", 8}, {"m", 32}, {"v", 4}, {"F", 1}, {"B", 2}}, 101.25, 1e-9,
     [](const Inputs& in) { return makespan(in, Schedule::kInterleaved1F1B); }},
    {"pipe.zbh1.makespan", {{"p", 8}, {"m", 32}, {"F", 1}, {"B", 2}}, 103.0, 1e-9, [](const Inputs& in) { return makespan(in, Schedule::kZbH1); }},  // B + W: 1 each
    // (p-1)(F+B-2W) at F=1, B=2 (W=1 of it): what ZB-H1 idles, its B being the input gradients alone.
    {"pipe.zb1p.bubble", {{"p", 16}, {"m", 64}, {"F", 1}, {"B", 2}}, 15, 0,
     [](const Inputs& in) { return makespan(in, Schedule::kZbH1) - 3 * in.at("m"); }},
    {"pipe.dualpipe.bubble", {{"p", 16}, {"m", 40}, {"F", 1}, {"B", 2}}, 14, 0,
     [](const Inputs& in) { return makespan(in, Schedule::kDualPipe) - 3 * in.at("m"); }},
    // Rounds of two pairs on the rank that is r from its end; one more pair in each of the p/2-r-1 rounds that follow.
    {"pipe.dualpipe.main_steps", {{"p", 16}, {"m", 40}, {"r", 3}}, 8, 0,
     [](const Inputs& in) {
       const auto order = schedule_order(pipe_of(in, Schedule::kDualPipe), integer(in, "r"), integer(in, "m"));
       const auto pairs = std::count_if(order.begin(), order.end(), [](const ScheduleEntry& e) { return e.with_next; });
       return static_cast<double>(pairs - (integer(in, "p") / 2 - integer(in, "r") - 1)) / 2;
     }},
    {"pipe.1f1b.p2p_exposed", {{"p", 8}, {"m", 32}, {"F", 1}, {"B", 2}, {"c", 0.05}}, 120.4, 1e-9,
     [](const Inputs& in) { return makespan(in, Schedule::k1F1B); }},
    {"pipe.interleaved.p2p_exposed", {{"p", 8}, {"m", 32}, {"v", 2}, {"F", 1}, {"B", 2}, {"c", 0.05}}, 108.0, 1e-9,
     [](const Inputs& in) { return makespan(in, Schedule::kInterleaved1F1B); }},
    {"pipe.1f1b.uneven_last", {{"p", 4}, {"m", 8}, {"F", 1}, {"B", 2}, {"last", 1.5}}, 45.0, 1e-9,
     [](const Inputs& in) {
       PassTimes times = equal_stages(integer(in, "p"), 2, 4);
       times.forward.back() = 3;
       times.backward.back() = 6;
       return static_cast<double>(play(pipe_of(in, Schedule::k1F1B), integer(in, "m"), times).makespan) / 2.0;
     }},
    {"pipe.gpipe_vs_1f1b.mem", {{"p", 8}, {"m", 32}}, 4.0, 1e-9,
     [](const Inputs& in) { return kept(in, Schedule::kGpipe, 0) / kept(in, Schedule::k1F1B, 0); }},
    {"mem.1f1b_inflight.stage0", {{"m", 32}, {"p", 8}, {"i", 0}}, 8, 0, [](const Inputs& in) { return kept(in, Schedule::k1F1B, 0); }},
    {"mem.interleaved_chunks.stage0", {{"p", 8}, {"v", 4}, {"m", 32}}, 39, 0, [](const Inputs& in) { return kept(in, Schedule::kInterleaved1F1B, 0); }},
    // Of p microbatches of a stage: chunks in flight / v / p (Megatron's theoretical memory estimate).
    {"mem.interleaved_penalty", {{"p", 8}, {"v", 4}, {"m", 32}}, 1.21875, 1e-9,
     [](const Inputs& in) { return kept(in, Schedule::kInterleaved1F1B, 0) / in.at("v") / in.at("p"); }},
};

}  // namespace

TEST_CASE("reference checks of the pipeline hold", "[checks]") {
  for (const Check& check : kChecks) {
    DYNAMIC_SECTION(check.id) {
      const double value = check.value(check.inputs);
      CAPTURE(check.id, value, check.expected);
      if (check.tolerance == 0) {
        CHECK(value == check.expected);
      } else {
        CHECK(std::abs(value / check.expected - 1) <= check.tolerance);
      }
    }
  }
}
