// Every command of the command line, in the order of the help: one file and one line each.
#include "command.hpp"

namespace orrery::cli {

namespace {
constexpr Command kCommands[] = {
    {"simulate", "predict one training step of a scenario",
     "simulate job.json --set parallelism.zero=2 --json report.json", make_simulate},
    {"whatif", "a scenario against changed ones, with what explains the difference",
     "whatif job.json --set parallelism.zero=2 --alternative tp4 --set parallelism.tp=4", make_whatif},
    {"sweep", "many variations of a scenario into one file, resumable",
     "sweep job.json --vary parallelism.tp=1,2,4 --store job.sweep", make_sweep},
    {"memory", "the memory of a scenario's worst rank, by kind",
     "memory job.json --set training.recompute=full", make_memory},
    {"catalog", "list or show models, GPUs, nodes, fabrics, stacks and profiles",
     "catalog show dgx-h100", make_catalog},
    {"model", "layers, parameters, FLOPs and bytes of a model",
     "model show llama-3.1-8b --sequence 8192", make_model},
    {"schema", "print the JSON Schema of a file format",
     "schema scenario", make_schema},
    {"doctor", "check this installation",
     "doctor", make_doctor},
    {"search", "the best feasible plan"},
    {"sensitivity", "what a scenario's step time depends on"},
    {"scale", "a scenario on more and fewer GPUs"},
    {"collective", "times of a collective over message sizes",
     "collective all_reduce --cluster job.json --ranks 64 --sizes 1M:4G", make_collective},
    {"explain", "a prediction beside a measurement"},
    {"calibrate", "measure, import, fit, score, check and show calibration profiles",
     "calibrate fit gemm.csv --gpu h100-sxm5-80gb -o h100.json", make_calibrate},
    {"validate", "published runs: predicted against measured"},
    {"run", "a whole training run: days, price, energy, goodput"},
    {"plan-capacity", "how many GPUs a deadline or a budget needs"},
    {"import", "topologies that machines print, as node and fabric files",
     "import topo.txt --gpu h100-sxm5-80gb -o node.json", make_import},
    {"report", "compare, flatten or print reports"},
    {"completion", "completions for a shell"},
};
}  // namespace

std::span<const Command> commands() { return kCommands; }

std::vector<CommandName> command_names() {
  std::vector<CommandName> names;
  for (const Command& c : commands()) names.push_back({c.name, c.about, c.make != nullptr});
  return names;
}

}  // namespace orrery::cli
