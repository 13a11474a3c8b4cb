#include "recipe.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>

namespace orrery::simulate {
namespace {

using workload::DType;
using workload::Optimizer;

/// Scales inside the products (one per 16 or 32 elements) came with the units for six and four bits: Blackwell's tcgen05 block-scaled
/// MMA (PTX ISA 8.6), CDNA 4's scaled MFMA (AMD CDNA 4 ISA). Hopper, Ada and CDNA 3 multiply 8-bit floats with scales outside only.
bool scales_blocks(const cluster::Gpu& gpu) { return gpu.peak.fp6.has_value() || gpu.peak.fp4.has_value(); }

bool multiplies(const cluster::Gpu& gpu, DType t) {
  switch (t) {
    case DType::kFp4: return gpu.peak.fp4.has_value();
    case DType::kMxfp6: return gpu.peak.fp6.has_value();
    case DType::kMxfp8: return gpu.peak.fp8.has_value() && scales_blocks(gpu);
    case DType::kFp8: return gpu.peak.fp8.has_value();
    case DType::kBf16: return gpu.peak.bf16.has_value();
    case DType::kFp16: return gpu.peak.fp16.has_value();
    case DType::kTf32: return gpu.peak.tf32.has_value();
    case DType::kFp32: return gpu.peak.fp32.has_value();
    case DType::kInt8: break;
  }
  return false;
}

/// From narrow to wide: the nearest that a GPU has comes after the one that it lacks.
constexpr std::array kLadder = {DType::kFp4, DType::kMxfp6, DType::kMxfp8, DType::kFp8, DType::kBf16, DType::kFp16, DType::kTf32, DType::kFp32};

bool quantised(DType t) { return t == DType::kFp8 || t == DType::kMxfp8 || t == DType::kMxfp6 || t == DType::kFp4; }

/// Refusals of one job, all at once.
class Fitting {
 public:
  Fitting(program::Job& job, const cluster::Node& node, const std::string& file) : t_(job.training), job_(job), node_(node), gpu_(node.gpu), file_(file) {}

  Result<bool> run() {
    // wgmma takes 8-bit operands along the reduction axis only (PTX ISA, wgmma.mma_async), as Ada's mma does; Blackwell's tcgen05.mma
    // reads both majors, and per-tensor FP8 needs no transposes there.
    t_.one_operand_layout = !gpu_.architecture.starts_with("Blackwell");
    precision();
    sparsity();
    optimizer();
    loss();
    offload();
    if (!problems_.empty()) return fail(std::move(problems_));
    return true;
  }

 private:
  void refuse(const char* pointer, std::string text) { problems_.push_back({file_, pointer, std::move(text)}); }

  void precision() {
    if (!quantised(t_.precision) || multiplies(gpu_, t_.precision)) return;
    const char* nearest = "";
    bool wider = false;
    for (const DType t : kLadder) {
      if (wider && multiplies(gpu_, t)) {
        nearest = workload::to_string(t);
        break;
      }
      wider = wider || t == t_.precision;
    }
    refuse("/training/precision", fmt::format("a {} has no matrix units for {}; the nearest that it has is {}", gpu_.name, workload::to_string(t_.precision), nearest));
  }

  void sparsity() {
    if (!t_.sparse) return;
    if (!gpu_.structured_sparsity) refuse("/training/sparsity", fmt::format("the matrix units of a {} skip nothing of a 2:4 operand; use none", gpu_.name));
    // cuSPARSELt multiplies 2:4 operands in tf32, 16 bits and 8 bits with a scale per tensor (cusparseLtMatmul, supported types).
    if (t_.precision == DType::kFp32 || t_.precision == DType::kMxfp8 || t_.precision == DType::kMxfp6 || t_.precision == DType::kFp4 ||
        (t_.precision == DType::kFp8 && t_.fp8_recipe == workload::Fp8Recipe::kBlock128)) {
      refuse("/training/sparsity", "no library multiplies 2:4 weights in fp32 or with scales by block; use none, or precision tf32, fp16, bf16 or fp8 with one scale a tensor");
    }
  }

