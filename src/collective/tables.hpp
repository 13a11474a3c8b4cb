#pragma once
// NCCL's tuning constants as rows keyed by the version that brought them.
#include <array>

#include "orrery/collective/collective.hpp"

namespace orrery::collective {

using ByProtocol = std::array<double, 3>;  ///< LL, LL128, Simple; microseconds
using ByNodes = std::array<double, 3>;     ///< 1 node, 2 nodes, more; GB/s

struct HopLatencies {
  ByProtocol base{}, nvlink{}, pcie{}, network{};
};
HopLatencies hop_latencies(Algorithm algorithm, const Nccl& nccl);

enum class Cap : std::uint8_t { kLowLatency, kRingLL128, kTreeLL128, kTree, kNvlsTree };
/// Greatest bandwidth NCCL believes in: per channel, except kLowLatency, which is for all channels together.
double bandwidth_cap(Cap cap, const Shape& shape, const Nccl& nccl);

/// Share of the bandwidth that NCCL grants a tree at this size.
double tree_correction(Protocol protocol, Bytes bytes);

/// In-switch reduction since 2.28, as a share of the graph's speed.
double nvls_efficiency(Arch arch);

}  // namespace orrery::collective
