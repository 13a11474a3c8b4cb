#pragma once
// Model, training recipe, plan and stack to a Program.
#include "orrery/plan/plan.hpp"
#include "orrery/program/program.hpp"
#include "orrery/program/stack.hpp"
#include "orrery/workload/layers.hpp"

namespace orrery::program {

/// Everything that decides a program; values only.
struct Job {
  workload::Model model;
  workload::Training training;
  workload::StackKernels kernels;
  plan::Parallelism parallelism;
  Stack stack;
};

/// How the job cuts a layer, as far as all ranks agree: cp_rank and ep_rank are 0.
workload::Shard shard_of(const Job& job);

/// The program of every role. Requires a plan that read_parallelism has accepted.
Program build(const Job& job);

/// Whole-step hardware FLOPs of all ranks (recompute included), for HFU.
double hardware_flops(const Program& program, const plan::Parallelism& parallelism);

}  // namespace orrery::program
