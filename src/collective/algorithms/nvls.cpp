// NVLS: NVSwitch (third generation and later) reduces and multicasts. Each GPU is head of 1/n of the buffer: it reads its share reduced
// over all ports, and writes it once to all. Out of and into a port: S(1 + 1/n) instead of the ring's 2S(n-1)/n (modelling 6.2).
#include <algorithm>

#include "collective/graph.hpp"
#include "collective/registry.hpp"
#include "collective/tables.hpp"

namespace orrery::collective {
namespace {

bool can(Kind kind, Protocol protocol, const Shape& shape, const Nccl& nccl) {
  if (protocol != Protocol::kSimple || !shape.nvls || !shape.nvswitch || ranks_per_node(shape) < 2) return false;
  if (shape.arch != Arch::kHopper && shape.arch != Arch::kBlackwell) return false;
  if (kind == Kind::kAllReduce) return nccl.version >= 21700 && (shape.nodes == 1 || shape.sharp);
  // Gathers and scatters through the switch came with 2.24, across nodes only where the fabric gathers too.
  return gathers(kind) && nccl.version >= 22400 && shape.nodes == 1;
}

LatencyParts latency(Kind, Protocol p, const Shape& shape, const Nccl& nccl) {
  return {intra_hop_us(Algorithm::kNvls, p, shape, nccl), shape.nodes > 1 ? inter_hop_us(Algorithm::kNvls, p, shape, nccl) : 0};
}

double bandwidth(Kind kind, Protocol, const Shape& shape, const Nccl& nccl) {
  const Graph g = graph(Algorithm::kNvls, shape);
  const auto n = static_cast<double>(shape.ranks), local = static_cast<double>(ranks_per_node(shape));
  const bool reduce = kind == Kind::kAllReduce;
  if (nccl.version < 22800) {
    const double intra = reduce ? g.intra : g.intra * (local - 1) / local;
    return g.channels * (shape.nodes > 1 ? std::min(intra, g.inter) : intra) * 5 / 6;
  }
  // Two operations in the pipeline of an all-reduce, one otherwise.
  double speed = g.intra * nvls_efficiency(shape.arch) * (g.channels - 1) / g.channels * (reduce ? 2 : (local - 1) / local);
  if (shape.nodes > 1) speed = std::min(speed, g.inter);
  return g.channels * speed * n / (reduce ? 2 * (n - 1) : n - 1);
}

Hops count(Kind kind, const Shape& shape) {
  const auto g = static_cast<double>(ranks_per_node(shape));
  Hops h;
  // Reduction: everything out, the head's share in. Multicast: the head's share out, everything in (its own too).
  h.intra_out = (kind == Kind::kAllGather ? 0 : 1) + (kind == Kind::kReduceScatter ? 0 : 1 / g);
  h.intra_in = (kind == Kind::kAllGather ? 0 : 1 / g) + (kind == Kind::kReduceScatter ? 0 : 1);
  h.steps = kind == Kind::kAllReduce ? 2 : 1;
  if (shape.nodes > 1) {
    h.inter_out = h.inter_in = 1 / g;
    h.pattern = Hops::Pattern::kTreeOfNodes;
    h.steps += 2;
  }
  return h;
}

Schedule write(Kind kind, const Shape& shape) {
  const int n = static_cast<int>(shape.ranks), g = static_cast<int>(ranks_per_node(shape)), k = n / g, fabric = n + k;
  Schedule s{n, k + 1, g, {}};
  for (int node = 0; node < k; ++node) {
    const int nvswitch = n + node;
    for (int head = 0; head < g; ++head) {
      const int owner = node * g + head;
      if (kind != Kind::kAllGather) {
        for (int local = 0; local < g; ++local) s.steps.push_back({0, node * g + local, nvswitch, head, true});
        s.steps.push_back({1, nvswitch, owner, head, false});
      }
      if (k > 1) {
        s.steps.push_back({2, owner, fabric, head, true});
        s.steps.push_back({3, fabric, owner, head, false});
      }
      if (kind != Kind::kReduceScatter) {
        s.steps.push_back({4, owner, nvswitch, head, false});
        for (int local = 0; local < g; ++local) s.steps.push_back({5, nvswitch, node * g + local, head, false});
      }
    }
  }
  std::stable_sort(s.steps.begin(), s.steps.end(), [](const Step& a, const Step& b) { return a.step < b.step; });
  return s;
}

}  // namespace

const AlgorithmRow& nvls_row() {
  static const AlgorithmRow row{Algorithm::kNvls, "nvls", can, latency, bandwidth, count, write};
  return row;
}

}  // namespace orrery::collective
