// Ring attention: every rank keeps its queries, and keys and values go around (Liu et al., arXiv:2310.01889).
//
// c steps. Step 0 is the rank's own block, step j that of the rank j places before it; partial results are merged by their log-sum-exp.
// Contiguous pieces under a causal mask (kRingNaive): step 0 is the triangle, steps 1 … r are full, and what remains attends to nothing, so
// rank r does (2r + 1)/c of the mean and the last one (2c - 1)/c. Zigzag pieces (kRing; a rank holds pieces i and 2c-1-i of 2c): step 0 is
// the triangle, a block from before needs its first half of keys for all queries, one from behind all its keys for the second half of
// queries: half a square each, so all ranks do s^2/2c and every step is as long as the next.
//
// As Transformer Engine runs it (pytorch/attention/dot_product_attention/context_parallel.py, AttnFuncWithCPAndKVP2P): the next block is
// sent and received while this one computes; keys and values travel in one buffer, halves are copied out. Backward starts from the block
// that came last and turns the ring: keys and values go on as before, their gradients follow one step behind and end at home.
// As PyTorch runs it (torch/distributed/tensor/experimental/_attention.py, _templated_ring_attention, rotate method "allgather"): all
// blocks are gathered under step 0; partial results are merged, and gradients summed and passed on, in fp32, by eager kernels.
#include <algorithm>

#include "writer.hpp"

namespace orrery::workload {
namespace {

/// What one step attends to; nothing where `queries` is 0.
struct Block {
  std::int64_t queries = 0, keys = 0;
  bool causal = false;
};

Block block(const Writer& w, std::int64_t step) {
  const std::int64_t n = w.s.queries, rank = w.shard.cp_rank;
  if (!w.training.causal) return {n, n, false};
  if (step == 0) return {n, n, true};
  const bool before = step <= rank;
  if (w.shard.cp_method == CpMethod::kRingNaive) return before ? Block{n, n, false} : Block{};
  return before ? Block{n, n / 2, false} : Block{n / 2, n, false};
}

/// Steps of both flavours; the flavours say what moves when.
class Ring {
 public:
  Ring(Writer& w, TensorId q, TensorId k, TensorId v)
      : w_(w), q_(q), k_(k), v_(v), n_(w.s.tokens * w.s.q), out_(w.s.tokens * w.s.o), own_(w.s.tokens * (w.s.kv + w.s.v)), rows_(w.s.tokens * w.s.heads), steps_(w.s.cp) {}

 protected:
  [[nodiscard]] std::int64_t queries(const Block& b) const { return w_.s.batch * b.queries * w_.s.q; }
  [[nodiscard]] std::int64_t outputs(const Block& b) const { return w_.s.batch * b.queries * w_.s.o; }
  [[nodiscard]] std::int64_t keys(const Block& b) const { return w_.s.batch * b.keys * (w_.s.kv + w_.s.v); }
  [[nodiscard]] std::int64_t rows(const Block& b) const { return w_.s.batch * b.queries * w_.s.heads; }

  void forward(const std::string& name, StreamKind kind, std::int64_t read, std::int64_t write, int launches, const std::vector<TensorId>& reads,
               const std::vector<TensorId>& makes, Regions more = kNoRegion) {
    w_.stream(name, kind, read, write, launches, reads, makes, kCoreAttention | more);
  }
  [[nodiscard]] Attention work(const Block& b, bool backward) const {
    Attention a = w_.flash(b.queries, b.keys, b.causal);
    a.backward = backward;
    return a;
  }
  [[nodiscard]] TensorId query_sum(const Block& b) { return w_.tape.tensor("query_gradient_fp32", 4 * (queries(b) + rows(b))); }

  Writer& w_;
  TensorId q_, k_, v_;
  std::int64_t n_, out_, own_, rows_;  ///< elements of the queries, of the output, of keys and values together, and rows of the log-sum-exp
  std::int64_t steps_;
};

class TransformerEngineRing : private Ring {
 public:
  using Ring::Ring;

