// Kernels at the end of a step, by bytes per parameter.
#include <string>
#include <vector>

#include "catch.h"
#include "samples.hpp"

using namespace orrery;
using namespace orrery::workload;
using namespace orrery::workload::samples;

namespace {

Stream kernel(const std::vector<Operation>& operations, const std::string& name) {
  const Operation* op = find(operations, name);
  REQUIRE(op != nullptr);
  return std::get<Stream>(op->work);
}

/// Bytes that the update moves per parameter.
std::int64_t update_bytes(const Training& t, const StackKernels& k) {
  const Stream s = kernel(optimizer_operations(t, k, 1000, 1000), "optimizer");
  return (s.read_bytes + s.write_bytes) / 1000;
}

}  // namespace

TEST_CASE("Adam moves 30 bytes a parameter with fp32 gradients, 16-bit weights and a master copy") {
  const Training t;
  {
    INFO("mem.adam_bytes");
    CHECK(update_bytes(t, StackKernels{}) == 30);
  }
  {
    INFO("mem.adam_time");  // Llama-3-8B over 8 ranks, at 2.90 TB/s, in ms
    const Stream s = kernel(optimizer_operations(t, StackKernels{}, 8030261248, 1003782656), "optimizer");
    CHECK(static_cast<double>(s.read_bytes + s.write_bytes) / 2.9e12 * 1e3 == Approx(10.3839585103).epsilon(1e-9));
  }
}

TEST_CASE("the update's bytes follow from what each state is stored in") {
  Training t;
  t.grad_dtype = DType::kBf16;
  CHECK(update_bytes(t, StackKernels{}) == 28);  // g2 p4 m4 v4 | p4 m4 v4 w2
  t.grad_dtype = t.param_dtype = DType::kFp32;
  CHECK(update_bytes(t, StackKernels{}) == 28);  // g4 p4 m4 v4 | p4 m4 v4
  t.grad_dtype = t.param_dtype = DType::kBf16;
  t.master_weights = false;
  CHECK(update_bytes(t, StackKernels{}) == 14);  // all in bf16: g p m v | p m v
  t = Training{};
  t.optimizer = Optimizer::kMomentum;
  CHECK(update_bytes(t, StackKernels{}) == 22);  // g4 p4 m4 | p4 m4 w2
  t.optimizer = Optimizer::kSgd;
  CHECK(update_bytes(t, StackKernels{}) == 14);  // g4 p4 | p4 w2
}

TEST_CASE("a pass per arithmetic step moves two to three times as much") {
  StackKernels k;
  k.fused_optimizer = false;
  for (const Optimizer o : {Optimizer::kAdamW, Optimizer::kMomentum, Optimizer::kSgd}) {
    Training t;
    t.optimizer = o;
    const double ratio = static_cast<double>(update_bytes(t, k)) / static_cast<double>(update_bytes(t, StackKernels{}));
    CHECK(ratio > 1.5);
    CHECK(ratio < 3.0);
    CHECK(kernel(optimizer_operations(t, k, 1000, 1000), "optimizer").kernels > kernel(optimizer_operations(t, StackKernels{}, 1000, 1000), "optimizer").kernels);
  }
  Training fp32;
  fp32.param_dtype = DType::kFp32;
  CHECK(update_bytes(fp32, k) == 80);  // 12 passes read, 8 written, of four bytes
}

TEST_CASE("zeroing writes 4, scaling moves 8 of every parameter; the norm reads 4 of those updated; the stack says which run") {
  const Training t;
  const std::vector<Operation> all = optimizer_operations(t, StackKernels{}, 1000, 100);
  CHECK(names(all) == std::vector<std::string>{"zero_grad", "scale_grad", "grad_norm", "optimizer"});
  CHECK(kernel(all, "zero_grad") == Stream{StreamKind::kCopy, 0, 4000, 1});
  CHECK(kernel(all, "scale_grad") == Stream{StreamKind::kElementwise, 4000, 4000, 1});
  CHECK(kernel(all, "grad_norm") == Stream{StreamKind::kReduce, 400, 0, 1});
  CHECK(kernel(all, "optimizer") == Stream{StreamKind::kOptimizer, 1600, 1400, 1});
  StackKernels bare;
  bare.zero_grad_buffer = bare.grad_scale_kernel = false;
  CHECK(names(optimizer_operations(t, bare, 1000, 100)) == std::vector<std::string>{"grad_norm", "optimizer"});
  Training fp16 = t;
  fp16.precision = DType::kFp16;
  fp16.grad_dtype = DType::kFp16;
  CHECK(kernel(optimizer_operations(fp16, bare, 1000, 100), "unscale_and_check") == Stream{StreamKind::kElementwise, 200, 200, 1});
}

TEST_CASE("a multi-tensor launch covers 320 blocks of 65536 elements") {
  const std::int64_t launch = 320 * 65536;
  CHECK(kernel(optimizer_operations(Training{}, StackKernels{}, launch, launch), "optimizer").kernels == 1);
  CHECK(kernel(optimizer_operations(Training{}, StackKernels{}, launch + 1, launch + 1), "optimizer").kernels == 2);
  StackKernels k;
  k.fused_optimizer = false;
  CHECK(kernel(optimizer_operations(Training{}, k, launch + 1, launch + 1), "optimizer").kernels == 18);  // eight steps and the copy, twice
}
