// Tokens per expert.
//
// A synchronous step waits for the rank with the most, and a kernel rounds every expert's rows up to whole tiles, so neither can be had
// from a mean. Independent choices make the loads multinomial: with n tokens, q = k/E, each expert has mean n q and variance n q (1 - q), and
// the i-th of E in order is expected near n q + sqrt(n q (1 - q)) z_i, with z_i the normal quantile of (i - 3/8)/(E + 1/4) (Blom 1958). Taking
// the expected order statistics instead of a draw gives the expected imbalance without luck. Which expert gets which is a fixed shuffle.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "orrery/base/assert.hpp"
#include "orrery/base/checked.hpp"
#include "orrery/base/random.hpp"
#include "orrery/workload/experts.hpp"

namespace orrery::workload {
namespace {

/// Which expert has the i-th smallest load.
std::vector<std::size_t> shuffled(std::size_t experts) {
  std::vector<std::size_t> order(experts);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [](std::size_t a, std::size_t b) {
    const std::uint64_t x = random_bits(1, "order of experts", a), y = random_bits(1, "order of experts", b);
    return x != y ? x < y : a < b;
  });
  return order;
}

/// Relative loads, none negative, not all zero.
std::vector<double> weights(const Moe& moe, double tokens) {
  const auto n = static_cast<std::size_t>(moe.experts);
  std::vector<double> w(n, 1.0);
  if (moe.load == ExpertLoad::kHistogram) return moe.histogram;
  if (moe.load == ExpertLoad::kBalanced) return w;
  const std::vector<std::size_t> order = shuffled(n);
  const double q = static_cast<double>(moe.experts_per_token) / static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double rank = static_cast<double>(i) + 1;
    if (moe.load == ExpertLoad::kZipf) {
      w[order[n - 1 - i]] = std::pow(rank, -moe.zipf);
    } else {
      const double z = normal_quantile((rank - 0.375) / (static_cast<double>(n) + 0.25));
      w[order[i]] = std::max(0.0, tokens * q + std::sqrt(tokens * q * (1 - q)) * z);
    }
  }
  return w;
}

/// Whole numbers in proportion to w that add up to `total`, none above `most`: what is above goes to the others in proportion, and the
/// largest remainders are rounded up.
std::vector<std::int64_t> apportion(const std::vector<double>& w, std::int64_t total, std::int64_t most) {
  std::vector<double> share(w.size(), 0.0);
  std::vector<bool> full(w.size(), false);
  double left = static_cast<double>(total);
  for (bool again = true; again;) {
    again = false;
    double sum = 0;
    std::size_t open = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      if (!full[i]) sum += w[i], ++open;
    }
    for (std::size_t i = 0; i < w.size(); ++i) {
      if (full[i]) continue;
      // Where only experts of load zero are left, they share what the full ones cannot take.
      share[i] = sum > 0 ? left * w[i] / sum : left / static_cast<double>(open);
    }
    for (std::size_t i = 0; i < w.size(); ++i) {
      if (full[i] || share[i] <= static_cast<double>(most)) continue;
      share[i] = static_cast<double>(most);
      full[i] = again = true;
    }
    if (!again) break;
    left = static_cast<double>(total);
    for (std::size_t i = 0; i < w.size(); ++i) {
      if (full[i]) left -= share[i];
    }
  }
  std::vector<std::int64_t> out(w.size());
  std::int64_t given = 0;
  for (std::size_t i = 0; i < w.size(); ++i) given += out[i] = static_cast<std::int64_t>(share[i]);
  std::vector<std::size_t> order(w.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return share[a] - std::floor(share[a]) > share[b] - std::floor(share[b]); });
  while (given < total) {
    for (std::size_t i = 0; i < order.size() && given < total; ++i) {
      if (out[order[i]] < most) ++out[order[i]], ++given;
    }
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> expert_loads(const Moe& moe, std::int64_t sources, std::int64_t tokens) {
  ORRERY_ASSERT(moe.experts_per_token <= moe.experts, "read_model has refused more experts per token than there are");
  const std::int64_t all = sources * tokens;
  return apportion(weights(moe, static_cast<double>(all)), all * moe.experts_per_token, all);
}

ExpertTokens expert_tokens(const Moe& moe, const Shard& shard, std::int64_t tokens) {
  const std::int64_t own = moe.experts / shard.ep;
  ExpertTokens t;
  if (moe.load == ExpertLoad::kBalanced) {
    // Every rank gets as many as it sends; a remainder inside it goes to its first experts, so that ranks stay alike.
    t.sent = tokens * moe.experts_per_token;
    for (std::int64_t e = 0; e < own; ++e) t.local.push_back(t.sent / own + (e < t.sent % own ? 1 : 0));
    if (moe.capacity_factor) {
      const auto most = shard.ep * static_cast<std::int64_t>(std::ceil(*moe.capacity_factor * static_cast<double>(t.sent) / static_cast<double>(moe.experts)));
      for (std::int64_t& rows : t.local) rows = std::min(rows, most);
      t.sent = std::accumulate(t.local.begin(), t.local.end(), std::int64_t{0});
    }
    t.received = t.busiest = t.sent;
  } else {
    std::vector<std::int64_t> loads = expert_loads(moe, shard.ep, tokens);
    if (moe.capacity_factor) {
      // Each source drops what is beyond its own share of the capacity (Megatron-LM moe_utils.py, get_capacity).
      const double even = static_cast<double>(tokens * moe.experts_per_token) / static_cast<double>(moe.experts);
      const std::int64_t most = shard.ep * static_cast<std::int64_t>(std::ceil(*moe.capacity_factor * even));
      for (std::int64_t& rows : loads) rows = std::min(rows, most);
    }
    t.sent = ceil_div(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}), shard.ep);
    t.busiest = t.sent;
    for (std::int64_t r = 0; r < shard.ep; ++r) {
      const auto first = loads.begin() + r * own;
      const std::int64_t sum = std::accumulate(first, first + own, std::int64_t{0});
      t.busiest = std::max(t.busiest, sum);
      if (r != shard.ep_rank) continue;
      t.local.assign(first, first + own);
      t.received = sum;
    }
  }
  for (std::int64_t& rows : t.local) rows *= shard.etp;
  t.rows = t.received * shard.etp;
  return t;
}

double distinct_places(std::int64_t experts, std::int64_t per_token, std::int64_t places, std::int64_t limit) {
  // C(E - E/N, k) / C(E, k): the chance that none of k choices falls on one place, as a product so that nothing overflows.
  const double e = static_cast<double>(experts), here = e / static_cast<double>(places);
  double none = 1;
  for (std::int64_t i = 0; i < per_token; ++i) none *= std::max(0.0, (e - here - static_cast<double>(i)) / (e - static_cast<double>(i)));
  const double distinct = static_cast<double>(places) * (1 - none);
  return limit > 0 ? std::min(distinct, static_cast<double>(limit)) : distinct;
}

}  // namespace orrery::workload
