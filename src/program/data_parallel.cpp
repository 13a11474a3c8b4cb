#include "data_parallel.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "orrery/base/assert.hpp"

namespace orrery::program {
namespace {

using workload::Axis;
using workload::CommKind;
using workload::DType;

constexpr std::int64_t kScalarBytes = 4;

}  // namespace

DataParallel::DataParallel(RoleBuilder& builder, const Job& job, const std::vector<ChunkLayers>& chunks, Part part)
    : b_(builder), job_(job), host_(builder, job), chunks_(chunks), part_(part), axis_(part == Part::kExperts ? Axis::kExpertDp : Axis::kDp),
      group_(part == Part::kExperts ? job.parallelism.expert_dp() : job.parallelism.dp_group()),
      shards_(part == Part::kExperts ? job.parallelism.expert_dp() : job.parallelism.shard_group()) {
  std::size_t root = SIZE_MAX;
  for (const ChunkLayers& chunk : chunks_) {
    std::vector<std::size_t>& unit_of = unit_of_.emplace_back();
    for (const LayerSlot& layer : chunk) {
      parameters_ += own(layer);
      const bool wrapped = layer.passes->kind == workload::LayerKind::kDecoder || !job_.stack.root_unit;
      if (!wrapped && root == SIZE_MAX) root = units_.size();
      const std::size_t unit = wrapped ? units_.size() : root;
      unit_of.push_back(unit);
      if (unit == units_.size()) units_.emplace_back();
      Unit& u = units_[unit];
      u.root = !wrapped;
      u.parameters += own(layer);
      if (part_ == Part::kDense && job_.training.adapter.on()) u.frozen += layer.passes->parameters.frozen_bytes;
      u.tensors.insert(u.tensors.end(), tensors_of(layer).begin(), tensors_of(layer).end());
      ++u.layers;
    }
  }
  for (Unit& unit : units_) make_gathers(unit);
  if (sharded_parameters()) {
    make_units();
  } else {
    make_buckets();
  }
  if (part == Part::kDense && job.model.moe) experts_ = std::make_unique<DataParallel>(builder, job, chunks, Part::kExperts);
}

void DataParallel::make_buckets() {
  const Stack& stack = job_.stack;
  std::int64_t size = INT64_MAX;
  if (stack.bucket_parameters && job_.parallelism.overlap_grad_reduce) size = std::max(*stack.bucket_parameters, stack.bucket_parameters_per_rank * group_);
  for (const ChunkLayers& chunk : chunks_) {
    std::vector<Bucket> list;
    for (std::size_t i = chunk.size(); i-- > 0;) {
      if (own(chunk[i]) == 0) continue;  // a layer without any completes no bucket
      if (list.empty() || list.back().parameters >= size) list.emplace_back();
      list.back().parameters += own(chunk[i]);
      list.back().lowest_layer = i;
    }
    std::erase_if(list, [](const Bucket& b) { return b.parameters == 0; });
    buckets_.push_back(std::move(list));
  }
}

void DataParallel::begin_step() {
  make_states();
  b_.blocks().begin_steps();
  gather_first();
}

void DataParallel::gather_first() {
  const workload::Training& t = job_.training;
  const plan::Parallelism& p = job_.parallelism;
  if (experts_) experts_->gather_first();
  if (sharded_parameters() || p.zero == 0 || group_ == 1 || !p.overlap_param_gather) return;
  // The gather of the parameters that the last step updated overlaps this step's first forward (Megatron overlap_param_gather).
  for (std::vector<Bucket>& list : buckets_) {
    for (std::size_t i = list.size(); i-- > 0;) {
      list[i].gathered = b_.collective(Stream::kParamGather, Request{shard_axis(), CommKind::kAllGather, bytes_of(list[i].parameters, t.param_dtype)});
    }
  }
}

DataParallel::Bucket& DataParallel::bucket_of(std::int32_t chunk, std::size_t layer) {
  std::vector<Bucket>& list = buckets_[static_cast<std::size_t>(chunk)];
  const auto found = std::find_if(list.begin(), list.end(), [&](const Bucket& b) { return b.lowest_layer <= layer; });
  ORRERY_ASSERT(found != list.end(), "every layer with parameters has a bucket");
  return *found;
}

void DataParallel::before_forward(bool first, std::int32_t chunk, std::size_t layer) {
  if (experts_) experts_->before_forward(first, chunk, layer);
  const ChunkLayers& layers = chunks_[static_cast<std::size_t>(chunk)];
  if (sharded_parameters()) {
    use_unit(unit_index(chunk, layer), true);
    for (std::size_t ahead = 1; ahead <= job_.stack.fsdp_prefetch && layer + ahead < layers.size(); ++ahead) gather_unit(unit_index(chunk, layer + ahead));
    return;
  }
  if (first && own(layers[layer]) > 0) b_.wait(bucket_of(chunk, layer).gathered);
}

std::int64_t DataParallel::leaving_bytes(const LayerSlot& layer) const {
  if (layer.full_recompute) return layer.opens_group ? workload::host_share(layer.passes->input_bytes, host_.shares().activations) : 0;
  return layer.passes->leaving_bytes;
}

void DataParallel::leave(bool returns, std::int32_t microbatch, std::int32_t chunk, std::size_t index) {
  const ChunkLayers& layers = chunks_[static_cast<std::size_t>(chunk)];
  const LayerSlot& layer = layers[index];
  const std::int64_t bytes = leaving_bytes(layer);
  if (bytes == 0) return;
  const auto later = layers.begin() + static_cast<std::ptrdiff_t>(index) + 1;
  if (returns && std::none_of(later, layers.end(), [&](const LayerSlot& l) { return leaving_bytes(l) > 0; })) return;
  HostMemory::Leaving what{bytes};
  if (!layer.full_recompute) what = {bytes, true, layer.passes->leave, layer.passes->come_back, b_.handles(index)};
  host_.leave(microbatch, chunk, index, what);
}

void DataParallel::fetch_activations(std::int32_t microbatch, std::int32_t chunk, std::size_t layer) {
  if (host_.shares().activations <= 0) return;
  host_.arrive(microbatch, chunk, layer);
  // One layer ahead, which may be the first of a recomputed group.
  const ChunkLayers& layers = chunks_[static_cast<std::size_t>(chunk)];
  for (std::size_t before = layer; before-- > 0;) {
    if (leaving_bytes(layers[before]) == 0) continue;
    host_.fetch(microbatch, chunk, before);
    return;
  }
}

void DataParallel::after_forward(bool returns, std::int32_t microbatch, std::int32_t chunk, std::size_t layer) {
  if (experts_) experts_->after_forward(returns, microbatch, chunk, layer);
  if (part_ == Part::kDense) leave(returns, microbatch, chunk, layer);
  if (!sharded_parameters()) return;
  const ChunkLayers& layers = chunks_[static_cast<std::size_t>(chunk)];
  const bool last_chunk = static_cast<std::size_t>(chunk) + 1 == chunks_.size();
  if (last_chunk && layer + 1 == layers.size()) free_copied();
  if (!job_.parallelism.reshard_after_forward) return;
  const std::size_t unit = unit_index(chunk, layer);
  // The last unit of the last chunk goes straight into its backward; frameworks keep it (torchtitan: no reshard of the last block).
  bool last = last_chunk;
  for (std::size_t i = layer + 1; i < layers.size(); ++i) last = last && units_[unit_index(chunk, i)].root;
  // FSDP1 does not free its root unit, which holds what no layer wraps: embedding and head (_runtime_utils.py, _post_forward_reshard); nor
  // does FSDP2 (_fsdp_state.py, _lazy_init: the root goes straight into backward).
  const bool root = units_[unit].root || (job_.stack.style == DataParallelStyle::kFsdp1 && layers[layer].passes->kind != workload::LayerKind::kDecoder);
  if (!last && !root) release_unit(unit);
}

void DataParallel::before_backward(bool weights, std::int32_t microbatch, std::int32_t chunk, std::size_t layer) {
  if (part_ == Part::kDense) fetch_activations(microbatch, chunk, layer);
  if (experts_) experts_->before_backward(false, microbatch, chunk, layer);
  if (sharded_parameters() && runs_backward(chunk, layer)) {
    use_unit(unit_index(chunk, layer), false);
    for (std::size_t ahead = 1; ahead <= job_.stack.fsdp_prefetch && ahead <= layer; ++ahead) {
      if (runs_backward(chunk, layer - ahead)) gather_unit(unit_index(chunk, layer - ahead));
    }
  }
  if (weights) before_weights(chunk, layer);
}

void DataParallel::before_weights(std::int32_t chunk, std::size_t layer) {
  if (experts_) experts_->before_weights(chunk, layer);
  if (sharded_parameters()) return;
  if (job_.parallelism.zero == 2 && group_ > 1 && own(chunks_[static_cast<std::size_t>(chunk)][layer]) > 0) {
    Bucket& bucket = bucket_of(chunk, layer);
    if (bucket.held == 0) {
      bucket.held = bytes_of(bucket.parameters, job_.training.grad_dtype);
      b_.allocate(MemoryKind::kGradients, bucket.held);
    }
  }
}

void DataParallel::after_inputs(std::int32_t chunk, std::size_t layer) {
  // Weight gradients come from activations and their gradients alone.
  if (experts_) experts_->after_inputs(chunk, layer);
  if (sharded_parameters() && !units_[unit_index(chunk, layer)].root) release_unit(unit_index(chunk, layer));
}

void DataParallel::free_reduced() { drop(reducing_); }

void DataParallel::reduce(Stream stream, std::int64_t parameters) {
  const DType type = job_.training.grad_reduce_dtype;
  const plan::Parallelism& p = job_.parallelism;
  const bool overlaps = stream != Stream::kCompute;
  std::uint32_t event = overlaps ? b_.compute_done() : kNoEvent;
  if (!scatters()) {
    event = b_.collective(stream, Request{axis_, CommKind::kAllReduce, bytes_of(parameters, type)}, event);
  } else {
    if (shards_ > 1) event = b_.collective(stream, Request{shard_axis(), CommKind::kReduceScatter, bytes_of(parameters, type)}, event);
    // Shards meet across replicas on a stream of their own, so that the next reduction inside does not wait (FSDP2 all_reduce_stream).
    const Request across{Axis::kDpReplicas, CommKind::kAllReduce, bytes_of(shard(parameters), type)};
    if (p.replicas > 1 && part_ == Part::kDense) event = b_.collective(overlaps ? Stream::kReplicaReduce : stream, across, event);
  }
  if (overlaps) reduced_.push_back(event);
}

void DataParallel::reduce(Bucket& bucket) {
  const std::int64_t bytes = bytes_of(bucket.parameters, job_.training.grad_reduce_dtype);
  // Flat copies of what is reduced, one for each rank of the group, and one of the share that comes out live until the next bucket is under way.
  std::vector<std::int64_t> held = {bucket.held};
  if (job_.stack.coalesced_copies && shards_ > 1 && scatters()) {
    const std::int64_t share = (bytes + shards_ - 1) / shards_;
    held.insert(held.end(), static_cast<std::size_t>(shards_) + 1, share);
    b_.account(ItemKind::kAllocate, MemoryKind::kGradients, (shards_ + 1) * share);
    for (std::int64_t i = 0; i <= shards_; ++i) b_.blocks().allocate(MemoryKind::kGradients, share);
  }
  reduce(job_.parallelism.overlap_grad_reduce ? Stream::kGradReduce : Stream::kCompute, bucket.parameters);
  if (host_.shares().optimizer > 0) {
    send_gradients(scatters() ? shard(bucket.parameters) : bucket.parameters, job_.parallelism.overlap_grad_reduce ? reduced_.back() : b_.compute_done());
  }
  free_reduced();
  reducing_ = std::move(held);
  bucket.held = 0;
}

/// Gradients of a two-way pipeline are whole when its mirror rank has added its own.
std::int64_t DataParallel::handed_on(std::int64_t gradients) const {
  return job_.parallelism.placement == plan::Placement::kTwoWay ? 0 : workload::host_share(gradients, job_.training.offload.optimizer);
}

void DataParallel::send_gradients(std::int64_t elements, std::uint32_t event) {
  if (job_.parallelism.placement != plan::Placement::kTwoWay) host_.send_gradients(elements, event);
}

/// Gradients of a layer, tensor by tensor, that stay after its backward pass: until the microbatch ends, or until the update.
void DataParallel::keep_gradients(bool first, const LayerSlot& layer) {
  const workload::Training& t = job_.training;
  if (sharded_parameters()) return;
  const bool sharded = job_.parallelism.zero >= 2;
  if (!job_.stack.gradient_buffer && first) {
    for (const std::int64_t n : tensors_of(layer)) {
      made_.push_back(bytes_of(sharded ? shard(n) : n, t.grad_dtype));
      b_.allocate(MemoryKind::kGradients, made_.back());
    }
  }
  if (!job_.stack.parameter_gradients) return;
  for (const std::int64_t n : tensors_of(layer)) {
    b_.allocate(MemoryKind::kGradients, bytes_of(n, t.param_dtype));
    half_.push_back(bytes_of(n, t.param_dtype));
  }
}

void DataParallel::drop(std::vector<std::int64_t>& gradients) {
  b_.account(ItemKind::kFree, MemoryKind::kGradients, std::accumulate(gradients.begin(), gradients.end(), std::int64_t{0}));
  for (const std::int64_t bytes : gradients) b_.blocks().free(MemoryKind::kGradients, bytes);
  gradients.clear();
}

void DataParallel::after_weights(bool first, bool last, std::int32_t chunk, std::size_t layer) {
  if (experts_) experts_->after_weights(first, last, chunk, layer);
  keep_gradients(first, chunks_[static_cast<std::size_t>(chunk)][layer]);
  if (layer == 0) drop(half_);
  if (sharded_parameters()) {
    Unit& unit = units_[unit_index(chunk, layer)];
    for (const std::int64_t n : tensors_of(chunks_[static_cast<std::size_t>(chunk)][layer])) {
      unit.gradients.push_back(gathered_bytes(n));
      b_.allocate(MemoryKind::kGradients, unit.gradients.back());
    }
    if (++unit.layers_done < unit.layers) return;
    unit.layers_done = 0;
    reduce_unit(unit_index(chunk, layer), first);
    release_unit(unit_index(chunk, layer));
    return;
  }
  const bool reduces = job_.parallelism.zero == 2 || last;
  if (group_ == 1 && reduces && host_.shares().optimizer > 0) {
    for (const Bucket& bucket : buckets_[static_cast<std::size_t>(chunk)]) {
      if (bucket.lowest_layer == layer) send_gradients(bucket.parameters, b_.compute_done());
    }
  }
  if (group_ == 1 || !reduces) return;
  // Without overlap ZeRO 0 and 1 reduce at the end of the step; ZeRO 2 cannot wait, its full gradients are not kept.
  if (!job_.parallelism.overlap_grad_reduce && job_.parallelism.zero != 2) return;
  for (Bucket& bucket : buckets_[static_cast<std::size_t>(chunk)]) {
    if (bucket.lowest_layer == layer) reduce(bucket);
  }
}

/// What no backward pass has reduced, and the wait for all that is in flight.
void DataParallel::reduce_the_rest() {
  if (group_ > 1 && !sharded_parameters() && !job_.parallelism.overlap_grad_reduce && job_.parallelism.zero != 2) {
    for (std::vector<Bucket>& list : buckets_) {
      for (Bucket& bucket : list) reduce(bucket);
    }
  }
  for (const std::uint32_t event : reduced_) b_.wait(event);
  reduced_.clear();
  if (job_.parallelism.placement == plan::Placement::kTwoWay && parameters_ > 0) {
    // The mirror rank holds the same two stages and saw the other half of the microbatches.
    b_.collective(Stream::kCompute, Request{Axis::kMirror, CommKind::kAllReduce, bytes_of(own_updated(), job_.training.grad_reduce_dtype)});
    host_.send_gradients(own_updated(), b_.compute_done());
  }
  if (experts_) experts_->reduce_the_rest();
}

/// Parameters that the ranks of a group have updated in shares, where no forward pass hides their gather.
void DataParallel::gather_updated() {
  const workload::Training& t = job_.training;
  const plan::Parallelism& p = job_.parallelism;
  free_reduced();
  drop(made_);
  // Where parameters do not lie in one buffer their shares are copied into one to be gathered, and each rank's out of another.
  const bool copies = job_.stack.coalesced_copies && p.zero >= 1 && shards_ > 1 && !sharded_parameters() && !p.overlap_param_gather;
  const std::int64_t pieces = copies ? shards_ + 1 : 0, piece = bytes_of(shard(parameters_), t.param_dtype);
  b_.account(ItemKind::kAllocate, MemoryKind::kBuffers, pieces * piece);
  for (std::int64_t i = 0; i < pieces; ++i) b_.blocks().allocate(MemoryKind::kBuffers, piece);
  if (p.zero >= 1 && group_ > 1 && !sharded_parameters() && !p.overlap_param_gather) {
    for (const std::vector<Bucket>& list : buckets_) {
      for (const Bucket& bucket : list) b_.collective(Stream::kCompute, Request{shard_axis(), CommKind::kAllGather, bytes_of(bucket.parameters, t.param_dtype)});
    }
  }
  b_.account(ItemKind::kFree, MemoryKind::kBuffers, pieces * piece);
  for (std::int64_t i = 0; i < pieces; ++i) b_.blocks().free(MemoryKind::kBuffers, piece);
  if (experts_) experts_->gather_updated();
}

void DataParallel::end_step(const Pass& prepare, const Pass& update) {
  const workload::Training& t = job_.training;
  const plan::Parallelism& p = job_.parallelism;
  b_.set_position(-1, -1);
  reduce_the_rest();

  std::int64_t replicated = 0, embedding = 0;
  for (const ChunkLayers& chunk : chunks_) {
    for (const LayerSlot& layer : chunk) {
      replicated += layer.passes->parameters.replicated;
      if (layer.passes->kind != workload::LayerKind::kDecoder) embedding = std::max(embedding, layer.passes->word_embedding);
    }
  }
  // In a V or a two-way pipeline embedding and head share a rank, and so one matrix and its gradient. Prediction modules look tokens up in
  // the table as well, on the last stage.
  if ((job_.model.tied_embeddings || job_.model.mtp_layers > 0) && !t.adapter.on() && p.pp > 1 && p.placement == plan::Placement::kLooped && embedding > 0 && job_.stack.tied_embedding_all_reduce) {
    b_.collective(Stream::kCompute, Request{Axis::kEmbedding, CommKind::kAllReduce, bytes_of(embedding, t.grad_reduce_dtype)});
  }
  // Of norms under sequence parallelism, and of adapters' whole factors, each rank has a part of the sum.
  if (p.tp > 1 && replicated > 0 && (t.adapter.on() || (p.sp && job_.stack.norm_gradient_all_reduce))) {
    b_.collective(Stream::kCompute, Request{Axis::kTp, CommKind::kAllReduce, bytes_of(replicated, t.grad_reduce_dtype)});
  }
  const Axis scope = p.zero >= 1 ? Axis::kWorld : Axis::kModel;
  const bool alone = scope == Axis::kWorld ? p.tp * p.cp * p.pp * p.dp == 1 : p.tp * p.pp == 1;
  const auto agree = [&] {
    if (!alone) b_.collective(Stream::kCompute, Request{scope, CommKind::kAllReduce, kScalarBytes});
    b_.host_sync(b_.compute_done());
  };
  if (t.precision == DType::kFp16 && job_.stack.inf_check) agree();
  b_.host_work(job_.stack.optimizer_us);
  b_.lone_pass(prepare, 0);
  if (job_.stack.grad_norm) agree();
  const std::int64_t buffer = workload::update_buffer_bytes(t, update_shapes());
  if (!job_.stack.states_at_start) make_optimizer_states(true);
  b_.allocate(MemoryKind::kOptimizer, buffer);
  b_.lone_pass(update, 0);
  b_.free(MemoryKind::kOptimizer, buffer);
  host_.update(updated());
  b_.role().host_bytes = t.offload.any() ? host_.bytes(updated(), false) : 0;
  b_.role().drive_bytes = t.offload.any() ? host_.bytes(updated(), true) : 0;
  gather_updated();
  b_.host_work(job_.stack.step_us);
}

}  // namespace orrery::program
