#include "host_memory.hpp"

#include <algorithm>
#include <cmath>

#include "orrery/base/assert.hpp"

namespace orrery::program {
namespace {

using workload::Axis;
using workload::CommKind;
using workload::host_share;

std::int64_t bytes_of(std::int64_t elements, double each) { return static_cast<std::int64_t>(std::ceil(static_cast<double>(elements) * each)); }

}  // namespace

std::uint32_t HostMemory::copy(bool out, std::int64_t bytes, std::uint32_t after) {
  if (bytes == 0) return kNoEvent;
  return b_.collective(out ? Stream::kCopyOut : Stream::kCopyIn, Request{out ? Axis::kToHost : Axis::kFromHost, CommKind::kSendRecv, bytes}, after);
}

void HostMemory::settle() {
  if (leaving_ == kNoEvent) return;
  b_.wait(leaving_);
  leaving_ = kNoEvent;
  b_.account(ItemKind::kFree, MemoryKind::kActivations, leaving_bytes_);
}

void HostMemory::leave(std::int32_t microbatch, std::int32_t chunk, std::size_t layer, std::int64_t kept) {
  const std::int64_t bytes = host_share(kept, offload_.activations);
  if (bytes == 0) return;
  settle();
  leaving_ = copy(true, bytes, b_.compute_done());
  leaving_bytes_ = bytes;
  kept_[{microbatch, chunk, layer}] = Kept{bytes, leaving_, kNoEvent, false};
  standing_ += bytes;
  most_ = std::max(most_, standing_);
}

void HostMemory::fetch(std::int32_t microbatch, std::int32_t chunk, std::size_t layer) {
  const auto found = kept_.find({microbatch, chunk, layer});
  if (found == kept_.end() || found->second.fetched) return;
  Kept& kept = found->second;
  if (kept.out == leaving_) settle();
  b_.account(ItemKind::kAllocate, MemoryKind::kActivations, kept.bytes);
  kept.in = copy(false, kept.bytes, b_.compute_done());
  kept.fetched = true;
}

void HostMemory::arrive(std::int32_t microbatch, std::int32_t chunk, std::size_t layer) {
  const auto found = kept_.find({microbatch, chunk, layer});
  if (found == kept_.end()) return;
  fetch(microbatch, chunk, layer);
  b_.wait(found->second.in);
  standing_ -= found->second.bytes;
  kept_.erase(found);
}

void HostMemory::send_gradients(std::int64_t elements, std::uint32_t event) {
  const std::uint32_t sent = copy(true, bytes_of(host_share(elements, offload_.optimizer), workload::element_bytes(job_.training.grad_dtype)), event);
  if (sent != kNoEvent) last_gradients_ = sent;
}

std::int64_t HostMemory::parameter_bytes(std::int64_t elements) const {
  return bytes_of(host_share(elements, offload_.parameters), workload::element_bytes(job_.training.param_dtype));
}

std::uint32_t HostMemory::fetch_parameters(std::int64_t elements, std::uint32_t event) {
  return copy(false, parameter_bytes(elements), event);
}

void HostMemory::update(std::int64_t updated) {
  const double each = workload::element_bytes(job_.training.param_dtype);
  const std::int64_t by_host = host_share(updated, offload_.optimizer), on_host = host_share(updated, offload_.parameters);
  std::uint32_t event = kNoEvent;
  if (by_host > 0) {
    event = b_.collective(Stream::kHostUpdate, Request{Axis::kHostUpdate, CommKind::kSendRecv, workload::host_update_bytes(job_.training, by_host)}, last_gradients_);
    // Parameters that stand in host memory are where they are needed.
    if (by_host > on_host) event = copy(false, bytes_of(by_host - on_host, each), event);
  }
  if (on_host > by_host) {
    const std::uint32_t written = copy(true, bytes_of(on_host - by_host, each), b_.compute_done());
    b_.wait(written);
  }
  b_.wait(event);
  if (by_host > 0 || on_host > 0) b_.compute_done();
  last_gradients_ = kNoEvent;
}

std::int64_t HostMemory::bytes(std::int64_t updated) const {
  const workload::StateBytes s = workload::state_bytes(job_.training);
  const std::int64_t by_host = host_share(updated, offload_.optimizer);
  return bytes_of(by_host, s.master + s.optimizer + s.gradient) + parameter_bytes(updated) + most_;
}

}  // namespace orrery::program
