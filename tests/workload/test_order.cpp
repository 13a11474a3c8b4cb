// Which kernels run, in which order, with which shapes.
#include <algorithm>
#include <string>
#include <vector>

#include "catch.h"
#include "samples.hpp"

using namespace orrery;
using namespace orrery::workload;
using namespace orrery::workload::samples;

namespace {

using Names = std::vector<std::string>;

int launches(const std::vector<Operation>& operations) {
  int sum = 0;
  for (const Operation& op : operations) {
    const auto* stream = std::get_if<Stream>(&op.work);
    sum += std::holds_alternative<Comm>(op.work) ? 0 : stream != nullptr ? stream->kernels : 1;
  }
  return sum;
}

}  // namespace

TEST_CASE("a fused Llama layer with sequence parallelism runs as Megatron launches it") {
  const Layer layer = make_layer(LayerKind::kDecoder, llama3_8b(), Training{}, {.micro_batch = 1, .sequence = 64, .tp = 2, .sequence_parallel = true}, StackKernels{});
  CHECK(names(layer.forward) == Names{"norm1", "all_gather_qkv", "qkv", "rope", "attention", "proj", "reduce_scatter_proj", "residual1", "norm2", "all_gather_mlp",
                                      "gate_up", "activation", "down", "reduce_scatter_down", "residual2"});
  CHECK(names(layer.backward) ==
        Names{"all_gather_down", "down_input_gradient", "down_weight_gradient", "activation_backward", "all_gather_mlp", "gate_up_input_gradient", "reduce_scatter_mlp",
              "gate_up_weight_gradient", "norm2_backward", "add_gradients", "all_gather_proj", "proj_input_gradient", "proj_weight_gradient", "attention_backward",
              "rope_backward", "all_gather_qkv", "qkv_input_gradient", "reduce_scatter_qkv", "qkv_weight_gradient", "norm1_backward", "add_gradients"});
  Names weight;
  for (const int i : layer.weight_gradient) weight.push_back(layer.backward[static_cast<std::size_t>(i)].name);
  CHECK(weight == Names{"down_weight_gradient", "all_gather_mlp", "gate_up_weight_gradient", "proj_weight_gradient", "all_gather_qkv", "qkv_weight_gradient"});
}

TEST_CASE("products have cuBLAS' layouts, and weight gradients accumulate in fp32 where the stack fuses that") {
  const Shard shard{.micro_batch = 2, .sequence = 64, .tp = 2};
  const auto gemm = [](const std::vector<Operation>& list, const char* name) { return std::get<Gemm>(find(list, name)->work); };
  StackKernels k;
  Layer layer = make_layer(LayerKind::kDecoder, llama3_8b(), Training{}, shard, k);
  CHECK(gemm(layer.forward, "qkv") == Gemm{.m = 128, .n = 3072, .k = 4096, .layout = GemmLayout::kTN});
  CHECK(gemm(layer.forward, "down") == Gemm{.m = 128, .n = 4096, .k = 7168, .layout = GemmLayout::kTN});
  CHECK(gemm(layer.backward, "down_input_gradient") == Gemm{.m = 128, .n = 7168, .k = 4096, .layout = GemmLayout::kNN});
  CHECK(gemm(layer.backward, "down_weight_gradient") == Gemm{.m = 4096, .n = 7168, .k = 128, .out = DType::kFp32, .layout = GemmLayout::kNT, .accumulate = true});
  CHECK(find(layer.backward, "accumulate_down") == nullptr);

  k.gradient_accumulation_fusion = false;
  layer = make_layer(LayerKind::kDecoder, llama3_8b(), Training{}, shard, k);
  CHECK(gemm(layer.backward, "down_weight_gradient") == Gemm{.m = 4096, .n = 7168, .k = 128, .layout = GemmLayout::kNT});
  const Stream add = std::get<Stream>(find(layer.backward, "accumulate_down")->work);
  CHECK(add.read_bytes == 6 * 4096 * 7168);
  CHECK(add.write_bytes == 4 * 4096 * 7168);

  // FSDP has no buffer to add to.
  Shard fsdp = shard;
  fsdp.gradient_buffer = false;
  for (const bool fused : {true, false}) {
    k.gradient_accumulation_fusion = fused;
    layer = make_layer(LayerKind::kDecoder, llama3_8b(), Training{}, fsdp, k);
    CHECK(find(layer.backward, "accumulate_down") == nullptr);
    CHECK_FALSE(gemm(layer.backward, "down_weight_gradient").accumulate);
  }
}

