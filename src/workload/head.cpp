// Final norm, output projection over this rank's part of the padded vocabulary, and the loss.
//
// Fused, the loss reads the logits and writes their gradient beside them: 4 bytes a logit moved and held, and nothing left for backward.
// Not fused it is a chain: copy to fp32 (where the stack makes one), log-softmax, loss; backward the reverse, through a dense gradient of
// the log-probabilities where the stack uses PyTorch's own loss (aten nll_loss_backward, _log_softmax_backward_data). With tp every token's
// maximum, sum and target logit are all-reduced, which splits the fused kernel in two passes (Megatron-LM cross_entropy.py). Where ranks do
// not keep their part of the vocabulary the logits are gathered, and every rank computes the whole loss (torchtitan without loss parallel).
//
// In chunks, projection and loss run together on one part of the tokens after another: product, loss with its gradient in place of the
// logits, and the two gradient products, so that no more than one chunk's logits ever stand in memory. Backward scales what is there by
// the loss' own gradient (Hsu et al., Liger Kernel, arXiv:2410.10989, section 3; liger_kernel/ops/fused_linear_cross_entropy.py).
#include <algorithm>

#include "orrery/base/checked.hpp"
#include "passes.hpp"
#include "writer.hpp"

namespace orrery::workload {
namespace {

class Loss {
 public:
  Loss(Writer& w, TensorId logits, std::int64_t elements)
      : w_(w), logits_(logits), n_(elements), bytes_(w.bytes(elements)), parallel_(w.s.tp > 1 && w.training.loss.vocab_parallel) {}

