// Flows that share a network, from the moment all have started until the last has ended: the engine beside SimGrid on the same flows.
// Ours is the whole of engine::run, its tables included; SimGrid's leaves platform, routes and the start of the flows apart. Both are
// processor time, so that a busy machine does not decide.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <ctime>

#include "crosscheck/flow_sets.hpp"
#ifdef ORRERY_WITH_SIMGRID
#include "crosscheck/simgrid_flows.hpp"
#endif

namespace orrery {
namespace {

constexpr std::uint64_t kSeed = 11;

void engine_flows(benchmark::State& state, const test::FlowSet& set) {
  const engine::Input input = test::flow_input(set);
  for (auto _ : state) {
    const std::clock_t started = std::clock();
    auto outcome = engine::run(input, test::NoSegments());
    state.SetIterationTime(static_cast<double>(std::clock() - started) / CLOCKS_PER_SEC);
    benchmark::DoNotOptimize(outcome);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(set.flows.size()));
}

#ifdef ORRERY_WITH_SIMGRID
void simgrid_flows(benchmark::State& state, const test::FlowSet& set) {
  for (auto _ : state) state.SetIterationTime(test::play_in_simgrid(set).run_seconds);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(set.flows.size()));
}
#endif

void add(const char* name, const test::FlowSet& set) {
  benchmark::RegisterBenchmark(fmt::format("engine_flows/{}", name).c_str(), [set](benchmark::State& state) { engine_flows(state, set); })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
#ifdef ORRERY_WITH_SIMGRID
  benchmark::RegisterBenchmark(fmt::format("simgrid_flows/{}", name).c_str(), [set](benchmark::State& state) { simgrid_flows(state, set); })
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
#endif
}

}  // namespace
}  // namespace orrery

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  orrery::add("fat_tree_10000", orrery::test::fat_tree_random(orrery::kSeed, 10'000));
  orrery::add("permutation_4096", orrery::test::fat_tree_permutation(orrery::kSeed));
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
