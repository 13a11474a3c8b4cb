#pragma once
// Data-parallel communication of one role: buckets of DDP and the distributed optimizer (ZeRO 0-2), units of FSDP (ZeRO 3), and the
// end of the step. Sources: Megatron core/distributed (buckets in reverse layer order, max(40M, 1M x dp) parameters), PyTorch FSDP2
// (gather of the next unit while this one computes, reduce-scatter of the last one alongside), modelling 8.4 and 8.6.
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "host_memory.hpp"
#include "role_builder.hpp"

namespace orrery::program {

/// A layer of a chunk, in forward order.
struct LayerSlot {
  const LayerPasses* passes = nullptr;
  std::int64_t parameters = 0;  ///< of this rank; a tied head on the embedding's own rank has none of its own
  std::int64_t experts = 0;     ///< those among them that belong to routed experts
  std::vector<std::int64_t> tensors, expert_tensors;  ///< elements of each parameter, and of each of a routed expert
  bool full_recompute = false;
  bool opens_group = false;     ///< first layer of a fully recomputed group: its input is what is kept
  std::int64_t group = 0;       ///< layers of its recompute group, on the layer that opens it
};
using ChunkLayers = std::vector<LayerSlot>;

inline std::int64_t bytes_of(std::int64_t elements, workload::DType type) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(elements) * workload::element_bytes(type)));
}

/// Experts have a data-parallel group of their own, the ranks that hold the same ones (Axis::kExpertDp, modelling 5.1), and with it buckets,
/// shards and units of their own: a second DataParallel inside the first, which every call reaches beside the dense one.
class DataParallel {
 public:
  enum class Part : std::uint8_t { kDense, kExperts };
  DataParallel(RoleBuilder& builder, const Job& job, const std::vector<ChunkLayers>& chunks, Part part = Part::kDense);

  /// Parameters, gradients, optimizer states and runtime memory; the parameter gathers that overlap the first forward.
  void begin_step();
  /// first: the step's first forward pass of this chunk.
  void before_forward(bool first, std::int32_t chunk, std::size_t layer);
  /// returns: this stage's next pass is the backward one of the same microbatch and chunk.
  void after_forward(bool returns, std::int32_t microbatch, std::int32_t chunk, std::size_t layer);
  /// Where a layer's share stands in host memory: it comes back before what follows, and that of the layer before sets out.
  void fetch_activations(std::int32_t microbatch, std::int32_t chunk, std::size_t layer);
  /// weights: the pass makes weight gradients too; where the backward pass is split, before_weights stands in front of those.
  void before_backward(bool weights, std::int32_t microbatch, std::int32_t chunk, std::size_t layer);
  void before_weights(std::int32_t chunk, std::size_t layer);
  void after_inputs(std::int32_t chunk, std::size_t layer);
  /// first, last: the step's first and last weight gradients of this chunk.
  void after_weights(bool first, bool last, std::int32_t chunk, std::size_t layer);
  /// Remaining reductions, tied and norm gradients, clip, optimizer, gathers that do not overlap. prepare: kernels over the gradients
  /// (zero, scale, norm); update: the optimizer's, which may communicate.
  void end_step(const Pass& prepare, const Pass& update);
  /// What the rank's optimizer works on.
  [[nodiscard]] workload::UpdateShapes update_shapes() const;

  [[nodiscard]] std::int64_t parameters() const { return parameters_ + (experts_ ? experts_->parameters() : 0); }
  /// Bytes of a layer's frozen weights that stay on this rank. with_embedding: a tied head's matrix stands here already.
  [[nodiscard]] std::int64_t kept_frozen(const LayerSlot& layer, bool with_embedding) const;
  /// Those that this rank updates.
  [[nodiscard]] std::int64_t updated() const { return own_updated() + (experts_ ? experts_->updated() : 0); }

