#pragma once
// Random but sound models, recipes, stacks and shards, drawn by rapidcheck, which prints the seed.
#include <algorithm>
#include <string>
#include <vector>

#include <rapidcheck.h>

#include "orrery/workload/layers.hpp"

namespace orrery::workload::samples {

struct Case {
  Model model;
  Training training;
  StackKernels kernels;
  Shard shard;
};

inline Model random_model() {
  Model m;
  m.layers = *rc::gen::inRange<std::int64_t>(1, 5);
  m.kv_heads = 8;
  m.heads = 8 * *rc::gen::inRange<std::int64_t>(1, 4);
  m.head_dim = *rc::gen::element<std::int64_t>(64, 96, 128);
  m.hidden = 64 * *rc::gen::inRange<std::int64_t>(1, 20);
  m.ffn_hidden = 64 * *rc::gen::inRange<std::int64_t>(1, 40);
  m.vocab = *rc::gen::inRange<std::int64_t>(100, 5000);
  m.gated_mlp = *rc::gen::arbitrary<bool>();
  m.tied_embeddings = *rc::gen::arbitrary<bool>();
  m.norm_bias = *rc::gen::arbitrary<bool>();
  m.linear_bias = *rc::gen::arbitrary<bool>();
  m.qkv_bias = m.linear_bias || *rc::gen::arbitrary<bool>();
  m.attention_out_bias = m.linear_bias || *rc::gen::arbitrary<bool>();
  m.mlp_bias = m.linear_bias || *rc::gen::arbitrary<bool>();
  m.head_bias = *rc::gen::arbitrary<bool>();
  m.parallel_block = *rc::gen::element(ParallelBlock::kNone, ParallelBlock::kOneNorm, ParallelBlock::kTwoNorms);
  if (m.parallel_block == ParallelBlock::kNone) {
    m.post_norms = *rc::gen::arbitrary<bool>();
    m.pre_norms = !m.post_norms || *rc::gen::arbitrary<bool>();
  }
  m.qk_norm = *rc::gen::element(QkNorm::kNone, QkNorm::kHead, QkNorm::kEachHead, QkNorm::kFull, QkNorm::kUnweighted);
  m.embedding_norm = *rc::gen::arbitrary<bool>();
  m.embedding_scale = *rc::gen::arbitrary<bool>();
  m.logit_scale = *rc::gen::arbitrary<bool>();
  m.attention_sinks = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) m.attn_softcap = 50;
  if (*rc::gen::arbitrary<bool>()) m.final_softcap = 30;
  m.activation = *rc::gen::element(Activation::kSilu, Activation::kGelu, Activation::kRelu, Activation::kRelu2);
  m.norm = *rc::gen::element(Norm::kRms, Norm::kLayer);
  m.position = *rc::gen::element(Position::kRotary, Position::kLearned, Position::kAlibi, Position::kNone);
  return m;
}

inline Training random_training() {
  Training t;
  t.precision = *rc::gen::element(DType::kFp32, DType::kTf32, DType::kFp16, DType::kBf16, DType::kFp8, DType::kMxfp8, DType::kMxfp6, DType::kFp4);
  t.activation_dtype = t.precision == DType::kFp32 || t.precision == DType::kTf32 ? DType::kFp32 : t.precision == DType::kFp16 ? DType::kFp16 : DType::kBf16;
  t.fp8_recipe = *rc::gen::element(Fp8Recipe::kDelayed, Fp8Recipe::kCurrent, Fp8Recipe::kBlock128);
  t.flash_attention = *rc::gen::arbitrary<bool>();
  t.causal = *rc::gen::arbitrary<bool>();
  t.grad_dtype = *rc::gen::element(DType::kFp32, DType::kBf16);
  t.fusion = *rc::gen::element(Fusion::kNone, Fusion::kFramework, Fusion::kCompiled);
  t.recompute.mode = *rc::gen::element(RecomputeMode::kNone, RecomputeMode::kSelective, RecomputeMode::kFull);
  if (t.recompute.mode == RecomputeMode::kSelective) {
    const std::vector<std::vector<std::string>> choices = {{"core_attn"}, {"norm"}, {"mlp_act"}, {"mlp"}, {"norm", "mlp_act"}, {"core_attn", "mlp"}, {"norm", "mlp"}, {"core_attn", "norm", "mlp_act"}, {"matmul_every_other"}};
    t.recompute.modules = *rc::gen::elementOf(choices);
  }
  return t;
}

inline StackKernels random_kernels() {
  StackKernels k;
  for (bool* flag : {&k.fused_norm, &k.fused_rope, &k.fused_bias_activation, &k.fused_cross_entropy, &k.fused_softmax, &k.fused_optimizer, &k.gradient_accumulation_fusion,
                     &k.fused_projections, &k.dropout, &k.cross_entropy_fp32_logits, &k.pytorch_ring, &k.tp_overlap_bulk}) {
    *flag = *rc::gen::arbitrary<bool>();
  }
  return k;
}

inline Case random_case() {
  Case c{random_model(), random_training(), random_kernels(), {}};
  c.shard.micro_batch = *rc::gen::inRange<std::int64_t>(1, 4);
  c.shard.tp = *rc::gen::element<std::int64_t>(1, 2, 4, 8);
  c.shard.cp = *rc::gen::element<std::int64_t>(1, 2, 4);
  c.shard.cp_method = *rc::gen::element(CpMethod::kRing, CpMethod::kRingNaive, CpMethod::kAllGather, CpMethod::kUlysses);
  if (c.shard.cp > 1) c.training.flash_attention = true;  // the plan refuses the rest
  if (c.shard.cp_method == CpMethod::kUlysses) c.shard.tp = std::min(c.shard.tp, 8 / c.shard.cp);
  c.shard.cp_rank = varies(c.model, c.training, c.shard).by_cp ? *rc::gen::inRange<std::int64_t>(0, c.shard.cp) : 0;
  c.shard.sequence = 32 * *rc::gen::inRange<std::int64_t>(1, 9);
  c.shard.sequence_parallel = *rc::gen::arbitrary<bool>();
  c.shard.tp_overlap = *rc::gen::element(TpOverlap::kNone, TpOverlap::kBulk, TpOverlap::kPipelined, TpOverlap::kRing);
  c.shard.vocab_multiple = *rc::gen::element<std::int64_t>(1, 64, 128);
  c.shard.gradient_buffer = *rc::gen::arbitrary<bool>();
  return c;
}

}  // namespace orrery::workload::samples
