// Folding a job of 16,384 ranks: symmetric, and with one slow GPU.
#include <benchmark/benchmark.h>

#include "lower/fold_inputs.hpp"
#include "orrery/lower/fold.hpp"

namespace orrery {
namespace {

test::Job job_of_16384(bool slow_gpu) {
  test::Job job;
  job.tp = 8;
  job.dp = 128;
  job.pp = 16;
  job.ranks_per_node = 8;
  job.nodes_per_leaf = 16;
  job.leaf_share = 128;
  job.microbatches = 16;
  if (slow_gpu) job.variants = {{517, 1}};
  return job;
}

void drop_free(benchmark::State& state) {
  engine::Input input = test::make_input(job_of_16384(false));
  for (auto _ : state) lower::drop_free_resources(input);
}

void fold(benchmark::State& state) {
  engine::Input input = test::make_input(job_of_16384(state.range(0) != 0));
  lower::drop_free_resources(input);
  std::size_t classes = 0;
  for (auto _ : state) classes = lower::fold(input).input.ranks.size();
  state.counters["rank_classes"] = static_cast<double>(classes);
}

BENCHMARK(drop_free)->Unit(benchmark::kMillisecond);
BENCHMARK(fold)->ArgName("slow_gpu")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery

BENCHMARK_MAIN();
