// Precisions, optimizers, sparsity, losses and host memory down the whole road: what runs, what is refused and in which words, and what a
// change does to the report.
#include <cmath>
#include <set>

#include "road.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

std::string refusal(const Overrides& overrides) {
  const auto p = try_predict(kSmallJob, overrides);
  if (p) return "";
  REQUIRE(p.error().size() == 1);
  return to_string(p.error().front());
}

double step(const Overrides& overrides) { return predict(kSmallJob, overrides).summary.step_s; }

std::int64_t kind_bytes(const search::Prediction& p, const std::string& kind) {
  for (const auto& [name, bytes] : p.summary.memory.by_kind) {
    if (name == kind) return bytes;
  }
  return -1;
}


/// A job large enough that its kernels are not all launches: one layer more or less shows.
const Overrides kWide = {{"model.hidden", "4096"}, {"model.ffn_hidden", "14336"}, {"model.heads", "32"}, {"model.head_dim", "128"}, {"training.sequence_length", "4096"}, {"training.global_batch", "16"}};
Overrides wide(Overrides more) {
  Overrides all = kWide;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("every precision with every optimizer and ZeRO stage runs, or says what to change", "[slow]") {
  const char* const precisions[] = {"fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "mxfp6", "fp4"};
  const char* const optimizers[] = {"sgd", "momentum", "adamw", "adamw_8bit", "adafactor", "muon"};
  int ran = 0;
  std::set<std::string> refused;
  for (const char* precision : precisions) {
    for (const char* optimizer : optimizers) {
      for (const char* zero : {"0", "1", "2", "3"}) {
        CAPTURE(precision, optimizer, zero);
        const auto p = try_predict(kSmallJob, {{"cluster.node", "dgx-b200"}, {"model.layers", "2"}, {"training.global_batch", "8"}, {"training.precision", precision}, {"training.optimizer", optimizer}, {"parallelism.zero", zero}});
        if (p) {
          ++ran;
          CHECK(p->summary.step_s > 0);
          CHECK(p->summary.throughput.peak_dtype == precision);
          CHECK(p->summary.throughput.mfu.has_value());
        } else {
          CHECK(std::string(optimizer) == "adafactor");
          for (const Diagnostic& d : p.error()) refused.insert(to_string(d));
        }
      }
    }
  }
  CHECK(ran == 8 * 6 * 4 - 8 * 2);
  CHECK(refused == std::set<std::string>{"job.json:/training/optimizer: adafactor keeps means of whole rows and columns, and zero 1 cuts matrices anywhere; use zero 0 or 3",
                                         "job.json:/training/optimizer: adafactor keeps means of whole rows and columns, and zero 2 cuts matrices anywhere; use zero 0 or 3"});
}

TEST_CASE("a precision without matrix units is refused, and the nearest that the GPU has is named") {
  CHECK(refusal({{"training.precision", "fp4"}}) == "job.json:/training/precision: a h100-sxm5-80gb has no matrix units for fp4; the nearest that it has is fp8");
  CHECK(refusal({{"training.precision", "mxfp8"}}) == "job.json:/training/precision: a h100-sxm5-80gb has no matrix units for mxfp8; the nearest that it has is fp8");
  CHECK(refusal({{"cluster.node", "dgx-a100-80gb"}, {"training.precision", "fp8"}}) == "job.json:/training/precision: a a100-sxm4-80gb has no matrix units for fp8; the nearest that it has is bf16");
  CHECK(refusal({{"cluster.node", "box-8x-rtxpro6000"}, {"cluster.fabric", "null"}, {"training.precision", "mxfp6"}}) ==
        "job.json:/training/precision: a rtx-pro-6000-server has no matrix units for mxfp6; the nearest that it has is mxfp8");
  CHECK(refusal({{"cluster.node", "dgx-b200"}, {"training.precision", "fp4"}}).empty());
}

TEST_CASE("what contradicts itself in a recipe is refused in words that say what to change") {
  CHECK(refusal({{"cluster.node", "dgx-1v"}, {"cluster.fabric", "infiniband-edr"}, {"training.sparsity", "2:4"}, {"training.precision", "fp16"}}) ==
        "job.json:/training/sparsity: the matrix units of a v100-sxm2-32gb skip nothing of a 2:4 operand; use none");
  CHECK(refusal({{"training.sparsity", "2:4"}, {"training.precision", "fp32"}}) ==
        "job.json:/training/sparsity: no library multiplies 2:4 weights in fp32 or with scales by block; use none, or precision tf32, fp16, bf16 or fp8 with one scale a tensor");
  CHECK(refusal({{"training.optimizer", "muon"}, {"training.optimizer_dtype", "fp8"}}) == "job.json:/training/optimizer_dtype: only adamw has states with a scale per tensor; use fp32 or bf16");
  CHECK(refusal({{"training.optimizer", "adamw_8bit"}, {"training.optimizer_dtype", "bf16"}}) == "job.json:/training/optimizer_dtype: this optimizer stores its states in a type of its own; use null");
  CHECK(refusal({{"training.optimizer", "sgd"}, {"training.master_dtype", "fp16"}}) == "job.json:/training/master_dtype: only adamw updates a master copy that is not fp32; use fp32");
  CHECK(refusal({{"training.precision", "fp16"}, {"training.master_dtype", "remainder"}}) == "job.json:/training/master_dtype: only bf16 parameters are the upper half of fp32 ones; use fp32, or param_dtype bf16");
  CHECK(refusal({{"training.loss.chunks", "4096"}}) == "job.json:/training/loss/chunks: 4096 chunks of 2048 tokens; use at most one a token");
  CHECK(refusal({{"training.loss.chunks", "2"}, {"training.loss.fused", "false"}}) == "job.json:/training/loss/fused: a loss in chunks computes its gradient in the same kernel; use true, or chunks 1");
  CHECK(refusal({{"training.offload.parameters", "1"}, {"parallelism.zero", "2"}}) ==
        "job.json:/training/offload/parameters: parameters live in host memory only where each is gathered for its use; use zero 3 instead of 2");
  CHECK(refusal({{"training.offload.optimizer", "1"}, {"training.optimizer", "muon"}}) == "job.json:/training/offload/optimizer: host kernels update with sgd, momentum and adamw; use one of them, or 0");
  CHECK(refusal({{"training.offload.optimizer", "1"}, {"cluster.node", "meta-grand-teton-h100"}}) ==
        "job.json:/training/offload: nobody states the host memory of a meta-grand-teton-h100; give /cluster/node/host_memory_gib");
  CHECK(refusal({{"parallelism.zero", "3"}, {"stack", "llm-foundry"}, {"training.optimizer", "adafactor"}}) ==
        "job.json:/training/optimizer: adafactor keeps means of whole rows and columns, and flat parameters (stack data_parallel.style fsdp1) cut matrices anywhere; use fsdp2 or zero 0");
}

TEST_CASE("narrower products are faster on large layers, quantisation eats part of it, and peaks stay dense") {
  const Overrides b200 = wide({{"cluster.node", "dgx-b200"}});
  const auto at = [&](const char* precision) {
    Overrides all = b200;
    all.push_back({"training.precision", precision});
    return predict(kSmallJob, all);
  };
  const search::Prediction bf16 = at("bf16"), mxfp8 = at("mxfp8"), fp4 = at("fp4");
  CHECK(mxfp8.summary.step_s < bf16.summary.step_s);
  CHECK(fp4.summary.step_s < mxfp8.summary.step_s);
  CHECK(bf16.summary.step_s / mxfp8.summary.step_s < 2);
  CHECK(bf16.summary.step_s / fp4.summary.step_s < 4);
  CHECK(mxfp8.summary.compute_by_class_s[2] > bf16.summary.compute_by_class_s[2]);  // quantisers are memory-bound kernels
  CHECK(mxfp8.summary.throughput.peak_tflops == Approx(4500));
  CHECK(fp4.summary.throughput.peak_tflops == Approx(9000));
}

TEST_CASE("2:4 weights make linear layers faster, never twice as fast, at the same dense peak and FLOPs") {
  const search::Prediction dense = predict(kSmallJob, kWide), sparse = predict(kSmallJob, wide({{"training.sparsity", "2:4"}}));
  const double before = dense.summary.compute_by_class_s[0], after = sparse.summary.compute_by_class_s[0];
  CHECK(after < before);
  CHECK(after > before / 2);
  CHECK(sparse.summary.throughput.peak_tflops == dense.summary.throughput.peak_tflops);
  CHECK(sparse.summary.counts.exact == dense.summary.counts.exact);
  CHECK(*sparse.summary.throughput.mfu > *dense.summary.throughput.mfu);
  CHECK(sparse.summary.origins[static_cast<std::size_t>(Origin::kDefault)] > dense.summary.origins[static_cast<std::size_t>(Origin::kDefault)]);
}

TEST_CASE("each optimizer's states stand in the report, from none to eight bytes a parameter beside the master copy") {
  const auto states = [](const char* optimizer) {
    const search::Prediction p = predict(kSmallJob, {{"training.optimizer", optimizer}, {"training.recompute", "full"}});
    return static_cast<double>(kind_bytes(p, "optimizer")) / static_cast<double>(p.summary.counts.parameters);
  };
  // Small tensors take whole blocks of 512 bytes (PyTorch c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize): up to 1 % of so small a model.
  CHECK(states("sgd") == Approx(4).epsilon(0.02));
  CHECK(states("momentum") == Approx(8).epsilon(0.02));
  CHECK(states("adamw") == Approx(12).epsilon(0.02));
  CHECK(states("adamw_8bit") == Approx(4 + 2 * 65.0 / 64).epsilon(0.02));
  CHECK(states("adafactor") < 4.02);
  CHECK(states("muon") < 12);
  CHECK(states("muon") > 8);
}

TEST_CASE("under fp16 the steps that overflow are counted out of the useful tokens, and nowhere else") {
  const metrics::Throughput fp16 = predict(kSmallJob, {{"training.precision", "fp16"}}).summary.throughput, bf16 = predict(kSmallJob).summary.throughput;
  CHECK(fp16.skipped_steps == 0.0005);
  CHECK(fp16.useful_tokens_per_s == fp16.tokens_per_s * (1 - 0.0005));
  CHECK(bf16.skipped_steps == 0);
  CHECK(bf16.useful_tokens_per_s == bf16.tokens_per_s);
}

TEST_CASE("a loss in chunks frees all but a chunk of the logits and costs launches, no FLOPs") {
  const Overrides base = {{"model.vocab", "128000"}, {"model.layers", "2"}, {"training.micro_batch", "4"}};
  const auto at = [&](const char* chunks) {
    Overrides all = base;
    all.push_back({"training.loss.chunks", chunks});
    return predict(kSmallJob, all);
  };
  const search::Prediction whole = at("1"), eight = at("8");
  // 8192 tokens x 128000 x 2 bytes: logits and their gradient stood side by side; now an eighth of one, and a gradient of the weight.
  const double freed = static_cast<double>(kind_bytes(whole, "activations") - kind_bytes(eight, "activations"));
  CHECK(freed > 2 * 8192 * 128000.0);
  CHECK(eight.summary.throughput.hardware_tflops_per_gpu * eight.summary.step_s == Approx(whole.summary.throughput.hardware_tflops_per_gpu * whole.summary.step_s).epsilon(1e-9));
}

TEST_CASE("gradients leave as fast as PCIe carries them, and two GPUs of a switch share its uplink") {
  const auto rate = [](const Overrides& more) {
    Overrides all = wide({{"training.offload.optimizer", "1"}});
    all.insert(all.end(), more.begin(), more.end());
    double most = 0;
    for (const auto& row : predict(kSmallJob, all).summary.collectives) {
      if (row.axis == workload::Axis::kToHost) most = std::max(most, row.algbw_gb_per_s);
    }
    return most;
  };
  CHECK(rate({}) == Approx(63 * 0.88 / 2).epsilon(0.02));
  CHECK(rate({{"cluster.node.pcie_switches", "8"}}) == Approx(63 * 0.88).epsilon(0.01));
  // A coherent link of 450 GB/s, of which 0.8 arrive.
  CHECK(rate({{"cluster.node.c2c_gb_per_s", "450"}, {"cluster.node.numa_domains", "8"}, {"cluster.node.numa_gb_per_s", "22"}}) == Approx(450 * 0.8).epsilon(0.02));
}

TEST_CASE("an optimizer on the host: its time is 30 bytes a parameter over the rank's part of the host's memory bandwidth") {
  const search::Prediction p = predict(kSmallJob, {{"training.offload.optimizer", "1"}, {"parallelism.zero", "1"}});
  const double updated = std::ceil(static_cast<double>(p.summary.counts.parameters) / 8);
  double time = 0;
  for (const auto& row : p.summary.collectives) if (row.axis == workload::Axis::kHostUpdate) time = row.time_s;
  CHECK(time == Approx(30 * updated / (614.4e9 * 0.8 / 8)).epsilon(1e-3));
  CHECK(p.summary.memory.host_bytes == static_cast<std::int64_t>(updated) * 16);
  CHECK(kind_bytes(p, "optimizer") == 0);
  // More of it on the host is never faster, and the device keeps less.
  double last = 0;
  for (const char* share : {"0", "0.25", "0.5", "1"}) {
    const double now = step(wide({{"training.offload.optimizer", share}, {"parallelism.zero", "1"}}));
    CHECK(now >= last);
    last = now;
  }
}

TEST_CASE("a host that is too small does not fit, and says by how much") {
  const search::Prediction p = predict(kSmallJob, {{"training.offload.optimizer", "1"}, {"cluster.node.host_memory_gib", "4"}});
  CHECK_FALSE(p.summary.memory.fits);
  const double node = 8 * static_cast<double>(*p.summary.memory.host_bytes) / kGib;
  CHECK(node > 4);
  REQUIRE_FALSE(p.summary.memory.advice.empty());
  CHECK(p.summary.memory.advice.back().find("host memory: the ranks of a node keep") == 0);
  CHECK(predict(kSmallJob, {{"training.offload.optimizer", "1"}}).summary.memory.fits);
}

TEST_CASE("copies fold as everything does: host traffic of alike ranks is played once") {
  const Overrides job = {{"training.offload.optimizer", "0.5"}, {"parallelism.zero", "1"}, {"parallelism.pp", "2"}, {"model.layers", "4"}, {"cluster.nodes", "2"}};
  const search::Prediction folded = predict(kSmallJob, job), full = predict(kSmallJob, job, false);
  CHECK(folded.summary.step_ps == full.summary.step_ps);
  CHECK(folded.summary.rank_classes < full.summary.rank_classes);
  CHECK(folded.summary.breakdown.exposed_comm_s == full.summary.breakdown.exposed_comm_s);
}
