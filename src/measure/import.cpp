#include "orrery/measure/import.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "orrery/document/document.hpp"

namespace orrery::measure {
namespace {

bool is_json(std::string_view text) {
  const std::size_t at = text.find_first_not_of(" \t\r\n");
  return at != std::string_view::npos && text[at] == '{';
}

Result<Imported> import_json(std::string_view text, const std::string& file, const ImportOptions& options) {
  auto value = document::parse(text, file);
  if (!value) return fail(std::move(value.error()));
  auto loaded = document::load("measurements", *value, file, "", ".");
  if (!loaded) return fail(std::move(loaded.error()));
  auto set = calibration::read_measurements(loaded->value, file, "");
  if (!set) return fail(std::move(set.error()));
  for (calibration::Point& p : set->points) {
    if (p.context.empty()) p.context = options.context;
    if (p.kernel.empty()) p.kernel = options.kernel;
    if (p.quantise.empty()) p.quantise = options.quantise;
  }
  if (set->points.empty()) return fail(file, "/points", "holds no measurement");
  return Imported{std::move(*set), {}};
}

}  // namespace

std::string to_string(const Refused& r) { return r.line == 0 ? fmt::format("{}: {}", r.file, r.text) : fmt::format("{}:{}: {}", r.file, r.line, r.text); }

Result<Imported> import_text(std::string_view text, const std::string& file, const ImportOptions& options) {
  if (is_json(text)) return import_json(text, file, options);
  return import_csv(text, file, options);
}

Result<Imported> import_path(const std::string& path, const ImportOptions& options) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> files;
  if (fs::is_directory(path, error)) {
    for (fs::recursive_directory_iterator it(path, error), end; !error && it != end; it.increment(error))
      if (it->is_regular_file(error)) files.push_back(it->path().string());
    std::sort(files.begin(), files.end());
    if (files.empty()) return fail(path, "", "the folder holds no file");
  } else {
    files.push_back(path);
  }
  Imported all;
  Diagnostics problems;
  for (const std::string& file : files) {
    const auto text = document::read_file(file);
    auto one = text ? import_text(*text, file, options) : Result<Imported>(fail(text.error()));
    if (!one) {
      // One file that was asked for is an error; of a folder the others still count.
      if (files.size() == 1) return fail(std::move(one.error()));
      for (const Diagnostic& d : one.error()) all.refused.push_back({d.file, 0, d.pointer.empty() ? d.text : d.pointer + ": " + d.text});
      continue;
    }
    calibration::MeasurementSet& set = one->set;
    if (all.set.gpu.empty()) all.set.gpu = set.gpu;
    if (all.set.environment.empty()) all.set.environment = std::move(set.environment);
    all.set.sources.insert(all.set.sources.end(), set.sources.begin(), set.sources.end());
    all.set.points.insert(all.set.points.end(), std::make_move_iterator(set.points.begin()), std::make_move_iterator(set.points.end()));
    all.refused.insert(all.refused.end(), one->refused.begin(), one->refused.end());
  }
  if (all.set.points.empty()) return fail(path, "", fmt::format("no file of the folder is a measurement; {}", all.refused.empty() ? "" : to_string(all.refused.front())));
  return all;
}

}  // namespace orrery::measure
