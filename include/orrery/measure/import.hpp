#pragma once
// What people already have, as measurements: tables of times, logs of benchmarks. A line that cannot be read is refused with its number; the rest counts.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/calibration/measurements.hpp"

namespace orrery::measure {

struct ImportOptions {
  std::map<std::string, std::string> columns;  ///< our name of a column -> the table's
  std::string context;                         ///< burst | sustained, where the file does not say
  std::string dtype, kernel;                   ///< the same, of operands and of the attention kernel
  std::string quantise;                        ///< none | dynamic, the same
};

/// A line, or a member of a JSON document, that is no measurement.
struct Refused {
  std::string file;
  std::size_t line = 0;   ///< from 1; 0: the whole file
  std::string text;
  bool operator==(const Refused&) const = default;
};
std::string to_string(const Refused& r);

struct Imported {
  calibration::MeasurementSet set;
  std::vector<Refused> refused;
};

/// One file's text. A diagnostic where nothing of it is a measurement.
Result<Imported> import_text(std::string_view text, const std::string& file, const ImportOptions& options);
/// A file, or every regular file below a folder, in the order of their names.
Result<Imported> import_path(const std::string& path, const ImportOptions& options);

/// A table with a heading: m, n, k and a time; or seq, heads, head_dim and a time; or stream and bytes; or collective, bytes and ranks.
/// Comma, semicolon or tab between cells; "quoted" cells; lines that start with # say nothing.
Result<Imported> import_csv(std::string_view text, const std::string& file, const ImportOptions& options);

}  // namespace orrery::measure
