#include <set>
#include <string>

#include "catch.h"
#include "orrery/workload/operation.hpp"

using namespace orrery;
using namespace orrery::workload;

// Source of both: the FlashAttention benchmark script, 4 b s^2 n d / 2 forward and 2.5 times that backward.
TEST_CASE("causal attention is half the square forward and two and a half times that backward") {
  const Attention forward{.batch = 1, .seq_q = 8192, .seq_kv = 8192, .heads = 32, .kv_heads = 8, .dim_qk = 128, .dim_v = 128};
  Attention backward = forward;
  backward.backward = true;
  {
    INFO("attn.fwd_flops.causal");
    CHECK(forward.flops().value() == 549755813888.0);
  }
  {
    INFO("attn.bwd_flops.causal");
    CHECK(backward.flops().value() == 1374389534720.0);
  }
  Attention full = forward;
  full.causal = false;
  CHECK(full.flops() == forward.flops() * 2.0);
  Attention fewer_kv = forward;
  fewer_kv.kv_heads = 1;
  CHECK(fewer_kv.flops() == forward.flops());  // grouped queries change bytes, not FLOPs
}

TEST_CASE("attention with unequal head dims multiplies queries over one and values over the other") {
  Attention a{.batch = 2, .seq_q = 16, .seq_kv = 16, .heads = 4, .kv_heads = 4, .dim_qk = 192, .dim_v = 128, .causal = false};
  CHECK(a.flops().value() == 2.0 * 2 * 4 * 16 * 16 * (192 + 128));
  a.backward = true;
  CHECK(a.flops().value() == 2.0 * 2 * 4 * 16 * 16 * (3 * 192 + 2 * 128));
}

TEST_CASE("a GEMM counts two FLOPs for a multiply-add, for every member of its batch, without overflow") {
  CHECK(Gemm{.m = 3, .n = 5, .k = 7, .batch = 2}.flops().value() == 2.0 * 3 * 5 * 7 * 2);
  CHECK(Gemm{.m = 1 << 30, .n = 1 << 30, .k = 1 << 30}.flops().value() == 0x1p91);
}

TEST_CASE("every type, kernel class and axis has its own name") {
  std::set<std::string> names;
  for (const DType t : {DType::kFp32, DType::kTf32, DType::kFp16, DType::kBf16, DType::kFp8, DType::kMxfp8, DType::kMxfp6, DType::kFp4, DType::kInt8}) {
    CHECK(element_bytes(t) > 0);
    CHECK(names.insert(to_string(t)).second);
  }
  for (int k = 0; k <= static_cast<int>(StreamKind::kCast); ++k) CHECK(names.insert(to_string(static_cast<StreamKind>(k))).second);
  names.clear();
  for (int a = 0; a <= static_cast<int>(Axis::kSwapIn); ++a) CHECK(names.insert(to_string(static_cast<Axis>(a))).second);
  CHECK(element_bytes(DType::kTf32) == 4);
  CHECK(element_bytes(DType::kMxfp6) == 0.75);
}
