#include "orrery/workload/model.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include "families/table.hpp"
#include "orrery/base/assert.hpp"

namespace orrery::workload {
namespace {

using document::Value;

/// The named value of an enum; the description has refused every other name before.
template <class E, std::size_t N>
E pick(const Value& v, const std::array<std::pair<std::string_view, E>, N>& names, E otherwise) {
  if (v.is_null()) return otherwise;
  for (const auto& [name, value] : names) {
    if (v.as_string() == name) return value;
  }
  ORRERY_ASSERT(false, "the document's description lists the names that are built");
}
bool flag(const Value& v, bool otherwise) { return v.is_null() ? otherwise : v.as_bool(); }
std::int64_t number(const Value& v, std::int64_t otherwise) { return v.is_null() ? otherwise : v.as_int(); }
std::optional<std::int64_t> optional_int(const Value& v) { return v.is_null() ? std::nullopt : std::optional(v.as_int()); }

constexpr std::array kActivations{std::pair{std::string_view("silu"), Activation::kSilu}, std::pair{std::string_view("gelu"), Activation::kGelu},
                                  std::pair{std::string_view("relu"), Activation::kRelu}, std::pair{std::string_view("relu2"), Activation::kRelu2}};
constexpr std::array kNorms{std::pair{std::string_view("rms"), Norm::kRms}, std::pair{std::string_view("layer"), Norm::kLayer}};
constexpr std::array kPositions{std::pair{std::string_view("rotary"), Position::kRotary}, std::pair{std::string_view("learned"), Position::kLearned},
                                std::pair{std::string_view("alibi"), Position::kAlibi}, std::pair{std::string_view("none"), Position::kNone}};
constexpr std::array kQkNorms{std::pair{std::string_view("each_head"), QkNorm::kEachHead}, std::pair{std::string_view("full"), QkNorm::kFull},
                              std::pair{std::string_view("unweighted"), QkNorm::kUnweighted}};
constexpr std::array kParallel{std::pair{std::string_view("none"), ParallelBlock::kNone}, std::pair{std::string_view("one_norm"), ParallelBlock::kOneNorm},
                               std::pair{std::string_view("two_norms"), ParallelBlock::kTwoNorms}};
constexpr std::array kPrecisions{std::pair{std::string_view("fp32"), DType::kFp32},   std::pair{std::string_view("tf32"), DType::kTf32},
                                 std::pair{std::string_view("fp16"), DType::kFp16},   std::pair{std::string_view("bf16"), DType::kBf16},
                                 std::pair{std::string_view("fp8"), DType::kFp8},     std::pair{std::string_view("mxfp8"), DType::kMxfp8},
                                 std::pair{std::string_view("mxfp6"), DType::kMxfp6}, std::pair{std::string_view("fp4"), DType::kFp4}};
constexpr std::array kRecipes{std::pair{std::string_view("delayed"), Fp8Recipe::kDelayed}, std::pair{std::string_view("current"), Fp8Recipe::kCurrent},
                              std::pair{std::string_view("block128"), Fp8Recipe::kBlock128}};
constexpr std::array kOptimizers{std::pair{std::string_view("sgd"), Optimizer::kSgd}, std::pair{std::string_view("momentum"), Optimizer::kMomentum},
                                 std::pair{std::string_view("adamw"), Optimizer::kAdamW}, std::pair{std::string_view("adamw_8bit"), Optimizer::kAdamW8bit},
                                 std::pair{std::string_view("adafactor"), Optimizer::kAdafactor}, std::pair{std::string_view("muon"), Optimizer::kMuon}};
constexpr std::array kMasters{std::pair{std::string_view("fp32"), Master::kFp32}, std::pair{std::string_view("fp16"), Master::kFp16},
                              std::pair{std::string_view("remainder"), Master::kRemainder}};
constexpr std::array kFusions{std::pair{std::string_view("none"), Fusion::kNone}, std::pair{std::string_view("framework"), Fusion::kFramework},
                              std::pair{std::string_view("compiled"), Fusion::kCompiled}};
constexpr std::array kGroupLaunches{std::pair{std::string_view("one_kernel"), GroupLaunch::kOneKernel}, std::pair{std::string_view("many_streams"), GroupLaunch::kManyStreams},
                                    std::pair{std::string_view("one_by_one"), GroupLaunch::kOneByOne}};
constexpr std::array kModes{std::pair{std::string_view("none"), RecomputeMode::kNone}, std::pair{std::string_view("selective"), RecomputeMode::kSelective},
                            std::pair{std::string_view("full"), RecomputeMode::kFull}};

std::vector<std::string> strings(const Value& v) {
  std::vector<std::string> out;
  if (v.is_null()) return out;
  for (const Value& item : v.items()) out.push_back(item.as_string());
  return out;
}

Recompute read_recompute(const Value& v) {
  Recompute r;
  if (!v.is_object()) {
    r.mode = pick(v, kModes, RecomputeMode::kNone);
    return r;
  }
  r.mode = pick(v.at("mode"), kModes, RecomputeMode::kNone);
  r.modules = strings(v.at("modules"));
  if (const Value& layers = v.at("layers"); !layers.is_null()) r.layers = layers.as_int();
  r.block = !v.at("method").is_null() && v.at("method").as_string() == "block";
  return r;
}

/// 16-bit activations are those of the matmul recipe where it has them; quantised recipes keep bf16 between the GEMMs.
DType activation_dtype(DType precision) {
  switch (precision) {
    case DType::kFp32:
    case DType::kTf32: return DType::kFp32;
    case DType::kFp16: return DType::kFp16;
    default: return DType::kBf16;
  }
}

LossRecipe read_loss(const Value& v) {
  LossRecipe r;
  r.chunks = number(v.at("chunks"), 1);
  r.vocab_parallel = flag(v.at("vocab_parallel"), true);
  if (const Value& fused = v.at("fused"); !fused.is_null()) r.fused = fused.as_bool();
  return r;
}

Offload read_offload(const Value& v) {
  const auto share = [&](const char* name) { return v.at(name).is_null() ? 0.0 : v.at(name).as_double(); };
  const auto on_drives = [&](const char* name) { return !v.at(name).is_null() && v.at(name).as_string() == "nvme"; };
  return {share("optimizer"), share("activations"), share("parameters"), on_drives("optimizer_device"), on_drives("activations_device"), on_drives("parameters_device")};
}

Adapter read_adapter(const Value& v) {
  Adapter a;
  if (v.is_null()) return a;
  a.rank = v.at("rank").as_int();
  a.store = !v.at("base").is_null() && v.at("base").as_string() == "nf4" ? FrozenStore::kNf4 : FrozenStore::kPlain;
  std::vector<std::string> targets = strings(v.at("targets"));
  if (targets.empty()) targets = {"q_proj", "v_proj"};  // Hu et al., section 4.2; PEFT's own choice for Llama
  for (const std::string& t : targets) {
    (t == "q_proj" ? a.query : t == "k_proj" ? a.key : t == "v_proj" ? a.value : t == "o_proj" ? a.out : t == "gate_proj" ? a.gate : t == "up_proj" ? a.up : a.down) = true;
  }
  return a;
}

/// Every size that a model alone decides stays far inside int64, so that layers can multiply without looking.
constexpr double kMostParameters = 0x1p56;

double parameters_in_double(const Model& m) {
  const auto d = [](std::int64_t v) { return static_cast<double>(v); };
  double more = 0;
  if (m.moe) more += d(m.layers + m.mtp_layers) * (d(m.hidden) + 1) * (d(m.moe->experts) * (1 + 3 * d(m.moe->expert_ffn)) + 3 * d(m.moe->shared_ffn));
  if (m.mla) {
    const double ranks = d(m.mla->q_lora_rank.value_or(0)) + d(m.mla->kv_lora_rank) + d(m.mla->qk_rope_head_dim);
    more += d(m.layers + m.mtp_layers) * (ranks + d(m.hidden)) * (d(m.hidden) + d(m.heads) * (d(m.head_dim) + d(m.mla->qk_nope_head_dim) + d(m.mla->v_head_dim)));
  }
  const double q = d(m.heads) * d(m.head_dim);
  const double kv = d(m.kv_heads) * d(m.head_dim);
  more += 2 * d(m.mtp_layers) * d(m.hidden) * d(m.hidden);
  return more + d(m.layers + 2 * m.mtp_layers) * (d(m.hidden) * (2 * q + 2 * kv + 3 * d(m.ffn_hidden) + 16) + 2 * q + 2 * d(m.ffn_hidden)) +
         d(m.hidden) * (2 * d(m.vocab) + d(m.max_positions.value_or(0)) + 4);
}

/// Members that contradict each other or that nothing reads.
void check_members(const Model& m, const std::string& file, const std::string& pointer, Diagnostics& problems) {
  const auto add = [&](const char* member, std::string text) { problems.push_back({file, pointer + "/" + member, std::move(text)}); };
  if (m.sliding_window && m.attention_chunk) add("attention_chunk", "sliding_window and attention_chunk exclude each other; state one");
  if (m.global_every && !m.sliding_window && !m.attention_chunk) add("global_every", "every layer is global without sliding_window or attention_chunk; state one of them");
  if (!m.pre_norms && !m.post_norms) add("pre_norms", "a layer without norms is not supported; set pre_norms or post_norms");
  if (m.parallel_block != ParallelBlock::kNone && (m.post_norms || !m.pre_norms)) add("parallel_block", "parallel branches have norms before them only; unset post_norms and pre_norms");
  if (m.position != Position::kRotary) {
    if (m.rotary_dim) add("rotary_dim", "the position encoding is not rotary; unset it");
    if (m.nope_every) add("nope_every", "the position encoding is not rotary; unset it");
  }
  if (m.rotary_dim && *m.rotary_dim > m.head_dim) add("rotary_dim", fmt::format("{} is more than the {} elements of a head", *m.rotary_dim, m.head_dim));
  // As Megatron-LM's arguments.py has it: positions of a module's tokens are one ahead of its table's.
  if (m.mtp_layers > 0 && m.position != Position::kRotary && m.position != Position::kNone) add("mtp_layers", "prediction modules need rotary positions or none; use 0");
  if (m.norm_bias && !m.norm_weight) add("norm_bias", "norms without a weight have no bias; unset it");
}

Moe read_moe(const Value& v) {
  Moe moe;
  moe.experts = v.at("experts").as_int();
  moe.experts_per_token = v.at("experts_per_token").as_int();
  moe.expert_ffn = v.at("expert_ffn").as_int();
  moe.shared_ffn = number(v.at("shared_ffn"), number(v.at("shared_experts"), 0) * moe.expert_ffn);
  moe.shared_gate = flag(v.at("shared_gate"), false);
  moe.dense_layers = number(v.at("dense_layers"), 0);
  moe.every = number(v.at("every"), 1);
  if (const Value& c = v.at("capacity_factor"); !c.is_null()) moe.capacity_factor = c.as_double();
  if (const Value& g = v.at("group_limit"); !g.is_null()) moe.group_limit = g.as_int();
  moe.router_bias = flag(v.at("router_bias"), false);
  const Value& load = v.at("load");
  if (load.is_string()) {
    moe.load = load.as_string() == "multinomial" ? ExpertLoad::kMultinomial : ExpertLoad::kBalanced;
  } else if (load.is_object() && !load.at("zipf").is_null()) {
    moe.load = ExpertLoad::kZipf;
    moe.zipf = load.at("zipf").as_double();
  } else if (load.is_object()) {
    moe.load = ExpertLoad::kHistogram;
    for (const Value& w : load.at("histogram").items()) moe.histogram.push_back(w.as_double());
  }
  return moe;
}

void check_moe(const Model& m, const std::string& file, const std::string& pointer, Diagnostics& problems) {
  const Moe& moe = *m.moe;
  const auto here = [&](const char* member, std::string text) { problems.push_back({file, pointer + "/moe/" + member, std::move(text)}); };
  if (moe.experts_per_token > moe.experts) here("experts_per_token", fmt::format("{} of {} experts cannot be visited; use at most {}", moe.experts_per_token, moe.experts, moe.experts));
  if (moe.dense_layers > m.layers) here("dense_layers", fmt::format("{} leading layers are more than the model's {}", moe.dense_layers, m.layers));
  if (moe.load == ExpertLoad::kHistogram) {
    if (static_cast<std::int64_t>(moe.histogram.size()) != moe.experts) {
      here("load/histogram", fmt::format("{} loads given for {} experts; give one each", moe.histogram.size(), moe.experts));
    } else if (std::any_of(moe.histogram.begin(), moe.histogram.end(), [](double w) { return w < 0; }) ||
               std::all_of(moe.histogram.begin(), moe.histogram.end(), [](double w) { return w == 0; })) {
      here("load/histogram", "loads are relative: none is negative and not all are zero");
    }
  }
  if (moe.shared_gate && moe.shared_ffn == 0) here("shared_gate", "there are no shared experts to gate; use false");
  if (m.parallel_block != ParallelBlock::kNone) problems.push_back({file, pointer + "/parallel_block", "experts in a parallel branch are not built yet; leave it out"});
  if (!m.pre_norms) problems.push_back({file, pointer + "/pre_norms", "experts without a norm before them are not built yet; use true"});
}

/// Heads of a latent attention have a key of both parts each.
void read_mla(const Value& v, Model& m, const Value& model, const std::string& file, const std::string& pointer, Diagnostics& problems) {
  Mla a;
  if (const Value& q = v.at("q_lora_rank"); !q.is_null()) a.q_lora_rank = q.as_int();
  a.kv_lora_rank = v.at("kv_lora_rank").as_int();
  a.qk_nope_head_dim = v.at("qk_nope_head_dim").as_int();
  a.qk_rope_head_dim = v.at("qk_rope_head_dim").as_int();
  a.v_head_dim = v.at("v_head_dim").as_int();
  const std::int64_t dim = a.qk_nope_head_dim + a.qk_rope_head_dim;
  if (const Value& kv = model.at("kv_heads"); !kv.is_null() && kv.as_int() != m.heads)
    problems.push_back({file, pointer + "/kv_heads", fmt::format("latent attention gives each of {} heads a key and a value of its own; leave kv_heads out or use {}", m.heads, m.heads)});
  // hidden / heads is what a document that does not say is resolved to.
  if (const Value& d = model.at("head_dim"); !d.is_null() && d.as_int() != dim && d.as_int() != m.hidden / m.heads)
    problems.push_back({file, pointer + "/head_dim", fmt::format("heads of latent attention have qk_nope_head_dim {} + qk_rope_head_dim {}; leave head_dim out or use {}", a.qk_nope_head_dim,
                                                                 a.qk_rope_head_dim, dim)});
  struct Flag { const char* name; bool on; };
  for (const Flag& f : {Flag{"qkv_bias", m.qkv_bias && !m.linear_bias}, Flag{"linear_bias", m.linear_bias}, Flag{"attention_sinks", m.attention_sinks}, Flag{"qk_norm", m.qk_norm != QkNorm::kNone},
                        Flag{"attention_out_bias", m.attention_out_bias && !m.linear_bias}})
    if (f.on) problems.push_back({file, pointer + "/" + f.name, "true beside mla is not built yet; use false"});
  if (m.position != Position::kRotary) problems.push_back({file, pointer + "/position", "latent attention carries rotary positions; use \"rotary\""});
  m.kv_heads = m.heads;
  m.head_dim = dim;
  m.mla = a;
}

Result<Model> read_decoder(Model m, const Value& v, const std::string& file, const std::string& pointer) {
  m.layers = v.at("layers").as_int();
  m.hidden = v.at("hidden").as_int();
  m.ffn_hidden = v.at("ffn_hidden").as_int();
  m.heads = v.at("heads").as_int();
  m.kv_heads = number(v.at("kv_heads"), m.heads);
  m.head_dim = number(v.at("head_dim"), m.heads > 0 ? m.hidden / m.heads : 0);
  m.vocab = v.at("vocab").as_int();
  m.gated_mlp = flag(v.at("gated_mlp"), false);
  m.tied_embeddings = flag(v.at("tied_embeddings"), false);
  m.norm_bias = flag(v.at("norm_bias"), false);
  m.norm_weight = flag(v.at("norm_weight"), true);
  m.linear_bias = flag(v.at("linear_bias"), false);
  m.qkv_bias = flag(v.at("qkv_bias"), false) || m.linear_bias;
  m.attention_out_bias = flag(v.at("attention_out_bias"), false) || m.linear_bias;
  m.mlp_bias = flag(v.at("mlp_bias"), false) || m.linear_bias;
  m.head_bias = flag(v.at("head_bias"), false);
  m.pre_norms = flag(v.at("pre_norms"), true);
  m.post_norms = flag(v.at("post_norms"), false);
  m.qk_norm = v.at("qk_norm").is_bool() ? (v.at("qk_norm").as_bool() ? QkNorm::kHead : QkNorm::kNone) : pick(v.at("qk_norm"), kQkNorms, QkNorm::kNone);
  m.parallel_block = pick(v.at("parallel_block"), kParallel, ParallelBlock::kNone);
  m.embedding_norm = flag(v.at("embedding_norm"), false);
  m.embedding_scale = flag(v.at("embedding_scale"), false);
  m.logit_scale = flag(v.at("logit_scale"), false);
  m.attention_sinks = flag(v.at("attention_sinks"), false);
  m.activation = pick(v.at("activation"), kActivations, Activation::kSilu);
  m.norm = pick(v.at("norm"), kNorms, Norm::kRms);
  m.position = pick(v.at("position"), kPositions, Position::kRotary);
  m.max_positions = optional_int(v.at("max_positions"));
  m.rotary_dim = optional_int(v.at("rotary_dim"));
  m.nope_every = optional_int(v.at("nope_every"));
  m.sliding_window = optional_int(v.at("sliding_window"));
  m.attention_chunk = optional_int(v.at("attention_chunk"));
  m.global_every = optional_int(v.at("global_every"));
  if (const Value& cap = v.at("attn_softcap"); !cap.is_null()) m.attn_softcap = cap.as_double();
  if (const Value& cap = v.at("final_softcap"); !cap.is_null()) m.final_softcap = cap.as_double();

  m.mtp_layers = number(v.at("mtp_layers"), 0);
  if (const Value& moe = v.at("moe"); !moe.is_null()) m.moe = read_moe(moe);

  Diagnostics problems;
  if (m.moe) check_moe(m, file, pointer, problems);
  if (const Value& mla = v.at("mla"); !mla.is_null()) read_mla(mla, m, v, file, pointer, problems);
  if (m.kv_heads < 1 || m.heads % m.kv_heads != 0) {
    problems.push_back({file, pointer + "/kv_heads", fmt::format("{} heads cannot share {} key and value heads evenly; use a divisor of {}", m.heads, m.kv_heads, m.heads)});
  }
  if (m.head_dim < 1) {
    problems.push_back({file, pointer + "/head_dim", fmt::format("hidden {} over {} heads leaves no head dimension; state head_dim", m.hidden, m.heads)});
  }
  check_members(m, file, pointer, problems);
  if (const double n = parameters_in_double(m); n > kMostParameters) {
    problems.push_back({file, pointer, fmt::format("the model has about {:.1e} parameters; at most {:.1e} are possible", n, kMostParameters)});
  }
  if (!problems.empty()) return fail(std::move(problems));
  return m;
}

Result<Model> read_other(const FamilyRow& family, Model m, const Value& v, const std::string& file, const std::string& pointer) {
  Diagnostics problems;
  m.family = family.id;
  family.read(v, m, [&](const std::string& member, const std::string& text) { problems.push_back({file, pointer + "/" + member, text}); });
  if (!problems.empty()) return fail(std::move(problems));
  if (const double n = parameters_in_double(m); n > kMostParameters) {
    return fail(file, pointer, fmt::format("the model has about {:.1e} parameters; at most {:.1e} are possible", n, kMostParameters));
  }
  return m;
}

}  // namespace

Result<Model> read_model(const Value& v, const std::string& file, const std::string& pointer) {
  Model m;
  m.name = v.at("name").is_null() ? std::string() : v.at("name").as_string();
  const Value& family = v.at("family");
  const FamilyRow* row = family.is_null() ? nullptr : family_row(family.as_string());
  if (row == nullptr || row->decodes) {
    const Result<Model> decoder = read_decoder(std::move(m), v, file, pointer);
    if (!decoder || row == nullptr) return decoder;
    m = *decoder;
  }
  return read_other(*row, std::move(m), v, file, pointer);
}

Result<Training> read_training(const Value& scenario, const std::string& file) {
  const Value& v = scenario.at("training");
  Training t;
  t.sequence_length = v.at("sequence_length").as_int();
  t.global_batch = v.at("global_batch").as_int();
  t.micro_batch = v.at("micro_batch").as_int();
  t.precision = pick(v.at("precision"), kPrecisions, DType::kBf16);
  t.fp8_recipe = pick(v.at("fp8_recipe"), kRecipes, Fp8Recipe::kDelayed);
  t.activation_dtype = activation_dtype(t.precision);
  t.optimizer = pick(v.at("optimizer"), kOptimizers, Optimizer::kAdamW);
  t.param_dtype = pick(v.at("param_dtype"), kPrecisions, t.activation_dtype);
  t.grad_dtype = pick(v.at("grad_dtype"), kPrecisions, DType::kFp32);
  t.grad_reduce_dtype = pick(v.at("grad_reduce_dtype"), kPrecisions, t.grad_dtype);
  t.master_weights = flag(v.at("master_weights"), t.param_dtype != DType::kFp32);
  t.master = pick(v.at("master_dtype"), kMasters, Master::kFp32);
  if (!v.at("optimizer_dtype").is_null()) t.optimizer_dtype = pick(v.at("optimizer_dtype"), kPrecisions, DType::kFp32);
  t.sparse = !v.at("sparsity").is_null() && v.at("sparsity").as_string() == "2:4";
  t.loss = read_loss(v.at("loss"));
  t.adapter = read_adapter(v.at("adapter"));
  t.offload = read_offload(v.at("offload"));
  t.flash_attention = v.at("attention").is_null() || v.at("attention").as_string() == "flash";
  t.causal = v.at("attention_mask").is_null() || v.at("attention_mask").as_string() == "causal";
  t.cuda_graphs = flag(v.at("cuda_graphs"), false);
  t.recompute = read_recompute(v.at("recompute"));
  t.fusion = pick(v.at("fusion"), kFusions, Fusion::kFramework);
  if (t.global_batch % t.micro_batch != 0) {
    return fail(file, "/training/global_batch", fmt::format("{} sequences are no whole number of microbatches of {}; use a multiple of micro_batch x dp", t.global_batch, t.micro_batch));
  }
  return t;
}

StackKernels read_stack_kernels(const Value& stack) {
  const Value& v = stack.at("kernels");
  StackKernels k;
  k.fused_norm = flag(v.at("fused_norm"), k.fused_norm);
  k.fused_rope = flag(v.at("fused_rope"), k.fused_rope);
  k.fused_bias_activation = flag(v.at("fused_bias_activation"), k.fused_bias_activation);
  k.fused_cross_entropy = flag(v.at("fused_cross_entropy"), k.fused_cross_entropy);
  k.fused_softmax = flag(v.at("fused_softmax"), k.fused_softmax);
  k.fused_optimizer = flag(v.at("fused_optimizer"), k.fused_optimizer);
  k.gradient_accumulation_fusion = flag(v.at("gradient_accumulation_fusion"), k.gradient_accumulation_fusion);
  k.fused_projections = flag(v.at("fused_projections"), k.fused_projections);
  k.dropout = flag(v.at("dropout"), k.dropout);
  k.cross_entropy_fp32_logits = flag(v.at("cross_entropy_fp32_logits"), k.cross_entropy_fp32_logits);
  k.cross_entropy_compiled = flag(v.at("cross_entropy_compiled"), k.cross_entropy_compiled);
  k.cross_entropy_dense_gradient = flag(v.at("cross_entropy_dense_gradient"), k.cross_entropy_dense_gradient);
  k.gathers_inputs_again = flag(v.at("gathers_inputs_again"), k.gathers_inputs_again);
  k.selective_modules = strings(v.at("selective_modules"));
  k.quantised_weights_kept = flag(v.at("quantised_weights_kept"), k.quantised_weights_kept);
  k.tp_overlap_bulk = flag(v.at("tp_overlap_bulk"), k.tp_overlap_bulk);
  if (v.at("tp_overlap_sms").is_int()) k.tp_overlap_sms = static_cast<int>(v.at("tp_overlap_sms").as_int());
  k.pytorch_ring = v.at("ring_attention").is_string() && v.at("ring_attention").as_string() == "pytorch";
  k.zero_grad_buffer = flag(v.at("zero_grad_buffer"), k.zero_grad_buffer);
  k.grad_scale_kernel = flag(v.at("grad_scale_kernel"), k.grad_scale_kernel);
  k.expert_gemm = pick(v.at("expert_gemm"), kGroupLaunches, k.expert_gemm);
  k.fused_permute = flag(v.at("fused_permute"), k.fused_permute);
  k.fused_router = flag(v.at("fused_router"), k.fused_router);
  k.fp32_router = flag(v.at("fp32_router"), k.fp32_router);
  k.fp8_activation_input = flag(v.at("fp8_activation_input"), k.fp8_activation_input);
  k.narrow_attention_output = flag(v.at("narrow_attention_output"), k.narrow_attention_output);
  k.fp8_dispatch = flag(v.at("fp8_dispatch"), k.fp8_dispatch);
  k.exchange_sms = static_cast<int>(number(v.at("exchange_sms"), k.exchange_sms));
  k.weights_inside_experts = flag(v.at("weights_inside_experts"), k.weights_inside_experts);
  return k;
}

StackKernels apply_fusion(StackKernels k, Fusion fusion) {
  if (fusion == Fusion::kFramework) return k;
  const bool fused = fusion == Fusion::kCompiled;
  k.fused_norm = k.fused_rope = k.fused_bias_activation = k.fused_softmax = fused;
  if (!fused || k.cross_entropy_compiled) k.fused_cross_entropy = fused;
  return k;
}

StateBytes state_bytes(const Training& t) {
  StateBytes s;
  s.parameter = element_bytes(t.param_dtype);
  s.gradient = element_bytes(t.grad_dtype);
  const bool master = t.master_weights && s.parameter < 4;
  s.master = !master ? 0 : t.master == Master::kFp32 ? 4 : 2;
  const double moment = t.optimizer_dtype ? element_bytes(*t.optimizer_dtype) : master ? 4 : s.parameter;
  switch (t.optimizer) {
    case Optimizer::kSgd: break;
    case Optimizer::kMomentum: s.optimizer = moment; break;
    case Optimizer::kAdamW:
    case Optimizer::kMuon: s.optimizer = 2 * moment; break;
    case Optimizer::kAdamW8bit: s.optimizer = 2 * kBlockwiseByte; break;
    case Optimizer::kAdafactor: s.optimizer = 4; break;
  }
  return s;
}

}  // namespace orrery::workload
