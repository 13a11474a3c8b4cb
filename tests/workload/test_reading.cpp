// Models, recipes and kernels read from resolved documents; every refusal by its exact words.
#include <string>

#include "catch.h"
#include "orrery/document/value.hpp"
#include "orrery/workload/layers.hpp"
#include "samples.hpp"

using namespace orrery;
using namespace orrery::workload;
using document::Value;

namespace {

Value parse(const std::string& text) {
  const auto v = document::parse(text, "test");
  REQUIRE(v);
  return *v;
}
Value small_model() {
  return parse(R"({"name":"small","layers":2,"hidden":256,"ffn_hidden":1024,"gated_mlp":true,"activation":"gelu","heads":8,"kv_heads":2,"head_dim":32,
                   "vocab":1000,"tied_embeddings":true,"norm":"layer","norm_bias":true,"post_norms":false,"qk_norm":true,"linear_bias":true,"qkv_bias":false,
                   "position":"learned","max_positions":64})");
}
std::string refusal(const Value& v) {
  const auto m = read_model(v, "job.json", "/model");
  REQUIRE_FALSE(m);
  std::string all;
  for (const Diagnostic& d : m.error()) all += to_string(d) + "\n";
  return all;
}

}  // namespace

TEST_CASE("every member of a model reaches the value") {
  const auto m = read_model(small_model(), "job.json", "/model");
  REQUIRE(m);
  CHECK(m->name == "small");
  CHECK(m->layers == 2);
  CHECK(m->hidden == 256);
  CHECK(m->ffn_hidden == 1024);
  CHECK(m->heads == 8);
  CHECK(m->kv_heads == 2);
  CHECK(m->head_dim == 32);
  CHECK(m->vocab == 1000);
  CHECK(m->gated_mlp);
  CHECK(m->tied_embeddings);
  CHECK(m->norm_bias);
  CHECK_FALSE(m->post_norms);
  CHECK(m->qk_norm == QkNorm::kHead);
  CHECK(m->linear_bias);
  CHECK(m->qkv_bias);  // a bias on every linear layer is one on QKV too
  CHECK(m->activation == Activation::kGelu);
  CHECK(m->norm == Norm::kLayer);
  CHECK(m->position == Position::kLearned);
  CHECK(m->max_positions == 64);
}

TEST_CASE("members that contradict each other, or that nothing would read, are refused by name") {
  const auto with = [](const char* member, const Value& value, const char* other = nullptr, const Value& other_value = Value()) {
    Value v = small_model();
    v.set("position", "rotary");
    v.erase("max_positions");
    v.set(member, value);
    if (other != nullptr) v.set(other, other_value);
    return refusal(v);
  };
  CHECK(with("attention_chunk", 64, "sliding_window", 64) == "job.json:/model/attention_chunk: sliding_window and attention_chunk exclude each other; state one\n");
  CHECK(with("global_every", 2) == "job.json:/model/global_every: every layer is global without sliding_window or attention_chunk; state one of them\n");
  CHECK(with("pre_norms", false) == "job.json:/model/pre_norms: a layer without norms is not supported; set pre_norms or post_norms\n");
  CHECK(with("parallel_block", "one_norm", "post_norms", true) == "job.json:/model/parallel_block: parallel branches have norms before them only; unset post_norms and pre_norms\n");
  CHECK(with("rotary_dim", 33) == "job.json:/model/rotary_dim: 33 is more than the 32 elements of a head\n");
  CHECK(with("nope_every", 2, "position", "none") == "job.json:/model/nope_every: the position encoding is not rotary; unset it\n");
  CHECK(with("norm_weight", false) == "job.json:/model/norm_bias: norms without a weight have no bias; unset it\n");
}

TEST_CASE("a model without kv_heads or head_dim has as many as heads, of hidden over heads") {
  Value v = small_model();
  v.set("kv_heads", nullptr);
  v.set("head_dim", nullptr);
  v.set("max_positions", nullptr);
  const auto m = read_model(v, "job.json", "/model");
  REQUIRE(m);
  CHECK(m->kv_heads == 8);
  CHECK(m->head_dim == 32);
  CHECK_FALSE(m->max_positions);
  const Shard s{.micro_batch = 1, .sequence = 100};
  CHECK(layer_parameters(LayerKind::kEmbedding, *m, s).replicated == 100 * 256);  // positions: the sequence length
}

TEST_CASE("what cannot be a model is refused in words") {
  Value v = small_model();
  v.set("kv_heads", 3);
  CHECK(refusal(v) == "job.json:/model/kv_heads: 8 heads cannot share 3 key and value heads evenly; use a divisor of 8\n");
  v = small_model();
  v.set("hidden", 4);
  v.set("head_dim", nullptr);
  CHECK(refusal(v) == "job.json:/model/head_dim: hidden 4 over 8 heads leaves no head dimension; state head_dim\n");
  v = small_model();
  v.set("hidden", std::int64_t{1} << 24);
  v.set("ffn_hidden", std::int64_t{1} << 26);
  v.set("layers", std::int64_t{1} << 20);
  CHECK(refusal(v) == "job.json:/model: the model has about 3.5e+21 parameters; at most 7.2e+16 are possible\n");
}