  TensorId write() {
    std::vector<TensorId> kv = {w_.activation("keys_values", own_)};
    forward("pack_kv", StreamKind::kCopy, w_.bytes(own_), w_.bytes(own_), 1, {k_, v_}, {kv[0]});
    const TensorId o = w_.activation("attention_output", out_), lse = w_.tape.tensor("log_sum_exp", 4 * rows_);
    int arriving = -1;
    for (std::int64_t j = 0; j < steps_; ++j) {
      if (j > 0) w_.tape.forward({"wait_kv", Await{arriving}}, {}, {}, kCoreAttention);
      if (j + 1 < steps_) {
        arriving = w_.tape.ticket();
        kv.push_back(w_.activation("keys_values_arrived", own_));
        w_.tape.forward({"send_kv", Comm{CommKind::kSendRecv, Axis::kCp, w_.bytes(own_), arriving}}, {kv[kv.size() - 2]}, {kv.back()},
                        j + 2 == steps_ ? kCoreAttention | kAttentionResult : kCoreAttention);
      }
      attend(j, kv[static_cast<std::size_t>(j)], o, lse);
    }
    w_.tape.on_backward([ring = *this, last = kv.back(), o, lse]() mutable { ring.play(last, o, lse); });
    return o;
  }

 private:
  void attend(std::int64_t j, TensorId kv, TensorId o, TensorId lse) {
    const Block b = block(w_, j);
    if (b.queries == 0) return;
    TensorId q = q_;
    if (b.queries < w_.s.queries) {
      q = w_.activation("queries_half", queries(b));
      forward("copy_queries", StreamKind::kCopy, w_.bytes(queries(b)), w_.bytes(queries(b)), 1, {q_}, {q});
    }
    if (b.keys < w_.s.queries) {
      const TensorId half = w_.activation("keys_values_half", keys(b));
      forward("copy_kv", StreamKind::kCopy, w_.bytes(keys(b)), w_.bytes(keys(b)), 1, {kv}, {half});
      kv = half;
    }
    if (j == 0) {
      w_.tape.forward({"attention", work(b, false)}, {q, kv}, {o, lse}, kCoreAttention);
      return;
    }
    const TensorId part = w_.activation("attention_output_of_step", outputs(b)), part_lse = w_.tape.tensor("log_sum_exp_of_step", 4 * rows(b));
    w_.tape.forward({"attention", work(b, false)}, {q, kv}, {part, part_lse}, kCoreAttention);
    forward("correct_attention", StreamKind::kElementwise, 2 * w_.bytes(outputs(b)) + 16 * rows(b), w_.bytes(outputs(b)) + 4 * rows(b), 2, {o, lse, part, part_lse}, {});
  }

  void play(TensorId kv, TensorId o, TensorId lse) {
    TensorId dq = kNoTensor, dkv = kNoTensor;
    int before = -1;
    for (std::int64_t i = 0; i < steps_; ++i) {
      // The first exchange carries keys and values alone, the last one gradients alone.
      if (i == 1) w_.tape.backward({"wait_kv", Await{before}}, {}, {});
      const TensorId here = kv, gone = dkv;
      const int now = w_.tape.ticket();
      const std::int64_t bytes = (i + 1 < steps_ ? w_.bytes(own_) : 0) + (i > 0 ? w_.bytes(own_) : 0);
      std::vector<TensorId> reads, makes;
      if (i + 1 < steps_) {
        reads.push_back(here);
        makes.push_back(kv = w_.activation("keys_values_arrived_again", own_));
      }
      if (i > 0) {
        reads.push_back(gone);
        makes.push_back(dkv = w_.activation("keys_values_gradient_arrived", own_));
      }
      w_.tape.backward({i == 0 ? "send_kv" : "send_kv_gradient", Comm{CommKind::kSendRecv, Axis::kCp, bytes, now}}, reads, makes);
      before = now;
      const TensorId part = attend_backward(steps_ - 1 - i, here, o, lse, dq);
      if (i > 0) w_.tape.backward({"wait_kv_gradient", Await{now}}, {}, {});
      sum(steps_ - 1 - i, part, dkv);
    }
    w_.tape.set_gradient(q_, dq);
    w_.tape.set_gradient(k_, dkv);
    w_.tape.set_gradient(v_, dkv);
  }