 private:
  [[nodiscard]] std::int64_t own(const LayerSlot& layer) const { return part_ == Part::kExperts ? layer.experts : layer.parameters - layer.experts; }
  [[nodiscard]] const std::vector<std::int64_t>& tensors_of(const LayerSlot& layer) const { return part_ == Part::kExperts ? layer.expert_tensors : layer.tensors; }
  void gather_first();
  void reduce_the_rest();
  void gather_updated();
  struct Bucket {
    std::int64_t parameters = 0;
    std::size_t lowest_layer = 0;  ///< complete after this layer's backward
    std::uint32_t gathered = kNoEvent;
    std::int64_t held = 0;         ///< transient gradient bytes (ZeRO 2)
  };
  void make_buckets();
  void reduce(Bucket& bucket);
  /// Reduces a gradient of the whole, or of this rank's shard and then across replicas; the event of its end is kept.
  void reduce(Stream stream, std::int64_t parameters);
  void make_units();
  Bucket& bucket_of(std::int32_t chunk, std::size_t layer);
  void gather_unit(std::size_t unit);
  void use_unit(std::size_t unit, bool forward);
  void free_copied();
  void release_unit(std::size_t unit);
  void reduce_unit(std::size_t unit, bool first);
  /// The host's share of reduced gradients, as elements or bytes, that does not stay here; it is sent out after `event`.
  [[nodiscard]] std::int64_t handed_on(std::int64_t gradients) const;
  void send_gradients(std::int64_t elements, std::uint32_t event);
  void free_reduced();
  void make_states();
  void make_optimizer_states(bool first_step);
  void keep_gradients(bool first, const LayerSlot& layer);
  void drop(std::vector<std::int64_t>& gradients);
  template <class F>
  void for_tensors(F&& f) const {
    for (const ChunkLayers& chunk : chunks_) {
      for (const LayerSlot& layer : chunk) {
        for (const std::int64_t n : tensors_of(layer)) f(n);
      }
    }
  }
  [[nodiscard]] std::int64_t gathered_bytes(std::int64_t parameters) const;
  [[nodiscard]] std::size_t unit_index(std::int32_t chunk, std::size_t layer) const { return unit_of_[static_cast<std::size_t>(chunk)][layer]; }
  [[nodiscard]] bool sharded_parameters() const { return job_.parallelism.zero >= 3 && shards_ > 1; }
  [[nodiscard]] std::int64_t shard(std::int64_t parameters) const { return (parameters + shards_ - 1) / shards_; }
  /// Whether a rank is left with its shard of the reduced gradients alone.
  [[nodiscard]] bool scatters() const { return job_.parallelism.zero >= 3 || (job_.parallelism.zero >= 1 && !job_.stack.zero_all_reduces); }
  /// The ranks that share one copy of what is sharded.
  [[nodiscard]] workload::Axis shard_axis() const {
    return part_ == Part::kDense && job_.parallelism.replicas > 1 ? workload::Axis::kDpShard : axis_;
  }

  /// Bytes of what a layer keeps from forward to backward that stand in host memory meanwhile.
  [[nodiscard]] std::int64_t leaving_bytes(const LayerSlot& layer) const;
  void leave(bool returns, std::int32_t microbatch, std::int32_t chunk, std::size_t layer);
  [[nodiscard]] std::int64_t own_updated() const { return job_.parallelism.zero >= 1 ? shard(parameters_) : parameters_; }
  [[nodiscard]] workload::UpdateShapes own_shapes() const;

  RoleBuilder& b_;
  const Job& job_;
  HostMemory host_;
  const std::vector<ChunkLayers>& chunks_;
  Part part_ = Part::kDense;
  workload::Axis axis_ = workload::Axis::kDp;
  std::unique_ptr<DataParallel> experts_;  // of the dense part, where the model has experts
  std::int64_t group_ = 1, shards_ = 1, parameters_ = 0;
  std::vector<std::vector<Bucket>> buckets_;       // per chunk, in backward order
  std::vector<std::uint32_t> reduced_;             // events of reductions still to wait for
  struct Unit {
    std::int64_t parameters = 0;
    std::int64_t frozen = 0;              ///< bytes of weights beside adapters, which are gathered and never reduced
    std::vector<std::int64_t> tensors;    ///< elements of each parameter
    std::vector<std::int64_t> gradients;  ///< bytes of those that wait for the reduction
    std::int32_t layers = 0, layers_done = 0;  ///< layers in it; those whose backward pass is done
    bool root = false, resident = false;
    std::uint32_t gathered = kNoEvent;
    std::int64_t host_bytes = 0;  // of its parameters that came from host memory
    std::uint32_t copy_out = kNone32, copy_in = kNone32;  // segments
    std::vector<std::int64_t> gathers;           // parameters of each collective
  };
  static constexpr std::uint32_t kNone32 = UINT32_MAX;
  void make_gathers(Unit& unit) const;
  [[nodiscard]] std::int64_t gathered_bytes(const Unit& unit) const { return gathered_bytes(unit.parameters) + unit.frozen; }
  /// Whether any gradient passes through a layer: below the lowest adapter none does.
  [[nodiscard]] bool runs_backward(std::int32_t chunk, std::size_t layer) const {
    return !job_.training.adapter.on() || !chunks_[static_cast<std::size_t>(chunk)][layer].passes->backward.pieces.empty();
  }
  std::vector<Unit> units_;
  std::vector<std::vector<std::size_t>> unit_of_;  // by chunk and layer
  std::int64_t copied_bytes_ = 0;                  // gather buffer that has been copied out and still stands
  std::uint32_t last_copied_ = kNoEvent;           // copy-out of the unit gathered last: frees the gather buffer
  std::vector<std::int64_t> reducing_;             // bytes of the gradients that the reduction in flight still reads
  std::vector<std::int64_t> half_, made_;          // bytes of gradients kept until the microbatch ends, and until the update
};

}  // namespace orrery::program
