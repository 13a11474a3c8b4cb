// Number formats, 2:4 weights and the loss in chunks: what each adds to a layer, in bytes and FLOPs counted by hand.
#include <cmath>

#include "catch.h"
#include "samples.hpp"

using namespace orrery;
using namespace orrery::workload;
using namespace orrery::workload::samples;

namespace {

constexpr std::int64_t h = 4096, f = 14336, q = 4096, kv = 1024;

Stream stream_of(const std::vector<Operation>& operations, const std::string& name) {
  const Operation* op = find(operations, name);
  INFO(name);
  REQUIRE(op != nullptr);
  return std::get<Stream>(op->work);
}
Gemm gemm_of(const std::vector<Operation>& operations, const std::string& name) {
  const Operation* op = find(operations, name);
  INFO(name);
  REQUIRE(op != nullptr);
  return std::get<Gemm>(op->work);
}

Training precision(DType t, Fp8Recipe recipe = Fp8Recipe::kDelayed) {
  Training training;
  training.precision = t;
  training.fp8_recipe = recipe;
  return training;
}

Layer decoder(const Training& t, const Shard& shard = {.micro_batch = 1, .sequence = 512}, const StackKernels& k = {}) {
  return make_layer(LayerKind::kDecoder, llama3_8b(), t, shard, k);
}

/// Bytes that a layer's pass moves in kernels of one class.
std::int64_t moved(const std::vector<Operation>& operations, StreamKind kind) {
  std::int64_t sum = 0;
  for (const Operation& op : operations) {
    if (const auto* s = std::get_if<Stream>(&op.work); s != nullptr && s->kind == kind) sum += s->read_bytes + s->write_bytes;
  }
  return sum;
}

}  // namespace

TEST_CASE("a quantised copy takes 1, 33/32, 33/32, 25/32 and 9/16 bytes an element, twice, from 2 bytes read") {
  // FP8 per tensor; 1 x 128 blocks with an fp32 scale (arXiv:2412.19437, 3.3); E8M0 per 32 (OCP MX v1.0); E4M3 per 16 (NVFP4).
  const std::int64_t n = 512 * q;
  struct Row { Training t; double bytes; bool amax; };
  for (const Row& row : {Row{precision(DType::kFp8), 1, false}, Row{precision(DType::kFp8, Fp8Recipe::kCurrent), 1, true},
                         Row{precision(DType::kFp8, Fp8Recipe::kBlock128), 1 + 4.0 / 128, false}, Row{precision(DType::kMxfp8), 1 + 1.0 / 32, false},
                         Row{precision(DType::kMxfp6), 0.75 + 1.0 / 32, false}, Row{precision(DType::kFp4), 0.5 + 1.0 / 16, true}}) {
    CAPTURE(to_string(row.t.precision), static_cast<int>(row.t.fp8_recipe));
    const Layer layer = decoder(row.t);
    const Stream cast = stream_of(layer.forward, "quantise_attention_output");
    const bool by_block = row.t.precision != DType::kFp8 || row.t.fp8_recipe == Fp8Recipe::kBlock128;  // a read per orientation
    const int casts = by_block ? 2 : 1, passes = casts + (row.amax ? 1 : 0);
    CHECK(cast.read_bytes == casts * 2 * n);
    CHECK(cast.kernels == casts);
    CHECK(cast.write_bytes == 2 * std::llround(row.bytes * n));
    CHECK((find(layer.forward, "attention_output_amax") != nullptr) == row.amax);
    if (row.amax) CHECK(stream_of(layer.forward, "attention_output_amax") == Stream{StreamKind::kReduce, 2 * n, 0, 1});
    // Weights once a step, in both orientations; their maximum is one more pass over them.
    const std::int64_t w = h * (q + 2 * kv);
    CHECK(stream_of(layer.once_per_step, "quantise_qkv_weight") == Stream{StreamKind::kCast, passes * 2 * w, 2 * std::llround(row.bytes * static_cast<double>(w)), passes});
    CHECK(layer.weight_copies == 2 * std::llround(row.bytes * static_cast<double>(w + h * q + 3 * h * f)));
    // Core attention stays in 16 bits, and every product of a linear layer has the recipe's type.
    CHECK(std::get<Attention>(find(layer.forward, "attention")->work).dtype == DType::kBf16);
    for (const char* name : {"qkv_weight_gradient", "proj_input_gradient", "down_weight_gradient"}) CHECK(gemm_of(layer.backward, name).in == row.t.precision);
  }
}

