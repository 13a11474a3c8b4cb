#include "writer.hpp"

#include <cmath>
#include <string_view>

#include "orrery/base/checked.hpp"

namespace orrery::workload {
namespace {

Sizes sizes_of(const Model& m, const Shard& shard) {
  Sizes s;
  s.tp = shard.tp;
  s.cp = shard.cp;
  s.sp = shard.sequence_parallel && shard.tp > 1;
  s.batch = shard.micro_batch;
  s.queries = ceil_div(shard.sequence, shard.cp);
  s.keys = shard.sequence;
  s.tokens = s.batch * s.queries;
  s.shard_tokens = s.sp ? ceil_div(s.tokens, s.tp) : s.tokens;
  s.hidden = m.hidden;
  s.heads = ceil_div(m.heads, s.tp);
  s.kv_heads = ceil_div(m.kv_heads, s.tp);
  s.head_dim = m.head_dim;
  s.value_dim = m.mla ? m.mla->v_head_dim : m.head_dim;
  s.q = s.heads * m.head_dim;
  s.kv = s.kv_heads * m.head_dim;
  s.v = s.kv_heads * s.value_dim;
  s.o = s.heads * s.value_dim;
  s.ffn = ceil_div(m.ffn_hidden, s.tp);
  return s;
}

bool recomputes_norm(const Training& t, const StackKernels& k) { return (recompute_policy(t, k).regions & kNormRegion) != 0; }

}  // namespace

// Scales: one E8M0 byte per 32 elements (OCP Microscaling Formats v1.0), one E4M3 byte per 16 and a tensor maximum (NVFP4), one fp32 per
// 1 x 128 block (DeepSeek-V3, arXiv:2412.19437, section 3.3); per-tensor scales weigh nothing.
// Fused casts: Transformer Engine's norm and activation kernels write delayed-scaling FP8 and MXFP8 copies; under the other recipes they
// write 16 bits and a quantiser follows (transformer_engine/pytorch/module/layernorm_linear.py, with_quantized_norm).
QuantisedFormat quantised_format(const Training& t) {
  const int tensor_copies = t.one_operand_layout ? 2 : 1;
  switch (t.precision) {
    case DType::kFp8:
      if (t.fp8_recipe == Fp8Recipe::kBlock128) return {.on = true, .bytes = 1 + 4.0 / 128, .by_block = true};
      if (t.fp8_recipe == Fp8Recipe::kCurrent) return {.on = true, .bytes = 1, .amax_pass = true, .copies = tensor_copies};
      return {.on = true, .bytes = 1, .fuses = true, .copies = tensor_copies};
    case DType::kMxfp8: return {.on = true, .bytes = 1 + 1.0 / 32, .fuses = true, .by_block = true};
    case DType::kMxfp6: return {.on = true, .bytes = 0.75 + 1.0 / 32, .fuses = true, .by_block = true};
    case DType::kFp4: return {.on = true, .bytes = 0.5 + 1.0 / 16, .amax_pass = true, .by_block = true};
    default: return {};
  }
}

RecomputePolicy recompute_policy(const Training& t, const StackKernels& k) {
  RecomputePolicy p;
  if (t.recompute.mode == RecomputeMode::kFull) p.whole = true;
  if (t.recompute.mode != RecomputeMode::kSelective) return p;
  for (const std::string& module : t.recompute.modules.empty() ? k.selective_modules : t.recompute.modules) {
    if (module == "core_attn") p.regions |= kCoreAttention;
    if (module == "norm") p.regions |= kNormRegion;
    if (module == "mlp_act") p.regions |= kMlpActivation;
    if (module == "mlp") p.regions |= kMlp;
    if (module == "moe_act") p.regions |= kMoeActivation;
    if (module == "mla_up_proj") p.regions |= kMlaUpProjection;
    if (module == "matmul_every_other") p.every_other_matmul = true;
  }
  return p;
}

Writer::Writer(const Model& m, const Training& t, const Shard& sh, const StackKernels& k, Tape* onto)
    : tape(onto != nullptr ? *onto : own_tape_),
      model(m),
      training(t),
      shard(sh),
      kernels(apply_fusion(k, t.fusion)),
      s(sizes_of(m, sh)),
      format(quantised_format(t)),
      act(t.activation_dtype),
      // A norm that is re-run alone must stand alone.
      fuse_residual(t.fusion == Fusion::kCompiled && !recomputes_norm(t, k)) {
  if (sh.frozen_weights || t.adapter.on()) tape.train(Trained::kInputs);
}

std::int64_t Writer::bytes(std::int64_t elements) const { return elements * static_cast<std::int64_t>(element_bytes(act)); }

void Writer::bias_gradient(const std::string& name, std::int64_t tokens, std::int64_t width, const std::vector<TensorId>& gradients) {
  const auto gradient_bytes = static_cast<std::int64_t>(element_bytes(training.grad_dtype));
  backward_stream(name + "_bias_gradient", StreamKind::kReduce, bytes(tokens * width), gradient_bytes * width, 1, gradients, {}, true);
}

}  // namespace orrery::workload
