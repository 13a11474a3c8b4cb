#include "collective/tables.hpp"

#include <bit>

namespace orrery::collective {
namespace {

// Source of every row: NCCL src/graph/tuning.cc (Apache-2.0), at 2.30.7 and, for older rows, at the release named in `since`.
// Constants are recorded as facts. The last row whose `since` is not above the version applies.
enum class Place : std::uint8_t { kBase, kNvlink, kPcie, kNetwork };
struct LatencyRow {
  Algorithm algorithm;
  Place place;
  int since;
  ByProtocol us;
};
using A = Algorithm;
using P = Place;
constexpr LatencyRow kLatency[] = {
    {A::kTree, P::kBase, 0, {6.8, 14.0, 0}},
    {A::kTree, P::kBase, 22300, {6.8, 14.0, 8.4}},
    {A::kTree, P::kNvlink, 0, {0.6, 1.25, 28}},
    {A::kTree, P::kNvlink, 22300, {0.6, 1.25, 4.0}},
    {A::kTree, P::kPcie, 0, {1.0, 1.9, 28}},
    {A::kTree, P::kPcie, 22300, {1.0, 1.9, 4.0}},
    {A::kTree, P::kNetwork, 0, {5.0, 8.5, 28}},
    {A::kTree, P::kNetwork, 22300, {5.0, 8.5, 14}},
    {A::kRing, P::kBase, 0, {6.6, 14.0, 8.4}},
    {A::kRing, P::kNvlink, 0, {0.6, 1.9, 3.4}},
    {A::kRing, P::kPcie, 0, {1.0, 2.5, 5.7}},
    {A::kRing, P::kNetwork, 0, {2.7, 4.0, 14.0}},
    {A::kCollNetDirect, P::kNvlink, 0, {0, 0, 3.7}},
    {A::kCollNetDirect, P::kPcie, 0, {0, 0, 3.7}},
    {A::kCollNetDirect, P::kNetwork, 0, {0, 0, 31}},
    {A::kCollNetChain, P::kNvlink, 0, {0, 0, 2.8}},
    {A::kCollNetChain, P::kPcie, 0, {0, 0, 2.8}},
    {A::kCollNetChain, P::kNetwork, 0, {0, 0, 30}},
    {A::kNvls, P::kNvlink, 0, {0, 0, 23}},
    {A::kNvls, P::kNvlink, 22100, {0, 0, 25}},
    {A::kNvls, P::kNetwork, 0, {0, 0, 18}},
    {A::kNvlsTree, P::kNvlink, 0, {0, 0, 23}},
    {A::kNvlsTree, P::kNvlink, 22100, {0, 0, 25}},
    {A::kNvlsTree, P::kNetwork, 0, {0, 0, 19}},
    {A::kNvlsTree, P::kNetwork, 22000, {0, 0, 14}},
    {A::kNvlsTree, P::kNetwork, 22900, {0, 0, 20.9}},
    {A::kPat, P::kBase, 0, {8.0, 8.0, 8.0}},
    {A::kPat, P::kNvlink, 0, {0, 0, 4.0}},
    {A::kPat, P::kPcie, 0, {0, 0, 4.0}},
    {A::kPat, P::kNetwork, 0, {0, 0, 14}},
};

struct CapRow {
  Cap cap;
  Arch arch;
  int since;
  ByNodes gb_per_s;
};
constexpr CapRow kCaps[] = {
    {Cap::kLowLatency, Arch::kVolta, 0, {39.0, 39.0, 20.4}},  // more than one node: hosts with Intel and Arm CPUs
    {Cap::kLowLatency, Arch::kAmpere, 0, {87.7, 22.5, 19.0}},  // more than one node: hosts with AMD CPUs
    {Cap::kLowLatency, Arch::kHopper, 0, {141.0, 45.0, 35.0}},
    {Cap::kLowLatency, Arch::kBlackwell, 0, {141.0, 45.0, 35.0}},  // before 2.25 NCCL knew no Blackwell row
    {Cap::kLowLatency, Arch::kBlackwell, 22500, {282.0, 90.0, 70.0}},
    {Cap::kRingLL128, Arch::kVolta, 0, {20, 20, 20}},
    {Cap::kRingLL128, Arch::kAmpere, 0, {20, 20, 20}},
    {Cap::kRingLL128, Arch::kHopper, 0, {36.7, 36.7, 36.7}},
    {Cap::kRingLL128, Arch::kBlackwell, 0, {36.7, 36.7, 36.7}},
    {Cap::kRingLL128, Arch::kBlackwell, 22500, {73.4, 73.4, 73.4}},
    {Cap::kRingLL128, Arch::kBlackwell, 22900, {34.5, 34.5, 34.5}},
    {Cap::kRingLL128, Arch::kBlackwell, 23000, {40.0, 40.0, 40.0}},
    {Cap::kTreeLL128, Arch::kVolta, 0, {20, 20, 20}},
    {Cap::kTreeLL128, Arch::kAmpere, 0, {20, 20, 20}},
    {Cap::kTreeLL128, Arch::kHopper, 0, {36.7, 36.7, 29.0}},
    {Cap::kTreeLL128, Arch::kBlackwell, 0, {36.7, 36.7, 29.0}},
    {Cap::kTreeLL128, Arch::kBlackwell, 22500, {73.4, 73.4, 58.0}},  // twice Hopper, as the ring row of those releases
    {Cap::kTreeLL128, Arch::kBlackwell, 22800, {55.6, 31.67, 20.0}},
    {Cap::kTree, Arch::kVolta, 0, {26.5, 18.5, 10.0}},
    {Cap::kTree, Arch::kAmpere, 0, {24.0, 23.6, 17.8}},
    {Cap::kTree, Arch::kHopper, 0, {38.7, 41.4, 36.0}},
    {Cap::kTree, Arch::kBlackwell, 0, {38.7, 41.4, 36.0}},
    {Cap::kTree, Arch::kBlackwell, 22500, {77.4, 82.8, 72.0}},  // twice Hopper
    {Cap::kTree, Arch::kBlackwell, 22800, {70.0, 42.8, 24.0}},
    {Cap::kNvlsTree, Arch::kVolta, 0, {26.5, 18.5, 10.0}},
    {Cap::kNvlsTree, Arch::kAmpere, 0, {24.0, 23.6, 17.8}},
    {Cap::kNvlsTree, Arch::kHopper, 0, {0, 57.7, 45.5}},
    {Cap::kNvlsTree, Arch::kBlackwell, 0, {0, 57.7, 45.5}},
    {Cap::kNvlsTree, Arch::kBlackwell, 22500, {0, 115.4, 91.0}},  // twice Hopper
    {Cap::kNvlsTree, Arch::kBlackwell, 22800, {0, 96.0, 43.1}},
    {Cap::kNvlsTree, Arch::kBlackwell, 22900, {0, 96.0, 43.8}},
    {Cap::kNvlsTree, Arch::kBlackwell, 23000, {0, 96.0, 80.0}},
};

// By log2(bytes / 64): trees pipeline badly around 1 MiB.
constexpr int kTreeSizes = 24;
constexpr double kTreeCorrection[3][kTreeSizes] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
};

}  // namespace