TEST_CASE("norms and activations write delayed FP8 and MX copies themselves, and leave the rest to a quantiser") {
  for (const Training& t : {precision(DType::kFp8), precision(DType::kMxfp8), precision(DType::kMxfp6)}) CHECK(find(decoder(t).forward, "quantise_norm1_output") == nullptr);
  for (const Training& t : {precision(DType::kFp8, Fp8Recipe::kCurrent), precision(DType::kFp8, Fp8Recipe::kBlock128), precision(DType::kFp4)}) {
    CHECK(find(decoder(t).forward, "quantise_norm1_output") != nullptr);
    CHECK(find(decoder(t).forward, "quantise_activation_output") != nullptr);
  }
}

TEST_CASE("where products read either layout one per-tensor FP8 copy serves both; scales by block need two") {
  Training t = precision(DType::kFp8);
  const Layer hopper = decoder(t);
  t.one_operand_layout = false;
  const Layer blackwell = decoder(t);
  CHECK(stream_of(hopper.forward, "quantise_attention_output").write_bytes == 2 * 512 * q);
  CHECK(stream_of(blackwell.forward, "quantise_attention_output").write_bytes == 512 * q);
  CHECK(stream_of(blackwell.forward, "norm1").write_bytes == 512 * h);
  CHECK(blackwell.weight_copies * 2 == hopper.weight_copies);
  CHECK(saved_bytes(blackwell) == saved_bytes(hopper));  // the row copy is dropped after the forward product either way
  for (Training block : {precision(DType::kMxfp8), precision(DType::kFp8, Fp8Recipe::kBlock128)}) {
    const std::int64_t two = decoder(block).weight_copies;
    block.one_operand_layout = false;
    CHECK(decoder(block).weight_copies == two);
  }
}

TEST_CASE("with scales by block both orientations of an output gradient are gathered, with one scale a tensor one") {
  const Shard sp{.micro_batch = 1, .sequence = 512, .tp = 4, .sequence_parallel = true};
  const std::int64_t n = 512 * h;
  // Backward: two output gradients, and the two inputs once more in their other orientation.
  CHECK(comm_bytes(decoder(precision(DType::kFp8), sp).backward, CommKind::kAllGather) == 4 * n);
  CHECK(comm_bytes(decoder(precision(DType::kMxfp8), sp).backward, CommKind::kAllGather) == (2 + 2 * 2) * n * 33 / 32);
  CHECK(comm_bytes(decoder(precision(DType::kFp4), sp).backward, CommKind::kAllGather) == (2 + 2 * 2) * n * 9 / 16);
}

TEST_CASE("weights that are not kept are cast for every product that reads them, one orientation at a time") {
  Shard shard{.micro_batch = 1, .sequence = 512};
  shard.keeps_quantised_weights = false;
  const Layer layer = decoder(precision(DType::kFp8, Fp8Recipe::kCurrent), shard);
  CHECK(layer.once_per_step.empty());
  CHECK(layer.weight_copies == 0);
  const std::int64_t w = 3 * h * f / 3;
  CHECK(stream_of(layer.forward, "quantise_down_weight") == Stream{StreamKind::kCast, 2 * 2 * w, w, 2});
  CHECK(stream_of(layer.backward, "quantise_down_weight_turned") == Stream{StreamKind::kCast, 2 * 2 * w, w, 2});
  // A temporary of each pass: nothing of it is saved.
  for (const SavedTensor& t : layer.saved) CHECK(t.name.find("weight") == std::string::npos);
}

