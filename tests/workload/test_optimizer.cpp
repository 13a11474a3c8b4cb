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

TEST_CASE("8-bit Adam keeps and moves a byte and a scale per 256 of each moment") {
  Training t;
  t.optimizer = Optimizer::kAdamW8bit;
  CHECK(state_bytes(t).optimizer == 2 * (1 + 4.0 / 256));
  UpdateShapes shapes{.parameters = 256'000, .matrices = {{1000, 256}}, .tensors = 3};
  CHECK(optimizer_bytes(t, shapes) == 2 * (256'000 + 4 * 1000));
  shapes.shards = 8;
  CHECK(optimizer_bytes(t, shapes) == 2 * (32'000 + 4 * 125));
  // g4 p4, two moments | p4, two moments, w2; one launch a tensor
  const Stream s = kernel(optimizer_operations(t, StackKernels{}, 256'000, 256'000, shapes), "optimizer");
  CHECK(s == Stream{StreamKind::kOptimizer, 8 * 256'000 + 2 * 260'000, 6 * 256'000 + 2 * 260'000, 3});
}

TEST_CASE("Adafactor keeps a row and a column of each matrix, and a value of each other parameter") {
  Training t;
  t.optimizer = Optimizer::kAdafactor;
  UpdateShapes shapes{.parameters = 2 * 3000 * 1000 + 500, .matrices = {{3000, 1000, 2}}, .tensors = 3};
  CHECK(optimizer_bytes(t, shapes) == 4 * (2 * (3000 + 1000) + 500));
  // Cut along rows, columns are on every rank, and their means are all-reduced.
  shapes.shards = 4;
  CHECK(optimizer_bytes(t, shapes) == 4 * ((2 * 3000 + 500 + 3) / 4 + 2 * 1000));
  const std::vector<Operation> operations = optimizer_operations(t, StackKernels{}, 100, 100, shapes);
  CHECK(std::get<Comm>(find(operations, "all_reduce_column_means")->work) == Comm{CommKind::kAllReduce, Axis::kDp, 4 * 2000});
  // Twelve steps of 48 read and 28 written, and the 16-bit copy: 4 read, 2 written.
  CHECK(kernel(operations, "optimizer") == Stream{StreamKind::kOptimizer, 5200, 3000, 13 * 3});
}

TEST_CASE("Muon orthogonalises matrices between layers in five Newton-Schulz steps of 4 r^2 c + 2 r^3 FLOPs") {
  Training t;
  t.optimizer = Optimizer::kMuon;
  const UpdateShapes shapes{.parameters = 2 * 512 * 2048 + 32000 * 512 + 700, .matrices = {{2048, 512, 2}, {32000, 512, 1, false}}, .tensors = 4};
  const std::vector<Operation> operations = optimizer_operations(t, StackKernels{}, shapes.parameters, shapes.parameters, shapes);
  const double r = 512, c = 2048;
  CHECK(work(operations).gemm == 2 * 5 * (4 * r * r * c + 2 * r * r * r));
  // Momentum of matrices: g4 m4 | m4 u2; their update: p4 u2 | p4 w2. The rest is Adam's: 30 bytes.
  CHECK(kernel(operations, "momentum") == Stream{StreamKind::kOptimizer, 8 * 2 * 512 * 2048, 6 * 2 * 512 * 2048, 2});
  CHECK(kernel(operations, "muon_update") == Stream{StreamKind::kOptimizer, 6 * 2 * 512 * 2048, 6 * 2 * 512 * 2048, 2});
  const Stream adam = kernel(operations, "optimizer");
  CHECK(adam.read_bytes + adam.write_bytes == 30 * (32000 * 512 + 700));
  // One moment of matrices, two of the rest.
  CHECK(optimizer_bytes(t, shapes) == 4 * 2 * 512 * 2048 + 8 * (32000 * 512 + 700));
  CHECK(find(operations, "gather_momentum") == nullptr);
}

TEST_CASE("sharded, Muon gathers each matrix' momentum in bf16 and deals the matrices out whole") {
  Training t;
  t.optimizer = Optimizer::kMuon;
  UpdateShapes shapes{.parameters = 10 * 512 * 512, .matrices = {{512, 512, 10}}, .tensors = 10, .shards = 4};
  const std::vector<Operation> operations = optimizer_operations(t, StackKernels{}, shapes.parameters, shapes.parameters / 4, shapes);
  CHECK(comm_bytes(operations, CommKind::kAllGather, Axis::kDp) == 10 * 2 * 512 * 512);
  CHECK(work(operations).gemm == 3 * 5 * 6.0 * 512 * 512 * 512);  // three of ten
  CHECK(update_buffer_bytes(t, shapes) == 3 * 2 * 512 * 512 + 2 * (2 * 512 * 512 + 2 * 512 * 512));
  // More shards than matrices: a rank has one at most, and the costliest sets the time.
  shapes.shards = 64;
  shapes.matrices.push_back({512, 2048, 1});
  CHECK(orthogonalised(shapes).size() == 1);
  CHECK(orthogonalised(shapes).front().columns == 2048);
}

TEST_CASE("states in fewer bits: bf16 moments directly, fp16 and FP8 ones opened to fp32 and closed again") {
  Training t;
  t.optimizer_dtype = DType::kBf16;
  CHECK(state_bytes(t).optimizer == 4);
  CHECK(update_bytes(t, StackKernels{}) == 22);  // g4 p4 m2 v2 | p4 m2 v2 w2
  CHECK(update_buffer_bytes(t, {.parameters = 1000}) == 0);
  t.optimizer_dtype = DType::kFp8;
  CHECK(state_bytes(t).total() == 2 + 4 + 4 + 2);
  const std::vector<Operation> operations = optimizer_operations(t, StackKernels{}, 1000, 1000);
  CHECK(kernel(operations, "open_states") == Stream{StreamKind::kOptimizer, 2000, 8000, 2});
  CHECK(update_bytes(t, StackKernels{}) == 30);
  CHECK(kernel(operations, "close_states") == Stream{StreamKind::kOptimizer, 16000, 2000, 4});
  CHECK(update_buffer_bytes(t, {.parameters = 1000}) == 8000);
}

TEST_CASE("the 16 bits that bf16 weights lack stand for the master copy: 2 bytes less kept, 2 less written") {
  Training t;
  t.master = Master::kRemainder;
  CHECK(state_bytes(t).total() == 16);  // 18 with a whole copy (modelling 5.1)
  CHECK(update_bytes(t, StackKernels{}) == 28);
  t.master = Master::kFp16;
  CHECK(state_bytes(t).master == 2);
}

TEST_CASE("what the host updates the device does not") {
  Training t;
  t.offload.optimizer = 0.25;
  CHECK(kernel(optimizer_operations(t, StackKernels{}, 1000, 1000), "optimizer") == Stream{StreamKind::kOptimizer, 16 * 750, 14 * 750, 1});
  CHECK(host_update_bytes(t, 250) == 30 * 250);
  t.offload.optimizer = 1;
  CHECK(find(optimizer_operations(t, StackKernels{}, 1000, 1000), "optimizer") == nullptr);
}
