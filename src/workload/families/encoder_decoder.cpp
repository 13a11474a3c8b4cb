// T5 (Raffel et al., arXiv:1910.10683): an encoder that attends both ways, a decoder that attends causally to itself and, by a second attention, to
// the encoder's output. A sample's length is the source's; how many target tokens go with it is the model's target_length.
//
// The chain of layers is the encoder's blocks, then the decoder's. The first decoder block begins with the encoder's last norm. What a stage
// boundary carries is in the encoder its hidden state and the target's embedded tokens, which wait; in the decoder its hidden state and the
// encoder's output, which every later block reads. Split over tensor-parallel ranks as a decoder is (Megatron-LM megatron/core/models/T5).
#include <algorithm>

#include <fmt/format.h>

#include "workload/passes.hpp"
#include "orrery/base/checked.hpp"
#include "plain.hpp"
#include "read.hpp"
#include "table.hpp"

namespace orrery::workload {
namespace {

const EncoderDecoder& own(const Model& m) { return std::get<EncoderDecoder>(m.of_family); }

void read(const document::Value& v, Model& m, const Complain& complain) {
  EncoderDecoder e;
  e.encoder_layers = v.at("encoder_layers").as_int();
  e.decoder_layers = v.at("decoder_layers").as_int();
  m.layers = e.encoder_layers + e.decoder_layers;
  read_blocks(v, m, complain);
  m.vocab = v.at("vocab").as_int();
  m.tied_embeddings = flag_of(v, "tied_embeddings", true);
  e.target_length = v.at("target_length").as_int();
  e.relative_buckets = integer_of(v, "relative_buckets", 32);
  m.position = Position::kNone;
  m.norm = Norm::kRms;
  m.of_family = e;
}

enum Part : std::int64_t { kEncoderBlock, kFirstEncoderBlock, kDecoderBlock, kFirstDecoderBlock };

Block block(const Model& m, std::int64_t layer) {
  const std::int64_t e = own(m).encoder_layers;
  return part(layer < e ? (layer == 0 ? kFirstEncoderBlock : kEncoderBlock) : (layer == e ? kFirstDecoderBlock : kDecoderBlock));
}

/// The shard that the decoder sees.
Shard of_target(Shard shard, const Model& m) {
  shard.sequence = own(m).target_length;
  return shard;
}

/// A table of biases by distance, looked up to one value a head and pair of positions; the first block of a stack makes it for all.
void relative_bias(Writer& w, std::int64_t buckets) {
  if (buckets == 0) return;
  const std::int64_t n = w.s.heads * w.s.queries * w.s.keys;
  w.own_matrix(buckets, w.s.heads, false);
  const TensorId bias = w.activation("relative_bias", n);
  w.stream("relative_bias", StreamKind::kEmbedding, w.bytes(n), w.bytes(n), 2, {}, {bias});
  w.tape.on_backward([=, &w] { w.backward_stream("relative_bias_gradient", StreamKind::kEmbedding, w.bytes(n), w.bytes(n), 1, {bias}, {}, true); });
}

/// Attention of the target to the source, which sees all of it. Scores and context are products of their own where attention is not fused.
class CrossAttention {
 public:
  CrossAttention(Writer& decoder, Writer& encoder) : d_(decoder), e_(encoder), q_(d_.s.tokens * d_.s.q), kv_(e_.s.tokens * e_.s.kv) {}

  TensorId write(const LinearInput& in, TensorId memory) {
    const TensorId q = d_.activation("cross_query", q_), k = e_.activation("cross_key", kv_), v = e_.activation("cross_value", kv_);
    d_.column_parallel("cross_query", in, d_.s.hidden, {{"cross_query", d_.s.q, false, {q}}}, true, kNoRegion);
    const LinearInput from = e_.linear_input("encoder_output", memory, e_.s.shard_tokens * e_.s.hidden, kNoRegion);
    e_.column_parallel("cross_kv", from, e_.s.hidden, {{"cross_kv", 2 * e_.s.kv, false, {k, v}}}, true, kNoRegion);
    const TensorId o = d_.activation("cross_output", q_);
    if (d_.training.flash_attention) fused(q, k, v, o);
    else apart(q, k, v, o);
    return d_.row_parallel("cross_proj", d_.linear_input("cross_output", o, q_, kNoRegion), d_.s.q, kNoRegion);
  }

 private:
  void fused(TensorId q, TensorId k, TensorId v, TensorId o) {
    const Sizes& s = d_.s;
    Attention work{.batch = s.batch, .seq_q = s.queries, .seq_kv = e_.s.queries, .heads = s.heads, .kv_heads = s.kv_heads, .dim_qk = s.head_dim, .dim_v = s.head_dim,
                   .causal = false, .backward = false, .dtype = d_.act};
    const TensorId lse = d_.tape.tensor("cross_log_sum_exp", 4 * s.tokens * s.heads);
    d_.tape.forward({"cross_attention", work}, {q, k, v}, {o, lse}, kCoreAttention);
    work.backward = true;
    d_.tape.on_backward([&w = d_, work, q, k, v, o, lse, qn = q_, kvn = kv_] {
      const TensorId dq = w.activation("cross_query_gradient", qn), dk = w.activation("cross_key_gradient", kvn), dv = w.activation("cross_value_gradient", kvn);
      const TensorId sum = w.tape.tensor("cross_query_gradient_fp32", 4 * qn);
      w.tape.backward({"cross_attention_backward", work}, {w.tape.gradient(o), q, k, v, o, lse}, {dq, dk, dv, sum});
      w.tape.set_gradient(q, dq);
      w.tape.set_gradient(k, dk);
      w.tape.set_gradient(v, dv);
    });
  }

