#pragma once
// Jobs for tests of programs: plain values, no documents.
#include "orrery/program/build.hpp"

namespace orrery::test {

/// A small dense model under a plan; the layout must multiply.
inline program::Job small_job(std::int64_t tp, std::int64_t pp, std::int64_t vp, std::int64_t dp, std::int64_t zero, std::int64_t microbatches) {
  program::Job job;
  job.model.name = "small";
  job.model.layers = pp * vp * 2;
  job.model.hidden = 512;
  job.model.ffn_hidden = 2048;
  job.model.heads = 8;
  job.model.kv_heads = 8;
  job.model.head_dim = 64;
  job.model.vocab = 32000;
  job.model.gated_mlp = true;
  job.training.sequence_length = 1024;
  job.training.micro_batch = 1;
  job.training.global_batch = microbatches * dp;
  plan::Parallelism& p = job.parallelism;
  p.tp = tp;
  p.sp = tp > 1;
  p.pp = pp;
  p.vp = vp;
  p.dp = dp;
  p.zero = zero;
  p.schedule = vp > 1 ? plan::Schedule::kInterleaved1F1B : plan::Schedule::k1F1B;
  p.layers_per_stage.assign(static_cast<std::size_t>(pp * vp), 2);
  job.stack.bucket_parameters = 4'000'000;
  job.stack.forward_op_us = job.stack.backward_op_us = 1;
  return job;
}

}  // namespace orrery::test
