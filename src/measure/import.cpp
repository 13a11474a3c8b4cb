#include "orrery/measure/import.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "measure/nccl_json.hpp"
#include "measure/nvbandwidth.hpp"
#include "orrery/document/document.hpp"
#include "orrery/measure/nccl_log.hpp"

namespace orrery::measure {
namespace {

bool is_json(std::string_view text) {
  const std::size_t at = text.find_first_not_of(" \t\r\n");
  return at != std::string_view::npos && text[at] == '{';
}

Result<Imported> import_json(std::string_view text, const std::string& file, const ImportOptions& options) {
  auto value = document::parse(text, file);
  if (!value) return fail(std::move(value.error()));
  if (is_nccl_json(*value)) return import_nccl_json(*value, file, options);
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

/// nccl-tests and rccl-tests head their columns so, whatever else stands around.
bool is_nccl_log(std::string_view text) { return text.find("out-of-place") != std::string_view::npos || (text.find("algbw") != std::string_view::npos && text.find("busbw") != std::string_view::npos); }

Result<Imported> import_nccl_log(std::string_view text, const std::string& file, const ImportOptions& options) {
  auto log = parse_nccl_log(text, file);
  if (!log) return fail(std::move(log.error()));
  Imported out;
  std::string version;
  for (const NcclNote& n : log->notes) out.refused.push_back({file, n.line, n.text});
  for (const NcclTable& t : log->tables) {
    if (version.empty()) version = t.version;
    for (const NcclRow& r : t.rows) {
      std::string why;
      if (t.ranks < 1 || t.ranks > (1 << 24)) why = "the log does not say how many ranks took part";
      else if (r.bytes <= 0) why = "nothing was sent";
      else if (!(r.time_us > 0)) why = "no time was taken";
      if (!why.empty()) {
        out.refused.push_back({file, r.line, why});
        continue;
      }
      calibration::Point p;
      p.kind = calibration::Point::Kind::kCollective;
      p.collective = t.collective;
      p.bytes = r.bytes;
      p.ranks = static_cast<int>(t.ranks);
      p.nodes = static_cast<int>(std::clamp<std::int64_t>(t.nodes, 1, 1 << 24));
      p.context = options.context;
      p.time_us = {r.time_us};
      p.from = fmt::format("{}:{}", file, r.line);
      out.set.points.push_back(std::move(p));
    }
  }
  if (!version.empty()) out.set.environment = {{"nccl", version}};
  if (out.set.points.empty()) return fail(file, "", fmt::format("no row of the log is a measurement; {}", out.refused.empty() ? "" : to_string(out.refused.front())));
  return out;
}

}  // namespace

std::string to_string(const Refused& r) { return r.line == 0 ? fmt::format("{}: {}", r.file, r.text) : fmt::format("{}:{}: {}", r.file, r.line, r.text); }

Result<Imported> import_text(std::string_view text, const std::string& file, const ImportOptions& options) {
  if (is_json(text)) return import_json(text, file, options);
  if (is_nvbandwidth(text)) return import_nvbandwidth(text, file, options);
  if (is_nccl_log(text)) return import_nccl_log(text, file, options);
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
