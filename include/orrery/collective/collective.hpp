#pragma once
// Collectives as data: NCCL's choice of algorithm, protocol and channels; steps, and bytes per hop. Times are cost's, from a profile.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/units.hpp"

namespace orrery::collective {

enum class Kind : std::uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kBroadcast, kReduce, kSendRecv };
enum class Algorithm : std::uint8_t { kRing, kTree, kCollNetDirect, kCollNetChain, kNvls, kNvlsTree, kPat, kPairs, kHierarchical, kDeduplicated };
enum class Protocol : std::uint8_t { kLL, kLL128, kSimple };
enum class Arch : std::uint8_t { kVolta, kAmpere, kHopper, kBlackwell, kOther };  ///< which of NCCL's tables applies
enum class CpuVendor : std::uint8_t { kIntel, kAmd, kArm };
std::string_view to_string(Kind);
std::string_view to_string(Algorithm);
std::string_view to_string(Protocol);

/// What NCCL's environment settles before it chooses. The rules of the settings stand in settings.cpp.
struct Nccl {
  int version = 22700;  ///< 10000*major + 100*minor: 22700 is 2.27
  /// What NCCL_ALGO and NCCL_PROTO leave of each kind: a bit an Algorithm, a bit a Protocol.
  std::array<std::uint16_t, 7> algorithms = {0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff};
  std::array<std::uint8_t, 7> protocols = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  int min_channels = 0, max_channels = 0;  ///< NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS; 0: its own
  bool operator==(const Nccl&) const = default;
};
/// NCCL_ALGO and NCCL_PROTO in NCCL's words: "ring,tree", "^nvls,nvlstree" (all but these), "allreduce:tree;allgather:ring". Empty where the text was
/// understood, else what is wrong with it.
std::string limit_algorithms(std::string_view text, Nccl& nccl);
std::string limit_protocols(std::string_view text, Nccl& nccl);
/// The same release without settings.
Nccl unlimited(const Nccl& nccl);

/// What an all-to-all of tokens carries, where a library for it runs instead of NCCL: of a token's copies, how many are distinct domains and
/// ranks (expected numbers, the source's own included). per_token 0: not tokens.
struct Tokens {
  std::int64_t per_token = 0;
  double domains = 0, ranks = 0;
  bool combine = false;                     ///< back from the experts
  double bytes = 0;                         ///< of one copy
  int sms = 0;                              ///< that the kernel runs on
  bool operator==(const Tokens&) const = default;
};

/// The communicator, as NCCL's topology search would describe it.
struct Shape {
  std::int64_t ranks = 1, nodes = 1;       ///< nodes: scale-up domains; ranks % nodes == 0 (uneven: the largest share decides)
  Arch arch = Arch::kHopper;
  CpuVendor cpu = CpuVendor::kIntel;
  bool nvlink = true;                       ///< intra-domain path is NVLink/NVSwitch (else PCIe or host)
  bool nvswitch = true;
  bool nvls = true;                         ///< switch with in-network reduction (NVSwitch 3+)
  bool sharp = false;                       ///< the fabric reduces (CollNet)
  bool net_is_ib = true;
  BytesPerSecond scale_up{};                ///< per GPU and direction, nominal (450 GB/s on H100); PCIe: the GPU's link
  BytesPerSecond nic_per_gpu{};             ///< scale-out bandwidth per participating GPU and direction, nominal
  std::int64_t gpus_per_nic = 1;            ///< participating GPUs that share one NIC
  double net_overhead_us = 1.0;             ///< NCCL's network post overhead: 1 Intel and others, 2 AMD
  Tokens tokens{};
};

/// What one channel carries at most, GB/s of busbw: NCCL's own bound on a Simple tree (src/graph/tuning.cc). It holds where channels are limited.
double channel_gb_per_s(const Shape& shape, const Nccl& nccl);

struct Choice {
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  int channels = 1;
  Seconds nccl_estimate{};  ///< what NCCL's own model scores it with; for choosing only (modelling 0, rule 3)
  bool operator==(const Choice&) const = default;
};

/// NCCL's decision for `bytes` (nccl-tests count). Source: NCCL src/graph/tuning.cc by version, as in modelling.md 6.3.
Choice choose(Kind kind, Bytes bytes, const Shape& shape, const Nccl& nccl);
/// NCCL's latency term by where it is spent: launch and hops inside domains, hops between them.
struct LatencyParts {
  double inside_us = 0, network_us = 0;
};
LatencyParts nccl_latency_parts(Kind, Algorithm, Protocol, const Shape&, const Nccl&);
/// NCCL's latency term in microseconds for one algorithm and protocol, and its bandwidth term (algorithm bandwidth, GB/s); 0: not possible.
double nccl_latency_us(Kind, Algorithm, Protocol, const Shape&, const Nccl&);
double nccl_bandwidth_gb_per_s(Kind, Algorithm, Protocol, Bytes, const Shape&, const Nccl&);

/// bytes x factor / time is busbw (nccl-tests doc/PERFORMANCE.md).
double busbw_factor(Kind kind, std::int64_t ranks);

/// What the busiest rank of a collective moves: the data that lower turns into usage weights. Bytes are per unit of the whole buffer
/// (fractions of nccl-tests' byte count). Channels rotate over the GPUs of a node, so on regular shapes every rank is the busiest;
/// exceptions are the root and the last rank of broadcast and reduce, and the roots of trees, which move less.
struct Hops {
  /// Each rank sends `intra_out` and receives `intra_in` over its own scale-up port; each scale-up switch reduces in the network or not.
  double intra_out = 0, intra_in = 0;
  /// Each rank's share out of and into its NIC towards another domain, and how it is routed.
  double inter_out = 0, inter_in = 0;
  /// Which ranks exchange over the fabric: ring neighbours of the same local rank, tree edges, all pairs; every rank, inside and between
  /// domains, sends to the next of the group; or all domains along the rail of a local rank.
  enum class Pattern : std::uint8_t { kNone, kRingOfNodes, kTreeOfNodes, kAllPairs, kNextRank, kRails } pattern = Pattern::kNone;
  std::int64_t steps = 0;  ///< serial steps (latency)
};
Hops hops(Kind kind, Algorithm algorithm, const Shape& shape);

/// One transfer of an algorithm, as data. A chunk is one of `Schedule::chunks` equal parts of the buffer; vertices 0…ranks−1 are ranks,
/// higher ones are switches that reduce or multicast.
struct Step {
  int step = 0;  ///< steps run in order, transfers of one step at once
  int from = 0, to = 0, chunk = 0;
  bool reduce = false;  ///< adds to what `to` holds of this chunk; else replaces it
  bool operator==(const Step&) const = default;
};
struct Schedule {
  int ranks = 1, switches = 0, chunks = 1;
  std::vector<Step> steps;  ///< ascending in step
};
/// Who sends what to whom, for shapes small enough to write down (ranks <= 512). hops() is this, counted. Requires possible().
Schedule schedule(Kind kind, Algorithm algorithm, const Shape& shape);
/// Whether NCCL may run the kind this way on this shape (its enablement rules; modelling 6.3) and the settings leave it. Settings that leave nothing
/// are as none.
bool possible(Kind kind, Algorithm algorithm, Protocol protocol, const Shape& shape, const Nccl& nccl);
/// Ranks in one scale-up domain; the largest share where they are uneven.
std::int64_t ranks_per_node(const Shape& shape);

/// SMs (CTAs) that the kernel holds: its channels (modelling 6.9).
int footprint_sms(const Choice& choice, const Shape& shape);

}  // namespace orrery::collective