  void write() {
    if (w_.training.loss.fused.value_or(w_.kernels.fused_cross_entropy)) {
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
    if (parallel_) w_.tape.forward({name, Comm{CommKind::kAllReduce, Axis::kTp, 4 * w_.s.tokens}}, {}, {});
  }

  void fused() {
    const TensorId gradient = w_.tape.tensor("logits_gradient", bytes_);
    if (parallel_) stream("cross_entropy_max", bytes_, 0, {logits_}, {});
    agree("all_reduce_logits_max");
    stream("cross_entropy", bytes_, bytes_, {logits_}, {gradient});
    agree("all_reduce_logits_sum");
    agree("all_reduce_target_logits");
    w_.tape.on_backward([&w = w_, logits = logits_, gradient] { w.tape.set_gradient(logits, gradient); });
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
    if (parallel_) stream("logits_max", wide, 0, {x}, {});
    agree("all_reduce_logits_max");
    stream("log_softmax", wide, wide, {x}, {log_probabilities});
    agree("all_reduce_logits_sum");
    agree("all_reduce_target_logits");
    stream("loss", wide, 0, {log_probabilities}, {});
    w_.tape.on_backward([&w = w_, logits = logits_, bytes = bytes_, copies, wide, log_probabilities] {
      std::vector<TensorId> reads = {log_probabilities};
      if (w.kernels.cross_entropy_dense_gradient) {  // zeros with one entry a token, read again by the softmax's backward
        reads.push_back(w.tape.tensor("log_probabilities_gradient", wide));
        w.backward_stream("nll_loss_backward", StreamKind::kCrossEntropy, 0, wide, 2, {}, {reads.back()});
      }
      TensorId gradient = w.tape.tensor(copies ? "logits_gradient_fp32" : "logits_gradient", wide);
      w.backward_stream("cross_entropy_backward", StreamKind::kCrossEntropy, static_cast<std::int64_t>(reads.size()) * wide, wide, 1, reads, {gradient});
      if (copies) {
        const TensorId narrow = w.tape.tensor("logits_gradient", bytes);
        w.backward_stream("logits_gradient_cast", StreamKind::kCast, wide, bytes, 1, {gradient}, {narrow});
        gradient = narrow;
      }
      w.tape.set_gradient(logits, gradient);
    });
  }

  Writer& w_;
  TensorId logits_;
  std::int64_t n_, bytes_;
  bool parallel_;
};

/// Scaled and capped logits: kernels of their own, unless the compiler that made the loss kernel took them in.
TensorId bend(Writer& w, TensorId logits, std::int64_t elements) {
  if (w.training.fusion == Fusion::kCompiled && w.kernels.cross_entropy_compiled) return logits;
  if (w.model.logit_scale) logits = w.scale("logit_scale", logits, elements);
  if (w.model.final_softcap) logits = w.softcap("final_softcap", logits, elements, w.kernels.fused_bias_activation ? 1 : 3, kNoRegion);
  return logits;
}

/// Every rank's part of the vocabulary to all; backward takes its own part out again.
TensorId gather_logits(Writer& w, TensorId logits, std::int64_t local, std::int64_t whole) {
  const TensorId all = w.activation("logits_gathered", whole);
  w.tape.forward({"all_gather_logits", Comm{CommKind::kAllGather, Axis::kTp, w.bytes(whole)}}, {logits}, {all});
  w.tape.on_backward([&w, logits, all, local] {
    const TensorId own = w.activation("logits_own_gradient", local);
    w.backward_stream("take_own_logits", StreamKind::kCopy, w.bytes(local), w.bytes(local), 1, {w.tape.gradient(all)}, {own});
    w.tape.set_gradient(logits, own);
  });
  return all;
}

/// One part of the tokens: logits, loss, and both gradient products.
void loss_chunk(Writer& w, std::int64_t tokens, std::int64_t columns, bool first, TensorId x, TensorId dx, TensorId dw) {
  const bool parallel = w.s.tp > 1 && w.training.loss.vocab_parallel;
  const std::int64_t n = tokens * columns, wide = parallel ? n : tokens * padded_vocab(w.model, w.shard);
  const std::int64_t h = w.s.hidden;
  const auto agree = [&](const char* name) {
    if (parallel) w.tape.forward({name, Comm{CommKind::kAllReduce, Axis::kTp, 4 * tokens}}, {}, {});
  };
  TensorId logits = w.activation("logits", n);
  w.tape.forward({"logits", Gemm{.m = tokens, .n = columns, .k = h, .in = w.act, .out = w.act, .layout = GemmLayout::kTN}}, {x}, {logits});
  const bool bends = (w.model.logit_scale || w.model.final_softcap) && !(w.training.fusion == Fusion::kCompiled && w.kernels.cross_entropy_compiled);
  if (bends) w.stream("bend_logits", StreamKind::kElementwise, w.bytes(n), w.bytes(n), 1, {logits}, {});
  if (wide > n) {
    const TensorId all = w.activation("logits_gathered", wide);
    w.tape.forward({"all_gather_logits", Comm{CommKind::kAllGather, Axis::kTp, w.bytes(wide)}}, {logits}, {all});
    logits = all;
  }
  if (parallel) w.stream("cross_entropy_max", StreamKind::kCrossEntropy, w.bytes(n), 0, 1, {logits}, {});
  agree("all_reduce_logits_max");
  w.stream("cross_entropy", StreamKind::kCrossEntropy, w.bytes(wide), w.bytes(wide), 1, {logits}, {});
  agree("all_reduce_logits_sum");
  agree("all_reduce_target_logits");
  if (bends) w.stream("bend_logits_gradient", StreamKind::kElementwise, 2 * w.bytes(n), w.bytes(n), 1, {logits}, {});
  w.tape.forward({"logits_input_gradient", Gemm{.m = tokens, .n = h, .k = columns, .in = w.act, .out = w.act, .layout = GemmLayout::kNN}}, {logits}, {dx});
  if (dw == kNoTensor) return;
  w.tape.forward({"logits_weight_gradient", Gemm{.m = columns, .n = h, .k = tokens, .in = w.act, .out = w.act, .layout = GemmLayout::kNT, .accumulate = !first}}, {logits, x}, {dw});
}

void chunked_loss(Writer& w, const LinearInput& in, std::int64_t columns) {
  const std::int64_t tokens = w.s.tokens, all = tokens * w.s.hidden, weights = columns * w.s.hidden;
  TensorId x = in.plain;
  if (w.s.sp) {
    x = w.activation("head_gathered", all);
    w.tape.forward({"all_gather_head", Comm{CommKind::kAllGather, Axis::kTp, w.bytes(all)}}, {in.plain}, {x});
  }
  const TensorId dx = w.activation("head_input_gradient", all), dw = w.training.adapter.on() ? kNoTensor : w.activation("head_weight_gradient", weights);
  const std::int64_t step = ceil_div(tokens, w.training.loss.chunks);
  for (std::int64_t done = 0; done < tokens; done += step) loss_chunk(w, std::min(step, tokens - done), columns, done == 0, x, dx, dw);
  w.tape.on_backward([&w, in, dx, dw, all, weights] {
    w.backward_stream("scale_head_input_gradient", StreamKind::kElementwise, w.bytes(all), w.bytes(all), 1, {dx}, {});
    TensorId out = dx;
    if (w.s.sp) {
      out = w.activation("head_gradient_shard", w.s.shard_tokens * w.s.hidden);
      w.tape.backward({"reduce_scatter_head", Comm{CommKind::kReduceScatter, Axis::kTp, w.bytes(all)}}, {dx}, {out});
    } else if (w.s.tp > 1) {
      w.tape.backward({"all_reduce_head", Comm{CommKind::kAllReduce, Axis::kTp, w.bytes(all)}}, {dx}, {});
    }
    if (dw != kNoTensor) {
      w.backward_stream("scale_head_weight_gradient", StreamKind::kElementwise, w.bytes(weights), w.bytes(weights), 1, {dw}, {}, true);
      if (w.shard.gradient_buffer) {
        const std::int64_t main = static_cast<std::int64_t>(element_bytes(w.training.grad_dtype)) * weights;
        w.backward_stream("accumulate_head", StreamKind::kElementwise, w.bytes(weights) + main, main, 1, {dw}, {}, true);
      }
    }
    w.tape.add_gradient(in.plain, out, w.bytes(w.s.shard_tokens * w.s.hidden));
  });
}

/// Dynamic loss scaling multiplies the loss before backward (torch.amp.GradScaler.scale); one value, a launch all the same.
void scale_loss(Writer& w) {
  if (w.training.precision == DType::kFp16) w.stream("scale_loss", StreamKind::kElementwise, 4, 4, 1, {}, {});
}

}  // namespace

void vocabulary_loss(Writer& w, TensorId logits, std::int64_t elements) {
  const bool gathers = w.s.tp > 1 && !w.training.loss.vocab_parallel;
  const std::int64_t wide = gathers ? elements * w.s.tp : elements;
  Loss(w, gathers ? gather_logits(w, logits, elements, wide) : logits, wide).write();
  scale_loss(w);
}

void head_and_loss(Writer& w, const LinearInput& normed) {
  const std::int64_t columns = padded_vocab(w.model, w.shard) / w.shard.tp;
  if (w.training.loss.chunks > 1) {
    chunked_loss(w, normed, columns);
    scale_loss(w);
    return;
  }
  const TensorId logits = w.activation("logits", w.s.tokens * columns);
  // The projection to the vocabulary stays in the activation's type under every 8-bit recipe (Transformer Engine leaves it out).
  w.column_parallel("head", normed, w.s.hidden, {{"logits", columns, w.model.head_bias, {logits}}}, false, kNoRegion);
  vocabulary_loss(w, bend(w, logits, w.s.tokens * columns), w.s.tokens * columns);
}

Layer head_layer(const Model& m, const Training& t, const Shard& given, const StackKernels& k) {
  // Overlap of tensor-parallel collectives is a block's: Megatron-LM's output layer and torchtitan's, which is not compiled, have none.
  Shard shard = given;
  shard.tp_overlap = TpOverlap::kNone;
  Writer w(m, t, shard, k);
  const TensorId x = w.tape.input(w.bytes(w.s.shard_tokens * w.s.hidden));
  head_and_loss(w, w.norm("final_norm", x, false));
  Layer layer = w.tape.finish(kNoTensor, {});
  // The modules' layer before this one passes its input on, and holds it until its own backward pass, which comes after this one's.
  if (m.mtp_layers > 0) std::erase_if(layer.saved, [](const SavedTensor& saved) { return saved.name == "input"; });
  return layer;
}

}  // namespace orrery::workload