  void apart(TensorId q, TensorId k, TensorId v, TensorId o) {
    const Sizes& s = d_.s;
    const std::int64_t batch = s.batch * s.heads, keys = e_.s.queries, n = batch * s.queries * keys;
    const auto product = [&](std::int64_t m, std::int64_t columns, std::int64_t depth, GemmLayout layout) {
      return Gemm{.m = m, .n = columns, .k = depth, .batch = batch, .in = d_.act, .out = d_.act, .layout = layout};
    };
    const TensorId scores = d_.activation("cross_scores", n), probabilities = d_.activation("cross_probabilities", n);
    d_.tape.forward({"cross_scores", product(s.queries, keys, s.head_dim, GemmLayout::kTN)}, {q, k}, {scores}, kCoreAttention);
    d_.stream("cross_softmax", StreamKind::kSoftmax, d_.bytes(n), d_.bytes(n), 1, {scores}, {probabilities}, kCoreAttention);
    d_.tape.forward({"cross_context", product(s.queries, s.head_dim, keys, GemmLayout::kNN)}, {probabilities, v}, {o}, kCoreAttention);
    const Gemm to_probabilities = product(s.queries, keys, s.head_dim, GemmLayout::kTN), to_values = product(keys, s.head_dim, s.queries, GemmLayout::kNT);
    const Gemm to_queries = product(s.queries, s.head_dim, keys, GemmLayout::kNN), to_keys = product(keys, s.head_dim, s.queries, GemmLayout::kNT);
    d_.tape.on_backward([=, &w = d_, qn = q_, kvn = kv_] {
      const TensorId dq = w.activation("cross_query_gradient", qn), dk = w.activation("cross_key_gradient", kvn), dv = w.activation("cross_value_gradient", kvn);
      const TensorId dp = w.activation("cross_probabilities_gradient", n), ds = w.activation("cross_scores_gradient", n);
      w.tape.backward({"cross_probabilities_gradient", to_probabilities}, {w.tape.gradient(o), v}, {dp});
      w.tape.backward({"cross_values_gradient", to_values}, {w.tape.gradient(o), probabilities}, {dv});
      w.backward_stream("cross_softmax_backward", StreamKind::kSoftmax, 2 * w.bytes(n), w.bytes(n), 1, {dp, probabilities}, {ds});
      w.tape.backward({"cross_query_gradient", to_queries}, {ds, k}, {dq});
      w.tape.backward({"cross_keys_gradient", to_keys}, {ds, q}, {dk});
      w.tape.set_gradient(q, dq);
      w.tape.set_gradient(k, dk);
      w.tape.set_gradient(v, dv);
    });
  }

