// Experts in place of an MLP: from the norm's output to what is added to the residual, on this rank's tokens.
//
// A router scores every expert for every token and keeps the best few. Copies of the tokens are put in order of their experts, travel to the
// ranks that hold them, run through one MLP per expert as grouped products, travel back, and are added up with the router's weights. What
// is launched follows Megatron-LM core/transformer/moe (router.py, token_dispatcher.py, experts.py): with several local experts the arrivals
// are put in order a second time, since they come source by source; with a tensor-parallel size of their own (etp) the ranks that share an
// expert gather their copies before it and reduce-scatter after. The weights are applied inside the experts' activation or, as first
// published, where copies are added up, which needs every expert's output kept for backward.
#include "orrery/workload/experts.hpp"

#include <algorithm>
#include <cmath>

#include "orrery/base/checked.hpp"
#include "writer.hpp"

namespace orrery::workload {
namespace {

/// Passes over the scores of all experts and kernels that the choice takes, written out in PyTorch: softmax or sigmoid, (bias,) top-k, gather,
/// normalise, scatter to a map, and the auxiliary loss' mean, count, product and sum. Fused (Transformer Engine fused_router): one each.
constexpr int kEagerPasses = 6, kEagerKernels = 14, kFusedKernels = 3;
constexpr std::int64_t kCountBytes = 8;  ///< of an int64 count a rank sends per expert

}  // namespace

/// One copy of every row into another order: reads and writes each once. Fewer rows in than out: rows are read once per copy all the same.
TensorId Writer::reorder(const std::string& name, TensorId x, std::int64_t rows_in, std::int64_t rows_out, int launches) {
  const std::int64_t most = bytes(std::max(rows_in, rows_out) * s.hidden), out = bytes(rows_out * s.hidden), in = bytes(rows_in * s.hidden);
  const TensorId y = activation(name + "_output", rows_out * s.hidden);
  stream(name, StreamKind::kPermute, most, out, launches, {x}, {y});
  tape.on_backward([=, this] {
    const TensorId dx = activation(name + "_gradient", rows_in * s.hidden);
    backward_stream(name + "_backward", StreamKind::kPermute, most, in, launches, {tape.gradient(y)}, {dx});
    tape.add_gradient(x, dx, in);
  });
  return y;
}

/// The exchange of `copies` copies of `element_bytes` a rank, as the dispatcher carries it. Forward and gradient of one direction differ in it:
/// a combine's gradient is a dispatch.
Comm Writer::token_comm(std::int64_t copies, double element_bytes, bool combine) const {
  const Moe& moe = *model.moe;
  const auto copy = static_cast<std::int64_t>(static_cast<double>(s.hidden) * element_bytes + 0.5);
  Comm comm{CommKind::kAllToAll, Axis::kEp, copies * copy};
  if (shard.dispatch == ExpertDispatch::kAllToAll) return comm;
  comm.route = {.path = shard.dispatch == ExpertDispatch::kDeepEp ? TokenPath::kDeduplicated : TokenPath::kHierarchical,
                .experts = moe.experts,
                .per_token = moe.experts_per_token,
                .group_limit = moe.group_limit.value_or(0),
                .copy_bytes = copy,
                .combine = combine,
                .sms = kernels.exchange_sms};
  return comm;
}

/// Tokens to experts or back; the gradient goes the other way. 8-bit tokens go to the experts in forward alone: what is added up, and
/// gradients, stay wide (DeepSeek-V3, arXiv:2412.19437, section 3.3.3).
TensorId Writer::exchange(const std::string& name, TensorId x, std::int64_t sent, std::int64_t received, std::int64_t busiest, bool combine, const Between& between) {
  if (shard.ep == 1) {
    if (between) between();
    return x;
  }
  const double wide = element_bytes(act);
  const bool narrow = !combine && kernels.fp8_dispatch && format.on;
  const TensorId y = activation(name + "_output", received * s.hidden);
  Comm there = token_comm(busiest, narrow ? 1 + 4.0 / 128 : wide, combine), back = token_comm(busiest, wide, !combine);
  if (!between) {
    tape.forward({name, there}, {x}, {y});
    tape.on_backward([=, this] {
      const TensorId dx = activation(name + "_gradient", sent * s.hidden);
      tape.backward({name + "_backward", back}, {tape.gradient(y)}, {dx});
      tape.set_gradient(x, dx);
    });
    return y;
  }
  // Played back, what is issued last in forward comes first: the gradient's exchange begins where forward waits, and is waited for where
  // forward begins. What is between has its own backward pass between them.
  there.ticket = tape.ticket(), back.ticket = tape.ticket();
  tape.forward({name, there}, {x}, {y});
  tape.on_backward([=, this] { tape.backward({"wait_" + name + "_backward", Await{back.ticket}}, {tape.gradient(x)}, {}); });
  between();
  tape.forward({"wait_" + name, Await{there.ticket}}, {y}, {});
  tape.on_backward([=, this] {
    const TensorId dx = activation(name + "_gradient", sent * s.hidden);
    tape.backward({name + "_backward", back}, {tape.gradient(y)}, {dx});
    tape.set_gradient(x, dx);
  });
  return y;
}

/// The other dispatcher: tokens of the whole group on every rank, and partial sums of all of them reduce-scattered back.
TensorId Writer::gather_tokens(const std::string& name, TensorId x, bool before) {
  const std::int64_t own = s.shard_tokens * s.hidden, all = shard.ep * own;
  const Comm gather{CommKind::kAllGather, Axis::kEp, bytes(all)}, scatter{CommKind::kReduceScatter, Axis::kEp, bytes(all)};
  const TensorId y = activation(name + "_output", before ? all : own);
  tape.forward({name, before ? gather : scatter}, {x}, {y});
  tape.on_backward([=, this] {
    const TensorId dx = activation(name + "_gradient", before ? own : all);
    tape.backward({name + "_backward", before ? scatter : gather}, {tape.gradient(y)}, {dx});
    tape.add_gradient(x, dx, bytes(own));
  });
  return y;
}

void Writer::grouped(const LinearInput& in, std::int64_t in_width, const Product& p, const std::vector<std::int64_t>& rows) {
  const DType dtype = format.on ? training.precision : act;
  const GroupLaunch launch = kernels.expert_gemm;
  std::int64_t all = 0;
  for (const std::int64_t r : rows) all += r;
  const auto local = static_cast<std::int64_t>(rows.size());
  const bool sparse = training.sparse;
  std::vector<TensorId> operands = {in.row};
  if (const TensorId weight = weight_copy(p.name, local * p.width * in_width, false, kNoRegion); weight != kNoTensor) operands.push_back(weight);
  tape.forward({p.name, GroupedGemm{{.m = 0, .n = p.width, .k = in_width, .in = dtype, .out = act, .layout = GemmLayout::kTN, .sparse = sparse}, rows, launch}}, operands, p.outs);
  tape.on_backward([=, this] {
    std::vector<TensorId> dys;
    for (const TensorId out : p.outs) dys.push_back(tape.gradient(out));
    if (p.bias) bias_gradient(p.name, all, p.width, dys);
    if (format.on) dys = {quantise_gradients(p.name, dys, all * p.width)};
    const TensorId dx = activation(p.name + "_input_gradient", all * in_width);
    std::vector<TensorId> turned = dys;
    if (const TensorId weight = weight_copy(p.name, local * p.width * in_width, true, kNoRegion); weight != kNoTensor) turned.push_back(weight);
    tape.backward({p.name + "_input_gradient", GroupedGemm{{.m = 0, .n = in_width, .k = p.width, .in = dtype, .out = act, .layout = GemmLayout::kNN, .sparse = sparse}, rows, launch}}, turned, {dx});
    const bool fused = shard.gradient_buffer && kernels.gradient_accumulation_fusion && training.grad_dtype == DType::kFp32;
    const GroupedGemm work{{.m = p.width, .n = in_width, .k = 0, .in = dtype, .out = fused ? DType::kFp32 : act, .layout = GemmLayout::kNT, .accumulate = fused}, rows, launch};
    std::vector<TensorId> reads = dys;
    reads.push_back(in.column);
    std::vector<TensorId> makes;
    const std::int64_t weights = local * p.width * in_width;
    if (!fused && shard.gradient_buffer) makes.push_back(activation(p.name + "_weight_gradient", weights));
    tape.backward({p.name + "_weight_gradient", work}, reads, makes, true);
    if (!makes.empty()) {
      const std::int64_t main = static_cast<std::int64_t>(element_bytes(training.grad_dtype)) * weights;
      backward_stream("accumulate_" + p.name, StreamKind::kElementwise, bytes(weights) + main, main, 1, makes, {}, true);
    }
    tape.add_gradient(in.plain, dx, bytes(all * in_width));
  });
}

/// The scores and the choice. Returns the weights of the chosen, one a copy.
TensorId Writer::route(const LinearInput& in, std::int64_t copies) {
  const std::int64_t scores = s.shard_tokens * model.moe->experts;
  const TensorId logits = tape.tensor("router_logits", (kernels.fp32_router ? 4 : bytes(1)) * scores);
  const TensorId probabilities = tape.tensor("router_probabilities", 4 * scores), weights = tape.tensor("expert_weights", 4 * copies);
  replicated("router", in, s.hidden, {"router", model.moe->experts, false, {logits}}, false, kNoRegion);
  const int passes = kernels.fused_router ? 1 : kEagerPasses, launches = kernels.fused_router ? kFusedKernels : kEagerKernels;
  stream("choose_experts", StreamKind::kSoftmax, passes * 4 * scores, passes * 4 * scores, launches, {logits}, {probabilities, weights});
  tape.on_backward([=, this] {
    const TensorId d = tape.tensor("router_logits_gradient", (kernels.fp32_router ? 4 : bytes(1)) * scores);
    backward_stream("choose_experts_backward", StreamKind::kSoftmax, passes * 4 * scores, passes * 4 * scores, launches, {tape.gradient(weights), probabilities}, {d});
    tape.set_gradient(logits, d);
  });
  return weights;
}

TensorId Writer::experts(const LinearInput& in) {
  const Moe& moe = *model.moe;
  const ExpertTokens tokens = expert_tokens(moe, shard, s.shard_tokens);
  const std::int64_t ffn = ceil_div(moe.expert_ffn, shard.etp);
  const int launches = kernels.fused_permute ? 1 : 4;  // apart: sort of the map, gather, and their bookkeeping
  const bool gathers = shard.dispatch == ExpertDispatch::kAllGather && shard.ep > 1, direct = shard.dispatch != ExpertDispatch::kDeepEp || shard.ep == 1;
  const bool sorts = tokens.local.size() > 1 && (gathers ? shard.etp > 1 : direct && shard.ep * shard.etp > 1);
  const std::int64_t group_tokens = shard.ep * s.shard_tokens;
  // Distinct tokens that arrive where a token comes once for all of a rank's experts, in proportion to the rank's load.
  const double once = distinct_places(moe.experts, moe.experts_per_token, shard.ep) / static_cast<double>(moe.experts_per_token);
  const auto arrivals = std::min(tokens.received, static_cast<std::int64_t>(std::ceil(once * static_cast<double>(tokens.received))));
  const bool inside = kernels.weights_inside_experts;
  // Shared experts under the exchanges: up to their activation under the dispatch, the rest under the combine (Megatron-LM
  // core/transformer/moe/shared_experts.py, linear_fc1_forward_and_act and linear_fc2_forward).
  const bool beside = shard.overlap_shared_experts && moe.shared_ffn > 0 && shard.ep > 1 && !gathers;
  const std::int64_t n = s.shard_tokens * s.hidden, shared_width = ceil_div(moe.shared_ffn, s.tp);
  LinearInput activated_shared;
  TensorId shared = kNoTensor;
  const auto shared_up = [&] { activated_shared = mlp_up(linear_input("shared_input", in.plain, n, kNoRegion), "shared_", shared_width); };
  const auto shared_down = [&] {
    shared = mlp_down(activated_shared, "shared_", shared_width);
    if (moe.shared_gate) shared = gate_shared(in, shared);
  };
  const Between first = beside ? Between(shared_up) : Between(), second = beside ? Between(shared_down) : Between();

  const TensorId weights = route(in, tokens.sent);
  const auto send_weights = [&] {
    if (!inside || shard.ep == 1) return;
    const Comm comm{CommKind::kAllToAll, Axis::kEp, 4 * tokens.busiest};
    tape.forward({"dispatch_weights", comm}, {weights}, {});
    tape.on_backward([=, this] { tape.backward({"dispatch_weights_backward", comm}, {tape.gradient(weights)}, {}); });
  };
  TensorId x = in.plain;
  if (shard.ep * shard.etp > 1 && !gathers) {
    // Every rank learns what it will get; the host reads it to size the buffers.
    tape.forward({"gather_counts", Comm{CommKind::kAllGather, Axis::kEp, shard.ep * moe.experts * kCountBytes}}, {}, {});
  }
  if (gathers) {
    x = gather_tokens("gather_tokens", x, true);
    x = reorder("permute", x, group_tokens, tokens.received, launches);
  } else if (direct) {
    x = reorder("permute", x, s.shard_tokens, tokens.sent, launches);
    if (beside) send_weights();
    x = exchange("dispatch", x, tokens.sent, tokens.received, tokens.busiest, false, first);
  } else {
    // One of each token arrives for all of its experts here, and is copied out to them.
    if (beside) send_weights();
    x = exchange("dispatch", x, s.shard_tokens, arrivals, tokens.busiest, false, first);
    x = reorder("permute", x, arrivals, tokens.received, launches);
  }
  if (!beside) send_weights();
  x = share_rows(x, tokens.received, tokens.busiest, true);
  if (sorts) x = reorder("sort_by_expert", x, tokens.rows, tokens.rows, launches);

  const LinearInput rows = linear_input("expert_input", x, tokens.rows * s.hidden, kNoRegion);
  std::vector<TensorId> ups;
  const std::int64_t wide = tokens.rows * ffn;
  const bool biased = model.mlp_bias;
  // Rows of different experts have different biases. A fused activation adds them; where nothing does, a kernel of its own.
  const auto add_bias = [&](const char* name, const std::vector<TensorId>& outs, std::int64_t elements) {
    if (biased) stream(std::string(name) + "_bias", StreamKind::kElementwise, bytes(elements), bytes(elements), 1, outs, outs);
  };
  if (model.gated_mlp && kernels.fused_projections) {
    ups = {activation("expert_gate", wide), activation("expert_up", wide)};
    grouped(rows, s.hidden, {"expert_gate_up", 2 * ffn, biased, ups}, tokens.local);
    if (!kernels.fused_bias_activation) add_bias("expert_gate_up", ups, 2 * wide);
  } else {
    for (const char* name : {"expert_gate", "expert_up"}) {
      if (!model.gated_mlp && ups.empty() && std::string(name) == "expert_gate") continue;
      ups.push_back(activation(name, wide));
      grouped(rows, s.hidden, {name, ffn, biased, {ups.back()}}, tokens.local);
      if (!kernels.fused_bias_activation) add_bias(name, {ups.back()}, wide);
    }
  }
  const LinearInput activated = activate("expert_", ups, wide, inside ? weights : kNoTensor, kMoeActivation);
  TensorId y = activation("expert_output", tokens.rows * s.hidden);
  grouped(activated, ffn, {"expert_down", s.hidden, biased, {y}}, tokens.local);
  add_bias("expert_down", {y}, tokens.rows * s.hidden);

  if (sorts) y = reorder("sort_by_source", y, tokens.rows, tokens.rows, launches);
  y = share_rows(y, tokens.received, tokens.busiest, false);
  const auto add_up = [&](std::int64_t from, std::int64_t to) { return inside ? reorder("unpermute", y, from, to, launches) : add_weighted(y, weights, from, to, launches); };
  if (gathers) {
    y = gather_tokens("scatter_tokens", add_up(tokens.received, group_tokens), false);
  } else if (direct) {
    y = exchange("combine", y, tokens.received, tokens.sent, tokens.busiest, true, second);
    y = add_up(tokens.sent, s.shard_tokens);
  } else {
    y = exchange("combine", add_up(tokens.received, arrivals), arrivals, s.shard_tokens, tokens.busiest, true, second);
  }
  if (moe.shared_ffn == 0) return y;

  if (!beside) {
    shared_up();
    shared_down();
  }
  const TensorId sum = activation("experts_output", n);
  stream("add_shared", StreamKind::kElementwise, 2 * bytes(n), bytes(n), 1, {y, shared}, {sum});
  tape.on_backward([this, y, shared, sum] {
    tape.set_gradient(y, tape.gradient(sum));
    tape.set_gradient(shared, tape.gradient(sum));
  });
  return sum;
}

/// The shared experts' output, times the sigmoid of one score a token (transformers modeling_qwen2_moe.py, shared_expert_gate).
TensorId Writer::gate_shared(const LinearInput& in, TensorId shared) {
  const std::int64_t n = s.shard_tokens * s.hidden;
  const TensorId score = activation("shared_score", s.shard_tokens), gate = activation("shared_gate", s.shard_tokens), y = activation("shared_gated", n);
  replicated("shared_gate", in, s.hidden, {"shared_gate", 1, false, {score}}, false, kNoRegion);
  stream("shared_gate_sigmoid", StreamKind::kElementwise, bytes(s.shard_tokens), bytes(s.shard_tokens), 1, {score}, {gate});
  stream("gate_shared", StreamKind::kElementwise, bytes(n + s.shard_tokens), bytes(n), 1, {shared, gate}, {y});
  tape.on_backward([=, this] {
    const TensorId d = activation("shared_gradient", n), dg = activation("shared_gate_gradient", s.shard_tokens), ds = activation("shared_score_gradient", s.shard_tokens);
    // The gradient of the output; the product with it and its sum over a row; the derivative of the sigmoid.
    backward_stream("gate_shared_backward", StreamKind::kElementwise, bytes(n + s.shard_tokens), bytes(n), 1, {tape.gradient(y), gate}, {d});
    backward_stream("shared_gate_product", StreamKind::kReduce, bytes(2 * n), bytes(s.shard_tokens), 1, {tape.gradient(y), shared}, {dg});
    backward_stream("shared_gate_sigmoid_backward", StreamKind::kElementwise, bytes(2 * s.shard_tokens), bytes(s.shard_tokens), 1, {dg, gate}, {ds});
    tape.set_gradient(shared, d);
    tape.set_gradient(score, ds);
  });
  return y;
}

/// The ranks that share an expert put their copies together before it, and add up their partial results after. Ranks of an expert-parallel
/// group all issue what the busiest does: they meet in the next exchange anyway.
TensorId Writer::share_rows(TensorId x, std::int64_t received, std::int64_t busiest, bool before) {
  if (shard.etp == 1) return x;
  const std::int64_t own = received * s.hidden, all = shard.etp * own;
  const std::int64_t moved = bytes(shard.etp * busiest * s.hidden);
  const Comm gather{CommKind::kAllGather, Axis::kEtp, moved}, scatter{CommKind::kReduceScatter, Axis::kEtp, moved};
  const TensorId y = activation(before ? "expert_rows" : "expert_rows_reduced", before ? all : own);
  tape.forward({before ? "all_gather_experts" : "reduce_scatter_experts", before ? gather : scatter}, {x}, {y});
  tape.on_backward([=, this] {
    const TensorId dx = activation(before ? "expert_rows_gradient_shard" : "expert_rows_gradient", before ? own : all);
    tape.backward({before ? "reduce_scatter_experts" : "all_gather_experts", before ? scatter : gather}, {tape.gradient(y)}, {dx});
    tape.set_gradient(x, dx);
  });
  return y;
}

/// Copies back at their tokens, each times its weight; the weights' gradient needs the copies.
TensorId Writer::add_weighted(TensorId copies, TensorId weights, std::int64_t from, std::int64_t to, int launches) {
  const std::int64_t all = bytes(from * s.hidden), own = bytes(to * s.hidden);
  const TensorId y = activation("unpermute_output", to * s.hidden);
  stream("unpermute", StreamKind::kPermute, all, own, launches, {copies, weights}, {y});
  tape.on_backward([=, this] {
    const TensorId d = activation("unpermute_gradient", from * s.hidden), dw = tape.tensor("expert_weights_gradient", 4 * from);
    backward_stream("unpermute_backward", StreamKind::kPermute, 2 * all, all, launches, {tape.gradient(y), copies, weights}, {d, dw});
    tape.set_gradient(copies, d);
    tape.set_gradient(weights, dw);
  });
  return y;
}

}  // namespace orrery::workload
