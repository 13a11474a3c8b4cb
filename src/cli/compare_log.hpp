#pragma once
// A log of nccl-tests held against the prediction of its cluster.
#include <optional>
#include <string>
#include <vector>

#include "orrery/measure/nccl_log.hpp"
#include "orrery/search/diagnose.hpp"

namespace orrery::cli {

struct ComparedTable {
  measure::NcclTable measured;
  std::int64_t ranks = 0;
  search::Comparison comparison;
};

struct ComparedLog {
  std::string file;
  std::vector<ComparedTable> tables;  ///< those of the kind asked for, at least one
  std::vector<measure::NcclNote> notes;

  [[nodiscard]] std::vector<simulate::CollectiveRow> predicted() const;
  [[nodiscard]] document::Value json() const;
  [[nodiscard]] std::string text() const;
};

/// ranks, gpus_per_thread: asked for; else the log's; else those of `asked`. Rows of no bytes are left out.
Result<ComparedLog> compare_log(const std::string& file, const simulate::CollectiveQuery& asked, std::optional<std::int64_t> ranks, std::optional<std::int64_t> gpus_per_thread,
                                const search::Variant& variant);

}  // namespace orrery::cli
