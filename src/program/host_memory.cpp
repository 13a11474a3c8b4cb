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

std::uint32_t HostMemory::copy(bool out, bool drives, std::int64_t bytes, std::uint32_t after) {
  if (bytes == 0) return kNoEvent;
  const Axis axis = out ? (drives ? Axis::kToDrives : Axis::kToHost) : (drives ? Axis::kFromDrives : Axis::kFromHost);
  return b_.collective(out ? Stream::kCopyOut : Stream::kCopyIn, Request{axis, CommKind::kSendRecv, bytes}, after);
}

void HostMemory::settle() {
  if (leaving_ == kNoEvent) return;
  b_.wait(leaving_);
  leaving_ = kNoEvent;
  b_.account(ItemKind::kFree, MemoryKind::kActivations, leaving_what_.bytes);
  if (leaving_what_.listed) {
    b_.blocks().call(leaving_what_.out, leaving_what_.base);
  } else {
    b_.blocks().free(MemoryKind::kActivations, leaving_what_.bytes);
  }
}

void HostMemory::leave(std::int32_t microbatch, std::int32_t chunk, std::size_t layer, const Leaving& what) {
  if (what.bytes == 0) return;
  settle();
  leaving_ = copy(true, offload_.activations_on_drives, what.bytes, b_.compute_done());
  leaving_what_ = what;
  kept_[{microbatch, chunk, layer}] = Kept{what, leaving_, kNoEvent, false};
  standing_ += what.bytes;
  most_ = std::max(most_, standing_);
}

void HostMemory::fetch(std::int32_t microbatch, std::int32_t chunk, std::size_t layer) {
  const auto found = kept_.find({microbatch, chunk, layer});
  if (found == kept_.end() || found->second.fetched) return;
  Kept& kept = found->second;
  if (kept.out == leaving_) settle();
  b_.account(ItemKind::kAllocate, MemoryKind::kActivations, kept.what.bytes);
  if (kept.what.listed) {
    b_.blocks().call(kept.what.in, kept.what.base);
  } else {
    b_.blocks().allocate(MemoryKind::kActivations, kept.what.bytes, static_cast<std::uint8_t>(Stream::kCopyIn));
  }
  kept.in = copy(false, offload_.activations_on_drives, kept.what.bytes, b_.compute_done());
  kept.fetched = true;
}

void HostMemory::arrive(std::int32_t microbatch, std::int32_t chunk, std::size_t layer) {
  const auto found = kept_.find({microbatch, chunk, layer});
  if (found == kept_.end()) return;
  fetch(microbatch, chunk, layer);
  b_.wait(found->second.in);
  standing_ -= found->second.what.bytes;
  kept_.erase(found);
}

void HostMemory::send_gradients(std::int64_t elements, std::uint32_t event) {
  const std::uint32_t sent = copy(true, false, bytes_of(host_share(elements, offload_.optimizer), workload::element_bytes(job_.training.grad_dtype)), event);
  if (sent != kNoEvent) last_gradients_ = sent;
}

std::int64_t HostMemory::parameter_bytes(std::int64_t elements) const {
  return bytes_of(host_share(elements, offload_.parameters), workload::element_bytes(job_.training.param_dtype));
}

std::uint32_t HostMemory::fetch_parameters(std::int64_t elements, std::uint32_t event) {
  return copy(false, offload_.parameters_on_drives, parameter_bytes(elements), event);
}

void HostMemory::update(std::int64_t updated) {
  const double each = workload::element_bytes(job_.training.param_dtype);
  const std::int64_t by_host = host_share(updated, offload_.optimizer), on_host = host_share(updated, offload_.parameters);
  std::uint32_t event = kNoEvent;
  if (by_host > 0) {
    const workload::StateBytes s = workload::state_bytes(job_.training);
    const std::int64_t states = offload_.optimizer_on_drives ? bytes_of(by_host, s.master + s.optimizer) : 0;
    const std::int64_t there = offload_.parameters_on_drives ? bytes_of(std::min(by_host, on_host), each) : 0;
    const auto swap = [&](Axis axis, std::int64_t bytes, std::uint32_t after) {
      return bytes == 0 ? after : b_.collective(Stream::kHostUpdate, Request{axis, CommKind::kSendRecv, bytes}, after);
    };
    event = swap(Axis::kSwapIn, states, last_gradients_);
    event = b_.collective(Stream::kHostUpdate, Request{Axis::kHostUpdate, CommKind::kSendRecv, workload::host_update_bytes(job_.training, by_host)}, event);
    if (states + there > 0) b_.wait(swap(Axis::kSwapOut, states + there, event));
    // Parameters that stand in host memory are where they are needed.
    if (by_host > on_host) event = copy(false, false, bytes_of(by_host - on_host, each), event);
  }
  if (on_host > by_host) {
    const std::uint32_t written = copy(true, offload_.parameters_on_drives, bytes_of(on_host - by_host, each), b_.compute_done());
    b_.wait(written);
  }
  b_.wait(event);
  if (by_host > 0 || on_host > 0) b_.compute_done();
  last_gradients_ = kNoEvent;
}

std::int64_t HostMemory::bytes(std::int64_t updated, bool on_drives) const {
  const workload::StateBytes s = workload::state_bytes(job_.training);
  const std::int64_t by_host = host_share(updated, offload_.optimizer);
  const double states = (offload_.optimizer_on_drives == on_drives ? s.master + s.optimizer : 0) + (on_drives ? 0 : s.gradient);
  return bytes_of(by_host, states) + (offload_.parameters_on_drives == on_drives ? parameter_bytes(updated) : 0) +
         (offload_.activations_on_drives == on_drives ? most_ : 0);
}

}  // namespace orrery::program
