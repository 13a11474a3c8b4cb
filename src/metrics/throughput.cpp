#include "metrics/parts.hpp"

namespace orrery::metrics {

std::vector<std::pair<std::string, double>> flops_per_token(const workload::ModelCounts& c) {
  return {{"exact", c.exact}, {"megatron", c.megatron}, {"megatron_legacy", c.megatron_legacy}, {"palm", c.palm},
          {"six_n", c.six_n}, {"torchtitan", c.torchtitan}, {"narayanan", c.narayanan}};
}

std::optional<FlopsPerSecond> dense_peak(const cluster::Gpu& gpu, workload::DType precision) {
  switch (precision) {
    case workload::DType::kFp32: return gpu.peak.fp32;
    case workload::DType::kTf32: return gpu.peak.tf32;
    case workload::DType::kFp16: return gpu.peak.fp16;
    case workload::DType::kBf16: return gpu.peak.bf16;
    case workload::DType::kFp8:
    case workload::DType::kMxfp8: return gpu.peak.fp8;
    case workload::DType::kMxfp6: return gpu.peak.fp6;
    case workload::DType::kFp4: return gpu.peak.fp4;
    case workload::DType::kInt8: return gpu.peak.int8;
  }
  return std::nullopt;
}

namespace {
/// What fills the pipeline: kernels and the transfers inside a pass. What data parallelism and the optimizer add stands outside of it.
double piped_seconds(const Breakdown& b) {
  double sum = b.compute_s;
  for (ExposedAxis axis : {ExposedAxis::kTp, ExposedAxis::kCp, ExposedAxis::kEp, ExposedAxis::kPp}) sum += b.exposed_comm_s[static_cast<std::size_t>(axis)];
  return sum;
}
}  // namespace

Throughput throughput(double step_s, const Breakdown& breakdown, const Inputs& inputs) {
  Throughput t;
  const double gpus = static_cast<double>(inputs.gpus), samples = static_cast<double>(inputs.training.global_batch);
  const double tokens = samples * static_cast<double>(inputs.training.sequence_length);
  const auto per_second = [&](double amount) { return step_s > 0 ? amount / step_s : 0; };
  const auto tflops_per_gpu = [&](double flops) { return per_second(flops) / gpus / 1e12; };
  t.tokens_per_s = per_second(tokens);
  t.tokens_per_s_per_gpu = t.tokens_per_s / gpus;
  t.samples_per_s = per_second(samples);
  // A skipped step costs a whole one: forward, backward and reduction have run when the overflow is found.
  t.skipped_steps = inputs.skipped_steps;
  t.useful_tokens_per_s = t.tokens_per_s * (1 - inputs.skipped_steps);
  t.model_tflops_per_gpu = tflops_per_gpu(inputs.counts.exact * tokens);
  t.hardware_tflops_per_gpu = tflops_per_gpu(inputs.hardware_flops);
  for (const auto& [name, flops] : flops_per_token(inputs.counts)) t.tflops_per_gpu.emplace_back(name, tflops_per_gpu(flops * tokens));
  t.peak_dtype = workload::to_string(inputs.training.precision);
  if (const auto peak = dense_peak(inputs.gpu, inputs.training.precision); peak && peak->value() > 0) {
    t.peak_tflops = peak->value() / 1e12;
    t.mfu = t.model_tflops_per_gpu / *t.peak_tflops;
    t.hfu = t.hardware_tflops_per_gpu / *t.peak_tflops;
  }
  const double piped = piped_seconds(breakdown);
  t.pipeline_efficiency = piped > 0 ? piped / (piped + breakdown.bubble_s) : 1;
  t.closed_form_efficiency = plan::closed_form_efficiency(inputs.parallelism, plan::microbatches(inputs.parallelism, inputs.training));
  return t;
}

}  // namespace orrery::metrics
