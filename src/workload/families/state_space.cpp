// Mamba-2 (Dao and Gu, arXiv:2405.21060) and hybrids with blocks of attention and MLP between (Nemotron-H, arXiv:2504.03624).
//
// A mixer is one projection to gate z, input x, B, C and step sizes; a short causal convolution over x, B and C; the state-space duality scan;
// a gated norm; a projection back. The scan works in chunks of Q tokens (section 6 of the paper; mamba_ssm/ops/triton/ssd_combined.py): per
// chunk C B^T, once a group; the states that a chunk leaves, B^T X, once a head; a recurrence over chunks; and the output, what the chunk adds to
// itself (a causal product of Q x Q, half of it) and what came before it (C states). Backward has two products for each of the four, and makes
// states and C B^T again. Split over tensor-parallel ranks as Megatron-LM's MambaMixer: heads and groups; the projections around them.
#include <fmt/format.h>

#include "workload/passes.hpp"
#include "orrery/base/checked.hpp"
#include "plain.hpp"
#include "read.hpp"
#include "table.hpp"

namespace orrery::workload {
namespace {

const StateSpace& own(const Model& m) { return std::get<StateSpace>(m.of_family); }

enum Kind : std::int64_t { kMixer, kAttentionBlock, kMlpBlock };
Kind kind_of(char letter) { return letter == '*' ? kAttentionBlock : letter == '-' ? kMlpBlock : kMixer; }

void read(const document::Value& v, Model& m, const Complain& complain) {
  StateSpace s;
  m.layers = v.at("layers").as_int();
  m.hidden = v.at("hidden").as_int();
  m.vocab = v.at("vocab").as_int();
  m.tied_embeddings = flag_of(v, "tied_embeddings", false);
  m.gated_mlp = flag_of(v, "gated_mlp", false);
  m.activation = activation_of(v, Activation::kSilu);
  m.position = Position::kNone;
  s.pattern = text_of(v, "pattern", "");
  s.state = integer_of(v, "state", 128);
  s.head_dim = integer_of(v, "ssm_head_dim", 64);
  s.heads = integer_of(v, "ssm_heads", 2 * m.hidden / s.head_dim);
  s.groups = integer_of(v, "groups", 1);
  s.convolution = integer_of(v, "convolution", 4);
  s.chunk = integer_of(v, "chunk", 256);
  m.ffn_hidden = integer_of(v, "ffn_hidden", 0);
  m.heads = integer_of(v, "heads", 0);
  m.kv_heads = integer_of(v, "kv_heads", m.heads);
  m.head_dim = integer_of(v, "head_dim", m.heads > 0 ? m.hidden / m.heads : 0);
  const bool attends = s.pattern.find('*') != std::string::npos, mlps = s.pattern.find('-') != std::string::npos;
  if (!s.pattern.empty() && static_cast<std::int64_t>(s.pattern.size()) != m.layers) {
    complain("pattern", fmt::format("{} letters for {} layers; give a letter for each layer", s.pattern.size(), m.layers));
  }
  if (s.pattern.find_first_not_of("M*-") != std::string::npos) complain("pattern", "a layer is M (a state-space mixer), * (attention) or - (an MLP)");
  if (s.heads < 1 || s.heads % s.groups != 0) complain("ssm_heads", fmt::format("{} heads cannot share {} groups evenly; use a multiple of groups", s.heads, s.groups));
  if (attends && (m.heads == 0 || m.kv_heads == 0 || m.heads % m.kv_heads != 0 || m.head_dim == 0)) complain("heads", "the pattern has attention layers; state heads, and kv_heads that divide them");
  if (mlps && m.ffn_hidden == 0) complain("ffn_hidden", "the pattern has MLP layers; state their width");
  if (!attends) m.heads = m.kv_heads = m.head_dim = 0;
  if (!mlps) m.ffn_hidden = 0;
  m.of_family = std::move(s);
}

Block block(const Model& m, std::int64_t layer) {
  const std::string& pattern = own(m).pattern;
  return part(pattern.empty() ? kMixer : kind_of(pattern[static_cast<std::size_t>(layer)]));
}

/// Local sizes of one rank's scan.
struct Scan {
  std::int64_t heads, groups, inner, mixed, wide;  ///< mixed: x, B and C; wide: with gate and steps
  std::int64_t chunks, q, p, n, batch, tokens;
};
Scan scan_of(const Writer& w, const StateSpace& s) {
  Scan c{};
  c.heads = ceil_div(s.heads, w.s.tp);
  c.groups = ceil_div(s.groups, w.s.tp);
  c.inner = c.heads * s.head_dim;
  c.mixed = c.inner + 2 * c.groups * s.state;
  c.wide = c.inner + c.mixed + c.heads;
  c.q = std::min(s.chunk, w.s.queries);
  c.chunks = ceil_div(w.s.queries, c.q);
  c.p = s.head_dim;
  c.n = s.state;
  c.batch = w.s.batch;
  c.tokens = w.s.tokens;
  return c;
}

Gemm product(const Writer& w, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch, GemmLayout layout = GemmLayout::kNN) {
  return {.m = m, .n = n, .k = k, .batch = batch, .in = w.act, .out = w.act, .layout = layout};
}

/// The causal half of a product over a chunk: tiles above the diagonal are skipped.
std::int64_t half(std::int64_t q) { return ceil_div(q, 2); }

struct Chunked {
  TensorId states, pairs;  ///< what each chunk hands on; C B^T of each chunk
};
using Emit = void (*)(Writer&, Operation, const std::vector<TensorId>&, const std::vector<TensorId>&);

/// States and C B^T, which forward makes and backward makes again.
Chunked chunk_products(Writer& w, const Scan& c, TensorId mixed, TensorId steps, Emit emit) {
  const std::int64_t states = c.batch * c.chunks * c.heads * c.p * c.n;
  const Chunked made{w.tape.tensor("chunk_states", 4 * states), w.tape.tensor("chunk_pairs", 4 * c.batch * c.chunks * c.groups * c.q * c.q)};
  emit(w, {"chunk_steps", Stream{StreamKind::kElementwise, w.bytes(c.tokens * c.heads), 8 * c.tokens * c.heads, 1}}, {steps}, {});
  emit(w, {"chunk_states", product(w, c.p, c.n, c.q, c.batch * c.chunks * c.heads, GemmLayout::kNT)}, {mixed}, {made.states});
  emit(w, {"pass_states", Stream{StreamKind::kElementwise, 4 * states, 4 * states, 1}}, {made.states}, {made.states});
  emit(w, {"chunk_pairs", product(w, c.q, c.q, c.n, c.batch * c.chunks * c.groups, GemmLayout::kTN)}, {mixed}, {made.pairs});
  return made;
}

void emit_forward(Writer& w, Operation op, const std::vector<TensorId>& reads, const std::vector<TensorId>& makes) { w.tape.forward(std::move(op), reads, makes); }
void emit_backward(Writer& w, Operation op, const std::vector<TensorId>& reads, const std::vector<TensorId>& makes) { w.tape.backward(std::move(op), reads, makes); }

void scan_backward(Writer& w, const Scan& c, TensorId dy, TensorId mixed, TensorId steps, TensorId dmixed, TensorId dsteps) {
  const Chunked again = chunk_products(w, c, mixed, steps, emit_backward);
  const std::int64_t all = c.batch * c.chunks, states = all * c.heads * c.p * c.n;
  const TensorId dstates = w.tape.tensor("chunk_states_gradient", 4 * states), dpairs = w.tape.tensor("chunk_pairs_gradient", 4 * all * c.groups * c.q * c.q);
  const auto run = [&](const char* name, const Gemm& g, const std::vector<TensorId>& reads, const std::vector<TensorId>& makes) { w.tape.backward({name, g}, reads, makes); };
  run("scan_states_gradient", product(w, c.p, c.n, c.q, all * c.heads, GemmLayout::kNT), {dy, mixed}, {dstates});
  w.backward_stream("pass_states_backward", StreamKind::kElementwise, 8 * states, 4 * states, 1, {dstates, again.states}, {dstates});
  run("scan_input_gradient", product(w, c.q, c.p, half(c.q), all * c.heads), {dy, again.pairs}, {dmixed});
  run("chunk_input_gradient", product(w, c.q, c.p, c.n, all * c.heads), {dstates, mixed}, {dmixed});
  run("chunk_b_gradient", product(w, c.q, c.n, c.p, all * c.heads), {dstates, mixed}, {dmixed});
  run("scan_c_gradient", product(w, c.q, c.n, c.p, all * c.heads), {dy, again.states}, {dmixed});
  run("scan_pairs_gradient", product(w, c.q, half(c.q), c.p, all * c.heads, GemmLayout::kTN), {dy, mixed}, {dpairs});
  run("pairs_b_gradient", product(w, c.q, c.n, c.q, all * c.groups), {dpairs, mixed}, {dmixed});
  run("pairs_c_gradient", product(w, c.q, c.n, c.q, all * c.groups), {dpairs, mixed}, {dmixed});
  w.backward_stream("chunk_steps_backward", StreamKind::kElementwise, 12 * c.tokens * c.heads, w.bytes(c.tokens * c.heads), 2, {dpairs}, {dsteps});
}

/// From the norm's output to what is added to the residual.
TensorId mixer(Writer& w, const StateSpace& s, const LinearInput& in) {
  const Scan c = scan_of(w, s);
  const std::int64_t inner = c.tokens * c.inner, mixed_n = c.tokens * c.mixed, steps_n = c.tokens * c.heads;
  const TensorId gate = w.activation("gate", inner), raw = w.activation("x_b_c", mixed_n), steps = w.activation("steps", steps_n);
  w.column_parallel("in_proj", in, w.s.hidden, {{"in_proj", c.wide, false, {gate, raw, steps}}}, true, kNoRegion);
  const TensorId mixed = w.activation("convolved", mixed_n), y = w.activation("scanned", inner);
  w.parameters.sharded += c.mixed * (s.convolution + 1) + 3 * c.heads + c.inner;  // convolution and bias; A, D and the steps' bias; the gated norm
  w.parameters.vectors += 6;
  w.stream("conv1d", StreamKind::kElementwise, w.bytes(mixed_n), w.bytes(mixed_n), 1, {raw}, {mixed});
  const Chunked made = chunk_products(w, c, mixed, steps, emit_forward);
  const std::int64_t all = c.batch * c.chunks * c.heads;
  w.tape.forward({"scan_within_chunks", product(w, c.q, c.p, half(c.q), all)}, {made.pairs, mixed}, {y});
  w.tape.forward({"scan_across_chunks", product(w, c.q, c.p, c.n, all)}, {made.states, mixed, y}, {y});
  w.tape.on_backward([=, &w] {
    // The convolution runs again: its output is not kept (mamba_split_conv1d_scan_combined).
    const TensorId again = w.activation("convolved_again", mixed_n), dmixed = w.activation("convolved_gradient", mixed_n), draw = w.activation("x_b_c_gradient", mixed_n);
    const TensorId dsteps = w.activation("steps_gradient", steps_n);
    w.backward_stream("conv1d_again", StreamKind::kElementwise, w.bytes(mixed_n), w.bytes(mixed_n), 1, {raw}, {again});
    scan_backward(w, c, w.tape.gradient(y), again, steps, dmixed, dsteps);
    w.backward_stream("conv1d_backward", StreamKind::kElementwise, 2 * w.bytes(mixed_n), w.bytes(mixed_n), 2, {dmixed, raw}, {draw});
    w.tape.set_gradient(raw, draw);
    w.tape.set_gradient(steps, dsteps);
  });
  const TensorId out = w.activation("gated_norm_output", inner);
  w.stream("gated_norm", StreamKind::kNorm, 2 * w.bytes(inner), w.bytes(inner), 1, {y, gate}, {out});
  w.tape.on_backward([=, &w] {
    const TensorId dy = w.activation("scanned_gradient", inner), dgate = w.activation("gate_gradient", inner);
    w.backward_stream("gated_norm_backward", StreamKind::kNorm, 3 * w.bytes(inner), 2 * w.bytes(inner), 2, {w.tape.gradient(out), y, gate}, {dy, dgate});
    w.tape.set_gradient(y, dy);
    w.tape.set_gradient(gate, dgate);
  });
  return w.row_parallel("out_proj", w.linear_input("gated_norm_output", out, inner, kNoRegion), c.inner, kNoRegion);
}

Layer layer(LayerKind kind, const Model& m, const Training& t, const Shard& shard, const StackKernels& k, const Block& b) {
  if (kind != LayerKind::kDecoder) {
    Layer out = kind == LayerKind::kEmbedding ? embedding_layer(m, t, shard, k) : head_layer(m, t, shard, k);
    out.parameters = words_of(m, shard, kind == LayerKind::kHead);
    out.name = kind == LayerKind::kEmbedding ? "embedding" : "head";
    return out;
  }
  Writer w(m, t, shard, k);
  const TensorId x = w.tape.input(w.bytes(w.s.shard_tokens * w.s.hidden));
  const LinearInput normed = w.norm("norm", x, true);
  const TensorId y = b.part == kMixer ? mixer(w, own(m), normed) : b.part == kAttentionBlock ? w.attention(normed, {}) : w.mlp(normed);
  Layer out = w.tape.finish(w.residual("residual", x, y, false), recompute_policy(t, k));
  out.parameters = w.parameters;
  out.name = b.part == kMixer ? "mamba" : b.part == kAttentionBlock ? "attention" : "mlp";
  return out;
}

std::int64_t tokens(const Model&) { return 4096; }

double widest(const Model& m, double sequence) {
  const StateSpace& s = own(m);
  const auto d = [](std::int64_t n) { return static_cast<double>(n); };
  const double chunk = std::min(sequence, d(s.chunk));
  return widest_of_blocks(m, sequence) + sequence * (3 * d(s.inner()) + 2 * d(s.groups) * d(s.state) + d(s.heads) + 2 * d(s.groups) * chunk) +
         2 * (sequence / chunk + 1) * d(s.inner()) * d(s.state);
}

std::vector<Limit> limits(const Model& m, const Training&, const Split& split) {
  std::vector<Limit> out;
  const StateSpace& s = own(m);
  if (s.groups % split.tp != 0 || s.heads % split.tp != 0) {
    out.push_back({"/parallelism/tp", fmt::format("{} ranks cannot share the {} groups and {} heads of a state-space mixer evenly; use a divisor of both", split.tp, s.groups, s.heads)});
  }
  no_context_parallelism(out, split, "a state-space model");
  return out;
}

std::int64_t tables(const Model& m) { return m.vocab * m.hidden; }

}  // namespace

const FamilyRow kStateSpaceRow{Family::kStateSpace, "state_space", read, block, layer, hidden_bytes, widest, limits, tokens, tables, true};

}  // namespace orrery::workload
