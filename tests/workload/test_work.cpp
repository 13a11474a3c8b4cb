// FLOPs and bytes of a layer's operations against the exact counter, whatever way the layer is run.
#include <cmath>
#include <string>

#include "catch.h"
#include "samples.hpp"

using namespace orrery;
using namespace orrery::workload;
using namespace orrery::workload::samples;

namespace {

/// FLOPs per token of one forward pass of the whole model, by the exact counter.
double forward_per_token(const Model& m, std::int64_t sequence, bool causal) { return count(m, sequence, causal).exact / 3; }

Work whole_forward(const Model& m, const Training& t, const Shard& shard, const StackKernels& k) {
  const Work layer = work(make_layer(LayerKind::kDecoder, m, t, shard, k).forward);
  const Work head = work(make_layer(LayerKind::kHead, m, t, shard, k).forward);
  const double n = static_cast<double>(m.layers);
  return {n * layer.gemm + head.gemm, n * layer.attention};
}
Work whole_backward(const Model& m, const Training& t, const Shard& shard, const StackKernels& k) {
  const Work layer = work(make_layer(LayerKind::kDecoder, m, t, shard, k).backward);
  const Work head = work(make_layer(LayerKind::kHead, m, t, shard, k).backward);
  const double n = static_cast<double>(m.layers);
  return {n * layer.gemm + head.gemm, n * layer.attention};
}

}  // namespace

TEST_CASE("operations of all layers add up to the exact count: forward once, GEMMs backward twice, flash attention two and a half times") {
  for (const Model& m : {llama3_8b(), llama3_70b(), gpt3_175b()}) {
    for (const bool causal : {true, false}) {
      Training t;
      t.causal = causal;
      const Shard shard{.micro_batch = 2, .sequence = 1024};
      const double tokens = 2 * 1024;
      const Work forward = whole_forward(m, t, shard, StackKernels{});
      const Work backward = whole_backward(m, t, shard, StackKernels{});
      CHECK(forward.total() == Approx(tokens * forward_per_token(m, 1024, causal)).epsilon(1e-12));
      CHECK(backward.gemm == 2 * forward.gemm);
      CHECK(backward.attention == 2.5 * forward.attention);
      // Without the scores that its backward makes again, a step is three forwards: the model's FLOPs.
      CHECK(forward.total() + backward.gemm + 2 * forward.attention == Approx(tokens * count(m, 1024, causal).exact).epsilon(1e-12));
    }
  }
}

TEST_CASE("unfused attention multiplies the whole square whatever the mask, twice again backward") {
  Training t;
  t.flash_attention = false;
  const Shard shard{.micro_batch = 1, .sequence = 512};
  for (const Model& m : {llama3_8b(), gpt3_175b()}) {
    const Work forward = whole_forward(m, t, shard, StackKernels{});
    CHECK(forward.attention == 0);
    CHECK(forward.gemm == Approx(512 * forward_per_token(m, 512, false)).epsilon(1e-12));
    CHECK(whole_backward(m, t, shard, StackKernels{}).gemm == 2 * forward.gemm);
  }
}

TEST_CASE("full recompute runs the forward pass again with its collectives, selective its modules alone") {
  const Model m = llama3_8b();
  const Shard shard{.micro_batch = 1, .sequence = 1024, .tp = 4, .sequence_parallel = true};
  Training t;
  t.recompute.mode = RecomputeMode::kFull;
  Layer layer = make_layer(LayerKind::kDecoder, m, t, shard, StackKernels{});
  CHECK(layer.recompute == layer.forward);
  CHECK(comm_bytes(layer.recompute, CommKind::kAllGather) == 2 * 2 * 1024 * 4096);

  t.recompute.mode = RecomputeMode::kSelective;
  t.recompute.modules = {"core_attn"};
  layer = make_layer(LayerKind::kDecoder, m, t, shard, StackKernels{});
  CHECK(names(layer.recompute) == std::vector<std::string>{"attention"});
  CHECK(work(layer.recompute).attention == work(layer.forward).attention);
  t.recompute.modules = {"norm", "mlp_act"};
  layer = make_layer(LayerKind::kDecoder, m, t, shard, StackKernels{});
  CHECK(names(layer.recompute) == std::vector<std::string>{"norm1", "norm2", "activation"});
  t.recompute.modules = {"mlp"};
  layer = make_layer(LayerKind::kDecoder, m, t, shard, StackKernels{});
  CHECK(names(layer.recompute) == std::vector<std::string>{"all_gather_mlp", "gate_up", "activation", "down", "reduce_scatter_down"});
  CHECK(make_layer(LayerKind::kHead, m, t, shard, StackKernels{}).recompute.empty());

  // Unfused: everything between the projections.
  t.flash_attention = false;
  t.recompute.modules = {"core_attn"};
  StackKernels k;
  k.dropout = true;
  layer = make_layer(LayerKind::kDecoder, gpt3_175b(), t, shard, k);
  CHECK(names(layer.recompute) == std::vector<std::string>{"scores", "softmax", "attention_dropout", "context", "permute_context"});
}

