#pragma once
// A calibration profile (orrery/profile/1) as values: few parameters with a physical meaning, each with its interval and its origin.
// The defaults below are what an empty profile means: datasheet-like values with origin default.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orrery/base/origin.hpp"
#include "orrery/base/result.hpp"
#include "orrery/calibration/residuals.hpp"
#include "orrery/document/value.hpp"

namespace orrery::calibration {

/// A parameter with its 90 % interval and where it comes from.
struct Parameter {
  double value = 0, low = 0, high = 0;
  Origin origin = Origin::kDefault;
  bool operator==(const Parameter&) const = default;
};

/// An output tile of the kernel menu: per_sm of them share an SM, `factor` is its rate against the best tile.
struct Tile {
  int m = 0, n = 0, per_sm = 1;
  double factor = 1;
  bool operator==(const Tile&) const = default;
};

/// GEMM by tiles and waves, per matmul dtype. Time = launch + (math^6 + memory^6)^(1/6), math = min over tile and split of
/// waves x (tile FLOPs / (SM rate x efficiency x factors) + wave_overhead).
struct GemmProfile {
  Parameter efficiency{0.75, 0.45, 0.85};              ///< of the dense peak, best tile, boost clocks
  Parameter wave_overhead_us{3.0, 1, 5};               ///< prologue and epilogue of one wave
  Parameter launch_us{1.75, 1, 6};                     ///< gap between kernels of one stream
  Parameter bandwidth_efficiency{0.8, 0.55, 0.95};     ///< of the memory bandwidth
  Parameter wave_hardness{0.5, 0, 1};                  ///< 1: whole waves; 0: fractional (persistent, stream-K-like)
  Parameter layout_nn{1.0, 0.95, 1.05};                ///< rate of NN against TN (input gradient)
  Parameter layout_nt_accumulate{0.96, 0.85, 1.0};     ///< rate of NT that accumulates in fp32 (weight gradient)
  Parameter align_penalty{1.17, 1, 1.5};               ///< time ratio where a contiguous dimension is no multiple of 16 B
  Parameter sparse_efficiency{0.8, 0.6, 1};            ///< of twice the dense rate, with one operand stored 2:4 (cuSPARSELt: up to 1.6x)
  Parameter sustained_ratio{1.05, 1, 1.3};             ///< time at sustained clocks over time at boost, long kernels
  Parameter sustained_flops{5e10, 1e10, 2e11};         ///< FLOPs of one kernel at which half of that has set in
  Parameter burst_flops{1e13, 1e12, 1e15};             ///< the same for a short burst from idle (how most tables are measured)
  Parameter l2_fraction{0.5, 0.1, 1};                  ///< of L2 that activation and output may fill and still be found there,
  Parameter l2_bandwidth_factor{1, 1, 8};              ///< at this bandwidth over the device memory's; 1: no difference
  Parameter weight_l2_fraction{0, 0, 1};               ///< of L2 that a weight may fill and still be found there inside a measured row (fitting only)
  Parameter quantise_us{0, 0, 10}, quantise_bandwidth{0.36, 0.2, 0.8};  ///< dynamic quantisation inside a measured row (fitting only)
  std::vector<Tile> tiles = {{256, 128, 1, 1}, {128, 256, 1, 1}, {128, 128, 2, 0.92}, {64, 256, 1, 0.85}, {256, 64, 1, 0.85},
                             {128, 64, 2, 0.8}, {64, 128, 2, 0.8}, {64, 64, 2, 0.65}};
  int split_k_max = 8;
  ResidualTable residual;  ///< over m, n, k of one product
  bool operator==(const GemmProfile&) const = default;
};

/// A class of memory-bound kernels: kernels x launch + (bytes + kernels x half_bytes) / (bandwidth x efficiency).
struct StreamProfile {
  Parameter efficiency{0.8, 0.6, 0.95};
  Parameter half_bytes{6e6, 2e6, 2e7};  ///< bytes per kernel at which half the bandwidth is reached
  Parameter launch_us{1.5, 1, 3};
  bool operator==(const StreamProfile&) const = default;
};

/// Fused attention, per kernel ("fa1", "fa2", "fa3", "cudnn", "ck", "math") and head dim.
/// Time = FLOPs / (efficiency x dense 16-bit peak) x (1 + saturation/s) x (1 + W^(-1/fill))^fill, W: work per SM in longest query tiles,
/// fill: fill_exponent.
struct AttentionProfile {
  std::string kernel;
  int dim = 128;
  Parameter forward_efficiency{0.45, 0.3, 0.7}, backward_efficiency{0.36, 0.25, 0.6};
  Parameter saturation_causal{600, 100, 900}, saturation_full{200, 100, 400};  ///< tokens
  Parameter fill_exponent{0.7, 0, 1}, launch_us{3, 1, 15};
  int query_tile = 128;
  ResidualTable residual;  ///< forward, over sequences, queries and heads
  bool operator==(const AttentionProfile&) const = default;
};

/// One measured or published curve of a collective: time over bytes for n ranks in one domain, or over nodes.
struct CollectiveCurve {
  std::string kind;          ///< "all_reduce", …
  std::string algorithm;     ///< "" any
  int ranks = 0, nodes = 1;
  std::vector<double> bytes, time_us;  ///< ascending; time monotone
  int nccl_version = 0;                       ///< 10000 x major + 100 x minor; 0: not known
  double scale_up_gb_per_s = 0, nic_gb_per_s = 0;  ///< nominal links it was measured on, per GPU and direction; 0: as the target's
  Origin origin = Origin::kPublished;
  bool operator==(const CollectiveCurve&) const = default;
};

/// Fitted link efficiencies and latency ratios, for collectives that no curve covers. With X = bytes on the busiest link / (its nominal rate
/// x efficiency), a transfer takes X (1 + (ramp/X)^e), e = 0.44 inside a domain and 0.6 between (modelling 6.5, corrections).
struct LinkProfile {
  Parameter scale_up_efficiency{0.8, 0.7, 0.9};     ///< rings and trees over NVLink
  Parameter nvls_efficiency{0.65, 0.45, 0.72};      ///< reduction in the switch
  Parameter pairs_efficiency{0.72, 0.55, 0.85};     ///< sends and receives over NVLink
  Parameter nic_efficiency{0.9, 0.7, 0.97}, pcie_efficiency{0.88, 0.8, 0.9};
  Parameter ramp_us{20, 5, 80};                     ///< how slowly the rate inside a domain rises with size
  Parameter network_ramp_us{150, 40, 300};          ///< the same between domains
  Parameter latency_ratio{1.3, 0.9, 1.8};           ///< floors over NCCL's latency table, inside a domain
  Parameter network_latency_ratio{1.5, 1, 6};       ///< the same for its hops between domains
  bool operator==(const LinkProfile&) const = default;
};

/// Memory bytes that a communication kernel moves per byte on the wire.
struct OverlapProfile {
  Parameter hbm_per_wire_byte{3, 1, 5};
  bool operator==(const OverlapProfile&) const = default;
};

/// Speed under a power limit below the part's own: (limit / TDP)^gamma.
struct PowerProfile {
  Parameter gamma_tensor{0.7, 0.33, 1}, gamma_memory{0.2, 0, 0.3};
  bool operator==(const PowerProfile&) const = default;
};

/// Products of several experts in one kernel.
struct GroupedProfile {
  Parameter efficiency{0.9, 0.5, 1.0};  ///< rate over that of one product with as many tiles
  bool operator==(const GroupedProfile&) const = default;
};

/// One direction of an expert-parallel exchange by kernels written for it: time = latency + max(link, tokens x (token + distinct ranks x copy) x
/// 2 / SMs), where a token and each of its copies cost a pair of SMs (a sending and a receiving one) a time and its bytes over a rate.
struct ExchangeDirection {
  Parameter latency_us{25, 10, 60};
  Parameter token_us{0.2, 0, 1}, token_gb_per_s{100, 5, 1000};
  Parameter copy_us{0.02, 0, 0.1}, copy_gb_per_s{60, 20, 200};
  bool operator==(const ExchangeDirection&) const = default;
};
struct ExchangeProfile {
  ExchangeDirection dispatch, combine;
  Parameter scale_up_efficiency{0.68, 0.6, 0.8};  ///< of the scale-up port, copies to other ranks
  bool operator==(const ExchangeProfile&) const = default;
};

/// What a kernel finds of its predecessor's output in L2.
struct L2Profile {
  Parameter fraction{0.5, 0.3, 0.8};           ///< of L2 that a tensor may fill and still be resident
  Parameter bandwidth_factor{2.3, 1.5, 4};     ///< L2 over device memory bandwidth
  bool operator==(const L2Profile&) const = default;
};

struct Profile {
  std::string name;
  std::string provenance;                              ///< "measured" | "published" | "datasheet"
  std::string gpu, architecture, fabric, nccl_version; ///< what it covers; "": any
  std::vector<std::string> same_part;                  ///< GPUs of the same silicon, as good as `gpu`
  std::map<std::string, GemmProfile> gemm;             ///< by dtype name
  std::map<std::string, StreamProfile> stream;         ///< by StreamKind name
  std::vector<AttentionProfile> attention;
  std::vector<CollectiveCurve> collectives;
  LinkProfile links;
  OverlapProfile overlap;
  PowerProfile power;
  L2Profile l2;
  GroupedProfile grouped;
  ExchangeProfile exchange;
  std::optional<double> expected_error_median, expected_error_p90;  ///< held out
  std::vector<std::string> sources;
  bool operator==(const Profile&) const = default;
};

/// Reads a profile; refuses (all problems at once) efficiencies outside (0, 1], negative times, intervals that miss their value, empty or
/// unordered curves, tiles that are not positive.
Result<Profile> read_profile(const document::Value& profile, const std::string& file, const std::string& pointer);

/// The document that read_profile reads back as this: parameters that equal their defaults are left out.
document::Value to_value(const Profile& profile);
/// The same as text, a parameter on a line.
std::string to_text(const Profile& profile);

/// `over` wins per class: a dtype, a stream kind, an attention (kernel, dim), a collective (kind, algorithm, ranks, nodes, NCCL version), a parameter of
/// links, overlap, power, l2, grouped and exchange that it states. Names and coverage are those of `over`.
Profile merge(Profile base, const Profile& over);

}  // namespace orrery::calibration
