#include "orrery/program/build.hpp"

#include <algorithm>
#include <deque>
#include <set>

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

/// The passes of a role's layers: one set for each kind of layer that differs.
class PassTable {
 public:
  PassTable(const Job& job, const workload::Training& training, const workload::Shard& shard, Role& role, std::vector<Request>& requests, bool split)
      : job_(job), training_(training), shard_(shard), role_(role), requests_(requests), split_(split) {}

  const LayerPasses& of(LayerKind kind, const workload::Block& block) {
    for (const Entry& e : entries_) {
      if (e.passes.kind == kind && e.block == block) return e.passes;
    }
    const double forward_us = training_.cuda_graphs ? job_.stack.graph_node_us : job_.stack.forward_op_us;
    const double backward_us = training_.cuda_graphs ? job_.stack.graph_node_us : job_.stack.backward_op_us;
    // Of prediction modules no more than a part is recomputed whole, which the layer writes itself.
    const workload::Training& training = kind == LayerKind::kPrediction ? job_.training : training_;
    const workload::Layer layer = workload::make_layer(kind, job_.model, training, shard_, job_.kernels, block);
    entries_.push_back({block, make_layer_passes(layer, forward_us, backward_us, role_, requests_, split_, kind == LayerKind::kDecoder ? training_.offload.activations : 0)});
    entries_.back().passes.parameter_tensors = workload::parameter_tensors(kind, job_.model, shard_, job_.kernels.fused_projections, block);
    entries_.back().passes.expert_tensors = workload::expert_tensors(job_.model, shard_, job_.kernels.fused_projections, block);
    if (kind == LayerKind::kPrediction) repeat(entries_.back().passes.expert_tensors, job_.model.mtp_layers);
    if (training_.adapter.on()) take_adapters(entries_.back().passes);
    if (kind != LayerKind::kDecoder) entries_.back().passes.word_embedding = workload::word_embedding_parameters(job_.model, shard_);
    return entries_.back().passes;
  }

 private:
  static void repeat(std::vector<std::int64_t>& tensors, std::int64_t times) {
    const std::vector<std::int64_t> once = tensors;
    for (std::int64_t i = 1; i < times; ++i) tensors.insert(tensors.end(), once.begin(), once.end());
  }

  /// Of adapters every factor is a tensor, and none of the layer's own is trained.
  static void take_adapters(LayerPasses& passes) {
    passes.parameter_tensors.clear();
    passes.expert_tensors.clear();
    for (const workload::Matrix& m : passes.parameters.matrices) passes.parameter_tensors.push_back(m.elements());
  }

  struct Entry {
    workload::Block block;
    LayerPasses passes;
  };
  const Job& job_;
  const workload::Training& training_;
  const workload::Shard& shard_;
  Role& role_;
  std::vector<Request>& requests_;
  bool split_;
  std::deque<Entry> entries_;  // slots point into it
};

/// Matrices of the vocabulary that stand on a rank once, though two of its layers use them: elements that the second has none of.
struct SharedTables {
  std::int64_t head = 0, prediction = 0;
};

