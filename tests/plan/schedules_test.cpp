#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <tuple>

#include "catch.h"
#include "executor.hpp"
#include "plan/schedules/schedules.hpp"

using namespace orrery;
using namespace orrery::plan;
using namespace orrery::plan::testing;

namespace {

constexpr std::int64_t kMostStages = 16, kMostMicrobatches = 32;

/// Every pipe of up to 16 stages and 32 microbatches where a schedule is defined.
template <class Visit>
void every_pipe(Visit visit) {
  for (const ScheduleRow* row : schedules()) {
    if (row->id == Schedule::kFile) continue;
    for (std::int64_t stages = row->groups ? 2 : 1; stages <= kMostStages; ++stages) {
      if (row->placement == Placement::kTwoWay && stages % 2 != 0) continue;
      for (std::int64_t m = std::max<std::int64_t>(1, row->rounds * stages); m <= kMostMicrobatches; ++m) {
        if (row->placement == Placement::kTwoWay && m % 2 != 0) continue;
        if (row->groups && m % stages != 0) continue;
        for (std::int64_t chunks = row->least_chunks; chunks <= (row->most_chunks == 0 ? 4 : row->most_chunks); ++chunks) visit(pipe(row->id, stages, chunks), m);
      }
    }
  }
}

}  // namespace

TEST_CASE("the registry names every schedule once") {
  std::map<std::string_view, int> names;
  for (const ScheduleRow* row : schedules()) {
    ++names[row->name];
    CHECK(&row_of(row->id) == row);
    CHECK(to_string(row->id) == row->name);
  }
  CHECK(names.size() == schedules().size());
}

TEST_CASE("in pairs a stage runs one pass more ahead, no pair's backward pass is of its forward, and the lists run to their end") {
  for (std::int64_t stages = 1; stages <= 8; ++stages) {
    for (std::int64_t rounds = 1; rounds <= 4; ++rounds) {
      for (std::int64_t chunks = stages == 1 ? 1 : 2; chunks <= (stages == 1 ? 1 : 4); ++chunks) {
        Parallelism p = pipe(stages == 1 ? Schedule::k1F1B : Schedule::kInterleaved1F1B, stages, chunks);
        const std::int64_t m = rounds * stages, count = m * chunks;
        const auto plain = schedule_orders(p, m);
        p.overlap_ep = true;
        const auto pairs = schedule_orders(p, m);
        INFO(stages << " stages, " << chunks << " chunks, " << m << " microbatches");
        REQUIRE(check_orders(shape_of(p, m), pairs).empty());
        for (std::size_t s = 0; s < pairs.size(); ++s) {
          const auto ahead = [](const std::vector<ScheduleEntry>& order) {
            return std::find_if(order.begin(), order.end(), [](const ScheduleEntry& e) { return e.pass == Pass::kBackward; }) - order.begin();
          };
          // The first backward pass stands behind the warm-up and its pair's forward.
          CHECK(ahead(pairs[s]) == std::min<std::int64_t>(count, ahead(plain[s]) + 1));
          std::int64_t paired = 0;
          for (std::size_t k = 0; k + 1 < pairs[s].size(); ++k) {
            if (!pairs[s][k].with_next) continue;
            ++paired;
            CHECK(pairs[s][k].pass == Pass::kForward);
            CHECK(pairs[s][k + 1].pass == Pass::kBackward);
            CHECK((pairs[s][k].microbatch != pairs[s][k + 1].microbatch || pairs[s][k].chunk != pairs[s][k + 1].chunk));
          }
          CHECK(paired == std::max<std::int64_t>(0, count - ahead(plain[s])));
        }
      }
    }
  }
}

TEST_CASE("every order list holds every pass of every microbatch and chunk once, forward before backward") {
  every_pipe([](const Parallelism& p, std::int64_t m) {
    const auto orders = schedule_orders(p, m);
    const std::int64_t mine = p.placement == Placement::kTwoWay ? m / 2 : m;
    for (std::int64_t stage = 0; stage < p.pp; ++stage) {
      const auto& order = orders[static_cast<std::size_t>(stage)];
      REQUIRE(order == schedule_order(p, stage, m));
      bool sound = true;
      std::map<std::pair<std::int32_t, std::int32_t>, int> passes;  // 1: forward seen, 2: input gradients too, 3: all
      for (const ScheduleEntry& e : order) {
        int& seen = passes[{e.microbatch, e.chunk}];
        sound = sound && e.microbatch >= 0 && e.microbatch < m && e.chunk >= 0 && e.chunk < chunks_per_rank(p) &&
                seen == (e.pass == Pass::kForward ? 0 : e.pass == Pass::kWeight ? 2 : 1);
        seen += e.pass == Pass::kBackward ? 2 : 1;
      }
      REQUIRE(passes.size() == static_cast<std::size_t>(mine * chunks_per_rank(p)));
      for (const auto& [at, seen] : passes) sound = sound && seen == 3;
      REQUIRE(sound);
    }
    CHECK(check_orders(shape_of(p, m), orders).empty());
  });
}

