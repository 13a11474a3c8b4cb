// orrery/scenario/1: one training job (design 5.1, 5.5). Every member and word of the format is here; what is not built yet says so.
#include "document/description.hpp"

namespace orrery::document {
namespace {

Type dtype() { return choice({{"fp32"}, {"fp16"}, {"bf16"}}); }

Type recompute() {
  const Type module = choice({{"core_attn"}, {"norm"}, {"mlp_act"}, {"moe_act"}, {"mla_up_proj"}, {"mlp"}, {"matmul_every_other"}});
  return either({
      choice({{"none"}, {"selective"}, {"full"}}),
      tagged("mode", {
          {"full",
           {member("layers", integer(0, 1 << 20), "layers of each stage that are recomputed; null: all"),
            member("method", choice({{"uniform"}, {"block"}}), "uniform: spread over the stage; block: the first ones").otherwise("uniform")},
           "whole layers run again before their backward pass"},
          {"selective", {member("modules", array(module, 1).distinct(), "what runs again; null: as the stack does")}, "parts of every layer run again"},
      }),
  });
}

Type training() {
  const auto place = [](const char* name, const char* doc) { return member(name, choice({{"host"}, {"nvme"}}), doc).otherwise("host"); };
  const auto share = [](const char* name, const char* doc) { return member(name, fraction(), doc).otherwise(0.0); };
  return object({
      member("sequence_length", integer(1, 1 << 30), "tokens per sequence").required(),
      member("global_batch", integer(), "sequences per optimizer step of the whole job; a multiple of micro_batch x dp").required(),
      member("micro_batch", integer(1, 1 << 30), "sequences per microbatch and data-parallel replica").required(),
      member("precision", choice({{"fp32"}, {"tf32"}, {"fp16"}, {"bf16"}, {"fp8"}, {"mxfp8"}, {"mxfp6"}, {"fp4"}}), "recipe of the matrix products; fp4 is NVFP4").otherwise("bf16"),
      member("fp8_recipe", choice({{"delayed"}, {"current"}, {"block128"}}), "how FP8 tensors are scaled").otherwise("delayed").from_stack("/fp8_recipe"),
      member("sparsity", choice({{"none"}, {"2:4"}}), "structured sparsity of the matrix products").otherwise("none"),
      member("optimizer", choice({{"sgd"}, {"momentum"}, {"adamw"}, {"adamw_8bit"}, {"adafactor"}, {"muon"}}), "optimizer").otherwise("adamw").from_stack("/optimizer"),
      member("param_dtype", dtype(), "what parameters are stored in").otherwise_text("that of the precision").from_stack("/param_dtype"),
      member("master_weights", boolean(), "an fp32 copy beside 16-bit parameters").otherwise(true).from_stack("/master_weights"),
      member("master_dtype", choice({{"fp32"}, {"fp16"}, {"remainder"}}), "what that copy holds: fp32, scaled fp16, or the 16 bits that bf16 parameters lack of it").otherwise("fp32").from_stack("/master_dtype"),
      member("optimizer_dtype", choice({{"fp32"}, {"bf16"}, {"fp16"}, {"fp8"}}), "what momentum and variance are stored in").otherwise_text("fp32 beside a master copy, else that of the parameters").from_stack("/optimizer_dtype"),
      member("grad_dtype", dtype(), "what gradients are accumulated in").otherwise("fp32").from_stack("/grad_dtype"),
      member("grad_reduce_dtype", dtype(), "what gradients are reduced in").otherwise("fp32").from_stack("/grad_reduce_dtype"),
      member("attention", choice({{"flash"}, {"math"}}), "flash: one kernel; math: products and softmax apart").otherwise("flash").from_stack("/attention"),
      member("attention_mask", choice({{"causal"}, {"full"}}), "what a token attends to").otherwise("causal"),
      member("recompute", recompute(), "activations made again instead of kept").otherwise("none"),
      member("fusion", choice({{"none"}, {"framework"}, {"compiled"}}), "none: every operator its own kernel; framework: the stack's fused ones; compiled: chains of them").otherwise("framework").from_stack("/fusion"),
      member("cuda_graphs", boolean(), "the step is launched as captured graphs").otherwise(false),
      member("offload", object({share("optimizer", "of the optimizer states"), share("activations", "of the kept activations"), share("parameters", "of the parameters"),
                                place("optimizer_device", "where that share stands: host memory, or the node's drives"), place("activations_device", "likewise"), place("parameters_device", "likewise")}),
             "shares kept outside of device memory"),
      member("adapter", object({
          member("rank", integer(1, 1 << 12), "columns of the one factor and rows of the other").required(),
          member("targets", array(choice({{"q_proj"}, {"k_proj"}, {"v_proj"}, {"o_proj"}, {"gate_proj"}, {"up_proj"}, {"down_proj"}}), 1), "matrices that have an adapter").otherwise_text("q_proj and v_proj"),
          member("base", choice({{"plain"}, {"nf4"}}), "how frozen matrices of the layers are stored: as activations are, or in 4 bits with quantised scales").otherwise("plain"),
      }), "low-rank adapters, the only weights that are trained then; null: none"),
      member("loss", object({
          member("kind", choice({{"cross_entropy"}}), "over the vocabulary, of the next token").otherwise("cross_entropy"),
          member("chunks", integer(1, 1 << 20), "parts of a microbatch's tokens whose logits stand in memory at once; more than 1 computes projection, loss and their gradients together").otherwise(1),
          member("vocab_parallel", boolean(), "tensor-parallel ranks keep their part of the logits; false: these are gathered").otherwise(true),
          member("fused", boolean(), "loss and its gradient in one kernel").otherwise_text("as the stack does"),
      }), "how the loss is computed"),
  });
}

Type parallelism() {
  const auto ranks = [](const char* name, const char* doc) { return member(name, integer(1, 1 << 30), doc).otherwise(1); };
  return object({
      ranks("tp", "tensor-parallel ranks"),
      member("sp", boolean(), "sequence parallelism beside TP; false with tp 1").otherwise(true).from_stack("/sp"),
      ranks("cp", "context-parallel ranks"),
      member("cp_method", choice({{"ring"}, {"ring_naive"}, {"all_gather"}, {"ulysses"}}), "how attention crosses context-parallel ranks; ring balances a causal mask, ring_naive does not").otherwise("ring"),
      ranks("pp", "pipeline stages"),
      ranks("vp", "chunks per stage (virtual stages)"),
      member("schedule",
             either({choice({{"gpipe"}, {"1f1b"}, {"interleaved_1f1b"}, {"bfs"}, {"zb_h1"}, {"zb_h2"}, {"zb_v"}, {"v_half"}, {"v_min"}, {"dualpipe"}, {"dualpipe_v"}}),
                     object({member("file", reference("schedule"), "order lists").required()})}),
             "order of the passes on a stage")
          .otherwise_text("1f1b, or interleaved_1f1b where vp > 1"),
      member("p2p", choice({{"blocking"}, {"overlapped"}}), "how stages send and receive").otherwise("overlapped").from_stack("/p2p"),
      ranks("ep", "expert-parallel ranks"),
      ranks("etp", "tensor-parallel ranks of an expert"),
      member("dp", integer(1, 1 << 30), "data-parallel ranks").otherwise_text("GPUs / (tp x cp x pp)"),
      member("zero", integer(0, 3), "0: full gradients, all-reduced; 1: gradients reduce-scattered once a step; 2: as each microbatch makes them; 3: parameters too").otherwise(0),
      member("reshard_after_forward", boolean(), "ZeRO-3 frees gathered parameters after forward").otherwise(true).from_stack("/reshard_after_forward"),
      ranks("replicas", "HSDP: replicas that the data-parallel group is split into, each of neighbouring ranks"),
      member("order", either({array(choice({{"tp"}, {"cp"}, {"ep"}, {"dp"}, {"pp"}}), 5, 5).distinct(), text()}), "axes of the rank grid, fastest-varying first; or as Megatron-LM writes them, \"tp-cp-ep-dp-pp\"")
          .otherwise(Value::Array{"tp", "cp", "ep", "dp", "pp"}),
      member("overlap", object({
          member("grad_reduce", boolean(), "gradients are reduced under the backward pass").otherwise(true).from_stack("/overlap/grad_reduce"),
          member("param_gather", boolean(), "parameters are gathered under the forward pass").otherwise(true).from_stack("/overlap/param_gather"),
          member("tp", either({just_false(), choice({{"bulk"}, {"pipelined"}, {"ring"}})}), "false, or how tensor-parallel collectives run under their GEMMs: bulk, under those that need nothing of them; pipelined, also in pieces under the rest; ring, likewise, from rank to rank by copy engines").otherwise(false).from_stack("/overlap/tp"),
          member("ep", boolean(), "expert exchanges run under other microbatches").otherwise(false).from_stack("/overlap/ep"),
          member("shared_experts", boolean(), "shared experts run under the exchanges of the routed ones").otherwise(false).from_stack("/overlap/shared_experts"),
      }), "what communication runs under what"),
      member("account_for_embedding", boolean(), "the embedding takes the place of one layer in the pipeline split").otherwise(false),
      member("account_for_loss", boolean(), "so does the head").otherwise(false),
      member("layers_per_stage", array(integer(0, 1 << 20), 1, 1 << 20), "pp x vp entries; entry c x pp + s is chunk c of stage s").otherwise_text("evenly, or as the stack splits a remainder"),
      member("interleave_group", integer(1, 1 << 20), "interleaved_1f1b: microbatches that pass a chunk in a row, pp or more (Megatron microbatch_group_size_per_vp_stage)").otherwise_text("pp"),
      member("ep_dispatch", choice({{"all_to_all"}, {"hierarchical"}, {"deepep"}, {"all_gather"}}), "how tokens travel to experts: every copy by itself; over one rail between domains; once per domain and rank; all tokens to all ranks")
          .otherwise("all_to_all")
          .from_stack("/ep_dispatch"),
  });
}

Type cluster() {
  return object({
      member("node", reference("node"), "the kind of node").required(),
      member("nodes", integer(1, 1 << 24), "how many").required(),
      member("fabric", reference("fabric"), "the network between nodes; null only where the job stays in one scale-up domain"),
      member("gpus", integer(1, 1 << 30), "GPUs that the job uses, packed by node").otherwise_text("nodes x (GPUs used per node)"),
      member("gpus_per_node", integer(1, 1 << 16), "use only GPUs 0 … k-1 of each node, and their NICs").otherwise_text("all"),
      member("nccl", object({
          member("version", text(), "version whose tables apply").otherwise_text("the stack's"),
          member("algo", text(), "NCCL_ALGO, as in ring,tree or ^nvls or allreduce:tree").otherwise_text("all"),
          member("proto", text(), "NCCL_PROTO, as in simple or ^ll128").otherwise_text("all"),
          member("min_channels", integer(1, 64), "NCCL_MIN_NCHANNELS").otherwise_text("NCCL's"),
          member("max_channels", integer(1, 64), "NCCL_MAX_NCHANNELS").otherwise_text("NCCL's"),
          member("tuner", text(), "tuner plugin").not_built(),
      }), "NCCL's settings"),
      member("placement", either({choice({{"packed"}, {"spread"}}), just_one_of({
          member("plane", integer(1, 1 << 16), "this many ranks a node, in turn (Slurm's plane=n)"),
          member("nodes", array(integer(0, 1 << 24), 1, 1 << 24), "packed over the nodes in this order (a hostlist)"),
          member("ranks", array(array(integer(0, 1 << 24), 2, 2), 1, 1 << 24), "[node, GPU] of every rank (a rank file)"),
      })}), "which ranks stand where: packed node by node (Slurm's block), spread one a node in turn (cyclic)")
          .otherwise("packed"),
  });
}

Type event() {
  const auto link = [] { return member("link", text(), "node{i}/gpu{j}/nvlink, node{i}/pcie{k}, node{i}/nic{j}, leaf{i}/up{j}, spine{i}/up{j} or switch{i}/to{j}").required(); };
  return tagged("kind", {
      {"slow_gpu", {member("rank", integer(0, 1 << 30), "which").required(), member("speed", number(0.001, 1), "all its clocks, over nominal").required()}, "a slow GPU: 0.8 means 25 % longer kernels"},
      {"speed_spread", {member("cv", number(0, 0.3), "coefficient of variation").required()}, "a draw of speed per rank"},
      {"degraded_link", {link(), member("capacity", fraction(), "of nominal, both directions; 0: failed").required()}, "a degraded or failed link"},
      {"background", {link(), member("gb_per_s", number(0, 1e9), "traffic of others").required()}, "traffic of others on a link"},
      {"power_cap", {member("watts", positive(1e6), "limit").required(), member("rank", integer(0, 1 << 30), "which; null: all")}, "a power limit", false},
  });
}

Type scenario() {
  std::vector<Member> members = document_members("scenario", false, {
      member("name", text(), "for people").otherwise(""),
      member("model", reference("model"), "what is trained; a Hugging Face config.json is known by its \"architectures\"").required(),
      member("training", training(), "the recipe").required(),
      member("parallelism", parallelism(), "how the job is cut"),
      member("cluster", cluster(), "the machines").required(),
      member("stack", reference("stack"), "the software").otherwise("generic"),
      member("calibration", either({text(), array(text(), 1)}), "profiles by name or path, later ones win per class; \"default\": the shipped ones that match; \"none\": data sheets only").otherwise("default"),
      member("seed", integer(0), "of every random draw").otherwise(1),
      member("events", array(event(), 0, 1 << 16), "what is not as it should be").otherwise(Value::Array()),
      member("jobs", any(), "other jobs of the cluster").not_built(),
  });
  members.front().required();
  return object(std::move(members));
}

}  // namespace

const Type& scenario_type() {
  static const Type type = scenario();
  return type;
}

}  // namespace orrery::document