ChunkLayers make_chunk(const plan::Chunk& chunk, PassTable& passes, const workload::Model& model, const workload::Training& training, FullRecompute& full,
                       const SharedTables& shared) {
  ChunkLayers out;
  const auto add = [&](LayerKind kind, const workload::Block& block = {}) {
    LayerSlot slot;
    slot.passes = &passes.of(kind, block);
    slot.parameters = slot.passes->parameters.total();
    slot.tensors = slot.passes->parameter_tensors;
    slot.experts = slot.passes->parameters.experts;
    slot.expert_tensors = slot.passes->expert_tensors;
    out.push_back(slot);
  };
  if (chunk.embedding) add(LayerKind::kEmbedding);
  const bool whole = training.recompute.mode == workload::RecomputeMode::kFull;
  for (std::int64_t i = 0; i < chunk.layers; ++i) {
    add(LayerKind::kDecoder, workload::block_of(model, chunk.first_layer + i));
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
  const auto share = [&](std::int64_t table) {
    out.back().parameters -= table;
    if (table > 0) out.back().tensors.erase(out.back().tensors.begin());
  };
  if (chunk.head && model.mtp_layers > 0) {
    add(LayerKind::kPrediction, workload::block_of(model, model.layers - 1));
    share(shared.prediction);
  }
  if (chunk.head) {
    add(LayerKind::kHead);
    share(shared.head);
  }
  return out;
}

/// Elements of the matrices of a stage's decoder layers, one of every size. Where the weight-gradient GEMM adds to the main gradient itself,
/// autograd still has to be handed a gradient: Transformer Engine keeps a dummy of every shape for that (module/base.py, get_dummy_wgrad).
std::set<std::int64_t> matrix_sizes(const std::vector<ChunkLayers>& chunks) {
  std::set<std::int64_t> sizes;
  for (const ChunkLayers& chunk : chunks) {
    for (const LayerSlot& layer : chunk) {
      // The last tensor stands for what is no matrix.
      if (layer.passes->kind == LayerKind::kDecoder && !layer.tensors.empty()) sizes.insert(layer.tensors.begin(), layer.tensors.end() - 1);
      sizes.insert(layer.expert_tensors.begin(), layer.expert_tensors.end());
    }
  }
  return sizes;
}

bool splits(const std::vector<std::vector<plan::ScheduleEntry>>& orders) {
  return std::any_of(orders.begin(), orders.end(), [](const auto& order) {
    return std::any_of(order.begin(), order.end(), [](const plan::ScheduleEntry& e) { return e.pass == plan::Pass::kInput; });
  });
}

}  // namespace

workload::Shard shard_of(const Job& job) {
  const plan::Parallelism& p = job.parallelism;
  workload::Shard shard;
  shard.micro_batch = job.training.micro_batch;
  shard.sequence = job.training.sequence_length;
  shard.tp = p.tp;
  shard.cp = p.cp;
  shard.cp_method = p.cp_method;
  shard.dp = p.dp * p.cp;
  shard.ep = p.ep;
  shard.etp = p.etp;
  shard.dispatch = p.ep_dispatch;
  shard.sequence_parallel = p.sp;
  shard.tp_overlap = p.overlap_tp;
  shard.overlap_shared_experts = p.overlap_shared_experts;
  shard.vocab_multiple = job.stack.vocab_multiple;
  shard.gradient_buffer = p.zero < 3;
  // Gathered parameters come anew for every pass, and a copy that stayed would undo the sharding.
  shard.keeps_quantised_weights = job.kernels.quantised_weights_kept && p.zero < 3;
  return shard;
}

