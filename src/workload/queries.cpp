// What happens to queries and keys between their projection and the scores: norms and rotary positions.
#include "writer.hpp"

namespace orrery::workload {

/// A norm over all heads needs the sum of squares of heads that other ranks hold: one fp32 number a token for queries, one for keys, and
/// the same again for the backward pass.
void Writer::norm_queries(TensorId& q, TensorId& k) {
  const std::int64_t qn = s.tokens * s.q, kvn = s.tokens * s.kv;
  const std::int64_t size = bytes(qn + kvn);
  const bool across = model.qk_norm == QkNorm::kFull && s.tp > 1;
  const bool weighted = model.qk_norm != QkNorm::kUnweighted;
  const TensorId qi = q, ki = k;
  q = activation("query_normed", qn);
  k = activation("key_normed", kvn);
  const TensorId qo = q, ko = k;
  const Comm agree{CommKind::kAllReduce, Axis::kTp, 8 * s.tokens};
  if (across) {
    stream("qk_norm_squares", StreamKind::kReduce, size, 8 * s.tokens, 2, {qi, ki}, {});
    tape.forward({"all_reduce_qk_norm", agree}, {}, {});
  }
  stream("qk_norm", StreamKind::kNorm, size, size, 2, {qi, ki}, {q, k});
  tape.on_backward([=, this] {
    const TensorId dq = activation("query_norm_gradient", qn), dk = activation("key_norm_gradient", kvn);
    if (across) {
      backward_stream("qk_norm_products", StreamKind::kReduce, 2 * size, 8 * s.tokens, 2, {tape.gradient(qo), tape.gradient(ko), qi, ki}, {});
      tape.backward({"all_reduce_qk_norm", agree}, {}, {});
    }
    backward_stream("qk_norm_backward", StreamKind::kNorm, 2 * size, size, weighted ? 4 : 2, {tape.gradient(qo), tape.gradient(ko), qi, ki}, {dq, dk});
    tape.set_gradient(qi, dq);
    tape.set_gradient(ki, dk);
  });
}

/// Fused: one kernel that reads and writes once. Eager (Hugging Face apply_rotary_pos_emb), each for queries and keys: negate half,
/// concatenate, two products, a sum; in passes over the tensor read 0.5+1+1+1+2 and written 0.5+1+1+1+1. Where only part of a head is
/// rotated, eager code cuts it off and concatenates the whole again (modeling_gpt_neox.py); the fused kernel copies the rest.
void Writer::rotate(TensorId& q, TensorId& k) {
  const std::int64_t qn = s.tokens * s.q, kvn = s.tokens * s.kv;
  const std::int64_t size = bytes(qn + kvn);
  const std::int64_t part = size / s.head_dim * model.rotary_dim.value_or(s.head_dim);
  const bool partial = part < size;
  const bool fused = kernels.fused_rope;
  const std::int64_t read = fused ? size : part * 11 / 2 + (partial ? size : 0);
  const std::int64_t write = fused ? size : part * 9 / 2 + (partial ? size : 0);
  const int launches = fused ? 1 : partial ? 12 : 10;
  const TensorId qi = q, ki = k;
  q = activation("query_rotated", qn);
  k = activation("key_rotated", kvn);
  const TensorId qo = q, ko = k;
  stream("rope", StreamKind::kElementwise, read, write, launches, {qi, ki}, {q, k});
  tape.on_backward([=, this] {  // the rotation's transpose; the angles are tables
    const TensorId dq = activation("query_gradient", qn), dk = activation("key_gradient", kvn);
    backward_stream("rope_backward", StreamKind::kElementwise, read, write, launches, {tape.gradient(qo), tape.gradient(ko)}, {dq, dk});
    tape.set_gradient(qi, dq);
    tape.set_gradient(ki, dk);
  });
}

}  // namespace orrery::workload
