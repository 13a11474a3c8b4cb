#include "measure/backends.hpp"

namespace orrery::measure {

using calibration::Point;

std::vector<Point> host_shapes(const std::string& set, const Ranks* ranks) {
  std::vector<Point> out;
  const auto gemm = [&](std::int64_t m, std::int64_t n, std::int64_t k, const char* layout, bool accumulate) {
    Point p;
    p.dtype = "fp32", p.m = m, p.n = n, p.k = k, p.layout = layout, p.accumulate = accumulate, p.context = "sustained", p.from = "host";
    out.push_back(std::move(p));
  };
  std::vector<std::int64_t> extents = {128, 256, 512, 1024};
  if (set != "quick") extents.insert(extents.end(), {1536, 2048});
  if (set == "full") extents.insert(extents.end(), {3072, 4096});
  for (const std::int64_t m : extents)
    for (const std::int64_t n : extents)
      for (const std::int64_t k : extents) gemm(m, n, k, "tn", false);
  for (const std::int64_t e : extents) {
    gemm(e, 512, 512, "nn", false), gemm(512, e, 256, "nn", false);
    gemm(e, 512, 512, "nt", true), gemm(512, e, 256, "nt", true);
  }
  const std::int64_t largest = set == "quick" ? 1 << 26 : set == "standard" ? 1 << 28 : 1 << 30;
  for (const char* kind : {"copy", "elementwise", "reduce"})
    for (std::int64_t bytes = 1 << 16; bytes <= largest; bytes *= 2) {
      Point p;
      p.kind = Point::Kind::kStream, p.stream = kind, p.context = "sustained", p.from = "host";
      p.read_bytes = p.stream == "elementwise" ? 2 * bytes : bytes;
      p.write_bytes = p.stream == "reduce" ? 0 : bytes;
      out.push_back(std::move(p));
    }
  if (ranks == nullptr || ranks->size() < 2) return out;
  for (const char* kind : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"})
    for (std::int64_t bytes = 1 << 10; bytes <= (set == "quick" ? 1 << 24 : largest); bytes *= 2) {
      Point p;
      p.kind = Point::Kind::kCollective, p.collective = kind, p.dtype = "fp32", p.context = "sustained", p.from = "host";
      p.ranks = ranks->size(), p.nodes = ranks->nodes();
      p.bytes = bytes / (4 * p.ranks) * (4 * p.ranks);
      if (p.bytes > 0) out.push_back(std::move(p));
    }
  return out;
}

}  // namespace orrery::measure
