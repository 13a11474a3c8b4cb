#include <algorithm>
#include <map>
#include <tuple>

#include "metrics/parts.hpp"

namespace orrery::metrics {

namespace {
struct Sum {
  std::uint32_t lowest = engine::kNone;
  std::int64_t count = 0;
};
}  // namespace

std::vector<LinkRow> link_rows(const engine::Input& input, const engine::Result& result, const Inputs& inputs) {
  using Key = std::tuple<cluster::LinkKind, double, int128, std::int64_t>;  // kind, capacity, load, peak
  std::map<Key, Sum> sums;
  for (std::size_t r = 0; r < inputs.links.size(); ++r) {
    const LinkInfo& link = inputs.links[r];
    Sum& sum = sums[Key{link.kind, link.capacity.value(), result.resources[r].load, result.resources[r].peak}];
    sum.lowest = std::min(sum.lowest, link.link);
    sum.count += input.resources[r].multiplicity;
  }
  std::vector<LinkRow> rows;
  const double step_s = to_seconds(result.end).value();
  for (const auto& [key, sum] : sums) {
    const auto& [kind, capacity, load, peak] = key;
    LinkRow row;
    row.link = inputs.link_name(sum.lowest);
    row.kind = kind;
    row.count = sum.count;
    row.capacity_gb_per_s = capacity / 1e9;
    if (capacity > 0 && step_s > 0) {
      constexpr double weight_unit = 1.0 / (1 << engine::kWeightBits), rate_unit = kPicosecondsPerSecond / static_cast<double>(std::int64_t{1} << engine::kRateBits);
      row.mean_utilisation = static_cast<double>(load) * weight_unit / (capacity * step_s);
      row.peak_utilisation = static_cast<double>(peak) * rate_unit / capacity;
    }
    rows.push_back(std::move(row));
  }
  std::sort(rows.begin(), rows.end(), [](const LinkRow& a, const LinkRow& b) { return a.link < b.link; });
  return rows;
}

}  // namespace orrery::metrics