TEST_CASE("a GPT layer adds its biases, masks and dropouts") {
  StackKernels k = megatron_kernels();
  const Model m = gpt(2, 256, 4, 1000, 64);
  const Shard one{.micro_batch = 1, .sequence = 64};
  Layer layer = make_layer(LayerKind::kDecoder, m, megatron_training(), one, k);
  CHECK(names(layer.forward) == Names{"norm1", "qkv", "scores", "softmax", "attention_dropout", "context", "permute_context", "proj", "residual1", "norm2", "up",
                                      "activation", "down", "residual2"});
  CHECK(names(layer.backward) ==
        Names{"residual2_dropout_backward", "residual2_bias_gradient", "down_input_gradient", "down_weight_gradient", "activation_backward", "up_bias_gradient",
              "up_input_gradient", "up_weight_gradient", "norm2_backward", "add_gradients", "residual1_dropout_backward", "residual1_bias_gradient", "proj_input_gradient",
              "proj_weight_gradient", "permute_context_backward", "probabilities_gradient", "values_gradient", "attention_dropout_backward", "softmax_backward",
              "query_gradient", "keys_gradient", "qkv_bias_gradient", "qkv_input_gradient", "qkv_weight_gradient", "norm1_backward", "add_gradients"});
  k.fused_bias_activation = false;
  layer = make_layer(LayerKind::kDecoder, m, megatron_training(), one, k);
  CHECK(find(layer.forward, "qkv_bias") != nullptr);
  CHECK(find(layer.forward, "up_bias") != nullptr);
  CHECK(std::get<Stream>(find(layer.forward, "residual1")->work).kernels == 3);  // bias, dropout, add
}

TEST_CASE("norms after the branches, norms of queries and keys, and eager rotary positions have kernels of their own") {
  Model m = llama3_8b();
  m.post_norms = true;
  m.qk_norm = QkNorm::kHead;
  Training t;
  t.fusion = Fusion::kNone;
  const Layer layer = make_layer(LayerKind::kDecoder, m, t, {.micro_batch = 1, .sequence = 64}, StackKernels{});
  CHECK(names(layer.forward) == Names{"norm1", "qkv", "qk_norm", "rope", "attention", "proj", "post_norm1", "residual1", "norm2", "gate_up", "activation", "gate",
                                      "down", "post_norm2", "residual2"});
  CHECK(std::get<Stream>(find(layer.forward, "rope")->work).kernels == 10);
  m.position = Position::kNone;
  CHECK(find(make_layer(LayerKind::kDecoder, m, t, {.micro_batch = 1, .sequence = 64}, StackKernels{}).forward, "rope") == nullptr);
}

TEST_CASE("fusing takes launches and bytes away: eager most, compiled least") {
  const Shard one{.micro_batch = 1, .sequence = 64};
  const auto bytes = [](const std::vector<Operation>& operations) {
    std::int64_t sum = 0;
    for (const Operation& op : operations) {
      if (const auto* s = std::get_if<Stream>(&op.work)) sum += s->read_bytes + s->write_bytes;
    }
    return sum;
  };
  std::vector<int> counts;
  std::vector<std::int64_t> moved;
  for (const Fusion fusion : {Fusion::kNone, Fusion::kFramework, Fusion::kCompiled}) {
    Training t;
    t.fusion = fusion;
    StackKernels k;
    k.fused_projections = false;
    const Layer layer = make_layer(LayerKind::kDecoder, llama3_8b(), t, one, k);
    counts.push_back(launches(layer.forward));
    moved.push_back(bytes(layer.forward) + bytes(layer.backward));
  }
  CHECK(counts == std::vector<int>{38, 14, 13});  // eager: 2 x 8 norms, 10 rotary, 2 gate, 7 products, attention, 2 residuals
  CHECK(moved[0] > moved[1]);
  CHECK(moved[1] > moved[2]);
}

TEST_CASE("quantised recipes cast every operand in both orientations, and fuse the cast where no maximum is needed first") {
  const Shard one{.micro_batch = 1, .sequence = 64};
  Training t;
  t.precision = DType::kFp8;
  Layer layer = make_layer(LayerKind::kDecoder, llama3_8b(), t, one, StackKernels{});
  CHECK(names(layer.forward) == Names{"norm1", "qkv", "rope", "attention", "quantise_attention_output", "proj", "residual1", "norm2", "gate_up", "activation", "down", "residual2"});
  CHECK(std::get<Gemm>(find(layer.forward, "qkv")->work).in == DType::kFp8);
  CHECK(std::get<Gemm>(find(layer.forward, "qkv")->work).out == DType::kBf16);
  CHECK(std::get<Attention>(find(layer.forward, "attention")->work).dtype == DType::kBf16);
  CHECK(std::get<Stream>(find(layer.forward, "norm1")->work).write_bytes == 2 * 64 * 4096);  // two one-byte copies
  CHECK(layer.once_per_step.size() == 4);
  CHECK(find(layer.backward, "quantise_down_gradient") != nullptr);
  t.fp8_recipe = Fp8Recipe::kCurrent;
  layer = make_layer(LayerKind::kDecoder, llama3_8b(), t, one, StackKernels{});
  CHECK(find(layer.forward, "norm1_output_amax") != nullptr);
  CHECK(find(layer.forward, "quantise_norm1_output") != nullptr);
  t.precision = DType::kMxfp8;
  layer = make_layer(LayerKind::kDecoder, llama3_8b(), t, one, StackKernels{});
  CHECK(std::get<Stream>(find(layer.forward, "quantise_attention_output")->work).write_bytes == 2 * 64 * 4096 * 33 / 32);  // E8M0 per 32
  t.precision = DType::kFp4;
  layer = make_layer(LayerKind::kDecoder, llama3_8b(), t, one, StackKernels{});
  CHECK(std::get<Stream>(find(layer.forward, "quantise_attention_output")->work).write_bytes == 2 * 64 * 4096 * 9 / 16);  // E4M3 per 16
  // The head stays out of it.
  CHECK(std::get<Gemm>(find(make_layer(LayerKind::kHead, llama3_8b(), t, one, StackKernels{}).forward, "logits")->work).in == DType::kBf16);
}

