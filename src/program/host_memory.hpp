#pragma once
// What a role keeps in host memory and when it travels (training.offload).
//
// Copies run on streams of their own, out and in, so that they overlap compute and each other. Activations leave when a layer's forward
// pass has ended; one layer may be on its way at a time, and compute waits for it before the next leaves (Transformer Engine
// cpu_offload.py, AsyncDoubleBufferGroupOffloadHandler); they come back one layer ahead of the backward pass. A layer whose backward pass
// follows at once stays (Megatron-LM offloads fewer layers than there are: transformer_config.py, cpu_offloading_num_layers). A share of the optimizer's
// states stays with the host, which runs the update of those parameters itself: gradients go out as they are reduced, updated parameters
// come in (ZeRO-Offload, arXiv:2101.06840, sections 4 and 5; Megatron-LM HybridDeviceOptimizer). A share of sharded parameters comes in
// before each gather (ZeRO-Infinity, arXiv:2104.07857, section 5.1). On drives, what stands there passes through host memory both ways
// (its pinned buffers), and the optimizer's states are read, worked on and written one part after the other (DeepSpeed
// runtime/swap_tensor, pipeline_read and pipeline_write false); gradients wait in host memory.
#include <cstdint>
#include <map>
#include <tuple>

#include "role_builder.hpp"

namespace orrery::program {

class HostMemory {
 public:
  HostMemory(RoleBuilder& builder, const Job& job) : b_(builder), job_(job), offload_(job.training.offload) {}

  [[nodiscard]] const workload::Offload& shares() const { return offload_; }
  /// What leaves of a layer: tensors that block lists give back and make again, or, without lists, one tensor of so many bytes.
  struct Leaving {
    std::int64_t bytes = 0;
    bool listed = false;
    std::uint32_t out = 0, in = 0, base = 0;  ///< block lists, and where the handles of the layer's tensors begin
  };
  /// A layer's forward pass has ended and part of what it keeps for backward leaves.
  void leave(std::int32_t microbatch, std::int32_t chunk, std::size_t layer, const Leaving& what);
  /// What that layer keeps is on its way back; again: nothing.
  void fetch(std::int32_t microbatch, std::int32_t chunk, std::size_t layer);
  /// The next compute waits until it is back.
  void arrive(std::int32_t microbatch, std::int32_t chunk, std::size_t layer);

  /// The host's share of `elements` reduced gradients goes out after `event`.
  void send_gradients(std::int64_t elements, std::uint32_t event);
  /// The host's share of `elements` stored parameters comes in after `event`; the event of its end. kNoEvent where there is none.
  std::uint32_t fetch_parameters(std::int64_t elements, std::uint32_t event);
  [[nodiscard]] std::int64_t parameter_bytes(std::int64_t elements) const;
  /// The host updates its share of `updated` parameters once all gradients are there; compute waits for what comes back.
  void update(std::int64_t updated);
  /// States, parameters and the most activations that stood in host memory, or on drives, at a time.
  [[nodiscard]] std::int64_t bytes(std::int64_t updated, bool on_drives) const;

 private:
  struct Kept {
    Leaving what;
    std::uint32_t out = kNoEvent, in = kNoEvent;
    bool fetched = false;
  };
  using Key = std::tuple<std::int32_t, std::int32_t, std::size_t>;
  void settle();
  std::uint32_t copy(bool out, bool drives, std::int64_t bytes, std::uint32_t after);

  RoleBuilder& b_;
  const Job& job_;
  const workload::Offload offload_;
  std::map<Key, Kept> kept_;
  std::uint32_t leaving_ = kNoEvent;  ///< copy out that is under way, and what it will free
  Leaving leaving_what_;
  std::uint32_t last_gradients_ = kNoEvent;
  std::int64_t standing_ = 0, most_ = 0;
};

}  // namespace orrery::program
