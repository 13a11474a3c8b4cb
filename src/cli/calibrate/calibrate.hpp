#pragma once
// What the verbs of orrery calibrate share: measurements from whatever import reads, a device, a profile, tables of errors.
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/common.hpp"
#include "orrery/cluster/parts.hpp"
#include "orrery/fit/fit.hpp"
#include "orrery/measure/import.hpp"

namespace orrery::cli {

std::unique_ptr<Verb> make_calibrate_score();
std::unique_ptr<Verb> make_calibrate_run();
std::unique_ptr<Verb> make_calibrate_fit();
std::unique_ptr<Verb> make_calibrate_import();
std::unique_ptr<Verb> make_calibrate_show();
std::unique_ptr<Verb> make_calibrate_check();

/// How measurements are read, and what stands in for what they do not say.
struct MeasurementOptions {
  std::vector<std::string> files, columns;
  std::string gpu, context, dtype, kernel, quantise;

  void define(Arguments& arguments, bool positional = true);
  [[nodiscard]] Result<measure::ImportOptions> import_options() const;
  /// All files as one set; what was refused goes to err, at most 20 lines of it.
  Result<calibration::MeasurementSet> read(Streams& s, bool quiet) const;
};

/// A GPU by catalogue name, path or what `otherwise` names. option: what to give where none is known, for the message.
Result<cluster::Gpu> read_gpu(const std::string& name, const std::string& otherwise);
/// A profile by catalogue name or path, alone.
Result<calibration::Profile> read_profile(const std::string& name);

document::Value to_value(const std::vector<fit::ClassError>& classes);
std::string table(const std::vector<fit::ClassError>& classes);
/// "N points were not used" and why, the most frequent reasons first.
std::string unusable_table(const std::vector<fit::Unusable>& unusable);

}  // namespace orrery::cli