  void optimizer() {
    const std::int64_t zero = job_.parallelism.zero;
    if (t_.optimizer == Optimizer::kAdafactor && (zero == 1 || zero == 2)) {
      refuse("/training/optimizer", fmt::format("adafactor keeps means of whole rows and columns, and zero {} cuts matrices anywhere; use zero 0 or 3", zero));
    }
    if (t_.optimizer == Optimizer::kAdafactor && zero == 3 && job_.stack.style == program::DataParallelStyle::kFsdp1) {
      refuse("/training/optimizer", "adafactor keeps means of whole rows and columns, and flat parameters (stack data_parallel.style fsdp1) cut matrices anywhere; use fsdp2 or zero 0");
    }
    const bool scaled = t_.optimizer_dtype && (*t_.optimizer_dtype == DType::kFp16 || *t_.optimizer_dtype == DType::kFp8);
    if (t_.optimizer_dtype && (t_.optimizer == Optimizer::kAdamW8bit || t_.optimizer == Optimizer::kAdafactor)) {
      refuse("/training/optimizer_dtype", "this optimizer stores its states in a type of its own; use null");
    } else if (scaled && t_.optimizer != Optimizer::kAdamW) {
      refuse("/training/optimizer_dtype", "only adamw has states with a scale per tensor; use fp32 or bf16");
    }
    const bool master = t_.master_weights && workload::element_bytes(t_.param_dtype) < 4;
    if (t_.master != workload::Master::kFp32 && master) {
      if (t_.optimizer != Optimizer::kAdamW) refuse("/training/master_dtype", "only adamw updates a master copy that is not fp32; use fp32");
      if (t_.master == workload::Master::kRemainder && t_.param_dtype != DType::kBf16) {
        refuse("/training/master_dtype", "only bf16 parameters are the upper half of fp32 ones; use fp32, or param_dtype bf16");
      }
    }
  }

  void loss() {
    const std::int64_t tokens = t_.micro_batch * t_.sequence_length / job_.parallelism.cp;
    if (t_.loss.chunks > tokens) refuse("/training/loss/chunks", fmt::format("{} chunks of {} tokens; use at most one a token", t_.loss.chunks, tokens));
    if (t_.loss.chunks > 1 && t_.loss.fused && !*t_.loss.fused) {
      refuse("/training/loss/fused", "a loss in chunks computes its gradient in the same kernel; use true, or chunks 1");
    }
  }

  void offload() {
    if (!t_.offload.any()) return;
    if (node_.host_memory.value() == 0) refuse("/training/offload", fmt::format("nobody states the host memory of a {}; give /cluster/node/host_memory_gib", node_.name));
    if (t_.offload.any_on_drives() && node_.drive_read.value() <= 0) {
      refuse("/training/offload", fmt::format("nobody states the drives of a {}; give /cluster/node/nvme_drives, or nvme_read_gb_per_s and nvme_write_gb_per_s", node_.name));
    }
    if (t_.offload.parameters > 0 && job_.parallelism.zero != 3) {
      refuse("/training/offload/parameters", fmt::format("parameters live in host memory only where each is gathered for its use; use zero 3 instead of {}", job_.parallelism.zero));
    }
    if (t_.offload.activations > 0 && t_.cuda_graphs) {
      refuse("/training/offload/activations", "a captured graph hands no tensor to the host; use cuda_graphs false, or 0");
    }
    const bool on_host = t_.optimizer == Optimizer::kAdamW || t_.optimizer == Optimizer::kMomentum || t_.optimizer == Optimizer::kSgd;
    if (t_.offload.optimizer > 0 && !on_host) refuse("/training/offload/optimizer", "host kernels update with sgd, momentum and adamw; use one of them, or 0");
    if (t_.offload.optimizer > 0 && (t_.master != workload::Master::kFp32 || t_.optimizer_dtype)) {
      refuse("/training/offload/optimizer", "host kernels keep fp32 states; use master_dtype fp32 and optimizer_dtype null");
    }
  }

  workload::Training& t_;
  const program::Job& job_;
  const cluster::Node& node_;
  const cluster::Gpu& gpu_;
  const std::string& file_;
  Diagnostics problems_;
};

}  // namespace

Result<bool> fit_recipe(program::Job& job, const cluster::Node& node, const std::string& file) { return Fitting(job, node, file).run(); }

}  // namespace orrery::simulate