namespace {
/// Bubble in units of a chunk's forward pass, F = 1, B = W = 1 (whole backward 2): modelling 8.1 and the schedules' papers.
std::int64_t closed_bubble(const Parallelism& p, std::int64_t m) {
  const std::int64_t n = p.pp;
  const auto at_least_none = [](std::int64_t x) { return std::max<std::int64_t>(0, x); };
  switch (p.schedule) {
    case Schedule::kGpipe:
    case Schedule::k1F1B:
    case Schedule::kInterleaved1F1B: return 3 * (n - 1);                              // (p-1)(F+B+W), of a chunk
    case Schedule::kBfs: return 3 * (n - 1 + (p.vp - 1) * at_least_none(n - m));
    case Schedule::kZbH1:
    case Schedule::kZbH2: return n - 1 + at_least_none(n - m);                        // (p-1)(F+B-W); H2: the skew (p-1)F
    case Schedule::kZbV: return n - 1 + at_least_none(3 * n - 1 - 2 * m);             // the skew again
    case Schedule::kVHalf: return n == 1 ? 0 : n == 2 ? 3 : std::max(3 * n - 4, 4 * n - 5 - 2 * (m - 1));  // half of 6(p-1)
    case Schedule::kVMin: return n == 1 ? 0 : 4 * n - 5 + (n % 3 == 0 && m > 1 ? 2 : 0);                   // two thirds of it
    case Schedule::kDualPipe: return 2 * (n / 2 - 1);                                 // (p/2-1)(F&B + B - 3W) with F&B = 3, whole B = 2
    case Schedule::kDualPipeV: return 2 * (n - 1);
    case Schedule::kFile: break;
  }
  return -1;
}
}  // namespace

TEST_CASE("no order list gets stuck, and on equal stages each ends at its closed form") {
  every_pipe([](const Parallelism& p, std::int64_t m) {
    const Played played = play(p, m, equal_stages(p.pp, 1, 2));
    REQUIRE_FALSE(played.stuck);
    CAPTURE(to_string(p.schedule), p.pp, p.vp, m);
    const std::int64_t work = 3 * m * (p.placement == Placement::kTwoWay ? 1 : p.vp);
    REQUIRE(played.makespan == work + closed_bubble(p, m));
    REQUIRE(played.busy.front() == work);
    CHECK(closed_form_efficiency(p, m) == Approx(static_cast<double>(work) / static_cast<double>(played.makespan)).epsilon(1e-12));
    CHECK(unit_makespan(shape_of(p, m), schedule_orders(p, m)) == played.makespan);
  });
}

TEST_CASE("interleaved 1F1B with any group that Megatron takes ends at the same closed form and keeps (v-1)g + 2(p-i-1) + 1 chunks") {
  for (std::int64_t stages = 2; stages <= 8; ++stages)
    for (std::int64_t chunks = 2; chunks <= 3; ++chunks)
      for (std::int64_t m = stages; m <= 24; ++m)
        for (std::int64_t group = stages; group <= m; ++group) {
          if (m % group != 0 && m % group < stages) continue;
          const Parallelism p = pipe(Schedule::kInterleaved1F1B, stages, chunks, group);
          const Played played = play(p, m, equal_stages(stages, 1, 2));
          CAPTURE(stages, chunks, m, group);
          REQUIRE_FALSE(played.stuck);
          REQUIRE(played.makespan == 3 * m * chunks + 3 * (stages - 1));
          for (std::int64_t i = 0; i < stages; ++i)
            REQUIRE(played.kept[static_cast<std::size_t>(i)] == std::min(chunks * m, 2 * (stages - i - 1) + (chunks - 1) * group + 1));
        }
}

