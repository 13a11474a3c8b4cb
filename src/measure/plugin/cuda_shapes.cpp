#include "measure/plugin/cuda_shapes.hpp"

#include <array>

namespace orrery::measure {
namespace {

using calibration::Point;

/// Extents of a decoder's products: hidden size, fused query-key-value, feed-forward.
struct Layer {
  std::int64_t hidden, qkv, ffn;
};
constexpr std::array<Layer, 4> kLayers = {{{2048, 3072, 8192}, {4096, 6144, 14336}, {8192, 10240, 28672}, {12288, 36864, 49152}}};

Point product(const char* dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
  Point p;
  p.dtype = dtype, p.m = m, p.n = n, p.k = k, p.context = "burst", p.from = "cuda", p.quantise = "none";
  return p;
}

}  // namespace

std::vector<Point> cuda_shapes(const std::string& set, std::size_t l2, int ranks, int nodes) {
  const bool quick = set == "quick", full = set == "full";
  std::vector<Point> out;
  // Weights of four model sizes cut by tensor parallelism, times token counts; forward, and the two gradients of some.
  const std::vector<std::int64_t> tokens = quick ? std::vector<std::int64_t>{2048} : full ? std::vector<std::int64_t>{128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768} : std::vector<std::int64_t>{512, 4096, 16384};
  const std::vector<std::int64_t> cuts = quick ? std::vector<std::int64_t>{1} : full ? std::vector<std::int64_t>{1, 2, 4, 8} : std::vector<std::int64_t>{1, 4};
  const std::vector<const char*> types = quick ? std::vector<const char*>{"bf16", "fp8"} : std::vector<const char*>{"bf16", "fp16", "tf32", "fp8", "mxfp8", "fp4"};
  for (const char* type : types)
    for (const Layer& l : kLayers)
      for (const std::int64_t t : cuts)
        for (const std::int64_t m : tokens) {
          if (!full && type != types.front() && (m != 4096 && m != 2048)) continue;
          for (const auto& [n, k] : {std::pair(l.qkv / t, l.hidden), std::pair(l.hidden, l.hidden / t), std::pair(2 * l.ffn / t, l.hidden), std::pair(l.hidden, l.ffn / t)}) {
            out.push_back(product(type, m, n, k));
            Point gradient = product(type, m, k, n);
            gradient.layout = "nn";
            out.push_back(gradient);
            Point weight = product(type, k, n, m);
            weight.layout = std::string(type) == "bf16" || std::string(type) == "fp16" ? "nt" : "tn";
            weight.accumulate = true;
            out.push_back(weight);
          }
        }
  // Cubes, and the reduction at one output.
  for (const std::int64_t e : {128, 256, 512, 1024, 2048, 4096, 8192, 16384}) {
    if (quick && e > 8192) continue;
    for (const char* type : types) out.push_back(product(type, e, e, e));
    out.push_back(product("bf16", 4096, 4096, e));
  }
  // Clocks settled: long kernels again, each for a second.
  for (const std::int64_t e : {1024, 2048, 4096, 8192, 16384}) {
    if (quick && e != 8192) continue;
    for (const char* type : types) {
      if (quick && type != types.front()) continue;
      out.push_back(product(type, e, e, e));
      out.back().context = "sustained";
    }
    out.push_back(product("bf16", e, 2 * e, e / 2));
    out.back().context = "sustained";
  }
  if (full)
    for (const std::int64_t batch : {8, 32, 128}) {
      out.push_back(product("bf16", 2048, 2048, 128));
      out.back().batch = batch;
    }
  // Memory-bound kernels, from sizes that stay in L2 to GBs.
  const auto largest = quick ? std::int64_t{1} << 28 : std::int64_t{1} << 31;
  for (const char* kind : {"copy", "elementwise", "reduce", "norm", "softmax", "permute", "optimizer", "cast"})
    for (std::int64_t bytes = std::max<std::int64_t>(1 << 18, static_cast<std::int64_t>(l2) / 64 / (1 << 18) * (1 << 18)); bytes <= largest; bytes *= quick ? 8 : 2) {
      Point p;
      p.kind = Point::Kind::kStream, p.stream = kind, p.context = "burst", p.from = "cuda";
      const std::string k = kind;
      p.read_bytes = k == "elementwise" ? 2 * bytes : k == "optimizer" ? 4 * bytes : bytes;
      p.write_bytes = k == "reduce" ? 0 : k == "optimizer" ? 3 * bytes : k == "cast" ? bytes / 2 : bytes;
      out.push_back(p);
    }
  for (const char* kind : {"launch", "graph_launch"}) {
    Point p;
    p.kind = Point::Kind::kStream, p.stream = kind, p.context = "burst", p.from = "cuda";
    out.push_back(p);
  }
  for (const char* kind : {"to_host", "from_host"})
    for (std::int64_t bytes = 1 << 20; bytes <= (quick ? 1 << 26 : 1 << 30); bytes *= quick ? 8 : 4) {
      Point p;
      p.kind = Point::Kind::kStream, p.stream = kind, p.context = "burst", p.from = "cuda";
      (std::string(kind) == "to_host" ? p.read_bytes : p.write_bytes) = bytes;
      out.push_back(p);
    }
  if (ranks < 2) return out;
  const std::int64_t most = quick ? std::int64_t{1} << 28 : full ? std::int64_t{1} << 33 : std::int64_t{1} << 32;
  for (const char* kind : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"})
    for (std::int64_t bytes = 1 << 10; bytes <= most; bytes *= quick ? 4 : 2) {
      Point p;
      p.kind = Point::Kind::kCollective, p.collective = kind, p.dtype = "fp32", p.context = "sustained", p.from = "cuda", p.ranks = ranks, p.nodes = nodes;
      p.bytes = bytes / (4 * ranks) * (4 * ranks);
      if (p.bytes > 0) out.push_back(p);
    }
  for (const std::int64_t mib : {16, 64, 256}) {  // the overlap's price
    Point p;
    p.kind = Point::Kind::kCollective, p.collective = "all_reduce", p.algorithm = "beside_gemm", p.dtype = "fp32", p.context = "sustained", p.from = "cuda", p.ranks = ranks, p.nodes = nodes;
    p.bytes = (mib << 20) / (4 * ranks) * (4 * ranks);
    out.push_back(p);
  }
  return out;
}

}  // namespace orrery::measure
