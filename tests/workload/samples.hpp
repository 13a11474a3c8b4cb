#pragma once
// Models and recipes that several tests use, and sums over a layer's lists.
#include <cstdint>
#include <string>
#include <vector>

#include "orrery/workload/layers.hpp"

namespace orrery::workload::samples {

inline Model llama(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t ffn) {
  Model m;
  m.name = "llama";
  m.layers = layers;
  m.hidden = hidden;
  m.heads = heads;
  m.kv_heads = 8;
  m.head_dim = 128;
  m.ffn_hidden = ffn;
  m.vocab = 128256;
  m.gated_mlp = true;
  return m;
}
inline Model llama3_8b() { return llama(32, 4096, 32, 14336); }
inline Model llama3_70b() { return llama(80, 8192, 64, 28672); }
inline Model llama3_405b() { return llama(126, 16384, 128, 53248); }

inline Moe experts_of(std::int64_t experts, std::int64_t per_token, std::int64_t ffn = 1024, std::int64_t shared = 0, ExpertLoad load = ExpertLoad::kBalanced) {
  Moe moe;
  moe.experts = experts;
  moe.experts_per_token = per_token;
  moe.expert_ffn = ffn;
  moe.shared_ffn = shared;
  moe.load = load;
  return moe;
}
inline Block moe_block() {
  Block b;
  b.moe = true;
  return b;
}
inline Recompute recompute_of(std::vector<std::string> modules) {
  Recompute r;
  r.mode = RecomputeMode::kSelective;
  r.modules = std::move(modules);
  return r;
}

/// GPT as of GPT-2, GPT-3 and Megatron-LM: LayerNorm, biases everywhere, learned positions, tied.
inline Model gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocab, std::int64_t positions) {
  Model m;
  m.name = "gpt";
  m.layers = layers;
  m.hidden = hidden;
  m.heads = m.kv_heads = heads;
  m.head_dim = hidden / heads;
  m.ffn_hidden = 4 * hidden;
  m.vocab = vocab;
  m.tied_embeddings = m.norm_bias = m.linear_bias = m.qkv_bias = m.attention_out_bias = m.mlp_bias = true;
  m.activation = Activation::kGelu;
  m.norm = Norm::kLayer;
  m.position = Position::kLearned;
  m.max_positions = positions;
  return m;
}
inline Model gpt3_175b() { return gpt(96, 12288, 96, 51200, 2048); }

/// Megatron-LM as Korthikanti et al. ran it: unfused attention, dropout.
inline Training megatron_training() {
  Training t;
  t.flash_attention = false;
  t.precision = t.activation_dtype = DType::kFp16;
  t.param_dtype = DType::kFp16;
  return t;
}
inline StackKernels megatron_kernels() {
  StackKernels k;
  k.dropout = true;
  k.fused_cross_entropy = false;
  return k;
}

inline std::int64_t saved_bytes(const Layer& layer) {
  std::int64_t sum = 0;
  for (const SavedTensor& t : layer.saved) sum += t.bytes;
  return sum;
}
inline bool saves(const Layer& layer, const std::string& name) {
  for (const SavedTensor& t : layer.saved) {
    if (t.name == name) return true;
  }
  return false;
}

/// FLOPs of a list: GEMMs, and attention by itself.
struct Work {
  double gemm = 0, attention = 0;
  [[nodiscard]] double total() const { return gemm + attention; }
};
inline Work work(const std::vector<Operation>& operations) {
  Work w;
  for (const Operation& op : operations) {
    if (const auto* gemm = std::get_if<Gemm>(&op.work)) w.gemm += gemm->flops().value();
    if (const auto* attention = std::get_if<Attention>(&op.work)) w.attention += attention->flops().value();
  }
  return w;
}
inline std::int64_t comm_bytes(const std::vector<Operation>& operations, CommKind kind, Axis axis = Axis::kTp) {
  std::int64_t sum = 0;
  for (const Operation& op : operations) {
    if (const auto* comm = std::get_if<Comm>(&op.work); comm != nullptr && comm->kind == kind && comm->axis == axis) sum += comm->bytes;
  }
  return sum;
}
inline const Operation* find(const std::vector<Operation>& operations, const std::string& name) {
  for (const Operation& op : operations) {
    if (op.name == name) return &op;
  }
  return nullptr;
}
inline std::vector<std::string> names(const std::vector<Operation>& operations) {
  std::vector<std::string> out;
  for (const Operation& op : operations) out.push_back(op.name);
  return out;
}

}  // namespace orrery::workload::samples
