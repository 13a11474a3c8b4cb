// orrery/stack/1: what a framework really does, as data (design 5.6). Each member is something one could observe in a profiler; none is a
// correction factor. Where no source is given beside a default, it is PyTorch's or CUDA's own and modelling sections 5.5, 8.4, 8.6, 9 say
// why it is there.
#include "document/description.hpp"

namespace orrery::document {
namespace {

/// 6 rather than 6.0 in the resolved document, as a person would write it.
Value plain(double d) { return d == static_cast<double>(static_cast<std::int64_t>(d)) ? Value(static_cast<std::int64_t>(d)) : Value(d); }

/// "compute" is the 16-bit (or 32-bit) type that the precision computes in.
Type stored_dtype() { return choice({{"compute"}, {"fp32"}, {"fp16"}, {"bf16"}}); }

/// One dtype for all, or one per precision where the framework tells them apart (Megatron accumulates bf16 in fp32, fp16 in fp16).
Type stored_dtype_by_precision() {
  std::vector<Member> by_precision;
  for (const char* precision : {"fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "mxfp6", "fp4"}) by_precision.push_back(member(precision, stored_dtype(), "under this precision").otherwise("compute"));
  return either({stored_dtype(), object(std::move(by_precision))});
}

/// One habit for all schedules, or one per schedule (Megatron overlaps only under the interleaved one).
Type p2p() {
  const Type way = choice({{"blocking"}, {"overlapped"}});
  std::vector<Member> by_schedule;
  for (const char* schedule : {"gpipe", "1f1b", "interleaved_1f1b", "bfs", "zb_h1", "zb_h2", "zb_v", "v_half", "v_min", "dualpipe", "dualpipe_v"}) by_schedule.push_back(member(schedule, way, "under this schedule").otherwise("overlapped"));
  return either({way, object(std::move(by_schedule))});
}

Type defaults() {
  return object({
      member("sp", boolean(), "parallelism.sp").otherwise(true),
      member("p2p", p2p(), "parallelism.p2p").otherwise("overlapped"),
      member("attention", choice({{"flash"}, {"math"}}), "training.attention").otherwise("flash"),
      member("fusion", choice({{"none"}, {"framework"}, {"compiled"}}), "training.fusion").otherwise("framework"),
      member("optimizer", choice({{"sgd"}, {"momentum"}, {"adamw"}, {"adamw_8bit"}, {"adafactor"}, {"muon"}}), "training.optimizer").otherwise("adamw"),
      member("param_dtype", stored_dtype_by_precision(), "training.param_dtype").otherwise("compute"),
      member("master_weights", boolean(), "training.master_weights").otherwise(true),
      member("master_dtype", choice({{"fp32"}, {"fp16"}, {"remainder"}}), "training.master_dtype").otherwise("fp32"),
      member("optimizer_dtype", choice({{"fp32"}, {"bf16"}, {"fp16"}, {"fp8"}}), "training.optimizer_dtype"),
      member("grad_dtype", stored_dtype_by_precision(), "training.grad_dtype").otherwise("fp32"),
      member("grad_reduce_dtype", stored_dtype_by_precision(), "training.grad_reduce_dtype").otherwise("fp32"),
      member("fp8_recipe", choice({{"delayed"}, {"current"}, {"block128"}}), "training.fp8_recipe").otherwise("delayed"),
      member("overlap", object({
          member("grad_reduce", boolean(), "parallelism.overlap.grad_reduce").otherwise(true),
          member("param_gather", boolean(), "parallelism.overlap.param_gather").otherwise(true),
          member("tp", either({just_false(), choice({{"bulk"}, {"pipelined"}, {"ring"}})}), "parallelism.overlap.tp").otherwise(false),
          member("ep", boolean(), "parallelism.overlap.ep").otherwise(false),
          member("shared_experts", boolean(), "parallelism.overlap.shared_experts").otherwise(false),
      }), "parallelism.overlap"),
      member("reshard_after_forward", boolean(), "parallelism.reshard_after_forward").otherwise(true),
      member("ep_dispatch", choice({{"all_to_all"}, {"hierarchical"}, {"deepep"}, {"all_gather"}}), "parallelism.ep_dispatch").otherwise("all_to_all"),
  });
}

Type kernels() {
  const Type module = choice({{"core_attn"}, {"norm"}, {"mlp_act"}, {"moe_act"}, {"mla_up_proj"}, {"mlp"}, {"matmul_every_other"}});
  return object({
      member("attention_kernel", choice({{"fa1"}, {"fa2"}, {"fa3"}, {"cudnn"}, {"math"}}), "kernel behind attention \"flash\"").otherwise("fa2"),
      member("fused_norm", boolean(), "a norm is one kernel").otherwise(true),
      member("fused_rope", boolean(), "rotary positions are one kernel").otherwise(true),
      member("fused_bias_activation", boolean(), "bias and activation, or gate and activation, are one kernel").otherwise(true),
      member("fused_cross_entropy", boolean(), "loss forward and backward over the logits in one kernel").otherwise(true),
      member("fused_softmax", boolean(), "scale, mask and softmax of attention \"math\" are one kernel").otherwise(true),
      member("fused_optimizer", boolean(), "the update reads and writes each state once").otherwise(true),
      member("gradient_accumulation_fusion", boolean(), "weight-gradient GEMMs accumulate into the main gradient").otherwise(false),
      member("fused_projections", boolean(), "query, key and value are one GEMM, and so are gate and up").otherwise(true),
      member("dropout", boolean(), "hidden and attention dropout kernels run").otherwise(false),
      member("cross_entropy_fp32_logits", boolean(), "the loss makes an fp32 copy of the logits").otherwise(false),
      member("gathers_inputs_again", boolean(), "sequence parallelism keeps the shard of what a linear layer gathers, and gathers it again for the weight gradient").otherwise(true),
      member("cross_entropy_compiled", boolean(), "fusion \"compiled\" compiles the loss too").otherwise(true),
      member("cross_entropy_dense_gradient", boolean(), "a loss in steps fills a gradient of the log-probabilities before it makes that of the logits (PyTorch's nll_loss)").otherwise(false),
      member("selective_modules", array(module).distinct(), "what recompute \"selective\" means").otherwise(Value::Array{"core_attn"}),
      member("quantised_weights_kept", boolean(), "quantised copies of weights are made once a step and kept; false, and under ZeRO-3: made for every pass that reads them").otherwise(true),
      member("tp_overlap_bulk", boolean(), "overlap.tp runs backward's collectives under whole products: the gather under the input gradient, the scatter under the weight gradient; else it cuts these products too").otherwise(true),
      member("tp_overlap_sms", integer(0, 1024), "SMs that a collective of overlap.tp holds unless copy engines move it (ring)").otherwise(16),
      member("ring_attention", choice({{"transformer_engine"}, {"pytorch"}}), "ring attention: blocks passed on and half-precision gradients, or all blocks gathered under the first step and fp32 ones").otherwise("transformer_engine"),
      member("zero_grad_buffer", boolean(), "the gradient buffer is zeroed each step").otherwise(true),
      member("grad_scale_kernel", boolean(), "gradients are divided by DP in a kernel of its own").otherwise(false),
      member("expert_gemm", choice({{"one_kernel"}, {"many_streams"}, {"one_by_one"}}), "products of a rank's experts: one grouped kernel; a GEMM each over several streams; a GEMM after another").otherwise("one_kernel"),
      member("fused_permute", boolean(), "tokens are put in the order of their experts by one kernel").otherwise(true),
      member("fused_router", boolean(), "scoring and choice of experts are one kernel").otherwise(false),
      member("fp32_router", boolean(), "router scores are fp32").otherwise(true),
      member("fp8_activation_input", boolean(), "under an 8-bit recipe a fused gated activation keeps what it read, for backward, in 8 bits (Megatron-LM activation_func_fp8_input_store; DeepSeek-V3 3.3.3)").otherwise(false),
      member("narrow_attention_output", boolean(), "under an 8-bit recipe attention's output is kept once, in 12 bits, for attention and for the product behind it (DeepSeek-V3 3.3.3, E5M6)").otherwise(false),
      member("fp8_dispatch", boolean(), "under an 8-bit recipe tokens travel to experts in 8 bits, with a scale per 128 elements").otherwise(false),
      member("exchange_sms", integer(2, 1024), "SMs that the exchange kernels of ep_dispatch \"deepep\" and \"hierarchical\" run on").otherwise(20),
      member("weights_inside_experts", boolean(), "router weights multiply inside the experts' activation, not where the copies are added up").otherwise(false),
  });
}

Type data_parallel() {
  return object({
      member("style", choice({{"ddp"}, {"fsdp1"}, {"fsdp2"}}), "ddp: buckets of gradients (and Megatron's distributed optimizer); fsdp1: flat parameters; fsdp2: per-parameter shards").otherwise("ddp"),
      member("bucket_parameters", integer(), "parameters of a gradient bucket at least; null: one bucket holds all"),
      member("bucket_parameters_per_rank", integer(0), "at least this many times the data-parallel size").otherwise(0),
      member("fsdp_prefetch", integer(0, 1024), "units gathered ahead of the one that computes").otherwise(1),
      member("fsdp_root_unit", boolean(), "embedding and head, which no block wraps, are one unit, gathered from the first forward layer to the last backward layer").otherwise(false),
      member("zero_all_reduces", boolean(), "ZeRO 1 and 2 all-reduce gradients and keep their shard, instead of a reduce-scatter").otherwise(false),
      member("gathers_matrices", boolean(), "ZeRO 3 gathers every matrix of a layer by itself, not the layer at once").otherwise(false),
      member("fsdp_copies", boolean(), "gathered parameters and gradients are copied out of and into the communication buffers").otherwise(false),
  });
}

Type host() {
  const auto us = [](const char* name, double fallback, const char* doc) { return member(name, number(0, 1e9), doc).otherwise(plain(fallback)); };
  return object({
      us("forward_op_us", 6.0, "host time of a forward operator"),
      us("backward_op_us", 6.0, "host time of a backward operator"),
      us("collective_us", 15.0, "host time of a collective call"),
      us("collective_rank_us", 0.0, "host time that a collective call takes more for every member of its group: what the checks of TORCH_DISTRIBUTED_DEBUG=DETAIL exchange over sockets first"),
      us("checkpoint_region_us", 50.0, "host time of a recomputed region: random state saved and restored"),
      us("optimizer_us", 500.0, "host time of the optimizer step beyond its kernels"),
      us("step_us", 1000.0, "host time of a step outside passes and optimizer: data, schedule, bookkeeping"),
      us("sync_us", 30.0, "host time lost in a synchronisation"),
      member("run_ahead", integer(1, 1 << 20), "launches the host may be ahead of the device").otherwise(1000),
      us("graph_node_us", 1.0, "device time between two kernels of a captured graph"),
  });
}

Type end_of_step() {
  return object({
      member("grad_norm", boolean(), "the norm of all gradients is taken, with a scalar all-reduce over all ranks").otherwise(true),
      member("tied_embedding_all_reduce", boolean(), "first and last stage all-reduce the tied embedding's gradient").otherwise(true),
      member("norm_gradient_all_reduce", boolean(), "norm gradients are all-reduced over TP under SP").otherwise(true),
      member("inf_check", boolean(), "gradients are checked for infinity with a host synchronisation, under fp16").otherwise(true),
      member("skipped_steps", fraction(), "share of steps whose gradients overflow and are not applied, under fp16").otherwise(0.0005),
  });
}

Type memory() {
  const auto gib = [](const char* name, double fallback, const char* doc) { return member(name, number(0, 1e6), doc).otherwise(plain(fallback)); };
  return object({
      gib("context_gib", 0.7, "CUDA context and loaded modules"),
      gib("distributed_gib", 1.0, "what torch.distributed takes beyond NCCL's channel buffers"),
      member("nccl_channel_buffers", boolean(), "NCCL's buffers per channel and communicator count").otherwise(true),
      gib("workspace_gib", 0.03125, "cuBLAS workspaces"),
      member("allocator", choice({{"caching"}, {"expandable_segments"}, {"exact"}}), "what reserves device memory: PyTorch's caching allocator, the same with expandable segments, or exactly what tensors use").otherwise("caching"),
      member("weight_gradient_buffer", boolean(), "a dummy weight gradient of every matrix shape of a layer is kept, in the activations' type (Transformer Engine)").otherwise(true),
      member("parameter_gradients", boolean(), "a microbatch's gradients, in the parameters' type, stay until its backward pass has ended and they are added to the buffer").otherwise(false),
      member("reduction_buckets", boolean(), "buckets of all gradients' size, in the parameters' type, are kept beside the gradients").otherwise(false),
      member("coalesced_copies", boolean(), "a collective over many tensors copies them into one buffer and out of another").otherwise(false),
      member("gradient_buffer", boolean(), "gradients live in one buffer for the whole job; false: backward makes them and the update drops them").otherwise(true),
      member("states_at_start", boolean(), "optimizer states are made before the first step; false: the first update makes them").otherwise(false),
  });
}

Type layout() {
  return object({
      member("vocab_multiple", integer(1, 1 << 20), "the vocabulary is padded to this times tp").otherwise(1),
      member("uneven_layers", choice({{"refuse"}, {"front"}, {"back"}, {"full"}, {"cost"}}), "where a remainder of layers goes: nowhere, to the first stages, to the last; full: every stage but the last takes the rounded-up share, the last what is left; cost: stages of equal cost, the head counted").otherwise("refuse"),
      member("launch_order_serial", boolean(), "CUDA_DEVICE_MAX_CONNECTIONS=1: communication kernels wait behind compute launches").otherwise(false),
  });
}

}  // namespace

const Type& stack_type() {
  static const Type type = object(document_members("stack", true, with_sources({
      member("name", text(), "name and version").otherwise(""),
      member("defaults", defaults(), "what a scenario gets where it does not say"),
      member("kernels", kernels(), "what is launched and fused inside a layer"),
      member("data_parallel", data_parallel(), "how gradients and parameters travel"),
      member("host", host(), "what the host costs"),
      member("end_of_step", end_of_step(), "what runs between backward and the optimizer"),
      member("memory", memory(), "what the runtime takes"),
      member("layout", layout(), "how the model is cut"),
      member("nccl_version", text(), "NCCL that the framework ships with, as in 2.27.3").otherwise("2.27.3"),
  })));
  return type;
}

}  // namespace orrery::document
