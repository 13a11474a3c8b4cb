#pragma once
// How many tokens each expert gets, and how often a token travels to reach its experts (modelling 1.8 and 6.7).
#include <cstdint>
#include <vector>

#include "orrery/workload/layers.hpp"

namespace orrery::workload {

/// Copies of tokens in one MoE layer and microbatch; a token has one copy per expert that it visits. All sources of a group have as many
/// tokens, and all groups and microbatches the same loads.
struct ExpertTokens {
  std::vector<std::int64_t> local;  ///< rows that each expert of this rank computes, the copies of all etp ranks together
  std::int64_t rows = 0;            ///< their sum
  std::int64_t sent = 0;            ///< copies that this rank sends, those to itself included
  std::int64_t received = 0;        ///< copies that arrive over its expert-parallel group: rows / etp
  std::int64_t busiest = 0;         ///< the most that a rank of the group sends or receives
};
/// tokens: of this rank, before the exchange.
ExpertTokens expert_tokens(const Moe& moe, const Shard& shard, std::int64_t tokens);

/// Copies per expert where `sources` ranks have `tokens` tokens each, nothing dropped: whole numbers that add up to
/// sources x tokens x experts_per_token, none above sources x tokens. Multinomial: the expected order statistics of as many independent
/// tokens, dealt to experts by a fixed shuffle; Zipf: likewise. A histogram is in the experts' order.
std::vector<std::int64_t> expert_loads(const Moe& moe, std::int64_t sources, std::int64_t tokens);

/// Expected number of the `places` (nodes, or ranks) that hold an expert of a token, where experts lie evenly on them and the token chooses
/// `per_token` distinct ones uniformly: N (1 - C(E - E/N, k) / C(E, k)); at most `limit` (0: no limit).
double distinct_places(std::int64_t experts, std::int64_t per_token, std::int64_t places, std::int64_t limit = 0);

}  // namespace orrery::workload