TEST_CASE("narrower formats move fewer bytes in quantised copies, and keep fewer") {
  std::int64_t last_moved = INT64_MAX, last_kept = INT64_MAX;
  for (const DType t : {DType::kMxfp8, DType::kMxfp6}) {
    const Layer layer = decoder(precision(t));
    CHECK(moved(layer.forward, StreamKind::kCast) < last_moved);
    CHECK(saved_bytes(layer) < last_kept);
    last_moved = moved(layer.forward, StreamKind::kCast);
    last_kept = saved_bytes(layer);
  }
  CHECK(saved_bytes(decoder(precision(DType::kFp4))) < last_kept);
}

TEST_CASE("2:4 weights: forward and input-gradient products are sparse, weight gradients and the head are not") {
  Training t;
  t.sparse = true;
  const Layer layer = decoder(t);
  for (const char* name : {"qkv", "proj", "gate_up", "down"}) CHECK(gemm_of(layer.forward, name).sparse);
  for (const char* name : {"qkv_input_gradient", "down_input_gradient"}) CHECK(gemm_of(layer.backward, name).sparse);
  CHECK_FALSE(gemm_of(layer.backward, "down_weight_gradient").sparse);
  CHECK_FALSE(gemm_of(make_layer(LayerKind::kHead, llama3_8b(), t, {.micro_batch = 1, .sequence = 512}, StackKernels{}).forward, "logits").sparse);
  // Pruned once a step from 2 bytes to two copies of half the elements and 2 bits each: 2 x (1 + 1/8).
  const std::int64_t w = h * f;
  CHECK(stream_of(layer.once_per_step, "prune_down_weight") == Stream{StreamKind::kCast, 2 * w, 2 * (w + w / 8), 1});
  CHECK(layer.weight_copies == 2 * 9 * (h * (q + 2 * kv) + h * q + 3 * h * f) / 8);
  // The model's FLOPs do not change, whatever the units skip.
  CHECK(work(layer.forward).gemm == work(decoder(Training{}).forward).gemm);
  Training fp8 = precision(DType::kFp8);
  fp8.sparse = true;
  CHECK(stream_of(decoder(fp8).once_per_step, "prune_down_weight").write_bytes == 2 * (w / 2 + w / 8));
}

TEST_CASE("in chunks the head never holds more than one chunk's logits, and does the same products") {
  const Model m = llama3_8b();
  const std::int64_t s = 1024, v = m.vocab;
  const Shard one{.micro_batch = 1, .sequence = s};
  Training t;
  const Layer whole = make_layer(LayerKind::kHead, m, t, one, StackKernels{});
  const Work all{work(whole.forward).gemm + work(whole.backward).gemm, 0};
  CHECK(all.gemm == 6.0 * static_cast<double>(s * h * v));
  for (const std::int64_t chunks : {2, 3, 8}) {
    CAPTURE(chunks);
    t.loss.chunks = chunks;
    const Layer layer = make_layer(LayerKind::kHead, m, t, one, StackKernels{});
    CHECK(work(layer.forward).gemm == all.gemm);
    CHECK(work(layer.backward).gemm == 0);
    std::int64_t logits = 0, largest = 0;
    for (const Tensor& x : layer.forward_tensors) {
      if (x.name != "logits") continue;
      largest = std::max(largest, x.bytes);
      logits += x.bytes;
      for (const Tensor& y : layer.forward_tensors) {
        if (y.name == "logits" && y.alloc_at > x.alloc_at) CHECK(y.alloc_at > x.free_at);
      }
    }
    CHECK(logits == 2 * s * v);
    CHECK(largest == 2 * ((s + chunks - 1) / chunks) * v);
    // Kept for backward: norm's input, the input's gradient and the weight's, in 16 bits.
    CHECK(saved_bytes(layer) == 2 * s * h + 2 * s * h + 2 * v * h);
    CHECK(find(layer.backward, "accumulate_head") != nullptr);
  }
}

