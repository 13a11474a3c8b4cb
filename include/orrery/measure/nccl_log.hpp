#pragma once
// Logs of nccl-tests and rccl-tests as people have them: every column layout since 2019, prefixes of MPI and Slurm, noise of the launcher between
// the rows, runs one after the other, files cut in the middle of a row.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/result.hpp"

namespace orrery::measure {

/// One size. Times as printed, microseconds; bandwidths GB/s.
struct NcclRow {
  std::size_t line = 0;               ///< from 1
  std::int64_t bytes = 0, count = 0;  ///< bytes 0: nothing was sent; the time is that of a launch
  double time_us = 0, algbw = 0, busbw = 0;  ///< out of place
  std::optional<double> in_place_us;  ///< where the row goes that far
};

/// One sweep over sizes: one collective, data type and reduction, in the order printed. Sizes never decrease.
struct NcclTable {
  std::string collective;    ///< "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "send_recv", or nccl-tests' word for another
  bool collective_named = false;  ///< false: deduced from the columns
  std::string dtype, redop;  ///< "float", "bfloat16", "f8e4m3"; "sum" or empty
  std::string label;         ///< what stands before the size on each row, where something does ("2", "0:")
  std::int64_t ranks = 0;    ///< 0: neither the list of ranks nor the ratio of the columns decides
  std::int64_t nodes = 0;    ///< distinct hosts of a complete list of ranks; 0: unknown
  std::int64_t gpus_per_thread = 1;  ///< nccl-tests -g: whose kernels one thread of the host launches
  std::string gpu;           ///< "NVIDIA H100 80GB HBM3"; empty: not listed
  std::string version;       ///< NCCL's, "2.28.7"; empty: not printed
  std::vector<NcclRow> rows; ///< at least one
};

/// What the log holds that is no measurement though it looks like one.
struct NcclNote {
  std::size_t line = 0;
  std::string text;
  bool operator==(const NcclNote&) const = default;
};

struct NcclLog {
  std::vector<NcclTable> tables;  ///< at least one
  std::vector<NcclNote> notes;    ///< rows cut short, interleaved output: left out, never averaged
};

/// Diagnostics where no table stands in the text, or none that can be trusted.
Result<NcclLog> parse_nccl_log(std::string_view text, const std::string& file);

}  // namespace orrery::measure
