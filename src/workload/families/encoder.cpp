// BERT and its like (Devlin et al., arXiv:1810.04805): tables of words, positions and segments, a norm, blocks that attend both ways, and the
// two heads of pre-training. Split over tensor-parallel ranks as Megatron-LM splits it (megatron/core/models/bert): the blocks and the
// vocabulary; the dense layers of the heads are on every rank.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "workload/passes.hpp"
#include "plain.hpp"
#include "read.hpp"
#include "table.hpp"

namespace orrery::workload {
namespace {

const Encoder& own(const Model& m) { return std::get<Encoder>(m.of_family); }

void read(const document::Value& v, Model& m, const Complain& complain) {
  read_blocks(v, m, complain);
  Encoder e;
  e.post_norm = text_of(v, "norm_place", "post") == "post";
  e.pooler = flag_of(v, "pooler", true);
  e.masked_lm = flag_of(v, "masked_lm", true);
  e.next_sentence = flag_of(v, "next_sentence", true);
  e.token_types = integer_of(v, "token_types", 2);
  if (!v.at("masked_positions").is_null()) e.masked_positions = v.at("masked_positions").as_int();
  m.vocab = v.at("vocab").as_int();
  m.max_positions = v.at("max_positions").as_int();
  m.position = Position::kLearned;
  m.norm = Norm::kLayer;
  m.norm_bias = m.linear_bias = m.qkv_bias = m.attention_out_bias = m.mlp_bias = true;
  m.tied_embeddings = e.masked_lm;
  if (e.next_sentence && !e.pooler) complain("next_sentence", "the head reads what the pooler makes; use pooler true, or next_sentence false");
  if (!e.masked_lm && !e.next_sentence) complain("masked_lm", "nothing is trained without a head; use masked_lm or next_sentence");
  m.of_family = e;
}

Block block(const Model&, std::int64_t) { return {}; }

/// Words, positions and segments are added, normalised, dropped out. The sum is split over the ranks after it (Megatron-LM BERT with
/// sequence parallelism), so the partial rows of the vocabulary are all-reduced.
Layer embedding(Writer& w, const Model& m, const Shard& shard, std::int64_t token_types) {
  const Sizes& s = w.s;
  const std::int64_t all = s.tokens * s.hidden, e = w.bytes(1);
  const auto g = static_cast<std::int64_t>(element_bytes(w.training.grad_dtype));
  const TensorId rows = w.activation("embedding_rows", all);
  w.stream("embedding", StreamKind::kEmbedding, e * all, e * all, 1, {}, {rows});
  if (s.tp > 1) w.tape.forward({"all_reduce_embedding", Comm{CommKind::kAllReduce, Axis::kTp, e * all}}, {rows}, {rows});
  const TensorId sum = w.activation("embedding_sum", s.shard_tokens * s.hidden);
  const int tables = token_types > 0 ? 2 : 1;  // added to the words, an elementwise kernel each
  w.stream("add_positions", StreamKind::kElementwise, 2 * tables * e * all, tables * e * all, tables, {rows}, {sum});
  const std::int64_t positions = m.max_positions.value_or(s.queries);
  w.own_matrix(padded_vocab(m, shard) / shard.tp, s.hidden, false);
  w.parameters.replicated += (positions + token_types) * s.hidden;
  w.parameters.matrices.push_back({positions, s.hidden});
  if (token_types > 0) w.parameters.matrices.push_back({token_types, s.hidden});
  w.tape.on_backward([=, &w, &s] {
    TensorId dx = w.tape.gradient(sum);
    if (s.sp) {
      const TensorId whole = w.activation("embedding_gradient", all);
      w.tape.backward({"all_gather_embedding", Comm{CommKind::kAllGather, Axis::kTp, e * all}}, {dx}, {whole});
      dx = whole;
    }
    w.backward_stream("embedding_weight_gradient", StreamKind::kEmbedding, e * all, g * all, 1, {dx}, {}, true);
    w.backward_stream("position_weight_gradient", StreamKind::kReduce, tables * e * all, g * (s.queries + token_types) * s.hidden, tables, {dx}, {}, true);
  });
  const TensorId normed = w.norm("embedding_norm", sum, false).plain;
  const TensorId out = w.kernels.dropout ? w.dropout("embedding_dropout", normed, s.shard_tokens * s.hidden, kNoRegion) : normed;
  return w.tape.finish(out, {});
}

Layer blocks(Writer& w, const Model& m, const Training& t, const StackKernels& k) {
  const std::int64_t n = w.s.shard_tokens * w.s.hidden;
  const TensorId x = w.tape.input(w.bytes(n));
  if (!own(m).post_norm) {
    return w.tape.finish(pre_norm_block(w, x), recompute_policy(t, k));
  }
  const TensorId y = w.attention(w.linear_input("attention_input", x, n, kNoRegion), {});
  const TensorId z = w.norm("norm1", w.residual("residual1", x, y, true), false).plain;
  const TensorId out = w.residual("residual2", z, w.mlp(w.linear_input("mlp_input", z, n, kNoRegion)), true);
  return w.tape.finish(w.norm("norm2", out, false).plain, recompute_policy(t, k));
}

/// The masked-token head on what `rows` writes: dense, activation, norm, and a projection to this rank's part of the vocabulary.
void masked_lm(Writer& rows, const Model& m, const Shard& shard, TensorId x) {
  const std::int64_t n = rows.s.shard_tokens, h = rows.s.hidden;
  x = plain_activation(rows, "head_activation", plain_linear(rows, "head_dense", x, n, h, h, true), n * h, false);
  const LinearInput normed = rows.norm("head_norm", x, false);
  const std::int64_t columns = padded_vocab(m, shard) / shard.tp;
  const TensorId logits = rows.activation("logits", rows.s.tokens * columns);
  rows.column_parallel("head", normed, h, {{"logits", columns, true, {logits}}}, false, kNoRegion);
  vocabulary_loss(rows, logits, rows.s.tokens * columns);
}

/// A pooler that no loss reads runs forward and is never trained.
void idle_pooler(Writer& w, TensorId all) {
  const std::int64_t b = w.s.batch, h = w.s.hidden, weights = h * (h + 1);
  const TensorId first = w.activation("first_tokens", b * h), y = w.activation("pooler_output", b * h);
  w.stream("first_tokens", StreamKind::kCopy, w.bytes(b * h), w.bytes(b * h), 1, {all}, {first});
  w.tape.forward({"pooler", Gemm{.m = b, .n = h, .k = h, .in = matmul_dtype(w.training), .out = w.act, .layout = GemmLayout::kTN}}, {first}, {y});
  w.stream("pooler_tanh", StreamKind::kElementwise, w.bytes(b * h), w.bytes(b * h), 1, {y}, {y});
  w.parameters.frozen += weights;
  w.parameters.frozen_bytes += weights * static_cast<std::int64_t>(element_bytes(w.training.param_dtype));
}

Layer head(Writer& w, const Model& m, const Training& t, const Shard& shard, const StackKernels& k) {
  const Encoder& e = own(m);
  const std::int64_t b = w.s.batch, h = w.s.hidden;
  TensorId x = w.tape.input(w.bytes(w.s.shard_tokens * h));
  if (!e.post_norm) x = w.norm("final_norm", x, false).plain;
  const std::int64_t seen = std::min(e.masked_positions.value_or(w.s.queries), w.s.queries);
  const bool picks = seen < w.s.queries;
  const TensorId all = (picks && e.masked_lm) || e.pooler ? whole_sequence(w, x) : x;
  // The positions that are masked, as a sequence of their own.
  Shard fewer = shard;
  fewer.sequence = seen * shard.cp;
  fewer.sequence_parallel = false;
  Writer masked(m, t, fewer, k, &w.tape);
  Writer& rows = picks ? masked : w;
  if (e.masked_lm) masked_lm(rows, m, shard, picks ? pick_rows(w, "masked_positions", all, masked.s.tokens, w.s.tokens, h) : x);
  if (e.next_sentence) {
    const TensorId first = pick_rows(w, "first_tokens", all, b, w.s.tokens, h);
    const TensorId pooled = plain_activation(w, "pooler_tanh", plain_linear(w, "pooler", first, b, h, h, true), b * h, true);
    plain_cross_entropy(w, plain_linear(w, "next_sentence", pooled, b, h, 2, true), b, 2);
  } else if (e.pooler) {
    idle_pooler(w, all);
  }
  Layer out = w.tape.finish(kNoTensor, {});
  if (picks) w.parameters += masked.parameters;
  return out;
}

Layer layer(LayerKind kind, const Model& m, const Training& given, const Shard& shard, const StackKernels& k, const Block&) {
  const Training t = both_ways(given);
  Writer w(m, t, shard, k);
  Layer out;
  if (kind == LayerKind::kEmbedding) out = embedding(w, m, shard, own(m).token_types);
  if (kind == LayerKind::kDecoder) out = blocks(w, m, t, k);
  if (kind == LayerKind::kHead) out = head(w, m, t, shard, k);
  out.parameters = w.parameters;
  out.name = kind == LayerKind::kEmbedding ? "embedding" : kind == LayerKind::kHead ? "heads" : "encoder";
  return out;
}

std::vector<Limit> limits(const Model& m, const Training& t, const Split& split) {
  std::vector<Limit> out;
  if (t.sequence_length > *m.max_positions) {
    out.push_back({"/training/sequence_length", fmt::format("{} tokens are more than the {} rows of the model's position table; use at most {}", t.sequence_length, *m.max_positions, *m.max_positions)});
  }
  fix_full_mask(out, t, "an encoder");
  no_context_parallelism(out, split, "an encoder");
  return out;
}

std::int64_t tables(const Model& m) { return (m.vocab + *m.max_positions + own(m).token_types) * m.hidden; }

std::int64_t tokens(const Model& m) { return *m.max_positions; }

}  // namespace

const FamilyRow kEncoderRow{Family::kEncoder, "encoder", read, block, layer, hidden_bytes, widest_of_blocks, limits, tokens, tables, true};

}  // namespace orrery::workload
