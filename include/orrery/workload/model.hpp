#pragma once
// The model and the training recipe as plain values, read from a resolved scenario.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "orrery/base/result.hpp"
#include "orrery/document/value.hpp"
#include "orrery/workload/families.hpp"
#include "orrery/workload/operation.hpp"

namespace orrery::workload {

enum class Activation : std::uint8_t { kSilu, kGelu, kRelu, kRelu2 };
enum class Norm : std::uint8_t { kRms, kLayer };
enum class Position : std::uint8_t { kRotary, kLearned, kAlibi, kNone };
/// Norms of queries and keys: one weight of head_dim for all heads (Qwen3), one per head (Command-R+), over all heads at once (OLMo-2), or
/// without weights and after the rotation (Llama 4).
enum class QkNorm : std::uint8_t { kNone, kHead, kEachHead, kFull, kUnweighted };
/// Attention and MLP that read the same residual stream and add to it together: behind one norm (GPT-J) or two (GPT-NeoX).
enum class ParallelBlock : std::uint8_t { kNone, kOneNorm, kTwoNorms };

/// How tokens spread over routed experts, per layer and the same for all groups and microbatches.
enum class ExpertLoad : std::uint8_t { kBalanced, kMultinomial, kZipf, kHistogram };

/// Routed and shared experts in place of an MLP (design 5.2, moe).
struct Moe {
  std::int64_t experts = 0, experts_per_token = 0, expert_ffn = 0;
  std::int64_t shared_ffn = 0;               ///< sum over the shared experts; 0: none
  std::int64_t dense_layers = 0, every = 1;  ///< leading layers with an MLP; then every n-th layer has experts
  std::optional<double> capacity_factor;     ///< null: dropless
  std::optional<std::int64_t> group_limit;   ///< device groups that a token may visit
  bool shared_gate = false;                  ///< the shared experts' output is multiplied by a sigmoid of one score a token (Qwen2-MoE)
  bool router_bias = false;                  ///< a score bias per expert (DeepSeek-V3's balancing without a loss)
  ExpertLoad load = ExpertLoad::kBalanced;
  double zipf = 0;
  std::vector<double> histogram;             ///< relative loads, one per expert
  bool operator==(const Moe&) const = default;
};

/// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1).
struct Mla {
  std::optional<std::int64_t> q_lora_rank;   ///< null: a plain query projection
  std::int64_t kv_lora_rank = 0, qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  bool operator==(const Mla&) const = default;
};

/// What tells layers of one model apart. Layers with equal blocks are the same on every rank that holds them.
struct Block {
  std::int64_t part = 0;               ///< which part of a model that has several: its families give the meaning
  bool moe = false;                    ///< experts instead of an MLP
  std::optional<std::int64_t> window;  ///< tokens that attention sees, or the chunk inside which it sees; null: all
  bool no_position = false;            ///< a layer without the model's rotary position
  bool operator==(const Block&) const = default;
};

/// A model (orrery/model/1, design 5.2): a decoder transformer, or the sizes that another family shares with one; those that it has no
/// use for are 0. `layers` counts the blocks between embedding and head of any family.
struct Model {
  std::string name;
  Family family = Family::kTransformer;
  FamilyMembers of_family;  ///< of its own; empty for a transformer
  std::int64_t layers = 0, hidden = 0, ffn_hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0;
  bool gated_mlp = false, tied_embeddings = false;
  bool norm_weight = true, norm_bias = false;
  bool linear_bias = false;  ///< all of the four below it but the head's
  bool qkv_bias = false, attention_out_bias = false, mlp_bias = false, head_bias = false;
  bool pre_norms = true, post_norms = false;
  QkNorm qk_norm = QkNorm::kNone;
  ParallelBlock parallel_block = ParallelBlock::kNone;
  bool embedding_norm = false, embedding_scale = false, logit_scale = false;
  Activation activation = Activation::kSilu;
  Norm norm = Norm::kRms;
  Position position = Position::kRotary;
  std::optional<std::int64_t> max_positions;  ///< rows of a learned position table; null: the sequence length
  std::optional<std::int64_t> rotary_dim;     ///< elements of a head that are rotated; null: all
  std::optional<std::int64_t> nope_every;     ///< every how many layers one has no rotary position (null: none)
  std::optional<std::int64_t> sliding_window, attention_chunk, global_every;  ///< of local layers; every how many layers one sees all (null: none)
  std::optional<double> attn_softcap, final_softcap;
  bool attention_sinks = false;
  std::optional<Moe> moe;
  std::optional<Mla> mla;                     ///< kv_heads is heads and head_dim is qk_nope + qk_rope then
  std::int64_t mtp_layers = 0;                ///< multi-token prediction modules
};

/// The block of layer `layer` (0 ... layers-1).
Block block_of(const Model& model, std::int64_t layer);
/// Layers with equal blocks, in order of their first.
struct BlockCount {
  Block block;
  std::int64_t layers = 0;
};
std::vector<BlockCount> blocks_of(const Model& model);

enum class Optimizer : std::uint8_t { kSgd, kMomentum, kAdamW, kAdamW8bit, kAdafactor, kMuon };
/// What the master copy of 16-bit weights holds: all of it, half of it, or the 16 bits that bf16 weights lack of fp32.
enum class Master : std::uint8_t { kFp32, kFp16, kRemainder };
enum class RecomputeMode : std::uint8_t { kNone, kSelective, kFull };
enum class Fusion : std::uint8_t { kNone, kFramework, kCompiled };
enum class Fp8Recipe : std::uint8_t { kDelayed, kCurrent, kBlock128 };  ///< how 8-bit scales are found

struct Recompute {
  RecomputeMode mode = RecomputeMode::kNone;
  std::vector<std::string> modules;      ///< selective: "core_attn", "norm", "mlp_act", "mlp", "matmul_every_other"
  std::optional<std::int64_t> layers;    ///< full: how many layers of a stage; null: all
  bool block = false;                    ///< full: "block" (the first `layers` of a stage) instead of "uniform"
};

/// How the loss is computed (training.loss).
struct LossRecipe {
  std::int64_t chunks = 1;       ///< parts of the tokens whose logits stand in memory at once; > 1: projection and loss run together
  bool vocab_parallel = true;    ///< tensor-parallel ranks keep their part of the vocabulary; false: the logits are gathered
  std::optional<bool> fused;     ///< loss and its gradient in one kernel; absent: as the stack does
};

/// Shares of what a rank keeps that stand in host memory, or on its node's drives (training.offload).
struct Offload {
  double optimizer = 0, activations = 0, parameters = 0;
  bool optimizer_on_drives = false, activations_on_drives = false, parameters_on_drives = false;
  [[nodiscard]] bool any() const { return optimizer > 0 || activations > 0 || parameters > 0; }
  [[nodiscard]] bool any_on_drives() const {
    return (optimizer > 0 && optimizer_on_drives) || (activations > 0 && activations_on_drives) || (parameters > 0 && parameters_on_drives);
  }
};

/// How frozen matrices are stored: as activations are, or in 4 bits (NF4 with double quantisation: Dettmers et al., QLoRA, arXiv:2305.14314).
enum class FrozenStore : std::uint8_t { kPlain, kNf4 };

/// Low-rank adapters beside frozen weights (Hu et al., LoRA, arXiv:2106.09685): training.adapter. Rank 0: all weights are trained.
struct Adapter {
  std::int64_t rank = 0;
  FrozenStore store = FrozenStore::kPlain;
  bool query = false, key = false, value = false, out = false, gate = false, up = false, down = false;  ///< matrices that have one
  [[nodiscard]] bool on() const { return rank > 0; }
};

/// How attention crosses context-parallel ranks (design 5.1, cp_method). kRing: every rank holds an early and a late piece of the sequence, so
/// that a causal mask gives all the same work; kRingNaive: pieces in order.
enum class CpMethod : std::uint8_t { kRing, kRingNaive, kAllGather, kUlysses };

/// How collectives of sequence parallelism run under their GEMMs (design 5.1, overlap.tp). kBulk: under the products that need nothing of
/// them; kPipelined: also in pieces under the products that do; kRing: likewise, a rank's piece at a time from neighbour to neighbour.
enum class TpOverlap : std::uint8_t { kNone, kBulk, kPipelined, kRing };

/// The recipe (design 5.1, training); everything resolved, nothing left "as the stack does".
struct Training {
  std::int64_t sequence_length = 0, global_batch = 0, micro_batch = 1;
  DType precision = DType::kBf16;  ///< of the matmuls
  Fp8Recipe fp8_recipe = Fp8Recipe::kDelayed;
  bool one_operand_layout = true;  ///< the GPU's 8-bit products take both operands along the reduction axis only (Hopper, Ada), so that
                                   ///< per-tensor FP8 writes a transpose beside each copy; Blackwell reads either way
  DType activation_dtype = DType::kBf16;  ///< 2-byte type of activations (fp32 for fp32 and tf32)
  Optimizer optimizer = Optimizer::kAdamW;
  DType param_dtype = DType::kBf16, grad_dtype = DType::kFp32, grad_reduce_dtype = DType::kFp32;
  bool master_weights = true;
  Master master = Master::kFp32;
  std::optional<DType> optimizer_dtype;  ///< of the moments; absent: fp32 beside a master copy, else the weights' type
  bool sparse = false;                   ///< 2:4 weights in the products of linear layers
  LossRecipe loss;
  Adapter adapter;
  Offload offload;
  bool flash_attention = true, causal = true, cuda_graphs = false;
  Recompute recompute;
  Fusion fusion = Fusion::kFramework;
};

/// What a stack fuses and launches inside a layer: the members of orrery/stack/1 that shape operations. Filled by read_stack_kernels.
struct StackKernels {
  bool fused_norm = true, fused_rope = true, fused_bias_activation = true, fused_cross_entropy = true, fused_softmax = true, fused_optimizer = true;
  bool gradient_accumulation_fusion = true;  ///< weight-gradient GEMM accumulates into the main gradient
  bool fused_projections = true;             ///< query, key and value are one GEMM, and so are gate and up
  bool dropout = false;                      ///< hidden and attention dropout kernels and masks
  bool cross_entropy_fp32_logits = false;    ///< an fp32 copy of the logits is made
  bool cross_entropy_compiled = true;        ///< fusion "compiled" compiles the loss too
  bool cross_entropy_dense_gradient = false; ///< backward fills a gradient of the log-probabilities first (PyTorch nll_loss)
  bool gathers_inputs_again = true;          ///< sequence parallelism saves the shard of a gathered input, not the whole
  std::vector<std::string> selective_modules;  ///< what recompute "selective" means here
  bool quantised_weights_kept = true;          ///< copies of weights are made once a step (Transformer Engine is_first_microbatch)
  bool tp_overlap_bulk = true;               ///< tensor-parallel overlap runs backward's collectives under whole products
  int tp_overlap_sms = 16;                   ///< SMs of an overlapped tensor-parallel collective that no copy engine moves
  bool pytorch_ring = false;                 ///< ring attention as PyTorch's context_parallel runs it, else as Transformer Engine
  bool zero_grad_buffer = true, grad_scale_kernel = true;  ///< end-of-step kernels over the gradient buffer
  GroupLaunch expert_gemm = GroupLaunch::kOneKernel;  ///< how the products of a rank's experts are launched
  bool fused_permute = true, fused_router = false;    ///< tokens are put in order, and experts chosen, by kernels written for it
  bool fp32_router = true;                            ///< scores in fp32
  bool fp8_dispatch = false;                          ///< under an 8-bit recipe tokens travel to experts in 8 bits with a scale per 128
  bool fp8_activation_input = false;                  ///< under an 8-bit recipe a fused gated activation keeps what it read in 8 bits
  bool narrow_attention_output = false;               ///< under an 8-bit recipe attention's output is kept once, in 12 bits
  int exchange_sms = 20;                              ///< that the kernels of ep_dispatch "deepep" and "hierarchical" run on
  bool weights_inside_experts = false;                ///< the router's weights multiply inside the experts' activation, not where copies are added up
};

/// What `fusion` makes of the stack's habits: none turns the block's fused kernels off, compiled turns them on, framework keeps them.
/// make_layer does this itself.
StackKernels apply_fusion(StackKernels kernels, Fusion fusion);

/// Bytes per parameter of what a rank keeps through the step (modelling 5.1). Optimizer states without an fp32 copy of the weights
/// have the weights' type, as torch.optim makes them.
struct StateBytes {
  double parameter = 0, gradient = 0;     ///< gathered size; ZeRO divides them
  double master = 0, optimizer = 0;       ///< fp32 copy; momentum and variance
  [[nodiscard]] double total() const { return parameter + gradient + master + optimizer; }
};
/// Of a parameter that no factor and no matrix rule spares: Adafactor and Muon keep less of matrices (optimizer_bytes).
StateBytes state_bytes(const Training& training);
/// One 8-bit state with its fp32 scale per block of 256 (Dettmers et al., arXiv:2110.02861; bitsandbytes optim/optimizer.py).
inline constexpr double kBlockwiseByte = 1 + 4.0 / 256;

/// A model from its object (design 5.2). Refuses a model whose parameters or largest matrix do not fit 64-bit sizes.
Result<Model> read_model(const document::Value& model, const std::string& file, const std::string& pointer);
Result<Training> read_training(const document::Value& scenario, const std::string& file);
StackKernels read_stack_kernels(const document::Value& stack);

/// Exact parameter counts and FLOPs of the whole model (modelling 4). per_token numbers are for training (forward + backward), no recompute.
/// A token of a family without tokens is what training.sequence_length counts: a patch of an image, or the whole sample where that is 1.
/// NaN: the convention has no meaning for the family.
struct ModelCounts {
  std::int64_t parameters = 0, parameters_without_embedding = 0, active_parameters = 0;
  std::int64_t embedding_parameters = 0;
  std::int64_t trainable_parameters = 0;  ///< all, or those of adapters
  double exact = 0, megatron = 0, megatron_legacy = 0, palm = 0, six_n = 0, torchtitan = 0, narayanan = 0;  ///< FLOP per token
};
ModelCounts count(const Model& model, std::int64_t sequence, bool causal);

}  // namespace orrery::workload
