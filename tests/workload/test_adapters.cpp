// Low-rank adapters: what is counted, run and kept once all other weights are frozen.
#include <cmath>

#include "catch.h"
#include "orrery/workload/adapter.hpp"
#include "samples.hpp"

using namespace orrery;
using namespace orrery::workload;
using namespace orrery::workload::samples;

namespace {

Training adapted(std::int64_t rank, FrozenStore store = FrozenStore::kPlain, bool all = false) {
  Training t;
  t.sequence_length = 1024;
  t.adapter.rank = rank;
  t.adapter.store = store;
  t.adapter.query = t.adapter.value = true;
  if (all) t.adapter.key = t.adapter.out = t.adapter.gate = t.adapter.up = t.adapter.down = true;
  return t;
}

const Shard kOne{.micro_batch = 1, .sequence = 1024};


std::int64_t bytes_of(const LayerParameters& p) { return p.frozen_bytes; }

}  // namespace

TEST_CASE("adapters of Llama have the trainable parameters that PEFT prints") {
  // print_trainable_parameters: rank 8 on q_proj and v_proj of Llama-2 7B (4,194,304) and 70B (16,384,000); rank 16 on all seven matrices of
  // Llama-3 8B (41,943,040).
  Model seven = llama(32, 4096, 32, 11008);
  seven.kv_heads = 32;
  seven.vocab = 32000;
  CHECK(count_adapters(seven, adapted(8)).trainable == 4194304);
  CHECK(count_adapters(llama3_70b(), adapted(8)).trainable == 16384000);
  CHECK(count_adapters(llama3_8b(), adapted(16, FrozenStore::kPlain, true)).trainable == 41943040);
}

TEST_CASE("frozen and trained parameters of a layer are its own and those of the adapters, whatever the cut") {
  const Model m = llama3_8b();
  for (const std::int64_t tp : {1, 2, 4}) {
    Shard shard = kOne;
    shard.tp = tp;
    const Layer layer = make_layer(LayerKind::kDecoder, m, adapted(16, FrozenStore::kPlain, true), shard, StackKernels());
    const LayerParameters own = layer_parameters(LayerKind::kDecoder, m, shard);
    CHECK(layer.parameters.frozen == own.total());
    CHECK(bytes_of(layer.parameters) == 2 * own.total());
    // The small side is whole: A of the five that read the hidden state, B of the two that write it.
    CHECK(layer.parameters.replicated == 16 * 7 * 4096);
    CHECK(layer.parameters.sharded == 16 * (4096 + 2 * 1024 + 4096 + 3 * 14336) / tp);
    std::int64_t sum = 0;
    for (const Matrix& x : layer.parameters.matrices) sum += x.elements();
    CHECK(sum == layer.parameters.total());
  }
  for (const LayerKind kind : {LayerKind::kEmbedding, LayerKind::kHead}) {
    const Layer layer = make_layer(kind, m, adapted(16), kOne, StackKernels());
    CHECK(layer.parameters.total() == 0);
    CHECK(layer.parameters.frozen == layer_parameters(kind, m, kOne).total());
  }
}

TEST_CASE("frozen matrices have no weight gradients and adapters have two each; nothing runs backward through the embedding") {
  const Model m = llama3_8b();
  const Layer full = make_layer(LayerKind::kDecoder, m, Training{}, kOne, StackKernels());
  const Layer layer = make_layer(LayerKind::kDecoder, m, adapted(16), kOne, StackKernels());
  std::vector<std::string> made;
  for (const int i : layer.weight_gradient) made.push_back(layer.backward[static_cast<std::size_t>(i)].name);
  CHECK(made == std::vector<std::string>{"value_adapter_b_weight_gradient", "value_adapter_a_weight_gradient", "query_adapter_b_weight_gradient", "query_adapter_a_weight_gradient"});
  // Products: the layer's forward once forward and once backward, and three times those of the adapters.
  const double own = work(full.forward).gemm, more = 2.0 * 1024 * 16 * (4096 + 4096 + 4096 + 1024);
  CHECK(work(layer.forward).gemm == own + more);
  CHECK(work(layer.backward).gemm == own + 2 * more);
  CHECK(work(layer.backward).attention == work(full.backward).attention);
  CHECK(make_layer(LayerKind::kEmbedding, m, adapted(16), kOne, StackKernels()).backward.empty());
  const Layer head = make_layer(LayerKind::kHead, m, adapted(16), kOne, StackKernels());
  CHECK(head.weight_gradient.empty());
  CHECK(work(head.backward).gemm == work(head.forward).gemm);
  Training chunks = adapted(16);
  chunks.loss.chunks = 4;
  CHECK(find(make_layer(LayerKind::kHead, m, chunks, kOne, StackKernels()).forward, "logits_weight_gradient") == nullptr);
}

