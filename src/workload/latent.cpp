// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1; as Megatron-LM core/transformer/multi_latent_attention.py cuts
// and launches it).
//
// Keys and values of all heads are made from one latent per token, queries from another (or from the hidden state); a part of each key
// that carries the position is made beside the latent and shared by all heads. The projections down are on every tensor-parallel rank and
// work on its own tokens; those up are column-parallel, one slice of heads a rank. In training nothing is absorbed: attention runs over full
// keys of qk_nope + qk_rope and values of v_head_dim.
#include "writer.hpp"

namespace orrery::workload {

void Writer::replicated(const std::string& name, const LinearInput& in, std::int64_t in_width, const Product& product, bool quantised, Regions regions) {
  const bool q = quantised && format.on;
  const DType dtype = q ? training.precision : act;
  const std::int64_t tokens = s.shard_tokens;
  const bool sparse = quantised && training.sparse;
  std::vector<TensorId> operands = {q ? in.row : in.plain};
  if (const TensorId weight = quantised ? weight_copy(name, product.width * in_width, false, regions) : kNoTensor; weight != kNoTensor) operands.push_back(weight);
  tape.forward({name, Gemm{.m = tokens, .n = product.width, .k = in_width, .in = dtype, .out = act, .layout = GemmLayout::kTN, .sparse = sparse}}, operands, product.outs, regions);
  tape.on_backward([=, this] {
    std::vector<TensorId> dys;
    for (const TensorId out : product.outs) dys.push_back(tape.gradient(out));
    if (q) dys = {quantise_gradients(name, dys, tokens * product.width)};
    const TensorId dx = activation(name + "_input_gradient", tokens * in_width);
    std::vector<TensorId> turned = dys;
    if (const TensorId weight = quantised ? weight_copy(name, product.width * in_width, true, kNoRegion) : kNoTensor; weight != kNoTensor) turned.push_back(weight);
    tape.backward({name + "_input_gradient", Gemm{.m = tokens, .n = in_width, .k = product.width, .in = dtype, .out = act, .layout = GemmLayout::kNN, .sparse = sparse}}, turned, {dx});
    weight_gradient(product, in_width, dys, q ? in.column : in.plain, dtype, tokens);
    tape.add_gradient(in.plain, dx, bytes(tokens * in_width));
  });
}

/// The position key, of all tokens: every rank's heads use it, so its gradient is summed over them.
TensorId Writer::gather_position_key(TensorId own, std::int64_t rope) {
  if (s.tp == 1) return own;
  const std::int64_t all = bytes(s.tokens * rope);
  TensorId whole = own;
  if (s.sp) {
    whole = tape.tensor("position_key_gathered", all);
    tape.forward({"all_gather_position_key", Comm{CommKind::kAllGather, Axis::kTp, all}}, {own}, {whole}, kMlaUpProjection);
  }
  tape.on_backward([=, this] {
    TensorId d = tape.gradient(whole);
    if (s.sp) {
      d = activation("position_key_gradient", s.shard_tokens * rope);
      tape.backward({"reduce_scatter_position_key", Comm{CommKind::kReduceScatter, Axis::kTp, all}}, {tape.gradient(whole)}, {d});
    } else {
      tape.backward({"all_reduce_position_key", Comm{CommKind::kAllReduce, Axis::kTp, all}}, {d}, {});
    }
    tape.set_gradient(own, d);
  });
  return whole;
}

TensorId Writer::latent_attention(const LinearInput& in) {
  const Mla& a = *model.mla;
  const std::int64_t rope = a.qk_rope_head_dim, heads = s.heads, rank = a.kv_lora_rank;
  const Regions normed = kNormRegion | kMlaUpProjection;
  TensorId q = activation("query", s.tokens * s.q);
  if (a.q_lora_rank) {
    const TensorId latent = activation("query_latent", s.shard_tokens * *a.q_lora_rank);
    replicated("query_down", in, s.hidden, {"query_down", *a.q_lora_rank, false, {latent}}, true, kNoRegion);
    column_parallel("query_up", norm("query_norm", latent, true, *a.q_lora_rank, normed), *a.q_lora_rank, {{"query_up", s.q, false, {q}}}, true, kMlaUpProjection);
  } else {
    column_parallel("query", in, s.hidden, {{"query", s.q, false, {q}}}, true, kNoRegion);
  }
  // One tensor: the position key is a view of its last columns, and lives as long as the latent beside it.
  const TensorId latent = activation("key_value_latent", s.shard_tokens * (rank + rope)), own_position = tape.tensor("position_key", 0);
  replicated("key_value_down", in, s.hidden, {"key_value_down", rank + rope, false, {latent, own_position}}, true, kNoRegion);
  const TensorId position = gather_position_key(own_position, rope);
  const std::int64_t nope_n = s.tokens * heads * a.qk_nope_head_dim, qn = s.tokens * s.q, kn = s.tokens * s.kv, vn = s.tokens * s.v, pn = s.tokens * rope;
  const TensorId nope = activation("key_without_position", nope_n), value = activation("value_strided", vn);
  column_parallel("key_value_up", norm("key_value_norm", latent, true, rank, normed), rank, {{"key_value_up", heads * (a.qk_nope_head_dim + a.v_head_dim), false, {nope, value}}},
                  true, kMlaUpProjection);

  // Keys are put together from both parts and values made dense. Fused, one kernel turns the queries' part in place and one does the rest
  // (Megatron fused_mla_yarn_rope_apply.py). Apart: rotations of both parts (eager as in attention.cpp), a concatenation each, a copy.
  const bool fused = kernels.fused_rope;
  const std::int64_t turned = s.tokens * heads * rope;
  const TensorId k = activation("key_rotated", kn), v = activation("value", vn);
  const std::int64_t assembled = nope_n + vn + pn;  // elements that keys and values are made from
  std::int64_t read = turned + assembled, write = turned + kn + vn;
  int launches = 2;
  TensorId rotated = q;
  std::vector<TensorId> makes = {k, v};
  if (!fused) {
    rotated = activation("query_rotated", qn);
    makes.push_back(rotated);
    read = (turned + pn) * 11 / 2 + qn + assembled;
    write = (turned + pn) * 9 / 2 + qn + kn + vn;
    launches = 13;
  }
  stream("rope", StreamKind::kElementwise, bytes(read), bytes(write), launches, {q, nope, value, position}, makes, kMlaUpProjection);
  tape.on_backward([=, this] {
    const TensorId dnope = activation("key_without_position_gradient", nope_n), dvalue = activation("value_strided_gradient", vn);
    const TensorId dposition = activation("position_key_gradient_whole", pn);
    std::vector<TensorId> made = {dnope, dvalue, dposition};
    TensorId dq = tape.gradient(rotated);
    if (!fused) made.push_back(dq = activation("query_gradient", qn));
    // The transposes: the position key's gradient is summed over the heads on the way.
    backward_stream("rope_backward", StreamKind::kElementwise, bytes(fused ? turned + kn + vn : write), bytes(fused ? turned + assembled : read), launches,
                    {tape.gradient(rotated), tape.gradient(k), tape.gradient(v)}, made);
    tape.set_gradient(q, dq);
    tape.set_gradient(nope, dnope);
    tape.set_gradient(value, dvalue);
    tape.set_gradient(position, dposition);
  });
  return attention_projection(core_attention(rotated, k, v));
}

}  // namespace orrery::workload