  Writer& d_;
  Writer& e_;
  std::int64_t q_, kv_;
};

/// Both sequences are looked up in the one table. The target's rows wait for the decoder: they stay until backward has been there.
Layer embedding(const Model& m, const Training& t, const Shard& shard, const StackKernels& k) {
  Writer w(m, t, shard, k);
  const Shard target = of_target(shard, m);
  const Sizes d = Writer(m, t, target, k).s;
  const std::int64_t all = w.s.tokens * w.s.hidden, others = d.tokens * d.hidden, e = w.bytes(1);
  const auto g = static_cast<std::int64_t>(element_bytes(t.grad_dtype));
  const auto look_up = [&](const char* name, std::int64_t n, std::int64_t kept, bool splits) {
    const TensorId rows = w.activation(std::string(name) + "_rows", n);
    w.stream(name, StreamKind::kEmbedding, e * n, e * n, 1, {}, {rows});
    if (w.s.tp == 1) return rows;
    if (!splits) {
      w.tape.forward({std::string("all_reduce_") + name, Comm{CommKind::kAllReduce, Axis::kTp, e * n}}, {rows}, {rows});
      return rows;
    }
    const TensorId part = w.activation(std::string(name) + "_shard", kept);
    w.tape.forward({std::string("reduce_scatter_") + name, Comm{CommKind::kReduceScatter, Axis::kTp, e * n}}, {rows}, {part});
    return part;
  };
  const TensorId waiting = look_up("target_embedding", others, d.shard_tokens * d.hidden, d.sp);
  const TensorId x = look_up("embedding", all, w.s.shard_tokens * w.s.hidden, w.s.sp);
  w.tape.on_backward([=, &w] {
    TensorId dx = w.tape.gradient(x);
    if (w.s.sp) {
      const TensorId whole = w.activation("embedding_gradient", all);
      w.tape.backward({"all_gather_embedding", Comm{CommKind::kAllGather, Axis::kTp, e * (all + others)}}, {dx}, {whole});
      dx = whole;
    }
    w.backward_stream("embedding_weight_gradient", StreamKind::kEmbedding, e * (all + others), g * (all + others), 2, {dx, waiting}, {}, true);
  });
  const TensorId out = w.kernels.dropout ? w.dropout("embedding_dropout", x, w.s.shard_tokens * w.s.hidden, kNoRegion) : x;
  Layer layer = w.tape.finish(out, {});
  layer.parameters = words_of(m, shard, false);
  layer.name = "embedding";
  return layer;
}

Layer encoder_block(const Model& m, const Training& given, const Shard& shard, const StackKernels& k, bool first) {
  const Training t = both_ways(given);
  Writer w(m, t, shard, k);
  const TensorId x = w.tape.input(w.bytes(w.s.shard_tokens * w.s.hidden));
  if (first) relative_bias(w, own(m).relative_buckets);
  Layer layer = w.tape.finish(pre_norm_block(w, x), recompute_policy(t, k));
  layer.parameters = w.parameters;
  layer.name = "encoder";
  return layer;
}

Layer decoder_block(const Model& m, const Training& t, const Shard& shard, const StackKernels& k, bool first) {
  const Shard target = of_target(shard, m);
  Writer d(m, t, target, k);
  Writer e(m, t, shard, k, &d.tape);
  const std::int64_t source = e.s.shard_tokens * e.s.hidden;
  TensorId x = kNoTensor, memory = kNoTensor;
  if (first) {
    const TensorId hidden = d.tape.input(e.bytes(source));
    memory = e.norm("encoder_final_norm", hidden, false).plain;
    x = d.tape.tensor("target_embedding", 0);  // the embedding keeps it
    relative_bias(d, own(m).relative_buckets);
  } else {
    x = d.tape.input(d.bytes(d.s.shard_tokens * d.s.hidden));
    memory = d.tape.tensor("encoder_output", 0);  // the first block keeps it
    // Its gradient joins those of the blocks above.
    d.tape.on_backward([&, source] { d.backward_stream("add_encoder_gradient", StreamKind::kElementwise, 2 * e.bytes(source), e.bytes(source), 1, {d.tape.gradient(memory)}, {}); });
  }
  const auto [y, normed] = d.residual_norm("residual1", x, d.attention(d.norm("norm1", x, true), {}), false, "norm2");
  CrossAttention cross(d, e);
  const auto [z, last] = d.residual_norm("residual2", y, cross.write(normed, memory), false, "norm3");
  Layer layer = d.tape.finish(d.residual("residual3", z, d.mlp(last), false), recompute_policy(t, k));
  layer.parameters = d.parameters;
  layer.parameters += e.parameters;
  layer.name = "decoder";
  return layer;
}

Training causal(Training t) {
  t.causal = true;
  return t;
}

Layer layer(LayerKind kind, const Model& m, const Training& t, const Shard& shard, const StackKernels& k, const Block& b) {
  const Training decoding = causal(t);
  if (kind == LayerKind::kEmbedding) return embedding(m, t, shard, k);
  if (kind == LayerKind::kDecoder) {
    if (b.part == kEncoderBlock || b.part == kFirstEncoderBlock) return encoder_block(m, t, shard, k, b.part == kFirstEncoderBlock);
    return decoder_block(m, decoding, shard, k, b.part == kFirstDecoderBlock);
  }
  Layer head = head_layer(m, decoding, of_target(shard, m), k);
  head.parameters = words_of(m, shard, true);
  head.name = "head";
  return head;
}

std::int64_t entering(const Model& m, const Training& t, const Shard& shard, std::int64_t layer) {
  // Source and target: one is in work, the other travels along.
  return hidden_bytes(m, t, shard, layer) + hidden_bytes(m, t, of_target(shard, m), layer);
}

std::int64_t tokens(const Model&) { return 512; }

double widest(const Model& m, double sequence) { return widest_of_blocks(m, sequence + static_cast<double>(own(m).target_length)); }

std::vector<Limit> limits(const Model& m, const Training& t, const Split& split) {
  std::vector<Limit> out;
  if (!t.causal) out.push_back({"/training/attention_mask", "an encoder-decoder has masks of its own, full in the encoder and causal in the decoder; leave it out"});
  if (split.sp && own(m).target_length % split.tp != 0) {
    out.push_back({"/parallelism/sp", fmt::format("{} target tokens cannot be split over {} ranks by sequence parallelism; use false, or another target_length", own(m).target_length, split.tp)});
  }
  no_context_parallelism(out, split, "an encoder-decoder");
  return out;
}

std::int64_t tables(const Model& m) { return m.vocab * m.hidden; }

}  // namespace

const FamilyRow kEncoderDecoderRow{Family::kEncoderDecoder, "encoder_decoder", read, block, layer, entering, widest, limits, tokens, tables, false};

}  // namespace orrery::workload