  /// Gradients of a step's keys and values; kNoTensor where it attends to nothing.
  TensorId attend_backward(std::int64_t j, TensorId kv, TensorId o, TensorId lse, TensorId& dq) {
    const Block b = block(w_, j);
    if (b.queries == 0) return kNoTensor;
    const TensorId dout = w_.tape.gradient(o);
    std::vector<TensorId> reads = {dout, q_, o, lse};
    if (b.queries < w_.s.queries) {
      const std::int64_t half = queries(b) + 2 * outputs(b);
      const TensorId halves = w_.activation("queries_outputs_half", half);
      w_.backward_stream("copy_queries", StreamKind::kCopy, w_.bytes(half), w_.bytes(half), 3, {q_, o, dout}, {halves});
      reads = {halves, lse};
    }
    if (b.keys < w_.s.queries) {
      const TensorId half = w_.activation("keys_values_half", keys(b));
      w_.backward_stream("copy_kv", StreamKind::kCopy, w_.bytes(keys(b)), w_.bytes(keys(b)), 1, {kv}, {half});
      kv = half;
    }
    reads.push_back(kv);
    const TensorId part = w_.activation("query_gradient_of_step", queries(b)), dkv = w_.activation("keys_values_gradient_of_step", keys(b));
    w_.tape.backward({"attention_backward", work(b, true)}, reads, {part, dkv, query_sum(b)});
    const std::int64_t some = w_.bytes(queries(b));
    if (dq == kNoTensor) {
      dq = w_.activation("query_rotated_gradient", n_);
      w_.backward_stream("place_query_gradient", StreamKind::kCopy, some, w_.bytes(n_), queries(b) < n_ ? 2 : 1, {part}, {dq});
    } else {
      w_.backward_stream("add_query_gradient", StreamKind::kElementwise, 2 * some, some, 1, {part, dq}, {});
    }
    return dkv;
  }

  void sum(std::int64_t j, TensorId part, TensorId& dkv) {
    const std::int64_t some = part == kNoTensor ? 0 : w_.bytes(keys(block(w_, j)));
    if (dkv != kNoTensor) {
      if (some > 0) w_.backward_stream("add_kv_gradient", StreamKind::kElementwise, 2 * some, some, 1, {dkv, part}, {});
      return;
    }
    dkv = w_.activation("keys_values_gradient", own_);
    std::vector<TensorId> reads;
    if (some > 0) reads.push_back(part);
    w_.backward_stream("place_kv_gradient", StreamKind::kCopy, some, w_.bytes(own_), 1, reads, {dkv});
  }
};

class PyTorchRing : private Ring {
 public:
  using Ring::Ring;

  TensorId write() {
    const TensorId lse = w_.tape.tensor("log_sum_exp", 4 * rows_), sum = w_.tape.tensor("attention_output_fp32", 4 * out_), o = w_.activation("attention_output", out_);
    const int arriving = w_.tape.ticket();
    const TensorId packed = w_.activation("keys_values", own_), all = w_.activation("keys_values_gathered", own_ * steps_);
    forward("pack_kv", StreamKind::kCopy, w_.bytes(own_), w_.bytes(own_), 1, {k_, v_}, {packed});
    w_.tape.forward({"all_gather_kv", Comm{CommKind::kAllGather, Axis::kCp, w_.bytes(own_ * steps_), arriving}}, {packed}, {all}, kCoreAttention);
    for (std::int64_t j = 0; j < steps_; ++j) {
      if (j == 1) w_.tape.forward({"wait_kv", Await{arriving}}, {}, {}, kCoreAttention);
      const Block b = block(w_, j);
      if (b.queries == 0) continue;
      const std::vector<TensorId> reads = j == 0 ? std::vector<TensorId>{q_, k_, v_} : std::vector<TensorId>{q_, all};
      const TensorId part = w_.activation("attention_output_of_step", outputs(b));
      const std::int64_t m = outputs(b), e = w_.bytes(1);
      if (j == 0) {
        w_.tape.forward({"attention", work(b, false)}, reads, {part, lse}, kCoreAttention);
        forward("widen_attention", StreamKind::kCast, e * m, 4 * m, 1, {part}, {sum});
        continue;
      }
      const TensorId part_lse = w_.tape.tensor("log_sum_exp_of_step", 4 * rows(b)), wide = w_.tape.tensor("merge_fp32", 4 * 3 * m);
      w_.tape.forward({"attention", work(b, false)}, reads, {part, part_lse}, kCoreAttention);
      // out - sigmoid(lse' - lse) (out - out'): a cast, two differences and a product in fp32, four kernels over rows; half of the
      // sequence is put back by a copy of the whole.
      const std::int64_t whole = m < out_ ? 4 * out_ : 0;
      forward("merge_attention", StreamKind::kElementwise, (20 + e) * m + 32 * rows(b) + whole, 16 * m + 16 * rows(b) + whole, m < out_ ? 9 : 8, {sum, lse, part, part_lse}, {wide});
    }
    forward("narrow_attention", StreamKind::kCast, 4 * out_, w_.bytes(out_), 1, {sum}, {o}, kAttentionResult);
    w_.tape.on_backward([ring = *this, o, lse]() mutable { ring.play(o, lse); });
    return o;
  }

