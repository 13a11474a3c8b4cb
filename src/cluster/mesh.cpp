// GPUs wired to one another without a switch: NVLink hybrid cube mesh (DGX-1), NVLink or Infinity Fabric all-to-all. Neighbours see the
// cables between them; others are reached over the fewest GPUs in between, of these the way whose narrowest hop is widest, of these the
// lowest-numbered. NCCL passes such traffic through a GPU in the same way (src/graph/paths.cc, PATH_NVB).
#include <algorithm>
#include <limits>

#include "orrery/cluster/cluster.hpp"

namespace orrery::cluster {

void Cluster::link_mesh() {
  const auto n = static_cast<std::size_t>(gpus_per_node_);
  mesh_rate_.assign(n * n, BytesPerSecond{});
  const auto rate = [&](std::size_t a, std::size_t b) -> BytesPerSecond& { return mesh_rate_[a * n + b]; };
  if (node_.mesh.empty()) {  // every pair of the node alike, whether in use or not
    const BytesPerSecond each = node_.scale_up / static_cast<double>(std::max(1, node_.gpus - 1));
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) {
        if (a != b) rate(a, b) = each;
      }
    }
  } else {
    std::vector<int> cables(static_cast<std::size_t>(node_.gpus), 0);
    for (const Node::MeshLink& m : node_.mesh) {
      cables[static_cast<std::size_t>(m.a)] += m.cables;
      cables[static_cast<std::size_t>(m.b)] += m.cables;
    }
    const BytesPerSecond each = node_.scale_up / static_cast<double>(*std::max_element(cables.begin(), cables.end()));
    for (const Node::MeshLink& m : node_.mesh) {
      const auto a = static_cast<std::size_t>(m.a), b = static_cast<std::size_t>(m.b);
      if (a < n && b < n) rate(a, b) = rate(b, a) = each * static_cast<double>(m.cables);
    }
  }

  // From each destination outwards, one ring of GPUs at a time.
  mesh_next_.assign(n * n, -1);
  std::vector<int> hops(n);
  std::vector<BytesPerSecond> width(n);
  constexpr int kFar = std::numeric_limits<int>::max();
  for (std::size_t to = 0; to < n; ++to) {
    std::fill(hops.begin(), hops.end(), kFar);
    hops[to] = 0;
    width[to] = BytesPerSecond(std::numeric_limits<double>::infinity());
    for (int ring = 1; ring < static_cast<int>(n); ++ring) {
      for (std::size_t from = 0; from < n; ++from) {
        if (hops[from] != kFar) continue;
        BytesPerSecond best{};
        std::int32_t via = -1;
        for (std::size_t mid = 0; mid < n; ++mid) {
          if (hops[mid] != ring - 1 || rate(from, mid) == BytesPerSecond{}) continue;
          const BytesPerSecond w = std::min(rate(from, mid), width[mid]);
          if (w > best) {
            best = w;
            via = static_cast<std::int32_t>(mid);
          }
        }
        if (via < 0) continue;
        mesh_next_[from * n + to] = via;
        hops[from] = ring;
        width[from] = best;
      }
    }
  }
}

void Cluster::mesh_path(Route& r, std::int64_t node, std::int64_t from_gpu, std::int64_t to_gpu) const {
  for (std::int64_t a = from_gpu; a != to_gpu;) {
    const std::int64_t b = mesh_next_[static_cast<std::size_t>(a * gpus_per_node_ + to_gpu)];
    r.hops.push_back({at(node, 0, a, false), 1});
    r.hops.push_back({LinkId{static_cast<std::uint32_t>(node * layout_.per_node + layout_.peer + a * gpus_per_node_ + b)}, 1});
    r.hops.push_back({at(node, 0, b, true), 1});
    a = b;
  }
}

}  // namespace orrery::cluster
