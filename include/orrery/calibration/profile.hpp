#pragma once
// A calibration profile (orrery/profile/1) as values: few parameters with a physical meaning, each with its origin.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orrery/base/origin.hpp"
#include "orrery/base/result.hpp"
#include "orrery/document/value.hpp"

namespace orrery::calibration {

/// A parameter with its 90 % interval and where it comes from.
struct Parameter {
  double value = 0, low = 0, high = 0;
  Origin origin = Origin::kDefault;
};

struct Tile { int m = 0, n = 0, per_sm = 1; double factor = 1; };

/// GEMM by tiles and waves (modelling 1.6 and its corrections), per matmul dtype.
struct GemmProfile {
  Parameter efficiency, wave_overhead_us, launch_us, bandwidth_efficiency, wave_hardness, quantise_us, quantise_bandwidth;
  Parameter layout_nn, layout_nt_accumulate, align_penalty;
  Parameter sustained_floor, sustained_flops;  ///< f_clock: time ratio at long durations, and where it sets in (FLOP)
  std::vector<Tile> tiles;
  int split_k_max = 8;
};
struct StreamProfile { Parameter efficiency; Parameter half_bytes; Parameter launch_us; };
/// modelling 3.3, per kernel ("fa2", "fa3", "cudnn") and head dim.
struct AttentionProfile {
  std::string kernel;
  int dim = 128;
  Parameter forward_tflops, backward_tflops, saturation_causal, saturation_full, fill_exponent, launch_us;
  int query_tile = 128;
};
/// One measured or published curve of a collective (modelling 6.5): time over bytes for n ranks in one domain, or over nodes.
struct CollectiveCurve {
  std::string kind;          ///< "all_reduce", …
  std::string algorithm;     ///< "" any
  int ranks = 0, nodes = 1;
  std::vector<double> bytes, time_us;  ///< ascending; time monotone
  Origin origin = Origin::kPublished;
};
struct LinkProfile {  ///< fitted link efficiencies for extrapolation
  Parameter scale_up_efficiency, nic_efficiency, pcie_efficiency, half_bytes;
};
struct OverlapProfile { Parameter hbm_per_wire_byte; };
struct HostProfile { Parameter kernel_gap_us; };

struct Profile {
  std::string name, provenance, gpu, architecture, fabric, nccl_version;
  std::map<std::string, GemmProfile> gemm;            ///< by dtype name
  std::map<std::string, StreamProfile> stream;        ///< by StreamKind name
  std::vector<AttentionProfile> attention;
  std::vector<CollectiveCurve> collectives;
  LinkProfile links;
  OverlapProfile overlap;
  std::optional<double> expected_error_median, expected_error_p90;
  std::vector<std::string> sources;
};

Result<Profile> read_profile(const document::Value& profile, const std::string& file, const std::string& pointer);

}  // namespace orrery::calibration
