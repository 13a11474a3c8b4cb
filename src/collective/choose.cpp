// NCCL's choice. For every algorithm and protocol that may run, score = latency + bytes / bandwidth; the least wins. The scores are up to
// 2x from wall time and yet reproduce the choice (modelling 6.4), so they serve for nothing else.
#include <algorithm>
#include <bit>

#include "collective/graph.hpp"
#include "collective/registry.hpp"
#include "collective/tables.hpp"

namespace orrery::collective {
namespace {

constexpr int kMaxChannels = 64;

/// Channels of a communicator before a small message reduces them. Source: NCCL src/graph/connect.cc (doubling), src/transport/nvls.cc.
int own_channels(Algorithm algorithm, const Shape& shape) {
  if (algorithm == Algorithm::kNvls || algorithm == Algorithm::kNvlsTree) {
    if (shape.arch != Arch::kBlackwell) return 16;
    return shape.nodes == 1 ? 24 : 32;
  }
  const int doubled = std::min(kMaxChannels, 2 * graph(algorithm, shape).channels);
  // Point to point takes a power of two of them, at most 32 (NCCL src/graph/paths.cc).
  if (algorithm == Algorithm::kPairs) return static_cast<int>(std::min(32U, std::bit_ceil(static_cast<unsigned>(doubled))));
  return doubled;
}

int full_channels(Algorithm algorithm, const Shape& shape, const Nccl& nccl) {
  int channels = std::max(own_channels(algorithm, shape), nccl.min_channels);
  if (nccl.max_channels > 0) channels = std::min(channels, nccl.max_channels);
  return std::clamp(channels, 1, kMaxChannels);
}

/// Fewer channels while each thread would get too little. Source: NCCL src/enqueue.cc: 512 threads (640 LL128), 8 bytes each (64 Simple).
int channels_for(Bytes bytes, Algorithm algorithm, Protocol protocol, const Shape& shape, const Nccl& nccl) {
  int channels = full_channels(algorithm, shape, nccl);
  if (algorithm == Algorithm::kNvls || algorithm == Algorithm::kNvlsTree) return channels;
  const std::int64_t threads = protocol == Protocol::kLL128 ? 640 : 512;
  std::int64_t threshold = protocol == Protocol::kSimple ? 64 : 8;
  if (algorithm == Algorithm::kRing && protocol == Protocol::kLL) threshold *= shape.ranks;
  while (channels > std::max(1, nccl.min_channels) && bytes.value() < channels * threads * threshold) --channels;
  return channels;
}

/// A ring pays more per step between nodes once a slice holds a cache line (NCCL tuning.cc, "plateau effect of ring").
double plateau(Kind kind, Algorithm algorithm, Protocol protocol, Bytes bytes, const Shape& shape, const Nccl& nccl) {
  if (algorithm != Algorithm::kRing || protocol != Protocol::kSimple || kind != Kind::kAllReduce || shape.nodes == 1) return 1;
  if (bytes.value() / (full_channels(algorithm, shape, nccl) * shape.ranks) < 64) return 1;
  return shape.arch == Arch::kVolta ? 1.9 : 1.4;
}

}  // namespace

LatencyParts nccl_latency_parts(Kind kind, Algorithm algorithm, Protocol protocol, const Shape& shape, const Nccl& nccl) {
  if (shape.ranks <= 1 || !possible(kind, algorithm, protocol, shape, nccl)) return {};
  return row_of(algorithm).latency(kind, protocol, shape, nccl);
}

double nccl_latency_us(Kind kind, Algorithm algorithm, Protocol protocol, const Shape& shape, const Nccl& nccl) {
  const LatencyParts parts = nccl_latency_parts(kind, algorithm, protocol, shape, nccl);
  return parts.inside_us + parts.network_us;
}

double nccl_bandwidth_gb_per_s(Kind kind, Algorithm algorithm, Protocol protocol, Bytes bytes, const Shape& shape, const Nccl& nccl) {
  if (shape.ranks <= 1 || !possible(kind, algorithm, protocol, shape, nccl)) return 0;
  double bandwidth = row_of(algorithm).bandwidth(kind, protocol, shape, nccl);
  const bool nvls_tree = algorithm == Algorithm::kNvlsTree && shape.arch == Arch::kBlackwell && shape.cpu != CpuVendor::kArm && nccl.version >= 23000;
  if (algorithm == Algorithm::kTree || nvls_tree) bandwidth *= tree_correction(protocol, bytes);
  return bandwidth;
}

Choice choose(Kind kind, Bytes bytes, const Shape& shape, const Nccl& nccl) {
  Choice best;
  bool found = false;
  for (const AlgorithmRow& row : algorithms()) {
    for (const Protocol protocol : {Protocol::kLL, Protocol::kLL128, Protocol::kSimple}) {
      const double bandwidth = nccl_bandwidth_gb_per_s(kind, row.algorithm, protocol, bytes, shape, nccl);
      if (bandwidth <= 0) continue;
      const double latency = nccl_latency_us(kind, row.algorithm, protocol, shape, nccl) * plateau(kind, row.algorithm, protocol, bytes, shape, nccl);
      const Seconds score(latency * 1e-6 + static_cast<double>(bytes.value()) / (bandwidth * 1e9));
      if (found && score >= best.nccl_estimate) continue;
      best = {row.algorithm, protocol, channels_for(bytes, row.algorithm, protocol, shape, nccl), score};
      found = true;
    }
  }
  return best;
}

}  // namespace orrery::collective
