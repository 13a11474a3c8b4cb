// Diffusion transformers (DiT: Peebles and Xie, arXiv:2212.09748; facebookresearch/DiT models.py): patches of a noised latent, blocks whose norms
// are scaled and shifted and whose branches are gated by what a small network makes of time step and class (adaLN-Zero), and a projection to the
// predicted noise. Latents come ready: the image encoder has run before.
#include <fmt/format.h>

#include "plain.hpp"
#include "read.hpp"
#include "table.hpp"

namespace orrery::workload {
namespace {

const DiffusionTransformer& own(const Model& m) { return std::get<DiffusionTransformer>(m.of_family); }

void read(const document::Value& v, Model& m, const Complain& complain) {
  read_blocks(v, m, complain);
  DiffusionTransformer d;
  d.latent_size = v.at("latent_size").as_int();
  d.latent_channels = integer_of(v, "latent_channels", 4);
  d.patch_size = v.at("patch_size").as_int();
  d.classes = v.at("classes").as_int();
  d.frequencies = integer_of(v, "frequencies", 256);
  d.learn_sigma = flag_of(v, "learn_sigma", true);
  if (d.latent_size % d.patch_size != 0) {
    complain("patch_size", fmt::format("patches of {} do not tile a latent of {}; use a divisor of latent_size", d.patch_size, d.latent_size));
  }
  m.norm = Norm::kLayer;
  m.position = Position::kLearned;
  m.linear_bias = m.qkv_bias = m.attention_out_bias = m.mlp_bias = true;
  m.of_family = d;
}

Block block(const Model&, std::int64_t) { return {}; }

/// The condition of every sample, which the embedding makes and keeps: blocks read it and add to its gradient.
TensorId condition(Writer& w) { return w.tape.tensor("condition", 0); }

/// silu(condition) W, `parts` values a feature: shifts, scales and gates of one block.
TensorId modulation(Writer& w, TensorId c, std::int64_t parts) {
  const std::int64_t b = w.s.batch, h = w.s.hidden;
  return plain_linear(w, "modulation", plain_activation(w, "condition_silu", c, b * h, false), b, h, parts * h, true);
}

/// norm(x) (1 + scale) + shift, without weights of its own. Eager: a norm, a product, a sum.
TensorId modulated_norm(Writer& w, const std::string& name, TensorId x, TensorId mod) {
  const std::int64_t n = w.s.shard_tokens * w.s.hidden, e = w.bytes(n);
  const bool fused = w.training.fusion == Fusion::kCompiled;
  const TensorId y = w.activation(name + "_output", n);
  const TensorId normed = fused ? kNoTensor : w.activation(name + "_normed", n);
  std::vector<TensorId> makes = {y};
  if (!fused) makes.push_back(normed);
  w.stream(name, StreamKind::kNorm, fused ? e : 3 * e, fused ? e : 3 * e, fused ? 1 : 3, {x, mod}, makes);
  w.tape.on_backward([=, &w] {
    const TensorId dx = w.activation(name + "_gradient", n);
    const std::int64_t small = w.bytes(2 * w.s.batch * w.s.hidden);
    const TensorId dmod = w.activation(name + "_modulation_gradient", 2 * w.s.batch * w.s.hidden);
    // Sums over the tokens for shift and scale, the product's gradient, the norm's.
    w.backward_stream(name + "_backward", StreamKind::kNorm, (fused ? 2 : 7) * e, (fused ? 1 : 2) * e + small, fused ? 2 : 4,
                      fused ? std::vector<TensorId>{w.tape.gradient(y), x, mod} : std::vector<TensorId>{w.tape.gradient(y), x, normed, mod}, {dx, dmod});
    w.tape.add_gradient(x, dx, e);
    w.tape.add_gradient(mod, dmod, small);
  });
  return y;
}

/// x + gate (y + bias).
TensorId gated_residual(Writer& w, const std::string& name, TensorId x, TensorId y, TensorId mod) {
  const std::int64_t n = w.s.shard_tokens * w.s.hidden, e = w.bytes(n);
  const bool fused = w.training.fusion == Fusion::kCompiled;
  w.own_vectors(w.s.hidden, 1);
  const TensorId out = w.activation(name + "_output", n);
  w.stream(name, StreamKind::kElementwise, fused ? 2 * e : 3 * e, fused ? e : 2 * e, fused ? 1 : 2, {x, y, mod}, {out});
  w.tape.on_backward([=, &w] {
    const TensorId dout = w.tape.gradient(out), dy = w.activation(name + "_branch_gradient", n);
    const std::int64_t small = w.bytes(w.s.batch * w.s.hidden);
    const TensorId dmod = w.activation(name + "_gate_gradient", w.s.batch * w.s.hidden);
    w.backward_stream(name + "_backward", StreamKind::kElementwise, (fused ? 2 : 3) * e, e + small, fused ? 1 : 3, {dout, y, mod}, {dy, dmod});
    w.bias_gradient(name, w.s.shard_tokens, w.s.hidden, {dy});
    w.tape.set_gradient(x, dout);
    w.tape.set_gradient(y, dy);
    w.tape.add_gradient(mod, dmod, small);
  });
  return out;
}

Layer embedding(Writer& w, const DiffusionTransformer& d) {
  const Sizes& s = w.s;
  const std::int64_t b = s.batch, h = s.hidden, rows = b * d.patches(), all = s.tokens * h, latent = rows * d.patch_elements();
  // Time step: sines and cosines, two linear layers. Class: a row of a table, with one more for samples without.
  const TensorId waves = w.activation("time_frequencies", b * d.frequencies);
  w.stream("time_frequencies", StreamKind::kElementwise, w.bytes(b), w.bytes(b * d.frequencies), 4, {}, {waves});
  TensorId time = plain_linear(w, "time1", waves, b, d.frequencies, h, true, true);
  time = plain_linear(w, "time2", plain_activation(w, "time_silu", time, b * h, false), b, h, h, true);
  const TensorId c = w.activation("condition", b * h);
  w.stream("class_embedding", StreamKind::kEmbedding, w.bytes(2 * b * h), w.bytes(b * h), 2, {time}, {c});
  w.parameters.replicated += (d.classes + 1) * h;
  w.parameters.matrices.push_back({d.classes + 1, h});
  const auto g = static_cast<std::int64_t>(element_bytes(w.training.grad_dtype));
  w.tape.on_backward([=, &w] {
    const TensorId dc = w.activation("condition_gradient", b * h);  // summed by the blocks
    // No weight gradient that can wait: what it hands on, the time step's layers go back through.
    w.backward_stream("class_weight_gradient", StreamKind::kEmbedding, w.bytes(b * h), g * b * h, 1, {c}, {dc});
    w.tape.set_gradient(time, dc);
  });

  const TensorId noised = w.activation("noised_latent", latent);
  w.stream("noise", StreamKind::kElementwise, 3 * w.bytes(latent), 2 * w.bytes(latent), 2, {}, {noised});
  const TensorId x = plain_linear(w, "patch_projection", noised, rows, d.patch_elements(), h, true, true);
  const TensorId sum = w.activation("positioned", s.shard_tokens * h);
  w.stream("add_positions", StreamKind::kElementwise, 2 * w.bytes(all), w.bytes(all), 1, {x}, {sum});
  w.parameters.frozen += d.patches() * h;  // sines and cosines, stored and not trained
  w.parameters.frozen_bytes += static_cast<std::int64_t>(element_bytes(w.training.param_dtype)) * d.patches() * h;
  w.tape.on_backward([=, &w, &s] {
    TensorId dx = w.tape.gradient(sum);
    if (s.sp) {
      const TensorId whole = w.activation("positioned_gradient", all);
      w.tape.backward({"all_gather_patches", Comm{CommKind::kAllGather, Axis::kTp, w.bytes(all)}}, {dx}, {whole});
      dx = whole;
    }
    w.tape.set_gradient(x, dx);
  });
  return w.tape.finish(sum, {});
}

Layer blocks(Writer& w, const RecomputePolicy& policy) {
  const std::int64_t n = w.s.shard_tokens * w.s.hidden;
  const TensorId x = w.tape.input(w.bytes(n));
  const TensorId mod = modulation(w, condition(w), 6);
  TensorId y = modulated_norm(w, "norm1", x, mod);
  const TensorId z = gated_residual(w, "residual1", x, w.attention({y, y, y}, {}), mod);
  y = modulated_norm(w, "norm2", z, mod);
  return w.tape.finish(gated_residual(w, "residual2", z, w.mlp({y, y, y}), mod), policy);
}

Layer head(Writer& w, const DiffusionTransformer& d) {
  const std::int64_t h = w.s.hidden, rows = w.s.tokens, made = d.patch_elements() * (d.learn_sigma ? 2 : 1);
  const TensorId x = w.tape.input(w.bytes(w.s.shard_tokens * h));
  const TensorId y = whole_sequence(w, modulated_norm(w, "final_norm", x, modulation(w, condition(w), 2)));
  plain_loss(w, "denoising_loss", plain_linear(w, "noise_projection", y, rows, h, made, true), rows * made);
  return w.tape.finish(kNoTensor, {});
}

Layer layer(LayerKind kind, const Model& m, const Training& given, const Shard& shard, const StackKernels& k, const Block&) {
  const Training t = both_ways(given);
  Writer w(m, t, shard, k);
  Layer out;
  if (kind == LayerKind::kEmbedding) out = embedding(w, own(m));
  if (kind == LayerKind::kDecoder) out = blocks(w, recompute_policy(t, k));
  if (kind == LayerKind::kHead) out = head(w, own(m));
  out.parameters = w.parameters;
  out.name = kind == LayerKind::kEmbedding ? "patches and condition" : kind == LayerKind::kHead ? "noise" : "DiT block";
  return out;
}

std::int64_t entering(const Model& m, const Training& t, const Shard& shard, std::int64_t layer) {
  // The condition travels with the patches.
  return hidden_bytes(m, t, shard, layer) + shard.micro_batch * m.hidden * static_cast<std::int64_t>(element_bytes(t.activation_dtype));
}

std::int64_t tokens(const Model& m) { return own(m).patches(); }

double widest(const Model& m, double sequence) { return widest_of_blocks(m, sequence) + 8 * static_cast<double>(m.hidden) + static_cast<double>(own(m).latent_size * own(m).latent_size * own(m).latent_channels); }

std::vector<Limit> limits(const Model& m, const Training& t, const Split& split) {
  std::vector<Limit> out;
  const DiffusionTransformer& d = own(m);
  fix_tokens(out, t, d.patches(), fmt::format("a latent of {0} x {0} has {1} patches of {2} x {2}", d.latent_size, d.patches(), d.patch_size));
  fix_full_mask(out, t, "a diffusion transformer");
  no_context_parallelism(out, split, "a diffusion transformer");
  if (quantised_format(t).on) {
    out.push_back({"/training/precision", fmt::format("no framework trains a diffusion transformer in {}; use bf16, fp16, tf32 or fp32", to_string(t.precision))});
  }
  return out;
}

}  // namespace

const FamilyRow kDiffusionTransformerRow{Family::kDiffusionTransformer, "diffusion_transformer", read, block, layer, entering, widest, limits, tokens, no_tables, false};

}  // namespace orrery::workload
