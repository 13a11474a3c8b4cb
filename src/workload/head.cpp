// Final norm, output projection over this rank's part of the padded vocabulary, and the loss.
//
// Fused, the loss reads the logits and writes their gradient beside them: 4 bytes a logit moved and held, and nothing left for backward.
// Not fused it is a chain: copy to fp32 (where the stack makes one), log-softmax, loss; backward the reverse, through a dense gradient of
// the log-probabilities where the stack uses PyTorch's own loss (aten nll_loss_backward, _log_softmax_backward_data). With tp every token's
// maximum, sum and target logit are all-reduced, which splits the fused kernel in two passes (Megatron-LM cross_entropy.py).
#include "passes.hpp"
#include "writer.hpp"

namespace orrery::workload {
namespace {

class Loss {
 public:
  Loss(Writer& w, TensorId logits, std::int64_t elements) : w_(w), logits_(logits), n_(elements), bytes_(w.bytes(elements)) {}

  void write() {
    if (w_.kernels.fused_cross_entropy) {
      fused();
    } else {
      chain();
    }
  }

 private:
  void stream(const char* name, std::int64_t read, std::int64_t write, const std::vector<TensorId>& reads, const std::vector<TensorId>& makes) {
    w_.stream(name, StreamKind::kCrossEntropy, read, write, 1, reads, makes);
  }
  void agree(const char* name) {
    if (w_.s.tp > 1) w_.tape.forward({name, Comm{CommKind::kAllReduce, Axis::kTp, 4 * w_.s.tokens}}, {}, {});
  }

  void fused() {
    const TensorId gradient = w_.tape.tensor("logits_gradient", bytes_);
    if (w_.s.tp > 1) stream("cross_entropy_max", bytes_, 0, {logits_}, {});
    agree("all_reduce_logits_max");
    stream("cross_entropy", bytes_, bytes_, {logits_}, {gradient});
    agree("all_reduce_logits_sum");
    agree("all_reduce_target_logits");
    w_.tape.on_backward([this, gradient] { w_.tape.set_gradient(logits_, gradient); });
  }

  void chain() {
    const bool copies = w_.kernels.cross_entropy_fp32_logits && w_.bytes(1) < 4;
    const std::int64_t wide = copies ? 4 * n_ : bytes_;
    TensorId x = logits_;
    if (copies) {
      x = w_.tape.tensor("logits_fp32", wide);
      w_.stream("logits_to_fp32", StreamKind::kCast, bytes_, wide, 1, {logits_}, {x});
    }
    const TensorId log_probabilities = w_.tape.tensor("log_probabilities", wide);
    if (w_.s.tp > 1) stream("logits_max", wide, 0, {x}, {});
    agree("all_reduce_logits_max");
    stream("log_softmax", wide, wide, {x}, {log_probabilities});
    agree("all_reduce_logits_sum");
    agree("all_reduce_target_logits");
    stream("loss", wide, 0, {log_probabilities}, {});
    w_.tape.on_backward([this, copies, wide, log_probabilities] {
      std::vector<TensorId> reads = {log_probabilities};
      if (w_.kernels.cross_entropy_dense_gradient) {  // zeros with one entry a token, read again by the softmax's backward
        reads.push_back(w_.tape.tensor("log_probabilities_gradient", wide));
        w_.backward_stream("nll_loss_backward", StreamKind::kCrossEntropy, 0, wide, 2, {}, {reads.back()});
      }
      TensorId gradient = w_.tape.tensor(copies ? "logits_gradient_fp32" : "logits_gradient", wide);
      w_.backward_stream("cross_entropy_backward", StreamKind::kCrossEntropy, static_cast<std::int64_t>(reads.size()) * wide, wide, 1, reads, {gradient});
      if (copies) {
        const TensorId narrow = w_.tape.tensor("logits_gradient", bytes_);
        w_.backward_stream("logits_gradient_cast", StreamKind::kCast, wide, bytes_, 1, {gradient}, {narrow});
        gradient = narrow;
      }
      w_.tape.set_gradient(logits_, gradient);
    });
  }

  Writer& w_;
  TensorId logits_;
  std::int64_t n_, bytes_;
};

/// Scaled and capped logits: kernels of their own, unless the compiler that made the loss kernel took them in.
TensorId bend(Writer& w, TensorId logits, std::int64_t elements) {
  if (w.training.fusion == Fusion::kCompiled && w.kernels.cross_entropy_compiled) return logits;
  if (w.model.logit_scale) logits = w.scale("logit_scale", logits, elements);
  if (w.model.final_softcap) logits = w.softcap("final_softcap", logits, elements, w.kernels.fused_bias_activation ? 1 : 3, kNoRegion);
  return logits;
}

}  // namespace

Layer head_layer(const Model& m, const Training& t, const Shard& shard, const StackKernels& k) {
  Writer w(m, t, shard, k);
  const TensorId x = w.tape.input(w.bytes(w.s.shard_tokens * w.s.hidden));
  const LinearInput normed = w.norm("final_norm", x, false);
  const std::int64_t columns = padded_vocab(m, shard) / shard.tp;
  const TensorId logits = w.activation("logits", w.s.tokens * columns);
  // The projection to the vocabulary stays in the activation's type under every 8-bit recipe (Transformer Engine leaves it out).
  w.column_parallel("head", normed, w.s.hidden, {{"logits", columns, m.head_bias, {logits}}}, false, kNoRegion);
  Loss loss(w, bend(w, logits, w.s.tokens * columns), w.s.tokens * columns);
  loss.write();
  return w.tape.finish(kNoTensor, {});
}

}  // namespace orrery::workload