TEST_CASE("every member of the recipe reaches the value") {
  const Value v = parse(R"({"training":{"sequence_length":4096,"global_batch":64,"micro_batch":2,"precision":"mxfp8","fp8_recipe":"current","optimizer":"momentum",
    "param_dtype":"fp32","master_weights":false,"grad_dtype":"bf16","grad_reduce_dtype":"fp32","attention":"math","attention_mask":"full",
    "recompute":{"mode":"full","layers":3,"method":"block"},"fusion":"compiled","cuda_graphs":true}})");
  const auto t = read_training(v, "job.json");
  REQUIRE(t);
  CHECK(t->sequence_length == 4096);
  CHECK(t->global_batch == 64);
  CHECK(t->micro_batch == 2);
  CHECK(t->precision == DType::kMxfp8);
  CHECK(t->activation_dtype == DType::kBf16);
  CHECK(t->fp8_recipe == Fp8Recipe::kCurrent);
  CHECK(t->optimizer == Optimizer::kMomentum);
  CHECK(t->param_dtype == DType::kFp32);
  CHECK_FALSE(t->master_weights);
  CHECK(t->grad_dtype == DType::kBf16);
  CHECK(t->grad_reduce_dtype == DType::kFp32);
  CHECK_FALSE(t->flash_attention);
  CHECK_FALSE(t->causal);
  CHECK(t->recompute.mode == RecomputeMode::kFull);
  CHECK(t->recompute.layers == 3);
  CHECK(t->recompute.block);
  CHECK(t->fusion == Fusion::kCompiled);
  CHECK(t->cuda_graphs);
}

TEST_CASE("recompute is a word or an object, and 32-bit recipes have 32-bit activations") {
  Value v = parse(R"({"training":{"sequence_length":128,"global_batch":8,"micro_batch":1,"precision":"tf32","recompute":"selective"}})");
  auto t = read_training(v, "job.json");
  REQUIRE(t);
  CHECK(t->recompute.mode == RecomputeMode::kSelective);
  CHECK(t->recompute.modules.empty());
  CHECK(t->activation_dtype == DType::kFp32);
  v.resolve("/training")->set("recompute", parse(R"({"mode":"selective","modules":["norm","mlp_act"]})"));
  t = read_training(v, "job.json");
  REQUIRE(t);
  CHECK(t->recompute.modules == std::vector<std::string>{"norm", "mlp_act"});
  v.resolve("/training")->set("micro_batch", 3);
  t = read_training(v, "job.json");
  REQUIRE_FALSE(t);
  CHECK(to_string(t.error()[0]) == "job.json:/training/global_batch: 8 sequences are no whole number of microbatches of 3; use a multiple of micro_batch x dp");
}

TEST_CASE("every member of a stack's kernels reaches the value") {
  const char* names[] = {"fused_norm", "fused_rope", "fused_bias_activation", "fused_cross_entropy", "fused_softmax", "fused_optimizer", "gradient_accumulation_fusion",
                         "fused_projections", "dropout", "cross_entropy_fp32_logits", "zero_grad_buffer", "grad_scale_kernel", "cross_entropy_compiled",
                         "cross_entropy_dense_gradient", "gathers_inputs_again"};
  const auto flags = [](const StackKernels& k) {
    return std::vector<bool>{k.fused_norm, k.fused_rope, k.fused_bias_activation, k.fused_cross_entropy, k.fused_softmax, k.fused_optimizer, k.gradient_accumulation_fusion,
                             k.fused_projections, k.dropout, k.cross_entropy_fp32_logits, k.zero_grad_buffer, k.grad_scale_kernel,
                             k.cross_entropy_compiled, k.cross_entropy_dense_gradient, k.gathers_inputs_again};
  };
  const std::vector<bool> standard = flags(StackKernels{});
  for (std::size_t i = 0; i < standard.size(); ++i) {
    INFO(names[i]);
    Value stack;
    Value kernels;
    kernels.set(names[i], Value(!standard[i]));
    stack.set("kernels", kernels);
    std::vector<bool> expected = standard;
    expected[i] = !expected[i];
    CHECK(flags(read_stack_kernels(stack)) == expected);
  }
  CHECK(read_stack_kernels(parse(R"({"kernels":{"selective_modules":["core_attn"]}})")).selective_modules == std::vector<std::string>{"core_attn"});
}

TEST_CASE("fusion none takes the block's fused kernels away, compiled brings them, framework leaves the stack's") {
  StackKernels k;
  k.fused_norm = false;
  k.fused_optimizer = false;
  CHECK_FALSE(apply_fusion(k, Fusion::kFramework).fused_norm);
  CHECK(apply_fusion(k, Fusion::kFramework).fused_rope);
  CHECK(apply_fusion(k, Fusion::kCompiled).fused_norm);
  CHECK_FALSE(apply_fusion(k, Fusion::kCompiled).fused_optimizer);  // not the block's
  CHECK_FALSE(apply_fusion(k, Fusion::kNone).fused_rope);
  CHECK_FALSE(apply_fusion(k, Fusion::kNone).fused_cross_entropy);
  k.fused_cross_entropy = k.cross_entropy_compiled = false;
  CHECK_FALSE(apply_fusion(k, Fusion::kCompiled).fused_cross_entropy);  // the loss stays outside
  k.cross_entropy_compiled = true;
  CHECK(apply_fusion(k, Fusion::kCompiled).fused_cross_entropy);
}

TEST_CASE("microbatches whose activations no 64-bit count holds are refused in words") {
  Training t;
  t.micro_batch = 1;
  t.sequence_length = 8192;
  CHECK(check_sizes(samples::llama3_8b(), t, "job.json"));
  t.sequence_length = std::int64_t{1} << 40;
  const auto wide = check_sizes(samples::llama3_8b(), t, "job.json");
  REQUIRE_FALSE(wide);
  CHECK(to_string(wide.error()[0]) == "job.json:/training: a microbatch of 1 x 1099511627776 tokens moves about 1.2e+19 bytes in one layer; at most 4.6e+18 are possible");
  t.sequence_length = std::int64_t{1} << 30;
  CHECK(check_sizes(samples::llama3_8b(), t, "job.json"));
  t.flash_attention = false;  // the scores are square
  CHECK_FALSE(check_sizes(samples::llama3_8b(), t, "job.json"));
}
