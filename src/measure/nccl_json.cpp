// nccl-tests since 2.17 writes a document beside its table: "args", the members of the run, and "results" with a row per size whose "out_of_place" holds
// time (us), alg_bw and bus_bw (src/util.cu of that repository). Members differ by version, so that each is looked for and what is missing follows from
// ratios, as in the logs.
#include "measure/nccl_json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace orrery::measure {
namespace {

using document::Value;

constexpr std::array<std::pair<std::string_view, const char*>, 8> kPrograms = {{{"all_reduce", "all_reduce"}, {"all_gather", "all_gather"}, {"reduce_scatter", "reduce_scatter"}, {"alltoall", "all_to_all"},
                                                                                {"broadcast", "broadcast"}, {"sendrecv", "send_recv"}, {"hypercube", ""}, {"reduce", "reduce"}}};

const Value& first_of(const Value& object, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const Value* found = object.find(name)) return *found;
  return object.at("");
}
double number(const Value& v) { return v.is_number() ? v.as_double() : 0; }

/// The first text anywhere in the run's own members that names a program of nccl-tests.
std::string collective_of(const Value& root) {
  const auto named = [](const Value& v) -> std::string {
    if (!v.is_string()) return "";
    for (const auto& [word, ours] : kPrograms)
      if (v.as_string().find(word) != std::string::npos) return ours;
    return "";
  };
  for (const char* member : {"collective", "operation", "test", "name", "program", "cmd", "args"}) {
    const Value& v = root.at(member);
    if (const std::string found = named(v); !found.empty()) return found;
    if (v.is_array())
      for (const Value& item : v.items())
        if (const std::string found = named(item); !found.empty()) return found;
  }
  return "";
}

}  // namespace

bool is_nccl_json(const Value& value) {
  const Value& rows = value.at("results");
  return rows.is_array() && std::any_of(rows.items().begin(), rows.items().end(), [](const Value& r) { return r.find("out_of_place") != nullptr; });
}

Result<Imported> import_nccl_json(const Value& root, const std::string& file, const ImportOptions& options) {
  Imported out;
  const std::string collective = collective_of(root);
  if (collective.empty()) return fail(file, "/args", "does not say which collective was run");
  std::int64_t listed = 0, nodes = 1;
  if (const Value& ranks = first_of(root, {"ranks", "devices"}); ranks.is_array()) {
    std::set<std::string> hosts;
    for (const Value& r : ranks.items())
      if (const Value& host = first_of(r, {"hostname", "host"}); host.is_string()) hosts.insert(host.as_string());
    listed = static_cast<std::int64_t>(ranks.items().size());
    nodes = std::max<std::int64_t>(1, static_cast<std::int64_t>(hosts.size()));
  } else if (const Value& count = first_of(root, {"nranks", "n_ranks", "ranks", "total_ranks"}); count.is_int()) {
    listed = count.as_int();
  }
  if (const Value& version = first_of(root, {"nccl_version", "nccl_version_string"}); version.is_string()) out.set.environment = {{"nccl", version.as_string()}};
  else if (version.is_int() && version.as_int() > 0) out.set.environment = {{"nccl", fmt::format("{}.{}.{}", version.as_int() / 10000, version.as_int() % 10000 / 100, version.as_int() % 100)}};
  const Value::Array& rows = root.at("results").items();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Value& r = rows[i];
    const std::string pointer = fmt::format("/results/{}", i);
    const Value& result = r.at("out_of_place");
    const double bytes = number(first_of(r, {"size", "bytes"})), time = number(first_of(result, {"time", "time_us"}));
    const double algbw = number(first_of(result, {"alg_bw", "algbw"})), busbw = number(first_of(result, {"bus_bw", "busbw"}));
    // bus / algorithm bandwidth is 2 (n-1)/n of an all-reduce and (n-1)/n of what splits its array (nccl-tests PERFORMANCE.md).
    std::int64_t ranks = listed;
    const double share = collective == "all_reduce" ? busbw / algbw / 2 : busbw / algbw;
    if (ranks == 0 && collective != "broadcast" && collective != "reduce" && collective != "send_recv" && share > 0 && share < 1 - 1e-6) ranks = std::llround(1 / (1 - share));
    const char* why = !(bytes >= 1 && bytes < 9e18) ? "nothing was sent" : !(time > 0 && time < 1e15) ? "no time was taken" : ranks < 1 || ranks > (1 << 24) ? "it does not say how many ranks took part" : "";
    if (*why != '\0') {
      out.refused.push_back({file, 0, fmt::format("{}: {}", pointer, why)});
      continue;
    }
    calibration::Point p;
    p.kind = calibration::Point::Kind::kCollective;
    p.collective = collective;
    p.bytes = static_cast<std::int64_t>(bytes);
    p.ranks = static_cast<int>(ranks);
    p.nodes = static_cast<int>(std::clamp<std::int64_t>(nodes, 1, 1 << 24));
    p.context = options.context;
    p.time_us = {time};
    p.from = file + pointer;
    out.set.points.push_back(std::move(p));
  }
  if (out.set.points.empty()) return fail(file, "/results", fmt::format("no row is a measurement; {}", out.refused.empty() ? "" : out.refused.front().text));
  return out;
}

}  // namespace orrery::measure