TEST_CASE("embedding: looked up, reduced over tp, dropped out; positions keep it whole until they are added") {
  StackKernels k;
  const Shard sp{.micro_batch = 1, .sequence = 64, .tp = 2, .sequence_parallel = true};
  Layer layer = make_layer(LayerKind::kEmbedding, llama3_8b(), Training{}, sp, k);
  CHECK(names(layer.forward) == Names{"embedding", "reduce_scatter_embedding"});
  CHECK(names(layer.backward) == Names{"all_gather_embedding", "embedding_weight_gradient"});
  CHECK(layer.input_bytes == 0);
  CHECK(layer.output_bytes == 2 * 32 * 4096);
  CHECK(layer.saved.empty());
  k.dropout = true;
  layer = make_layer(LayerKind::kEmbedding, gpt3_175b(), Training{}, sp, k);
  CHECK(names(layer.forward) == Names{"embedding", "all_reduce_embedding", "add_positions", "embedding_dropout"});
  CHECK(names(layer.backward) == Names{"embedding_dropout_backward", "all_gather_embedding", "embedding_weight_gradient", "position_weight_gradient"});
  CHECK(saved_bytes(layer) == 32 * 12288);  // the mask
  CHECK(layer.parameters.replicated == 2048 * 12288);
}

TEST_CASE("a stack that keeps gathered inputs saves whole tensors and gathers none of them again") {
  StackKernels again, kept;
  kept.gathers_inputs_again = false;
  const Shard shard{.micro_batch = 1, .sequence = 64, .tp = 2, .sequence_parallel = true};
  const Layer a = make_layer(LayerKind::kDecoder, llama3_8b(), Training{}, shard, again);
  const Layer k = make_layer(LayerKind::kDecoder, llama3_8b(), Training{}, shard, kept);
  const auto gathers = [](const Layer& layer) {
    const Names all = names(layer.backward);
    return std::count_if(all.begin(), all.end(), [](const std::string& n) { return n.rfind("all_gather", 0) == 0; });
  };
  CHECK(gathers(a) - gathers(k) == 2);                      // before qkv and before the MLP
  CHECK(saved_bytes(k) - saved_bytes(a) == 2 * 2 * 64 * 4096 - 2 * 2 * 32 * 4096);  // whole in place of shard, each of 2-byte elements
}

TEST_CASE("PyTorch's own loss fills a gradient of the log-probabilities before that of the logits: one tensor and one pass of reading more") {
  StackKernels k;
  k.fused_cross_entropy = false;
  k.cross_entropy_fp32_logits = k.cross_entropy_dense_gradient = true;
  const Layer head = make_layer(LayerKind::kHead, llama3_8b(), Training{}, {.micro_batch = 1, .sequence = 64}, k);
  REQUIRE(head.backward.size() > 1);
  CHECK(head.backward[0].name == "nll_loss_backward");
  CHECK(head.backward[1].name == "cross_entropy_backward");
  const std::int64_t wide = 4LL * 64 * 128256;
  CHECK(std::get<Stream>(head.backward[0].work).write_bytes == wide);
  CHECK(std::get<Stream>(head.backward[1].work).read_bytes == 2 * wide);
}

TEST_CASE("the unfused loss casts, takes the softmax and reads it for the loss; with tp it agrees on maximum, sum and target") {
  StackKernels k;
  k.fused_cross_entropy = false;
  k.cross_entropy_fp32_logits = true;
  const Layer one = make_layer(LayerKind::kHead, llama3_8b(), Training{}, {.micro_batch = 1, .sequence = 64}, k);
  CHECK(names(one.forward) == Names{"final_norm", "logits", "logits_to_fp32", "log_softmax", "loss"});
  CHECK(names(one.backward) == Names{"cross_entropy_backward", "logits_gradient_cast", "logits_input_gradient", "logits_weight_gradient", "final_norm_backward"});
  CHECK(one.output_bytes == 0);
  const Layer tp = make_layer(LayerKind::kHead, llama3_8b(), Training{}, {.micro_batch = 1, .sequence = 64, .tp = 2}, k);
  CHECK(names(tp.forward) == Names{"final_norm", "logits", "logits_to_fp32", "logits_max", "all_reduce_logits_max", "log_softmax", "all_reduce_logits_sum",
                                   "all_reduce_target_logits", "loss"});
  CHECK(names(tp.backward) == Names{"cross_entropy_backward", "logits_gradient_cast", "logits_input_gradient", "all_reduce_head", "logits_weight_gradient", "final_norm_backward"});
}
