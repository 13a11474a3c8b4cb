#include <algorithm>
#include <map>
#include <ostream>

#include <fmt/format.h>

#include "calibrate.hpp"

namespace orrery::cli {

using document::Value;

namespace {
constexpr std::size_t kMostLines = 20;
}

void MeasurementOptions::define(Arguments& arguments, bool positional) {
  if (positional) arguments.positionals("MEASUREMENTS", files, "measurement sets, tables (CSV), logs, or folders of them");
  arguments.text("--gpu", gpu, "the device: a catalogue name or a file", "NAME");
  arguments.text("--context", context, "burst | sustained, where the measurements do not say");
  arguments.text("--dtype", dtype, "type of the operands, where they do not say");
  arguments.text("--kernel", kernel, "attention kernel, where they do not say");
  arguments.text("--quantise", quantise, "none | dynamic: quantisation inside GEMM times, where they do not say");
  arguments.repeated("--column", columns, "our name of a column and the table's", "OURS=THEIRS");
}

Result<measure::ImportOptions> MeasurementOptions::import_options() const {
  measure::ImportOptions o;
  Diagnostics problems;
  if (!context.empty() && context != "burst" && context != "sustained") problems.push_back({"", "", fmt::format("--context {}: accepted are burst, sustained", context)});
  if (!quantise.empty() && quantise != "none" && quantise != "dynamic") problems.push_back({"", "", fmt::format("--quantise {}: accepted are none, dynamic", quantise)});
  if (!dtype.empty() && calibration::dtype_name(dtype).empty()) problems.push_back({"", "", fmt::format("--dtype {}: no type that we know", dtype)});
  for (const std::string& c : columns) {
    const std::size_t equals = c.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == c.size()) problems.push_back({"", "", fmt::format("--column {}: expected OURS=THEIRS", c)});
    else o.columns[c.substr(0, equals)] = c.substr(equals + 1);
  }
  if (!problems.empty()) return fail(std::move(problems));
  o.context = context;
  o.dtype = dtype;
  o.kernel = kernel;
  o.quantise = quantise;
  return o;
}

Result<calibration::MeasurementSet> MeasurementOptions::read(Streams& s, bool quiet) const {
  const auto options = import_options();
  if (!options) return fail(options.error());
  calibration::MeasurementSet all;
  Diagnostics problems;
  std::vector<measure::Refused> lines;
  for (const std::string& file : files) {
    auto one = measure::import_path(file, *options);
    if (!one) {
      problems.insert(problems.end(), one.error().begin(), one.error().end());
      continue;
    }
    lines.insert(lines.end(), one->refused.begin(), one->refused.end());
    if (all.name.empty()) all.name = one->set.name;
    if (!one->set.gpu.empty() && !all.gpu.empty() && one->set.gpu != all.gpu)
      problems.push_back({file, "/gpu", fmt::format("was measured on {}, the sets before it on {}; one profile is of one device", one->set.gpu, all.gpu)});
    if (all.gpu.empty()) all.gpu = one->set.gpu;
    if (all.environment.empty()) all.environment = one->set.environment;
    all.sources.insert(all.sources.end(), one->set.sources.begin(), one->set.sources.end());
    all.points.insert(all.points.end(), std::make_move_iterator(one->set.points.begin()), std::make_move_iterator(one->set.points.end()));
  }
  if (!problems.empty()) return fail(std::move(problems));
  if (!quiet) {
    for (std::size_t i = 0; i < std::min(kMostLines, lines.size()); ++i) s.err << "orrery: refused: " << to_string(lines[i]) << "\n";
    if (lines.size() > kMostLines) s.err << fmt::format("orrery: refused: and {} lines more\n", lines.size() - kMostLines);
  }
  return all;
}

Result<cluster::Gpu> read_gpu(const std::string& name, const std::string& otherwise) {
  const std::string& which = name.empty() ? otherwise : name;
  if (which.empty()) return fail("", "", "the measurements do not say which device they are of: name it with --gpu");
  const auto document = document::load("gpu", Value(which), "--gpu", "", ".");
  if (!document) return fail(document.error());
  return cluster::read_gpu(document->value, which, "");
}

Result<calibration::Profile> read_profile(const std::string& name) {
  const auto document = document::load("profile", Value(name), name, "", ".");
  if (!document) return fail(document.error());
  return calibration::read_profile(document->value, name, "");
}

Value to_value(const std::vector<fit::ClassError>& classes) {
  Value::Array rows;
  for (const fit::ClassError& c : classes)
    rows.push_back(Value::Object{{"class", c.name}, {"points", static_cast<std::int64_t>(c.points)}, {"median_error", c.median}, {"p90_error", c.p90}, {"bias", c.bias}});
  return rows;
}

std::string table(const std::vector<fit::ClassError>& classes) {
  std::size_t width = 5;
  for (const fit::ClassError& c : classes) width = std::max(width, c.name.size());
  std::string text = fmt::format("{:<{}}{:>9}{:>10}{:>9}{:>9}\n", "class", width, "points", "median %", "p90 %", "bias %");
  for (const fit::ClassError& c : classes) text += fmt::format("{:<{}}{:>9}{:>10.1f}{:>9.1f}{:>+9.1f}\n", c.name, width, c.points, 100 * c.median, 100 * c.p90, 100 * c.bias);
  return text;
}

std::string unusable_table(const std::vector<fit::Unusable>& unusable) {
  if (unusable.empty()) return "";
  std::map<std::string, std::pair<std::size_t, std::string>> by;
  for (const fit::Unusable& u : unusable) {
    auto& [count, first] = by[u.reason];
    if (count++ == 0) first = u.from;
  }
  std::vector<std::pair<std::string, std::pair<std::size_t, std::string>>> rows(by.begin(), by.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  std::string text = fmt::format("{} points were not used\n", unusable.size());
  for (std::size_t i = 0; i < std::min(kMostLines, rows.size()); ++i)
    text += fmt::format("  {:>6} x {}, first at {}\n", rows[i].second.first, rows[i].first, rows[i].second.second);
  return text;
}

}  // namespace orrery::cli
