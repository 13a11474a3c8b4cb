#include "data_parallel.hpp"

#include <algorithm>
#include <cmath>

#include "orrery/base/assert.hpp"

namespace orrery::program {
namespace {

using workload::Axis;
using workload::CommKind;
using workload::DType;

std::int64_t bytes_of(std::int64_t elements, DType type) { return static_cast<std::int64_t>(std::ceil(static_cast<double>(elements) * workload::element_bytes(type))); }

constexpr std::int64_t kScalarBytes = 4;

}  // namespace

DataParallel::DataParallel(RoleBuilder& builder, const Job& job, const std::vector<ChunkLayers>& chunks, std::int64_t microbatches)
    : b_(builder), job_(job), chunks_(chunks), microbatches_(microbatches), group_(job.parallelism.dp * job.parallelism.cp) {
  for (const ChunkLayers& chunk : chunks_) {
    first_unit_.push_back(units_.size());
    for (const LayerSlot& layer : chunk) {
      parameters_ += layer.parameters;
      Unit unit;
      unit.parameters = layer.parameters;
      units_.push_back(unit);
    }
  }
  if (sharded_parameters()) {
    make_units();
  } else {
    make_buckets();
  }
}

std::int64_t DataParallel::gathered_bytes(std::int64_t parameters) const { return bytes_of(parameters, job_.training.activation_dtype); }

void DataParallel::make_buckets() {
  const Stack& stack = job_.stack;
  std::int64_t size = INT64_MAX;
  if (stack.bucket_parameters && job_.parallelism.overlap_grad_reduce) size = std::max(*stack.bucket_parameters, stack.bucket_parameters_per_rank * group_);
  for (const ChunkLayers& chunk : chunks_) {
    std::vector<Bucket> list;
    for (std::size_t i = chunk.size(); i-- > 0;) {
      if (list.empty() || list.back().parameters >= size) list.emplace_back();
      list.back().parameters += chunk[i].parameters;
      list.back().lowest_layer = i;
    }
    std::erase_if(list, [](const Bucket& b) { return b.parameters == 0; });
    buckets_.push_back(std::move(list));
  }
}

void DataParallel::make_units() {
  if (!job_.stack.fsdp_copies) return;
  for (Unit& unit : units_) {
    if (unit.parameters == 0) continue;
    const auto copy = [&](const char* name, std::int64_t read, std::int64_t write, Phase phase) {
      workload::Stream stream{workload::StreamKind::kCopy, read, write, 1};
      b_.role().segments.push_back(Segment{name, phase, {workload::Operation{name, stream}}, job_.stack.forward_op_us});
      return static_cast<std::uint32_t>(b_.role().segments.size() - 1);
    };
    const std::int64_t compute = gathered_bytes(unit.parameters);
    unit.copy_out = copy("fsdp copy out", compute, compute, Phase::kForward);
    unit.copy_in = copy("fsdp copy in", compute, bytes_of(unit.parameters, job_.training.grad_reduce_dtype), Phase::kBackward);
  }
}

void DataParallel::begin_step() {
  const workload::Training& t = job_.training;
  const plan::Parallelism& p = job_.parallelism;
  const workload::StateBytes states = workload::state_bytes(t);
  const std::int64_t kept = p.zero >= 3 ? shard(parameters_) : parameters_;
  b_.allocate(MemoryKind::kParameters, bytes_of(kept, t.param_dtype));
  b_.allocate(MemoryKind::kGradients, bytes_of(p.zero >= 2 ? shard(parameters_) : parameters_, t.grad_dtype));
  b_.allocate(MemoryKind::kOptimizer, static_cast<std::int64_t>((states.master + states.optimizer) * static_cast<double>(p.zero >= 1 ? shard(parameters_) : parameters_)));
  if (sharded_parameters() || p.zero == 0 || group_ == 1 || !p.overlap_param_gather) return;
  // The gather of the parameters that the last step updated overlaps this step's first forward (Megatron overlap_param_gather).
  for (std::vector<Bucket>& list : buckets_) {
    for (std::size_t i = list.size(); i-- > 0;) {
      list[i].gathered = b_.collective(Stream::kParamGather, Request{Axis::kDp, CommKind::kAllGather, bytes_of(list[i].parameters, t.param_dtype)});
    }
  }
}

DataParallel::Bucket& DataParallel::bucket_of(std::int32_t chunk, std::size_t layer) {
  std::vector<Bucket>& list = buckets_[static_cast<std::size_t>(chunk)];
  const auto found = std::find_if(list.begin(), list.end(), [&](const Bucket& b) { return b.lowest_layer <= layer; });
  ORRERY_ASSERT(found != list.end(), "every layer with parameters has a bucket");
  return *found;
}

void DataParallel::gather_unit(std::size_t unit) {
  Unit& u = units_[unit];
  if (u.parameters == 0 || u.resident || u.gathered != kNoEvent) return;
  b_.allocate(MemoryKind::kBuffers, gathered_bytes(u.parameters));
  u.gathered = b_.collective(Stream::kParamGather, Request{Axis::kDp, CommKind::kAllGather, gathered_bytes(u.parameters)}, last_copied_);
}

void DataParallel::use_unit(std::size_t unit) {
  Unit& u = units_[unit];
  if (u.parameters == 0 || u.resident) return;
  gather_unit(unit);
  b_.wait(u.gathered);
  if (u.copy_out != kNone32) {
    b_.allocate(MemoryKind::kBuffers, gathered_bytes(u.parameters));
    b_.segment(u.copy_out);
    b_.free(MemoryKind::kBuffers, gathered_bytes(u.parameters));
  }
  last_copied_ = b_.compute_done();
  u.gathered = kNoEvent;
  u.resident = true;
}

void DataParallel::release_unit(std::size_t unit) {
  Unit& u = units_[unit];
  if (!u.resident) return;
  b_.free(MemoryKind::kBuffers, gathered_bytes(u.parameters));
  u.resident = false;
}

void DataParallel::before_forward(std::int32_t microbatch, std::int32_t chunk, std::size_t layer) {
  const ChunkLayers& layers = chunks_[static_cast<std::size_t>(chunk)];
  if (sharded_parameters()) {
    use_unit(unit_index(chunk, layer));
    for (std::size_t ahead = 1; ahead <= job_.stack.fsdp_prefetch && layer + ahead < layers.size(); ++ahead) gather_unit(unit_index(chunk, layer + ahead));
    return;
  }
  if (microbatch == 0 && layers[layer].parameters > 0) b_.wait(bucket_of(chunk, layer).gathered);
}

void DataParallel::after_forward(std::int32_t, std::int32_t chunk, std::size_t layer) {
  if (!sharded_parameters() || !job_.parallelism.reshard_after_forward) return;
  // The last unit of the last chunk goes straight into its backward; frameworks keep it (torchtitan: no reshard of the last block).
  const bool last = static_cast<std::size_t>(chunk) + 1 == chunks_.size() && layer + 1 == chunks_.back().size();
  // FSDP1 does not free its root unit, which holds what no layer wraps: embedding and head (_runtime_utils.py, _post_forward_reshard).
  const bool root = job_.stack.style == DataParallelStyle::kFsdp1 && chunks_[static_cast<std::size_t>(chunk)][layer].passes->kind != workload::LayerKind::kDecoder;
  if (!last && !root) release_unit(unit_index(chunk, layer));
}

void DataParallel::before_backward(std::int32_t, std::int32_t chunk, std::size_t layer) {
  const ChunkLayers& layers = chunks_[static_cast<std::size_t>(chunk)];
  if (sharded_parameters()) {
    use_unit(unit_index(chunk, layer));
    for (std::size_t ahead = 1; ahead <= job_.stack.fsdp_prefetch && ahead <= layer; ++ahead) gather_unit(unit_index(chunk, layer - ahead));
    b_.allocate(MemoryKind::kGradients, gathered_bytes(layers[layer].parameters));
    return;
  }
  if (job_.parallelism.zero == 2 && group_ > 1 && layers[layer].parameters > 0) {
    Bucket& bucket = bucket_of(chunk, layer);
    if (bucket.held == 0) {
      bucket.held = bytes_of(bucket.parameters, job_.training.grad_dtype);
      b_.allocate(MemoryKind::kGradients, bucket.held);
    }
  }
}

void DataParallel::free_reduced() {
  b_.free(MemoryKind::kGradients, reducing_bytes_);
  reducing_bytes_ = 0;
}

void DataParallel::reduce(Bucket& bucket) {
  const workload::Training& t = job_.training;
  const CommKind kind = job_.parallelism.zero >= 1 ? CommKind::kReduceScatter : CommKind::kAllReduce;
  const Request request{Axis::kDp, kind, bytes_of(bucket.parameters, t.grad_reduce_dtype)};
  if (job_.parallelism.overlap_grad_reduce) {
    reduced_.push_back(b_.collective(Stream::kGradReduce, request, b_.compute_done()));
  } else {
    b_.collective(Stream::kCompute, request);
  }
  free_reduced();
  reducing_bytes_ = bucket.held;
  bucket.held = 0;
}

void DataParallel::reduce_unit(std::size_t unit) {
  const Unit& u = units_[unit];
  if (u.parameters == 0) return;
  const std::int64_t reduce_bytes = bytes_of(u.parameters, job_.training.grad_reduce_dtype);
  free_reduced();
  b_.allocate(MemoryKind::kGradients, reduce_bytes);
  if (u.copy_in != kNone32) b_.segment(u.copy_in);
  b_.free(MemoryKind::kGradients, gathered_bytes(u.parameters));
  reducing_bytes_ = reduce_bytes;
  reduced_.push_back(b_.collective(Stream::kGradReduce, Request{Axis::kDp, CommKind::kReduceScatter, reduce_bytes}, b_.compute_done()));
}

void DataParallel::after_backward(std::int32_t microbatch, std::int32_t chunk, std::size_t layer) {
  if (sharded_parameters()) {
    reduce_unit(unit_index(chunk, layer));
    release_unit(unit_index(chunk, layer));
    return;
  }
  const bool reduces = job_.parallelism.zero == 2 || microbatch + 1 == microbatches_;
  if (group_ == 1 || !reduces) return;
  // Without overlap ZeRO 0 and 1 reduce at the end of the step; ZeRO 2 cannot wait, its full gradients are not kept.
  if (!job_.parallelism.overlap_grad_reduce && job_.parallelism.zero != 2) return;
  for (Bucket& bucket : buckets_[static_cast<std::size_t>(chunk)]) {
    if (bucket.lowest_layer == layer) reduce(bucket);
  }
}

void DataParallel::end_step(const std::vector<std::uint32_t>& optimizer_segments) {
  const workload::Training& t = job_.training;
  const plan::Parallelism& p = job_.parallelism;
  b_.set_position(-1, -1);
  if (group_ > 1 && !sharded_parameters() && !p.overlap_grad_reduce && p.zero != 2) {
    for (std::vector<Bucket>& list : buckets_) {
      for (Bucket& bucket : list) reduce(bucket);
    }
  }
  for (const std::uint32_t event : reduced_) b_.wait(event);
  reduced_.clear();

  std::int64_t replicated = 0, embedding = 0;
  for (const ChunkLayers& chunk : chunks_) {
    for (const LayerSlot& layer : chunk) {
      replicated += layer.passes->parameters.replicated;
      if (layer.passes->kind != workload::LayerKind::kDecoder) embedding = std::max(embedding, layer.passes->word_embedding);
    }
  }
  if (job_.model.tied_embeddings && p.pp > 1 && embedding > 0 && job_.stack.tied_embedding_all_reduce) {
    b_.collective(Stream::kCompute, Request{Axis::kEmbedding, CommKind::kAllReduce, bytes_of(embedding, t.grad_reduce_dtype)});
  }
  if (p.sp && p.tp > 1 && replicated > 0 && job_.stack.norm_gradient_all_reduce) {
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
  // The first segments are the gradient's (scale, norm); the norm's agreement stands before the update.
  for (std::size_t i = 0; i < optimizer_segments.size(); ++i) {
    if (i + 1 == optimizer_segments.size() && job_.stack.grad_norm) agree();
    b_.segment(optimizer_segments[i]);
  }
  free_reduced();
  if (p.zero >= 1 && group_ > 1 && !sharded_parameters() && !p.overlap_param_gather) {
    for (const std::vector<Bucket>& list : buckets_) {
      for (const Bucket& bucket : list) b_.collective(Stream::kCompute, Request{Axis::kDp, CommKind::kAllGather, bytes_of(bucket.parameters, t.param_dtype)});
    }
  }
  b_.host_work(job_.stack.step_us);
}

}  // namespace orrery::program
