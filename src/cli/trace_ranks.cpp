#include "trace_ranks.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>

#include "orrery/base/checked.hpp"
#include "orrery/plan/plan.hpp"

namespace orrery::cli {

namespace {

constexpr std::uint32_t kMostTraced = 4096;

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Result<std::vector<std::uint32_t>> read_ranks(const std::string& list) {
  std::vector<std::uint32_t> ranks;
  for (std::string_view rest = list;;) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dash = std::min(part.find('-'), part.size());
    const auto first = number(part.substr(0, dash)), last = dash == part.size() ? first : number(part.substr(dash + 1));
    if (!first || !last || *last < *first) return fail("", "", fmt::format("--trace-ranks {}: \"{}\" is no rank and no range of ranks", list, part));
    if (*last - *first >= kMostTraced || ranks.size() + (*last - *first + 1) > kMostTraced)
      return fail("", "", fmt::format("--trace-ranks {}: more than {} ranks", list, kMostTraced));
    for (std::uint32_t r = *first;; ++r) {
      ranks.push_back(r);
      if (r == *last) break;
    }
    if (comma == rest.size()) break;
    rest.remove_prefix(comma + 1);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::vector<std::uint32_t> stage_ranks(const document::Value& scenario) {
  const document::Value& in = scenario.at("parallelism");
  const document::Value& cluster = scenario.at("cluster");
  const auto size = [](const document::Value& v, std::int64_t otherwise) { return v.is_int() ? v.as_int() : otherwise; };
  plan::Parallelism p;
  p.tp = size(in.at("tp"), 1);
  p.cp = size(in.at("cp"), 1);
  p.pp = size(in.at("pp"), 1);
  const std::int64_t per_node = size(cluster.at("gpus_per_node"), size(cluster.at("node").at("gpus"), 1));
  const auto all = checked_mul(size(cluster.at("nodes"), 1), per_node);
  const auto plane = checked_mul(p.tp, p.cp);
  const auto replica = plane ? checked_mul(*plane, p.pp) : plane;
  const std::int64_t gpus = size(cluster.at("gpus"), all.value_or(0));
  if (!replica || *replica < 1 || gpus < *replica || gpus % *replica != 0 || p.pp > kMostTraced || gpus > UINT32_MAX) return {0};
  p.dp = gpus / *replica;
  if (!in.at("order").is_null()) {
    const auto order = plan::read_order(in.at("order"));
    if (!order) return {0};
    p.order = *order;
  }
  const plan::Grid grid(p);
  std::vector<std::uint32_t> ranks;
  for (std::int64_t s = 0; s < p.pp; ++s) ranks.push_back(static_cast<std::uint32_t>(grid.rank({.tp = 0, .cp = 0, .dp = 0, .pp = s})));
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace orrery::cli