TEST_CASE("activations in flight: GPipe m, 1F1B min(m, p-i), interleaved min(vm, 2(p-i-1) + (v-1)p + 1), and the others' limits") {
  every_pipe([](const Parallelism& p, std::int64_t m) {
    const Played played = play(p, m, equal_stages(p.pp, 1, 2));
    const std::int64_t n = p.pp;
    for (std::int64_t i = 0; i < n; ++i) {
      CAPTURE(to_string(p.schedule), n, p.vp, m, i);
      const std::int64_t kept = played.kept[static_cast<std::size_t>(i)];
      switch (p.schedule) {
        case Schedule::kGpipe: CHECK(kept == m); break;
        case Schedule::k1F1B: CHECK(kept == std::min(m, n - i)); break;
        case Schedule::kInterleaved1F1B: CHECK(kept == std::min(p.vp * m, 2 * (n - i - 1) + (p.vp - 1) * n + 1)); break;
        case Schedule::kBfs: CHECK(kept == p.vp * m); break;
        case Schedule::kZbH1: CHECK(kept == std::min(m, n)); break;
        case Schedule::kZbH2: CHECK(kept <= 2 * n - 1); break;
        case Schedule::kZbV: CHECK(kept <= 2 * n); break;                                            // chunks, half a stage each
        case Schedule::kVHalf: CHECK(kept <= (n == 1 ? 2 : n + 2 - n % 2)); break;                   // of 2n: a half
        case Schedule::kVMin: CHECK(kept <= 2 * ((n + 4) / 3)); break;                               // a third
        case Schedule::kDualPipe: CHECK(kept == n + 1); break;
        case Schedule::kDualPipeV: CHECK(kept == 2 * n + 1); break;
        case Schedule::kFile: FAIL("no list of its own");
      }
    }
  });
  // With microbatches enough the limits are reached: on every stage where the schedule balances, on the fullest where it does not.
  for (std::int64_t n = 2; n <= kMostStages; ++n) {
    const auto fullest = [&](Schedule s, std::int64_t chunks) {
      const auto kept = play(pipe(s, n, chunks), 2 * n, equal_stages(n, 1, 2)).kept;
      return *std::max_element(kept.begin(), kept.end());
    };
    CAPTURE(n);
    CHECK(fullest(Schedule::kZbH2, 1) == 2 * n - 1);
    CHECK(fullest(Schedule::kZbV, 2) == 2 * n);
    CHECK(fullest(Schedule::kVHalf, 2) == n + 2 - n % 2);
    CHECK(fullest(Schedule::kVMin, 2) == 2 * ((n + 4) / 3));
  }
}

TEST_CASE("ZB-H2 and ZB-V leave no stage idle between its first pass and its last") {
  for (std::int64_t n = 1; n <= kMostStages; ++n)
    for (const std::int64_t m : {2 * n, 2 * n + 1, 4 * n}) {
      CAPTURE(n, m);
      for (const auto& [schedule, chunks] : {std::pair{Schedule::kZbH2, 1}, std::pair{Schedule::kZbV, 2}}) {
        const Played played = play(pipe(schedule, n, chunks), m, equal_stages(n, 1, 2));
        for (std::size_t s = 0; s < played.busy.size(); ++s) CHECK(played.last[s] - played.first[s] == played.busy[s]);
      }
    }
}

TEST_CASE("a list with a pass missing, twice, swapped or out of range is named at its entry") {
  const Parallelism p = pipe(Schedule::kZbH1, 4);
  const auto good = schedule_orders(p, 8);
  const PipelineShape shape = shape_of(p, 8);
  const auto first = [&](auto change) {
    auto orders = good;
    change(orders);
    const auto problems = check_orders(shape, orders);
    REQUIRE_FALSE(problems.empty());
    return std::tuple(problems[0].stage, problems[0].entry, problems[0].text);
  };
  using T = std::tuple<std::int64_t, std::int64_t, std::string>;
  CHECK(first([](auto& o) { o[2].erase(o[2].begin()); }) == T{2, 1, "input gradients of microbatch 0 through chunk 0 comes before its forward"});
  CHECK(first([](auto& o) { o[1].pop_back(); }) == T{1, 23, "weight gradients of microbatch 7 through chunk 0 is missing"});
  CHECK(first([](auto& o) { o[1].push_back(o[1][3]); }) == T{1, 24, "input gradients of microbatch 0 through chunk 0 comes a second time"});
  CHECK(first([](auto& o) { std::swap(o[0][1], o[0][2]); }) == T{1, 1, "forward of microbatch 1 through chunk 0 takes what is sent as microbatch 2 of place 1: messages arrive in the order in which they are sent"});
  CHECK(first([](auto& o) { o[3][0].microbatch = 8; }) == T{3, 0, "forward of microbatch 8 through chunk 0 is no pass of this stage"});
  CHECK(first([](auto& o) { o[3][0].with_next = true; o[3][1] = o[3][2]; }) == T{3, 0, "forward of microbatch 0 through chunk 0 is no pair with the next entry; a pair is one forward and one backward pass"});
  // The last stage wants its second forward before the first backward; the first one its first backward before its second forward.
  Parallelism two = pipe(Schedule::k1F1B, 2);
  std::vector<std::vector<ScheduleEntry>> crossed = {{forward(0), backward(0), forward(1), backward(1)}, {forward(0), forward(1), backward(0), backward(1)}};
  const auto problems = check_orders(shape_of(two, 2), crossed);
  REQUIRE(problems.size() == 2);
  CHECK(problems[0].entry == 1);
  CHECK(problems[0].text == "backward of microbatch 0 through chunk 0 waits for stage 1, whose list comes to that pass only after waiting for this one");
  CHECK(problems[1].text == "forward of microbatch 1 through chunk 0 waits for stage 0, whose list comes to that pass only after waiting for this one");
}