TEST_CASE("a frozen product keeps no input, its adapter does, and rank columns a token beside it") {
  const Model m = llama3_8b();
  const auto kept = [&](const Training& t) { return saved_bytes(make_layer(LayerKind::kDecoder, m, t, kOne, StackKernels())); };
  Training none = adapted(16);
  none.adapter.query = none.adapter.value = false;
  Training both = adapted(16), out = none, down = none;
  out.adapter.out = down.adapter.down = true;
  // q and v share the normalised input; the attention's output is kept by the flash kernel anyway; the MLP's activation is kept for down alone.
  CHECK(kept(both) - kept(none) == 2 * 1024 * (4096 + 2 * 16));
  CHECK(kept(out) - kept(none) == 2 * 1024 * 16);
  CHECK(kept(down) - kept(none) == 2 * 1024 * (14336 + 16));
  CHECK(kept(adapted(16, FrozenStore::kPlain, true)) < kept(Training{}) + 2 * 1024 * 8 * 16);
}

TEST_CASE("4-bit matrices are 0.5159 bytes an element and become wide again before every product that reads them") {
  const Model m = llama3_8b();
  const Training t = adapted(16, FrozenStore::kNf4);
  const Layer layer = make_layer(LayerKind::kDecoder, m, t, kOne, StackKernels());
  const std::int64_t matrices = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336, norms = 2 * 4096;
  CHECK(layer.parameters.frozen == matrices + norms);
  CHECK(layer.parameters.frozen_bytes == static_cast<std::int64_t>(std::ceil(static_cast<double>(matrices) * (0.5 + 1.0 / 64 + 1.0 / 4096))) + 2 * norms);
  for (const char* name : {"dequantise_qkv", "dequantise_proj", "dequantise_gate_up", "dequantise_down"}) {
    INFO(name);
    REQUIRE(find(layer.forward, name) != nullptr);
    CHECK(find(layer.backward, name) != nullptr);
  }
  const Stream wide = std::get<Stream>(find(layer.forward, "dequantise_down")->work);
  CHECK(wide.write_bytes == 2 * 4096 * 14336);
  CHECK(wide.read_bytes == static_cast<std::int64_t>(std::ceil(4096.0 * 14336 * (0.5 + 1.0 / 64 + 1.0 / 4096))));
  // They are gone when their product has run: nothing of them is kept.
  CHECK(saved_bytes(layer) == saved_bytes(make_layer(LayerKind::kDecoder, m, adapted(16), kOne, StackKernels())));
  // Embedding and head stay wide.
  CHECK(make_layer(LayerKind::kHead, m, t, kOne, StackKernels()).parameters.frozen_bytes == 2 * (128256 * 4096 + 4096));
}

TEST_CASE("FLOPs a token of fine-tuning are two forwards of the products, three of attention and three of the adapters") {
  const Model m = llama3_8b();
  const Training t = adapted(16);
  const double forward = count(m, 1024, true).exact / 3, attention = 32 * 2.0 * 4096 * 1024;  // causal: half of 4 h s
  const double more = 32 * 2.0 * 16 * (4096 + 4096 + 4096 + 1024);
  CHECK(count_adapters(m, t).exact == Approx(2 * (forward - attention) + 3 * attention + 3 * more).epsilon(1e-12));
}

TEST_CASE("what has no adapters is refused by name") {
  const auto said = [](const Model& m, const Training& t, TpOverlap overlap = TpOverlap::kNone) {
    std::vector<std::string> lines;
    for (const Limit& l : adapter_limits(m, t, overlap)) lines.push_back(l.pointer + ": " + l.why);
    return lines;
  };
  using Lines = std::vector<std::string>;
  CHECK(said(llama3_8b(), Training{}).empty());
  CHECK(said(llama3_8b(), adapted(8, FrozenStore::kNf4, true)).empty());
  Model m = llama3_8b();
  m.moe = experts_of(8, 2);
  CHECK(said(m, adapted(8)).empty());
  CHECK(said(m, adapted(8, FrozenStore::kPlain, true)) ==
        Lines{"/training/adapter/targets: experts have no adapters; use those of the attention: q_proj, k_proj, v_proj, o_proj"});
  m = llama3_8b();
  m.mla = Mla{1536, 512, 128, 64, 128};
  CHECK(said(m, adapted(8)) == Lines{"/training/adapter: latent attention has no query, key and value matrices of the model's width to adapt; leave it out"});
  m = llama3_8b();
  m.gated_mlp = false;
  CHECK(said(m, adapted(8, FrozenStore::kPlain, true)) == Lines{"/training/adapter/targets: the model's MLP has no gate_proj; leave it out"});
  m = llama3_8b();
  m.mtp_layers = 1;
  CHECK(said(m, adapted(8)) == Lines{"/training/adapter: prediction modules are no part of fine-tuning; use mtp_layers 0"});
  m = Model();
  m.family = Family::kEncoder;
  CHECK(said(m, adapted(8)) == Lines{"/training/adapter: adapters are known of decoder transformers alone; leave it out"});
  Training t = adapted(8);
  t.precision = DType::kFp8;
  t.sparse = true;
  t.offload.parameters = 0.5;
  CHECK(said(llama3_8b(), t, TpOverlap::kBulk) == Lines{"/training/precision: adapters are known beside products of 16 bits and more; use bf16 instead of fp8",
                                                        "/training/sparsity: frozen weights are not pruned; leave it out",
                                                        "/parallelism/overlap/tp: adapters read whole inputs, which pieces do not give them; use false",
                                                        "/training/offload/parameters: frozen parameters stay on the device; use 0"});
}
