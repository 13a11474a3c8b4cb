#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "metrics/parts.hpp"

namespace orrery::metrics {

namespace {

using Key = std::tuple<std::string_view, std::string_view, std::int64_t, std::int64_t, std::string_view>;  ///< in sorting order

Key key_of(const TransferInfo& t) {
  return {collective::to_string(t.kind), workload::to_string(t.axis), t.ranks, t.bytes, collective::to_string(t.algorithm)};
}

struct Sum {
  const TransferInfo* first = nullptr;       ///< names protocol, channels, limit
  std::int64_t count = 0;
  int128 time_ps = 0;                        ///< of all of them
  std::map<std::uint32_t, int128> accounts;  ///< rank time by account
  Origin origin = Origin::kMeasured;
};

}  // namespace

std::vector<CollectiveRow> collective_rows(const std::vector<int128>& totals, const engine::Result& result, const Inputs& inputs) {
  std::map<Key, Sum> sums;
  std::vector<int128> in_flight(totals.size(), 0);  // rank time by account, over all rows
  for (std::size_t t = 0; t < inputs.transfers.size(); ++t) {
    const TransferInfo& info = inputs.transfers[t];
    const engine::TransferResult& ran = result.transfers[t];
    if (ran.count == 0) continue;
    Sum& sum = sums[key_of(info)];
    if (sum.first == nullptr) sum.first = &info;
    sum.count += ran.count;
    sum.time_ps += ran.time_ps;
    sum.origin = weaker(sum.origin, info.origin);
    sum.accounts[info.account] += ran.time_ps * info.ranks;
    in_flight[info.account] += ran.time_ps * info.ranks;
  }
  std::vector<CollectiveRow> rows;
  for (const auto& [key, sum] : sums) {
    const TransferInfo& info = *sum.first;
    CollectiveRow row;
    row.kind = info.kind;
    row.axis = info.axis;
    row.ranks = info.ranks;
    row.bytes = info.bytes;
    row.count = sum.count;
    row.time_s = mean_seconds(sum.time_ps * info.ranks, inputs.gpus);
    for (const auto& [account, time] : sum.accounts) {
      if (inputs.accounts[account].kind != Account::Kind::kComm || in_flight[account] == 0) continue;
      const double share = time == in_flight[account] ? 1 : static_cast<double>(time) / static_cast<double>(in_flight[account]);
      row.exposed_s += mean_seconds(totals[account], inputs.gpus) * share;
    }
    if (sum.time_ps > 0) {
      const double one_s = mean_seconds(sum.time_ps, sum.count);
      row.algbw_gb_per_s = static_cast<double>(info.bytes) / one_s / 1e9;
      row.busbw_gb_per_s = row.algbw_gb_per_s * collective::busbw_factor(info.kind, info.ranks);
    }
    row.algorithm = info.algorithm;
    row.protocol = info.protocol;
    row.channels = info.channels;
    row.limited_by = info.limited_by;
    row.origin = sum.origin;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace orrery::metrics
