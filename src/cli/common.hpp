#pragma once
// Options and outputs that several verbs share.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "orrery/cli/cli.hpp"
#include "orrery/document/document.hpp"
#include "orrery/report/report.hpp"
#include "orrery/search/search.hpp"

namespace orrery::cli {

/// SCENARIO and the options of everything that simulates it.
struct ScenarioOptions {
  std::string scenario;
  std::vector<std::string> sets;  ///< PATH=VALUE, in order
  std::optional<std::int64_t> seed;
  std::vector<std::string> calibration;
  bool fold = true, strict = false;
  std::int64_t max_events = INT64_MAX;

  /// required: whether SCENARIO must be given.
  void define(Arguments& arguments, bool required = true);
  /// --set, then what --seed and --calibration stand for. A diagnostic for what is no PATH=VALUE.
  [[nodiscard]] Result<std::vector<document::Override>> overrides() const;
  [[nodiscard]] simulate::Options options() const;
};
/// "PATH=VALUE" apart.
Result<document::Override> read_set(const std::string& text);

struct OutputOptions {
  std::string json;  ///< FILE or "-"; empty: none
  bool quiet = false;
  std::int64_t threads = 1;

  void define(Arguments& arguments);
  [[nodiscard]] bool json_to_stdout() const { return json == "-"; }
};

/// Whether two names, as options have them, are one regular file, or would be.
bool same_file(const std::string& a, const std::string& b);
/// Prints to out; kBadInput where out does not take it.
int print(Streams& s, const std::string& text);
/// "orrery: TEXT" to err; kBadInput.
int usage_error(Streams& s, const std::string& text);
/// Every problem to err; kBadInput.
int refused(Streams& s, const Diagnostics& problems);
void print_warnings(Streams& s, const OutputOptions& output, const std::vector<metrics::Warning>& warnings, const std::string& file);

/// Writes the JSON where asked, then prints what belongs on stdout; files first, so that a failure leaves stdout empty.
int deliver(Streams& s, const OutputOptions& output, const document::Value& json, const std::string& text);

report::Subject subject(const search::Prediction& prediction);

/// kNo and the reason on err where the answer is no: it does not fit, or --strict refuses what its numbers stand on.
int verdict(Streams& s, const search::Prediction& prediction, bool strict);
/// kNo where a part of the step time stands on datasheet or default numbers, with what and how much on err.
int strict_verdict(Streams& s, const metrics::Summary& summary);

}  // namespace orrery::cli
