#pragma once
// Measurements (orrery/measurements/1) as values: what was run, every repetition's time, and where it ran.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orrery/base/result.hpp"
#include "orrery/document/value.hpp"

namespace orrery::calibration {

/// One thing that was run. Members that its kind does not use keep their defaults.
struct Point {
  enum class Kind : std::uint8_t { kGemm, kAttention, kStream, kCollective };
  Kind kind = Kind::kGemm;
  std::string dtype = "bf16";              ///< "bf16", …; "fp8_block": fp8 with a scale per block
  // gemm: D[m,n] (+)= A[m,k] B[k,n], batch times
  std::int64_t m = 0, n = 0, k = 0;
  std::string layout = "tn";               ///< tn | nn | nt
  bool accumulate = false;
  std::string quantise;                    ///< none | dynamic: the activation's quantisation inside the time; "": not stated
  // attention (and batch of a gemm)
  std::int64_t batch = 1, seq_q = 0, seq_kv = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool causal = true, backward = false;
  std::string kernel;                      ///< "fa2", "fa3", "cudnn", …; "": not stated
  // stream
  std::string stream;                      ///< copy | elementwise | norm | …
  std::int64_t read_bytes = 0, write_bytes = 0;
  // collective
  std::string collective, algorithm;       ///< "all_reduce", …; as the library calls it
  std::int64_t bytes = 0;                  ///< as nccl-tests counts them
  int ranks = 0, nodes = 1;

  std::string context;                     ///< burst | sustained; "": not stated
  std::vector<double> time_us;             ///< of every repetition
  std::optional<double> power_w, clock_mhz, temperature_c;
  std::string throttle;                    ///< reasons that the device gave
  std::string from;                        ///< file and line, or pointer
  bool operator==(const Point&) const = default;
};

struct MeasurementSet {
  std::string name, gpu;                                          ///< catalogue name of the device; "": not stated
  std::vector<std::pair<std::string, std::string>> environment;   ///< driver, cuda, cublas, nccl, clocks, date, …
  std::vector<std::string> sources;
  std::vector<Point> points;
  bool operator==(const MeasurementSet&) const = default;
};

/// "bf16" of "bfloat16", "half", …: the names that frameworks use. "" where it is none that we know.
std::string dtype_name(std::string_view text);
const std::vector<std::string>& dtype_names();

/// Reads a document that passed its description. Refuses (all problems at once) points that leave out what their kind needs, and times that are
/// not positive.
Result<MeasurementSet> read_measurements(const document::Value& set, const std::string& file, const std::string& pointer);
document::Value to_value(const MeasurementSet& set);

/// Median of the repetitions. Requires one at least.
double median_us(const Point& p);
/// "gemm/bf16", "attention/fa3", "stream/copy", "collective/all_reduce".
std::string class_of(const Point& p);
/// What was run, without its times: equal keys are repetitions of one thing. "gemm bf16 tn 4096x4096x4096", …
std::string key_of(const Point& p);
/// The class's larger part: m, n, k >= 128; 1,024 tokens; 1 MiB.
bool is_large(const Point& p);

}  // namespace orrery::calibration