TEST_CASE("chunks of a V lie down the stages and back up, those of a two-way pipeline on mirror ranks") {
  Parallelism v = pipe(Schedule::kZbV, 4, 2);
  v.layers_per_stage = {1, 2, 3, 4, 8, 7, 6, 5};  // chunk 1 of stage 3 is place 4
  CHECK(chunk_of(v, 0, 0).embedding);
  CHECK(chunk_of(v, 0, 1).head);
  CHECK(chunk_of(v, 3, 1).layers == 5);
  CHECK(chunk_of(v, 3, 1).first_layer == 10);
  CHECK(chunk_of(v, 0, 1).first_layer == 28);
  Parallelism two = pipe(Schedule::kDualPipe, 4);
  two.layers_per_stage = {1, 2, 3, 4};
  CHECK(chunk_of(two, 3, 1).embedding);
  CHECK(chunk_of(two, 3, 0).head);
  CHECK(chunk_of(two, 1, 0).layers == 2);
  CHECK(chunk_of(two, 1, 1).layers == 3);
  CHECK(chunk_of(two, 1, 1).first_layer == 3);
}

TEST_CASE("interleaved 1F1B of 2 stages, 2 chunks and 4 microbatches is Megatron's order") {
  // Warm-up of stage 0: 2(2-0-1) + (2-1)2 = 4 passes; groups of 2 microbatches, chunk-major; backward chunks from the last.
  const auto f = [](int mb, int c) { return ScheduleEntry{Pass::kForward, mb, c}; };
  const auto b = [](int mb, int c) { return ScheduleEntry{Pass::kBackward, mb, c}; };
  const std::vector<ScheduleEntry> first = {f(0, 0), f(1, 0), f(0, 1), f(1, 1), f(2, 0), b(0, 1), f(3, 0), b(1, 1),
                                            f(2, 1), b(0, 0), f(3, 1), b(1, 0), b(2, 1), b(3, 1), b(2, 0), b(3, 0)};
  const std::vector<ScheduleEntry> last = {f(0, 0), f(1, 0), f(0, 1), b(0, 1), f(1, 1), b(1, 1), f(2, 0), b(0, 0),
                                           f(3, 0), b(1, 0), f(2, 1), b(2, 1), f(3, 1), b(3, 1), b(2, 0), b(3, 0)};
  CHECK(schedule_order(pipe(Schedule::kInterleaved1F1B, 2, 2), 0, 4) == first);
  CHECK(schedule_order(pipe(Schedule::kInterleaved1F1B, 2, 2), 1, 4) == last);
}

TEST_CASE("a slow last stage sets the period of 1F1B: m max(F+B) + the other stages' sum") {
  for (std::int64_t p = 2; p <= kMostStages; ++p)
    for (std::int64_t m = p; m <= kMostMicrobatches; ++m) {
      PassTimes times = equal_stages(p, 2, 4);
      times.forward.back() = 3;
      times.backward.back() = 6;
      CAPTURE(p, m);
      CHECK(play(pipe(Schedule::k1F1B, p), m, times).makespan == m * 9 + (p - 1) * 6);
    }
}

TEST_CASE("every schedule of the registry has a page with a picture of at most 60 kB, and the index names it") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(ORRERY_SOURCE_DIR) / "docs" / "schedules";
  const auto text = [](const fs::path& path) {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string index = text(folder / "index.md"), script = text(fs::path(ORRERY_SOURCE_DIR) / "scripts" / "pictures");
  for (const ScheduleRow* row : schedules()) {
    const std::string name(row->name);
    CAPTURE(name);
    CHECK(index.find("](" + name + ".md)") != std::string::npos);
    CHECK(text(folder / (name + ".md")).find("](" + name + ".svg)") != std::string::npos);
    const std::string picture = text(folder / (name + ".svg"));
    CHECK(picture.starts_with("<svg "));
    CHECK(picture.size() <= 60'000);
    CHECK(picture.find("stage 3</text>") != std::string::npos);
    CHECK(script.find(" " + name) != std::string::npos);
  }
}