HopLatencies hop_latencies(Algorithm algorithm, const Nccl& nccl) {
  HopLatencies out;
  for (const LatencyRow& row : kLatency) {
    if (row.algorithm != algorithm || row.since > nccl.version) continue;
    (row.place == P::kBase ? out.base : row.place == P::kNvlink ? out.nvlink : row.place == P::kPcie ? out.pcie : out.network) = row.us;
  }
  return out;
}

double bandwidth_cap(Cap cap, const Shape& shape, const Nccl& nccl) {
  // A part that NCCL has no row for is held to the most cautious NVLink generation.
  Arch arch = shape.arch == Arch::kOther ? Arch::kAmpere : shape.arch;
  if (cap == Cap::kLowLatency && shape.nodes > 1) arch = shape.cpu == CpuVendor::kAmd ? Arch::kAmpere : Arch::kVolta;
  const std::size_t column = shape.nodes == 1 ? 0 : shape.nodes == 2 ? 1 : 2;
  double value = 0;
  for (const CapRow& row : kCaps) {
    if (row.cap == cap && row.arch == arch && row.since <= nccl.version) value = row.gb_per_s[column];
  }
  return value;
}

double tree_correction(Protocol protocol, Bytes bytes) {
  const auto units = static_cast<std::uint64_t>(bytes.value()) >> 6;
  if (units == 0) return 1;
  const int log = static_cast<int>(std::bit_width(units)) - 1;
  return log < kTreeSizes ? kTreeCorrection[static_cast<std::size_t>(protocol)][log] : 1;
}

double nvls_efficiency(Arch arch) { return arch == Arch::kBlackwell ? 0.74 : 0.85; }

}  // namespace orrery::collective
