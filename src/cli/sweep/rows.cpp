#include <algorithm>
#include <fmt/format.h>

#include "orrery/search/sweep.hpp"
#include "report/lines.hpp"
#include "sweep.hpp"

namespace orrery::cli {

namespace {

/// "tp" of "parallelism.tp" where no other set ends in it.
std::string short_name(const std::string& path, const document::Value& set) {
  const std::string last = path.substr(path.rfind('.') == std::string::npos ? 0 : path.rfind('.') + 1);
  const auto same = std::count_if(set.members().begin(), set.members().end(), [&](const auto& m) { return m.first == last || m.first.ends_with("." + last); });
  return same == 1 ? last : path;
}

std::string cell(const document::Value& row, std::string_view name, std::string_view format, double scale = 1) {
  const document::Value& v = row.at(name);
  return v.is_number() ? fmt::format(fmt::runtime(format), v.as_double() * scale) : "-";
}

}  // namespace

const document::Value* row_member(const document::Value& row, const std::string& name) {
  if (const document::Value* v = row.find(name)) return v;
  return row.at("set").find(name);
}

bool less_is_better(std::string_view name) {
  return name != "tokens_per_s" && name != "tokens_per_s_per_gpu" && name != "mfu" && name != "model_tflops_per_gpu" && name != "capacity_gib";
}

const std::vector<std::string>& row_numbers() {
  static const std::vector<std::string> names = {"index",  "gpus",      "step_s",       "low_s",     "high_s",         "tokens_per_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu",
                                                 "mfu",    "peak_gib",  "capacity_gib", "compute_s", "exposed_comm_s", "bubble_s",     "j_per_token",          "price_per_million_tokens"};
  return names;
}

std::string rows_table(const std::vector<document::Value>& rows) {
  const bool priced = std::any_of(rows.begin(), rows.end(), [](const document::Value& r) { return r.at("price_per_million_tokens").is_number(); });
  std::string out = fmt::format("{:>7} {:>8} {:>9} {:>5} {:>7} {:>4}{}  {}\n", "point", "step s", "tok/s/GPU", "MFU %", "GiB", "fits", priced ? "   /M tok" : "", "set");
  for (const document::Value& row : rows) {
    const std::string& outcome = row.at("outcome").as_string();
    std::string line = fmt::format("{:>7} {:>8} {:>9} {:>5} {:>7} {:>4}{} ", row.at("index").as_int(), cell(row, "step_s", "{:.4g}"), cell(row, "tokens_per_s_per_gpu", "{:.1f}"),
                                   cell(row, "mfu", "{:.1f}", 100), cell(row, "peak_gib", "{:.1f}"), outcome == "fits" ? "yes" : outcome == "does_not_fit" ? "no" : "-",
                                   priced ? fmt::format(" {:>8}", cell(row, "price_per_million_tokens", "{:.3g}")) : "");
    std::string set;
    for (const auto& [path, value] : row.at("set").members())
      set += fmt::format(" {}={}", short_name(path, row.at("set")), value.is_string() ? value.as_string() : document::dump(value, -1));
    if (line.size() + set.size() <= report::kColumns)
      out += line + set + "\n";
    else
      out += line + "\n" + report::wrapped(set.empty() ? set : set.substr(1), 10, 10);
    const auto& reasons = row.at("reasons").items();
    if (!reasons.empty()) out += report::wrapped(outcome + ": " + search::reason_of(reasons[0].at("pointer").as_string(), reasons[0].at("text").as_string()), 12, 10);
  }
  return out;
}

}  // namespace orrery::cli