TEST_CASE("every other product is recomputed as torchtitan does: key, projection and up, with what they need") {
  Training t;
  t.recompute.mode = RecomputeMode::kSelective;
  t.recompute.modules = {"matmul_every_other"};
  StackKernels k;
  k.fused_projections = false;
  const Layer layer = make_layer(LayerKind::kDecoder, llama3_8b(), t, {.micro_batch = 1, .sequence = 64}, k);
  CHECK(names(layer.recompute) == std::vector<std::string>{"norm1", "key", "rope", "proj", "residual1", "norm2", "up", "activation"});
  const Layer split = make_layer(LayerKind::kDecoder, llama3_8b(), t, {.micro_batch = 1, .sequence = 64, .tp = 2, .sequence_parallel = true}, k);
  // What a reduce-scatter gave is kept, so the projection before it is not run again.
  CHECK(find(split.recompute, "proj") == nullptr);
  CHECK(comm_bytes(split.recompute, CommKind::kReduceScatter) == 0);
}

TEST_CASE("a norm, a gate, an eager norm and a loss move the bytes of their kernels") {
  // bytes per element: RMSNorm 2+2, SwiGLU 2+2+2, fused cross-entropy 2+2; times at 2.90 TB/s
  const auto stream = [](const Layer& layer, const char* name) { return std::get<Stream>(find(layer.forward, name)->work); };
  const Shard shard{.micro_batch = 1, .sequence = 8192};
  const Layer l70 = make_layer(LayerKind::kDecoder, llama3_70b(), Training{}, shard, StackKernels{});
  const Layer head = make_layer(LayerKind::kHead, llama3_8b(), Training{}, shard, StackKernels{});
  const auto at_copy_rate = [](const Stream& s, double unit) { return static_cast<double>(s.read_bytes + s.write_bytes) / 2.9e12 / unit; };
  {
    INFO("mem.rmsnorm_fwd");
    CHECK(at_copy_rate(stream(l70, "norm1"), 1e-6) == Approx(92.5639503448).epsilon(1e-9));
  }
  {
    INFO("mem.swiglu_fwd");
    CHECK(at_copy_rate(stream(l70, "activation"), 1e-6) == Approx(485.96073931).epsilon(1e-9));
  }
  {
    INFO("mem.xent_fused");
    CHECK(at_copy_rate(stream(head, "cross_entropy"), 1e-3) == Approx(1.44920434759).epsilon(1e-9));
  }
  Training eager;
  eager.fusion = Fusion::kNone;
  const Layer unfused = make_layer(LayerKind::kDecoder, llama3_70b(), eager, shard, StackKernels{});
  CHECK(stream(unfused, "norm1").kernels == 8);
  CHECK(stream(unfused, "norm1").read_bytes + stream(unfused, "norm1").write_bytes == 36 * 8192 * 8192LL);
}

TEST_CASE("sequence parallelism gathers and scatters four times forward and again to the weight gradient, tensor parallelism all-reduces four times") {
  const Model m = llama3_8b();
  const std::int64_t whole = 2 * 1024 * 4096;  // bytes of bf16 activations of all tokens
  const Layer sp = make_layer(LayerKind::kDecoder, m, Training{}, {.micro_batch = 1, .sequence = 1024, .tp = 4, .sequence_parallel = true}, StackKernels{});
  CHECK(comm_bytes(sp.forward, CommKind::kAllGather) == 2 * whole);
  CHECK(comm_bytes(sp.forward, CommKind::kReduceScatter) == 2 * whole);
  CHECK(comm_bytes(sp.backward, CommKind::kAllGather) == 4 * whole);  // output gradients, and the inputs once more
  CHECK(comm_bytes(sp.backward, CommKind::kReduceScatter) == 2 * whole);
  CHECK(comm_bytes(sp.forward, CommKind::kAllReduce) + comm_bytes(sp.backward, CommKind::kAllReduce) == 0);
  const Layer tp = make_layer(LayerKind::kDecoder, m, Training{}, {.micro_batch = 1, .sequence = 1024, .tp = 4}, StackKernels{});
  CHECK(comm_bytes(tp.forward, CommKind::kAllReduce) == 2 * whole);
  CHECK(comm_bytes(tp.backward, CommKind::kAllReduce) == 2 * whole);
  CHECK(comm_bytes(tp.forward, CommKind::kAllGather) + comm_bytes(tp.backward, CommKind::kAllGather) == 0);
  // Quantised inputs are gathered quantised.
  Training fp8;
  fp8.precision = DType::kFp8;
  const Layer q = make_layer(LayerKind::kDecoder, m, fp8, {.micro_batch = 1, .sequence = 1024, .tp = 4, .sequence_parallel = true}, StackKernels{});
  CHECK(comm_bytes(q.forward, CommKind::kAllGather) == whole);
  CHECK(comm_bytes(q.forward, CommKind::kReduceScatter) == 2 * whole);
}

TEST_CASE("the vocabulary is padded to a multiple of the stack's unit times tp, in parameters and products") {
  const Model m = gpt(12, 768, 12, 50257, 1024);
  const Shard shard{.micro_batch = 1, .sequence = 128, .tp = 8, .vocab_multiple = 128};
  CHECK(padded_vocab(m, shard) == 51200);
  CHECK(layer_parameters(LayerKind::kEmbedding, m, shard).sharded == 6400 * 768);
  const Layer head = make_layer(LayerKind::kHead, m, Training{}, shard, StackKernels{});
  CHECK(std::get<Gemm>(find(head.forward, "logits")->work).n == 6400);
  CHECK(padded_vocab(m, {.micro_batch = 1, .sequence = 128, .tp = 1, .vocab_multiple = 128}) == 50304);
  CHECK(comm_bytes(head.forward, CommKind::kAllReduce) == 3 * 4 * 128);  // maximum, sum and target of every token
}
