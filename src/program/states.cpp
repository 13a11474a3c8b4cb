// What a rank keeps through the step: parameters, gradients, optimizer states, and the shapes that the optimizer works on.
#include <algorithm>

#include "data_parallel.hpp"

namespace orrery::program {

/// Parameters, copies in fp32 and gradients are made once, tensor by tensor, in this order; gradients in one buffer per chunk.
void DataParallel::make_states() {
  const workload::Training& t = job_.training;
  const plan::Parallelism& p = job_.parallelism;
  const workload::StateBytes states = workload::state_bytes(t);
  const std::int64_t kept = p.zero >= 3 ? shard(parameters_) : parameters_;
  const auto here = [&](double bytes) { return static_cast<std::int64_t>(bytes * (1 - t.offload.optimizer)); };
  const std::int64_t all = static_cast<std::int64_t>(states.master * static_cast<double>(own_updated())) + workload::optimizer_bytes(t, own_shapes());
  b_.account(ItemKind::kAllocate, MemoryKind::kParameters, bytes_of(kept, t.param_dtype) - host_.parameter_bytes(kept));
  b_.account(ItemKind::kAllocate, MemoryKind::kOptimizer, all - workload::host_share(all, t.offload.optimizer));
  for_tensors([&](std::int64_t n) { b_.blocks().allocate(MemoryKind::kParameters, bytes_of(p.zero >= 3 ? shard(n) : n, t.param_dtype) - host_.parameter_bytes(p.zero >= 3 ? shard(n) : n)); });
  // Gradients that are handed on as they are reduced do not stay where the host updates.
  const std::int64_t gone = p.zero >= 2 ? handed_on(own_updated()) : 0;
  if (job_.stack.gradient_buffer) b_.allocate(MemoryKind::kGradients, bytes_of((p.zero >= 2 ? shard(parameters_) : parameters_) - gone, t.grad_dtype));
  if (job_.stack.reduction_buckets && group_ > 1) b_.allocate(MemoryKind::kBuffers, bytes_of(parameters_, t.param_dtype));
  for_tensors([&](std::int64_t n) { b_.blocks().allocate(MemoryKind::kOptimizer, here(states.master * static_cast<double>(p.zero >= 1 ? shard(n) : n))); });
  if (job_.stack.states_at_start) make_optimizer_states(false);
  if (experts_) experts_->make_states();
}

/// Momentum and variance: PyTorch's optimizers, and Apex' and Transformer Engine's, make them in the first update.
void DataParallel::make_optimizer_states(bool first_step) {
  const workload::Training& t = job_.training;
  const bool two = t.optimizer == workload::Optimizer::kAdamW || t.optimizer == workload::Optimizer::kAdamW8bit;
  const int kinds = two ? 2 : 1;
  const bool alike = t.optimizer != workload::Optimizer::kMuon && t.optimizer != workload::Optimizer::kAdafactor;
  // Where matrices keep less than other tensors the sum is right, and each tensor takes its part of it.
  const double each = alike ? workload::state_bytes(t).optimizer
                            : static_cast<double>(workload::optimizer_bytes(t, own_shapes())) / static_cast<double>(std::max<std::int64_t>(1, own_updated()));
  for_tensors([&](std::int64_t n) {
    const double held = static_cast<double>(job_.parallelism.zero >= 1 ? shard(n) : n) * (1 - t.offload.optimizer);
    for (int k = 0; k < kinds; ++k) b_.blocks().allocate(MemoryKind::kOptimizer, static_cast<std::int64_t>(each / kinds * held), 0, first_step);
  });
  if (experts_ && first_step) experts_->make_optimizer_states(true);
}

std::int64_t DataParallel::kept_frozen(const LayerSlot& layer, bool with_embedding) const {
  std::int64_t bytes = layer.passes->parameters.frozen_bytes;
  if (!job_.training.adapter.on()) return bytes;
  if (layer.passes->kind == workload::LayerKind::kHead && job_.model.tied_embeddings && with_embedding) bytes -= gathered_bytes(layer.passes->word_embedding);
  return sharded_parameters() ? shard(bytes) : bytes;
}

/// Of the dense part, or of the experts, alone.
workload::UpdateShapes DataParallel::own_shapes() const {
  workload::UpdateShapes shapes;
  shapes.parameters = parameters_;
  shapes.tensors = 0;
  shapes.shards = job_.parallelism.zero >= 1 ? group_ : 1;
  for (const ChunkLayers& chunk : chunks_) {
    for (const LayerSlot& layer : chunk) {
      const workload::LayerParameters& p = layer.passes->parameters;
      if (part_ == Part::kDense) shapes.tensors += p.vectors;
      const bool shared = layer.parameters < p.total();  // its matrix of the vocabulary is the embedding's, on the same rank
      for (const workload::Matrix& m : p.matrices) {
        if (m.experts != (part_ == Part::kExperts) || (shared && !m.between_layers && m.elements() == layer.passes->word_embedding)) continue;
        shapes.tensors += m.count;
        const auto same = [&](const workload::Matrix& o) { return o.rows == m.rows && o.columns == m.columns && o.between_layers == m.between_layers; };
        const auto found = std::find_if(shapes.matrices.begin(), shapes.matrices.end(), same);
        if (found == shapes.matrices.end()) {
          shapes.matrices.push_back(m);
        } else {
          found->count += m.count;
        }
      }
    }
  }
  shapes.tensors = std::max<std::int64_t>(1, shapes.tensors);
  return shapes;
}

workload::UpdateShapes DataParallel::update_shapes() const {
  workload::UpdateShapes shapes = own_shapes();
  if (!experts_) return shapes;
  const workload::UpdateShapes more = experts_->own_shapes();
  shapes.parameters += more.parameters;
  shapes.tensors += more.tensors;
  shapes.matrices.insert(shapes.matrices.end(), more.matrices.begin(), more.matrices.end());
  return shapes;
}

}  // namespace orrery::program