TEST_CASE("chunks with tensor parallelism agree on every chunk, in the same bytes as the whole") {
  const Shard tp{.micro_batch = 1, .sequence = 1024, .tp = 4, .sequence_parallel = true};
  Training t;
  t.loss.chunks = 4;
  const Layer layer = make_layer(LayerKind::kHead, llama3_8b(), t, tp, StackKernels{});
  CHECK(comm_bytes(layer.forward, CommKind::kAllReduce) == 3 * 4 * 1024);  // maximum, sum and target logit, fp32 a token
  CHECK(comm_bytes(layer.forward, CommKind::kAllGather) == 2 * 1024 * h);
  CHECK(comm_bytes(layer.backward, CommKind::kReduceScatter) == 2 * 1024 * h);
}

TEST_CASE("without vocabulary parallelism every rank gathers the logits and computes the whole loss") {
  const std::int64_t s = 1024, v = llama3_8b().vocab;
  const Shard tp{.micro_batch = 1, .sequence = s, .tp = 4};
  Training t;
  const Layer parallel = make_layer(LayerKind::kHead, llama3_8b(), t, tp, StackKernels{});
  t.loss.vocab_parallel = false;
  const Layer gathered = make_layer(LayerKind::kHead, llama3_8b(), t, tp, StackKernels{});
  CHECK(comm_bytes(gathered.forward, CommKind::kAllGather) == comm_bytes(parallel.forward, CommKind::kAllGather) + 2 * s * v);
  CHECK(find(gathered.forward, "all_reduce_logits_max") == nullptr);
  CHECK(stream_of(gathered.forward, "cross_entropy") == Stream{StreamKind::kCrossEntropy, 2 * s * v, 2 * s * v, 1});
  CHECK(stream_of(parallel.forward, "cross_entropy") == Stream{StreamKind::kCrossEntropy, 2 * s * v / 4, 2 * s * v / 4, 1});
}

TEST_CASE("the recipe's word on fusing the loss goes before the stack's") {
  const Shard one{.micro_batch = 1, .sequence = 64};
  Training t;
  t.loss.fused = false;
  CHECK(find(make_layer(LayerKind::kHead, llama3_8b(), t, one, StackKernels{}).forward, "log_softmax") != nullptr);
  StackKernels apart;
  apart.fused_cross_entropy = false;
  t.loss.fused = true;
  CHECK(find(make_layer(LayerKind::kHead, llama3_8b(), t, one, apart).forward, "log_softmax") == nullptr);
}

TEST_CASE("fp16 scales its loss; fp32 and tf32 hold and move four bytes of everything") {
  const Shard one{.micro_batch = 1, .sequence = 512};
  CHECK(find(make_layer(LayerKind::kHead, llama3_8b(), precision(DType::kFp16), one, StackKernels{}).forward, "scale_loss") != nullptr);
  CHECK(find(make_layer(LayerKind::kHead, llama3_8b(), Training{}, one, StackKernels{}).forward, "scale_loss") == nullptr);
  for (const DType t : {DType::kFp32, DType::kTf32}) {
    Training wide = precision(t);
    wide.activation_dtype = wide.param_dtype = DType::kFp32;
    const Layer layer = decoder(wide);
    CHECK(gemm_of(layer.forward, "qkv").in == wide.activation_dtype);
    CHECK(saved_bytes(layer) == 2 * saved_bytes(decoder(Training{})) - 4 * 32 * 512);  // but for the four bytes a head of the softmax' sums
    CHECK(state_bytes(wide).total() == 16);  // w4 g4 m4 v4, and no master copy
  }
}
