// How branches, norms and biases stand around attention and MLP in the families of decoders.
#include "catch.h"
#include "samples.hpp"

using namespace orrery;
using namespace orrery::workload;
using namespace orrery::workload::samples;

namespace {

using Names = std::vector<std::string>;
const Shard kOne{.micro_batch = 1, .sequence = 2048};

Layer layer(const Model& m, LayerKind kind = LayerKind::kDecoder) { return make_layer(kind, m, Training{}, kOne, StackKernels{}, block_of(m, 0)); }
std::int64_t decoder_parameters(const Model& m) { return layer_parameters(LayerKind::kDecoder, m, kOne).total(); }

}  // namespace

TEST_CASE("parallel branches read one norm, or one each, and both add to the stream") {
  Model m = llama3_8b();
  m.parallel_block = ParallelBlock::kOneNorm;
  CHECK(names(layer(m).forward) == Names{"norm1", "qkv", "rope", "attention", "proj", "gate_up", "activation", "down", "residual1", "residual2"});
  const std::int64_t one = decoder_parameters(m);
  m.parallel_block = ParallelBlock::kTwoNorms;
  CHECK(names(layer(m).forward) == Names{"norm1", "qkv", "rope", "attention", "proj", "norm2", "gate_up", "activation", "down", "residual1", "residual2"});
  CHECK(decoder_parameters(m) == one + m.hidden);
}

TEST_CASE("the gradient of a norm that both branches read is the sum of theirs") {
  Model m = llama3_8b();
  m.parallel_block = ParallelBlock::kOneNorm;
  const Layer one = layer(m);
  int sums = 0;
  for (const Operation& op : one.backward) sums += op.name == "add_gradients" ? 1 : 0;
  CHECK(sums == 2);  // branches at the norm's output; norm and residual at the layer's input
}

TEST_CASE("norms may stand after the branches only, and then the stream itself is projected") {
  Model m = llama3_8b();
  m.pre_norms = false;
  m.post_norms = true;
  CHECK(names(layer(m).forward) == Names{"qkv", "rope", "attention", "proj", "post_norm1", "residual1", "gate_up", "activation", "down", "post_norm2", "residual2"});
  CHECK(decoder_parameters(m) == decoder_parameters(llama3_8b()));
}

TEST_CASE("norms without a weight have no parameters") {
  Model m = llama3_8b();
  m.norm_weight = false;
  CHECK(decoder_parameters(m) == decoder_parameters(llama3_8b()) - 2 * m.hidden);
  CHECK(layer_parameters(LayerKind::kHead, m, kOne).replicated == 0);
}

TEST_CASE("norms of queries and keys have a weight a head dimension, a head or all, or none") {
  Model m = llama3_8b();
  const std::int64_t plain = decoder_parameters(m);
  m.qk_norm = QkNorm::kHead;
  CHECK(decoder_parameters(m) == plain + 2 * 128);
  m.qk_norm = QkNorm::kEachHead;
  CHECK(decoder_parameters(m) == plain + (32 + 8) * 128);
  m.qk_norm = QkNorm::kFull;
  CHECK(decoder_parameters(m) == plain + (32 + 8) * 128);
  m.qk_norm = QkNorm::kUnweighted;
  CHECK(decoder_parameters(m) == plain);
  CHECK(names(layer(m).forward) == Names{"norm1", "qkv", "rope", "qk_norm", "attention", "proj", "residual1", "norm2", "gate_up", "activation", "down", "residual2"});
}

TEST_CASE("a norm over all heads agrees with the ranks that hold the others, eight bytes a token") {
  Model m = llama3_8b();
  Shard two = kOne;
  two.tp = 2;
  const auto reduced = [&] {
    const Layer l = make_layer(LayerKind::kDecoder, m, Training{}, two, StackKernels{});
    return comm_bytes(l.forward, CommKind::kAllReduce) + comm_bytes(l.backward, CommKind::kAllReduce);
  };
  m.qk_norm = QkNorm::kEachHead;
  const std::int64_t local = reduced();
  m.qk_norm = QkNorm::kFull;
  CHECK(reduced() == local + 2 * 8 * 2048);
}

TEST_CASE("a layer without a position encoding has no rotation, and a partial one rotates part of each head") {
  Model m = llama3_8b();
  m.nope_every = 4;
  CHECK(block_of(m, 3).no_position);
  CHECK_FALSE(block_of(m, 4).no_position);
  CHECK(find(make_layer(LayerKind::kDecoder, m, Training{}, kOne, StackKernels{}, block_of(m, 3)).forward, "rope") == nullptr);
  CHECK(find(make_layer(LayerKind::kDecoder, m, Training{}, kOne, StackKernels{}, block_of(m, 4)).forward, "rope") != nullptr);
  StackKernels eager;
  eager.fused_rope = false;
  m.rotary_dim = 32;
  const Layer partial = make_layer(LayerKind::kDecoder, m, Training{}, kOne, eager);
  const std::int64_t whole = 2 * std::int64_t{2048} * (32 + 8) * 128, part = whole / 4;
  CHECK(std::get<Stream>(find(partial.forward, "rope")->work) == Stream{StreamKind::kElementwise, part * 11 / 2 + whole, part * 9 / 2 + whole, 12});
}

TEST_CASE("biases are counted one by one") {
  Model m = llama3_8b();
  const std::int64_t plain = decoder_parameters(m), head = layer_parameters(LayerKind::kHead, m, kOne).total();
  m.attention_out_bias = true;
  CHECK(decoder_parameters(m) == plain + 4096);
  m.mlp_bias = true;
  CHECK(decoder_parameters(m) == plain + 4096 + 2 * 14336 + 4096);
  m.head_bias = true;
  CHECK(layer_parameters(LayerKind::kHead, m, kOne).total() == head + 128256);
}

TEST_CASE("an embedding may be normalised and scaled") {
  Model m = llama3_8b();
  const std::int64_t plain = layer_parameters(LayerKind::kEmbedding, m, kOne).total();
  m.embedding_norm = m.embedding_scale = true;
  CHECK(names(layer(m, LayerKind::kEmbedding).forward) == Names{"embedding", "embedding_norm", "embedding_scale"});
  CHECK(layer_parameters(LayerKind::kEmbedding, m, kOne).total() == plain + 4096);
}