 private:
  void play(TensorId o, TensorId lse) {
    const int arriving = w_.tape.ticket();
    const TensorId packed = w_.activation("keys_values_again", own_), all = w_.activation("keys_values_gathered_again", own_ * steps_);
    w_.backward_stream("pack_kv", StreamKind::kCopy, w_.bytes(own_), w_.bytes(own_), 1, {k_, v_}, {packed});
    w_.tape.backward({"all_gather_kv", Comm{CommKind::kAllGather, Axis::kCp, w_.bytes(own_ * steps_), arriving}}, {packed}, {all});
    const TensorId dq = w_.tape.tensor("query_gradient_sum", 4 * n_);
    w_.backward_stream("zero_gradients", StreamKind::kElementwise, 0, 4 * (n_ + own_), 3, {}, {dq});
    TensorId dkv = kNoTensor;
    int passed = -1;
    for (std::int64_t j = 0; j < steps_; ++j) {
      if (j == 1) w_.tape.backward({"wait_kv", Await{arriving}}, {}, {});
      const Block b = block(w_, j);
      TensorId part = kNoTensor;
      if (b.queries > 0) {
        std::vector<TensorId> reads = {w_.tape.gradient(o), q_, o, lse};
        if (j == 0) {
          reads.insert(reads.end(), {k_, v_});
        } else {
          reads.push_back(all);
        }
        part = w_.activation("keys_values_gradient_of_step", keys(b));
        const TensorId query_part = w_.activation("query_gradient_of_step", queries(b));
        w_.tape.backward({"attention_backward", work(b, true)}, reads, {query_part, part, query_sum(b)});
        accumulate("add_query_gradient", queries(b), n_, 1, {query_part, dq});
      }
      const TensorId sum = w_.tape.tensor("keys_values_gradient_sum", 4 * own_);
      if (j > 0) w_.tape.backward({"wait_kv_gradient", Await{passed}}, {}, {});
      std::vector<TensorId> reads;
      if (dkv != kNoTensor) reads.push_back(dkv);
      if (part != kNoTensor) reads.push_back(part);
      if (part != kNoTensor) accumulate("add_kv_gradient", keys(b), own_, 2, reads);
      w_.backward_stream("pack_kv_gradient", StreamKind::kCopy, 4 * own_, 4 * own_, 1, reads, {sum});
      passed = w_.tape.ticket();
      dkv = w_.tape.tensor("keys_values_gradient_arrived", 4 * own_);
      w_.tape.backward({"send_kv_gradient", Comm{CommKind::kSendRecv, Axis::kCp, 4 * own_, passed}}, {sum}, {dkv});
    }
    w_.tape.backward({"wait_kv_gradient", Await{passed}}, {}, {});
    const TensorId q = w_.activation("query_rotated_gradient", n_), kv = w_.activation("keys_values_gradient", own_);
    w_.backward_stream("narrow_gradients", StreamKind::kCast, 4 * (n_ + own_), w_.bytes(n_ + own_), 3, {dq, dkv}, {q, kv});
    w_.tape.set_gradient(q_, q);
    w_.tape.set_gradient(k_, kv);
    w_.tape.set_gradient(v_, kv);
  }

  /// sum += part over `some` of `all` elements; a part of the sequence is put back by a copy of the whole.
  void accumulate(const char* name, std::int64_t some, std::int64_t all, int tensors, const std::vector<TensorId>& reads) {
    const std::int64_t whole = some < all ? 4 * all : 0;
    w_.backward_stream(name, StreamKind::kElementwise, (4 + w_.bytes(1)) * some + whole, 4 * some + whole, tensors * (some < all ? 2 : 1), reads, {});
  }
};

}  // namespace

TensorId Writer::ring_attention(TensorId q, TensorId k, TensorId v) {
  if (kernels.pytorch_ring) return PyTorchRing(*this, q, k, v).write();
  return TransformerEngineRing(*this, q, k, v).write();
}

}  // namespace orrery::workload
