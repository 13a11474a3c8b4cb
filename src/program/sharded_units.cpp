// Parameters that no rank holds whole (ZeRO 3): units that are gathered for a pass and released after it, and whose gradients leave by shards.
#include <algorithm>
#include <utility>

#include "data_parallel.hpp"

namespace orrery::program {

using workload::CommKind;

/// One collective a unit, or one a matrix as DeepSpeed fetches the parameters of each module (runtime/zero/partitioned_param_coordinator.py);
/// norms and biases are few enough to stay (stage3_param_persistence_threshold) and travel with the first.
void DataParallel::make_gathers(Unit& unit) const {
  constexpr std::int64_t kPersists = 100'000;
  unit.gathers = {unit.parameters};
  if (!job_.stack.gathers_matrices) return;
  for (const std::int64_t matrix : unit.tensors) {
    if (matrix < kPersists || matrix >= unit.gathers.front()) continue;
    unit.gathers.front() -= matrix;
    unit.gathers.push_back(matrix);
  }
  if (unit.gathers.size() > 1 && unit.gathers.front() < kPersists) {
    unit.gathers[1] += unit.gathers.front();
    unit.gathers.erase(unit.gathers.begin());
  }
}

std::int64_t DataParallel::gathered_bytes(std::int64_t parameters) const { return bytes_of(parameters, job_.training.activation_dtype); }

void DataParallel::make_units() {
  if (!job_.stack.fsdp_copies) return;
  for (Unit& unit : units_) {
    if (gathered_bytes(unit) == 0) continue;
    const auto copy = [&](const char* name, std::int64_t read, std::int64_t write, Phase phase) {
      workload::Stream stream{workload::StreamKind::kCopy, read, write, 1};
      b_.role().segments.push_back(Segment{name, phase, {workload::Operation{name, stream}}, job_.stack.forward_op_us});
      return static_cast<std::uint32_t>(b_.role().segments.size() - 1);
    };
    const std::int64_t compute = gathered_bytes(unit.parameters), whole = gathered_bytes(unit);
    unit.copy_out = copy("fsdp copy out", whole, whole, Phase::kForward);
    if (compute > 0) unit.copy_in = copy("fsdp copy in", compute, bytes_of(unit.parameters, job_.training.grad_reduce_dtype), Phase::kBackward);
  }
}

void DataParallel::gather_unit(std::size_t unit) {
  Unit& u = units_[unit];
  if (gathered_bytes(u) == 0 || u.resident || u.gathered != kNoEvent) return;
  u.host_bytes = host_.parameter_bytes(shard(u.parameters));
  b_.allocate(MemoryKind::kBuffers, u.host_bytes, Stream::kCopyIn);
  const std::uint32_t fetched = host_.fetch_parameters(shard(u.parameters), last_copied_);
  b_.allocate(MemoryKind::kBuffers, gathered_bytes(u), Stream::kParamGather);
  std::int64_t frozen = u.frozen;  // travels with the first
  for (const std::int64_t parameters : u.gathers) {
    const std::int64_t bytes = gathered_bytes(parameters) + std::exchange(frozen, 0);
    u.gathered = b_.collective(Stream::kParamGather, Request{shard_axis(), CommKind::kAllGather, bytes}, fetched != kNoEvent ? fetched : last_copied_);
  }
}

/// FSDP2 copies parameters out of the gathered buffer, tensor by tensor. In forward it keeps the buffer until the next unit's copy, so that
/// the next gather does not wait for this one (_fsdp_param_group.py, wait_for_unshard).
void DataParallel::use_unit(std::size_t unit, bool forward) {
  Unit& u = units_[unit];
  if (gathered_bytes(u) == 0 || u.resident) return;
  gather_unit(unit);
  b_.wait(u.gathered);
  if (u.copy_out != kNone32) {
    free_copied();
    for (const std::int64_t n : u.tensors) b_.allocate(MemoryKind::kBuffers, gathered_bytes(n));
    b_.allocate(MemoryKind::kBuffers, u.frozen);
    b_.segment(u.copy_out);
    copied_bytes_ = gathered_bytes(u);
    if (!forward) free_copied();
  }
  last_copied_ = b_.compute_done();
  b_.free(MemoryKind::kBuffers, u.host_bytes);
  u.gathered = kNoEvent;
  u.resident = true;
}

void DataParallel::free_copied() {
  b_.free(MemoryKind::kBuffers, copied_bytes_);
  copied_bytes_ = 0;
}

void DataParallel::release_unit(std::size_t unit) {
  Unit& u = units_[unit];
  if (!u.resident) return;
  if (u.copy_out != kNone32) {
    for (const std::int64_t n : u.tensors) b_.free(MemoryKind::kBuffers, gathered_bytes(n));
    b_.free(MemoryKind::kBuffers, u.frozen);
  } else {
    b_.free(MemoryKind::kBuffers, gathered_bytes(u));
  }
  u.resident = false;
}

void DataParallel::reduce_unit(std::size_t unit, bool first) {
  Unit& u = units_[unit];
  if (u.parameters == 0) return;
  const std::int64_t reduce_bytes = bytes_of(u.parameters, job_.training.grad_reduce_dtype);
  free_reduced();
  b_.allocate(MemoryKind::kGradients, reduce_bytes);
  if (u.copy_in != kNone32) b_.segment(u.copy_in);
  drop(u.gradients);
  reducing_ = {reduce_bytes};
  // The share that comes out is the gradient itself in the first microbatch, and is added to it in those after.
  const std::int64_t share = bytes_of(shard(u.parameters), job_.training.grad_reduce_dtype);
  if (!job_.stack.gradient_buffer) {
    const std::int64_t gone = handed_on(share);  // kept until it has left for the host
    b_.allocate(MemoryKind::kGradients, share - gone, Stream::kGradReduce);
    b_.allocate(MemoryKind::kGradients, gone, Stream::kGradReduce);
    (first ? made_ : reducing_).push_back(share - gone);
    reducing_.push_back(gone);
  }
  reduce(Stream::kGradReduce, u.parameters);
  send_gradients(shard(u.parameters), reduced_.back());
}

}  // namespace orrery::program
