#include "orrery/program/build.hpp"

#include <algorithm>

#include "data_parallel.hpp"
#include "orrery/base/assert.hpp"
#include "pipeline.hpp"
#include "role_builder.hpp"

namespace orrery::program {
namespace {

using workload::LayerKind;

/// Which layers of a chunk are recomputed whole: all, or `layers` of a stage by "uniform" groups or the first as a "block"
/// (Megatron --recompute-method: uniform keeps one input per group of N layers, block recomputes the first N layers one by one).
struct FullRecompute {
  bool block = false;
  std::int64_t layers = 1;
  std::int64_t budget = INT64_MAX;  ///< layers of the stage still to recompute (block)
};

ChunkLayers make_chunk(const plan::Chunk& chunk, const LayerPasses* passes, const workload::Training& training, FullRecompute& full, std::int64_t tied_here) {
  ChunkLayers out;
  const auto add = [&](LayerKind kind) {
    LayerSlot slot;
    slot.passes = &passes[static_cast<std::size_t>(kind)];
    slot.parameters = slot.passes->parameters.total();
    out.push_back(slot);
  };
  if (chunk.embedding) add(LayerKind::kEmbedding);
  const bool whole = training.recompute.mode == workload::RecomputeMode::kFull;
  for (std::int64_t i = 0; i < chunk.layers; ++i) {
    add(LayerKind::kDecoder);
    LayerSlot& slot = out.back();
    if (!whole) continue;
    if (full.block) {
      slot.full_recompute = full.budget > 0;
      slot.opens_group = true;
      --full.budget;
    } else {
      slot.full_recompute = true;
      slot.opens_group = i % full.layers == 0;
    }
  }
  if (chunk.head) {
    add(LayerKind::kHead);
    out.back().parameters -= tied_here;  // one matrix with the embedding on the same rank
  }
  return out;
}

std::int64_t largest_weight(const Job& job) {
  const workload::Model& m = job.model;
  const std::int64_t t = job.parallelism.tp;
  const std::int64_t mlp = m.hidden * m.ffn_hidden * (m.gated_mlp ? 2 : 1);
  const std::int64_t qkv = m.hidden * m.head_dim * (m.heads + 2 * m.kv_heads);
  return std::max({mlp, qkv, m.hidden * m.vocab}) / t;
}

}  // namespace

Program build(const Job& job) {
  const plan::Parallelism& p = job.parallelism;
  workload::Shard shard;
  shard.micro_batch = job.training.micro_batch;
  shard.sequence = job.training.sequence_length;
  shard.tp = p.tp;
  shard.cp = p.cp;
  shard.sequence_parallel = p.sp;
  shard.vocab_multiple = job.stack.vocab_multiple;
  shard.gradient_buffer = p.zero < 3;
  // Layers that are recomputed whole run their ordinary passes twice; the layer itself keeps everything.
  workload::Training training = job.training;
  if (training.recompute.mode == workload::RecomputeMode::kFull) training.recompute = {};
  const double forward_us = training.cuda_graphs ? job.stack.graph_node_us : job.stack.forward_op_us;
  const double backward_us = training.cuda_graphs ? job.stack.graph_node_us : job.stack.backward_op_us;

  Program program;
  program.run_ahead = job.stack.run_ahead;
  const std::int64_t microbatches = plan::microbatches(p, job.training);
  for (std::int64_t stage = 0; stage < p.pp; ++stage) {
    Role role;
    role.stage = stage;
    LayerPasses passes[3];
    for (const LayerKind kind : {LayerKind::kEmbedding, LayerKind::kDecoder, LayerKind::kHead}) {
      passes[static_cast<std::size_t>(kind)] =
          make_layer_passes(workload::make_layer(kind, job.model, training, shard, job.kernels), forward_us, backward_us, role.segments, program.requests);
    }
    for (const LayerKind kind : {LayerKind::kEmbedding, LayerKind::kHead}) {
      passes[static_cast<std::size_t>(kind)].word_embedding = workload::word_embedding_parameters(job.model, shard);
    }
    FullRecompute full;
    full.block = job.training.recompute.block;
    if (job.training.recompute.layers) (full.block ? full.budget : full.layers) = *job.training.recompute.layers;
    std::vector<ChunkLayers> chunks;
    bool has_embedding = false;
    for (std::int64_t c = 0; c < p.vp; ++c) {
      const plan::Chunk chunk = plan::chunk_of(p, stage, c);
      has_embedding = has_embedding || chunk.embedding;
      role.layers += chunk.layers;
      const bool tied_here = job.model.tied_embeddings && has_embedding;
      chunks.push_back(make_chunk(chunk, passes, job.training, full, tied_here ? workload::word_embedding_parameters(job.model, shard) : 0));
    }
    RoleBuilder builder(role, program.requests, job.stack);
    DataParallel data_parallel(builder, job, chunks, microbatches);
    role.parameters = data_parallel.parameters();

    // Runtime buffers that live for the whole step: library workspaces and a gradient of the largest weight (modelling 5.6).
    builder.allocate(MemoryKind::kBuffers, static_cast<std::int64_t>(job.stack.workspace_gib * static_cast<double>(kGiB)));
    if (job.stack.weight_gradient_buffer) builder.allocate(MemoryKind::kBuffers, 2 * largest_weight(job));
    data_parallel.begin_step();
    if (job.stack.parameter_gradients) {
      builder.allocate(MemoryKind::kGradients, static_cast<std::int64_t>(workload::element_bytes(job.training.param_dtype) * static_cast<double>(role.parameters)));
    }
    Pipeline(builder, data_parallel, job, chunks, stage).run(plan::schedule_order(p, stage, microbatches));

    const std::int64_t group = p.dp * p.cp;
    const std::int64_t updated = p.zero >= 1 ? (role.parameters + group - 1) / group : role.parameters;
    const std::int64_t gradients = p.zero >= 3 ? updated : role.parameters;
    std::vector<workload::Operation> prepare, update;
    for (workload::Operation& op : workload::optimizer_operations(job.training, job.kernels, gradients, updated)) {
      const auto* stream = std::get_if<workload::Stream>(&op.work);
      (stream != nullptr && stream->kind == workload::StreamKind::kOptimizer ? update : prepare).push_back(std::move(op));
    }
    std::vector<std::uint32_t> segments;
    for (auto* list : {&prepare, &update}) {
      if (list->empty()) continue;
      segments.push_back(static_cast<std::uint32_t>(role.segments.size()));
      role.segments.push_back(Segment{list == &prepare ? "gradient norm and scale" : "optimizer", Phase::kOptimizer, std::move(*list), job.stack.forward_op_us});
    }
    data_parallel.end_step(segments);
    program.roles.push_back(std::move(role));
  }
  return program;
}

double hardware_flops(const Program& program, const plan::Parallelism& p) {
  double total = 0;
  for (const Role& role : program.roles) {
    double flops = 0;
    for (const Item& item : role.items) {
      if (item.kind != ItemKind::kSegment) continue;
      for (const workload::Operation& op : role.segments[item.index].operations) {
        if (const auto* gemm = std::get_if<workload::Gemm>(&op.work)) flops += gemm->flops().value();
        if (const auto* attention = std::get_if<workload::Attention>(&op.work)) flops += attention->flops().value();
      }
    }
    total += flops * static_cast<double>(p.tp * p.cp * p.dp);
  }
  return total;
}

}  // namespace orrery::program
