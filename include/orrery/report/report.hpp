#pragma once
// What a prediction is printed as. One file per format in src/report, one line in its registry; the timeline has a header of its own.
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orrery/document/value.hpp"
#include "orrery/metrics/metrics.hpp"

namespace orrery::report {

/// Everything a report shows. References must outlive it.
struct Subject {
  const metrics::Summary& summary;
  const document::Value& scenario;                                        ///< resolved
  const std::vector<std::pair<std::string, std::string>>& defaults_from;  ///< pointer -> "stack" | "schema" | "derived"
};

/// orrery/report/1 (design 5.4): every member present, null where it cannot be known.
document::Value json(const Subject& subject);

/// The table for a terminal: at most 80 columns, ASCII. bold: a terminal that shows it. Its second line says what the numbers mean.
std::string table(const Subject& subject, bool bold = false);
/// The memory part of it.
std::string memory_table(const Subject& subject);

/// A term of the step of two predictions side by side.
struct Term {
  std::string name;        ///< "gemm", "exposed_comm.tp", "bubble", …
  double baseline_s = 0, changed_s = 0;
  [[nodiscard]] double difference_s() const { return changed_s - baseline_s; }
};
/// What explains the difference of two step times: terms that sum to it, largest change first, ties by name.
std::vector<Term> difference(const metrics::Summary& baseline, const metrics::Summary& changed);

/// A baseline against changed scenarios.
struct Alternative {
  std::string name;
  const Subject* subject = nullptr;  ///< null where it could not be simulated
  Diagnostics problems;              ///< why not
};
document::Value whatif_json(const Subject& baseline, std::span<const Alternative> alternatives);
std::string whatif_table(const Subject& baseline, std::span<const Alternative> alternatives);

/// What a report can be written as; `render` is null where the format is known and not built yet.
struct Format {
  std::string_view name;  ///< "json", "table", "html", "openmetrics"
  std::string (*render)(const Subject& subject) = nullptr;
};
std::span<const Format> formats();

/// The version of Orrery that made a report.
std::string_view version();

}  // namespace orrery::report