Program build(const Job& job) {
  const plan::Parallelism& p = job.parallelism;
  const workload::Shard first = shard_of(job);
  // Layers that are recomputed whole run their ordinary passes twice; the layer itself keeps everything.
  workload::Training training = job.training;
  if (training.recompute.mode == workload::RecomputeMode::kFull) training.recompute = {};

  Program program;
  program.run_ahead = job.stack.run_ahead;
  const workload::Variation varies = workload::varies(job.model, job.training, first);
  if (varies.by_cp) program.cp_variants = p.cp;
  if (varies.by_ep) program.ep_variants = p.ep;
  const std::int64_t microbatches = plan::microbatches(p, job.training);
  const std::vector<std::vector<plan::ScheduleEntry>> orders = plan::schedule_orders(p, microbatches);
  program.pipeline = plan::shape_of(p, microbatches);
  const bool split = splits(orders);
  for (std::int64_t index = 0; index < p.pp * program.variants(); ++index) {
    Role role;
    role.stage = index / program.variants();
    role.variant = index % program.variants();
    const std::int64_t stage = role.stage;
    workload::Shard shard = first;
    shard.cp_rank = role.variant / program.ep_variants;
    shard.ep_rank = role.variant % program.ep_variants;
    PassTable passes(job, training, shard, role, program.requests, split);
    FullRecompute full;
    full.block = job.training.recompute.block;
    if (job.training.recompute.layers) (full.block ? full.budget : full.layers) = *job.training.recompute.layers;
    std::vector<ChunkLayers> chunks;
    bool has_embedding = false;
    for (std::int64_t c = 0; c < plan::chunks_per_rank(p); ++c) has_embedding = has_embedding || plan::chunk_of(p, stage, c).embedding;
    for (std::int64_t c = 0; c < plan::chunks_per_rank(p); ++c) {
      const plan::Chunk chunk = plan::chunk_of(p, stage, c);
      role.layers += chunk.layers;
      // A tied head is the embedding where both are on one rank. Modules look tokens up in the embedding, in the tied head, or in a copy.
      const std::int64_t table = workload::word_embedding_parameters(job.model, shard);
      // Frozen tables have no gradients to share.
      const bool trained = !job.training.adapter.on();
      const SharedTables shared{trained && job.model.tied_embeddings && has_embedding ? table : 0, trained && (job.model.tied_embeddings || has_embedding) ? table : 0};
      chunks.push_back(make_chunk(chunk, passes, job.model, job.training, full, shared));
    }
    RoleBuilder builder(role, program.requests, job.stack, p);
    DataParallel data_parallel(builder, job, chunks);
    role.parameters = data_parallel.parameters();

    // Runtime buffers that live for the whole job: library workspaces and dummy gradients.
    builder.allocate(MemoryKind::kBuffers, static_cast<std::int64_t>(job.stack.workspace_gib * static_cast<double>(kGiB)));
    if (job.stack.weight_gradient_buffer) {
      const auto element = static_cast<std::int64_t>(workload::element_bytes(job.training.activation_dtype));
      for (const std::int64_t n : matrix_sizes(chunks)) builder.allocate(MemoryKind::kBuffers, element * n);
    }
    for (const ChunkLayers& chunk : chunks) {
      for (const LayerSlot& layer : chunk) {
        builder.allocate(MemoryKind::kParameters, layer.passes->weight_copies);
        // Weights that no data-parallel rank shares or none trains.
        builder.allocate(MemoryKind::kParameters, data_parallel.kept_frozen(layer, has_embedding));
        builder.allocate(MemoryKind::kParameters, layer.passes->parameters.table_bytes);
      }
    }
    data_parallel.begin_step();
    Pipeline(builder, data_parallel, job, chunks, stage).run(orders[static_cast<std::size_t>(stage)]);

    const std::int64_t updated = data_parallel.updated();
    const std::int64_t gradients = p.zero >= 3 ? updated : role.parameters;
    std::vector<workload::Operation> prepare, update;
    // The update begins behind the gradients' norm.
    bool normed = false;
    for (workload::Operation& op : workload::optimizer_operations(job.training, job.kernels, gradients, updated, data_parallel.update_shapes())) {
      const bool norm = op.name == "grad_norm";
      (normed ? update : prepare).push_back(std::move(op));
      normed = normed || norm;
    }
    const auto pass = [&](const char* name, const std::vector<workload::Operation>& operations) {
      return make_pass(name, Phase::kOptimizer, job.stack.forward_op_us, operations, {}, role, program.requests);
    };
    data_parallel.end_step(pass("gradient norm and scale", prepare), pass("optimizer", update));
    program.roles.push_back(std::move(role));
  }
  return program;
}

double hardware_flops(const Program& program, const plan::Parallelism& p) {
  double total = 0;
  for (const Role& role : program.roles) {
    double flops = 0;
    for (const Item& item : role.items) {
      // Products of an optimizer (Muon) train no token: MFU and HFU leave them out alike.
      if (item.kind != ItemKind::kSegment || role.segments[item.index].phase == Phase::kOptimizer) continue;
      for (const workload::Operation& op : role.segments[item.index].operations) {
        flops += op.flops().value();
      }
    }
    total += flops * static_cast<double>(p.tp * p.cp * p.dp) / static_cast<double>(program.variants());
  }
  return total;
}

}  // namespace orrery::program
