// The bounds of design section 2 and the shape that the tables rely on. Programs are verified as such before they are lowered; what is
// found here is a fault of whoever made the input, or a size that a user drove too far.
#include <algorithm>

#include <fmt/format.h>

#include "engine/check.hpp"

namespace orrery::engine {
namespace {

constexpr std::size_t kMostProblems = 20;
constexpr SimTime kLongest = SimTime{1} << 60;  // 13 days for one step of one thing: sums of a few stay in 64 bits

void check_transfers(const Input& in, Problems& problems) {
  for (std::size_t t = 0; t < in.transfers.size(); ++t) {
    const Transfer& x = in.transfers[t];
    const auto bad = [&](std::string_view what) { problems.add("transfer {}: {}", t, what); };
    if (x.latency < 0 || x.latency > kLongest) bad("the latency is not within 0 … 2^60 ps");
    if (x.cap < 0 || x.cap > kMaxCapacity) bad("the cap is not within 0 … 2^50 rate units");
    if (x.work < 0 || (x.work > 0 && x.cap <= 0)) bad("work needs a cap");
    if (x.cap > 0 && x.work > int128{x.cap} * kLongest) bad("it takes longer than 2^60 ps at its cap");
    if (x.account >= in.accounts) bad("there is no such account");
    if (x.reference_bytes < 0 || x.sms < 0 || x.hbm < 0) bad("bytes and footprint are not negative");
    if (x.hbm > kMaxCapacity) bad("the HBM footprint is above 2^50 rate units");
  }
}

bool sound(const Input& in, UsageRange r) { return r.begin <= r.end && r.end <= in.usages.size(); }

/// True where the indices of groups and channels can be followed.
bool check_meetings(const Input& in, Problems& problems) {
  const std::size_t before = problems.count();
  for (std::size_t g = 0; g < in.groups.size(); ++g) {
    const Group& group = in.groups[g];
    if (group.members.empty()) problems.add("group {}: it has no members", g);
    for (std::size_t m = 0; m < group.members.size(); ++m) {
      if (group.members[m] >= in.ranks.size()) problems.add("group {}: there is no rank {}", g, group.members[m]);
      if (m > 0 && group.members[m - 1] >= group.members[m]) problems.add("group {}: members are not in rising order", g);
    }
    for (const UsageRange& r : group.usage_sets) {
      if (!sound(in, r)) problems.add("group {}: a usage set is out of range", g);
    }
    if (group.multiplicity < 1) problems.add("group {}: the multiplicity is below 1", g);
  }
  for (std::size_t c = 0; c < in.channels.size(); ++c) {
    const Channel& channel = in.channels[c];
    if (channel.sender >= in.ranks.size() || channel.receiver >= in.ranks.size()) problems.add("channel {}: there is no such rank", c);
    if (!sound(in, channel.usage)) problems.add("channel {}: the usage set is out of range", c);
    if (channel.multiplicity < 1) problems.add("channel {}: the multiplicity is below 1", c);
  }
  return problems.count() == before;
}

/// Upper bound of the weights in flight on every resource: a group has one collective at a time, a channel its largest batch.
void check_weights(const Input& in, const std::vector<std::uint32_t>& pairs, Problems& problems) {
  std::vector<int128> most(in.resources.size(), 0), largest(in.resources.size(), 0), sum(in.resources.size(), 0);
  std::vector<std::uint32_t> seen;
  for (const Group& group : in.groups) {
    seen.clear();
    for (const UsageRange& range : group.usage_sets) {
      for (std::uint32_t u = range.begin; u < range.end; ++u) sum[in.usages[u].resource] += in.usages[u].weight;
      for (std::uint32_t u = range.begin; u < range.end; ++u) {
        const std::uint32_t r = in.usages[u].resource;
        if (largest[r] == 0) seen.push_back(r);
        largest[r] = std::max(largest[r], sum[r]);
        sum[r] = 0;
      }
    }
    for (const std::uint32_t r : seen) most[r] += largest[r];
    for (const std::uint32_t r : seen) largest[r] = 0;
  }
  for (std::size_t c = 0; c < in.channels.size(); ++c) {
    for (std::uint32_t u = in.channels[c].usage.begin; u < in.channels[c].usage.end; ++u) most[in.usages[u].resource] += int128{in.usages[u].weight} * pairs[c];
  }
  for (std::size_t r = 0; r < in.resources.size(); ++r) {
    if (most[r] > kMaxWeights) problems.add("resource {}: weights in flight may exceed 2^52 units", r);
    if (!in.resources[r].passive && most[r] > (int128{in.resources[r].capacity} << kWeightBits)) {
      problems.add("resource {}: its capacity leaves less than one rate unit for each of the flows that may cross it", r);
    }
  }
}

}  // namespace

void Problems::say(std::string text) {
  ++count_;
  if (list.size() < kMostProblems) list.push_back(std::move(text));
}

std::vector<std::string> check(const Input& in) {
  Problems problems;
  if (in.accounts < 2) problems.add("accounts 0 and 1 are the engine's, and there are {}", in.accounts);
  for (std::size_t r = 0; r < in.resources.size(); ++r) {
    if (in.resources[r].capacity < 1 || in.resources[r].capacity > kMaxCapacity) problems.add("resource {}: the capacity is not within 1 … 2^50 rate units", r);
    if (in.resources[r].multiplicity < 1) problems.add("resource {}: the multiplicity is below 1", r);
  }
  bool usages = true;
  for (std::size_t u = 0; u < in.usages.size(); ++u) {
    const bool good = in.usages[u].resource < in.resources.size() && in.usages[u].weight > 0 && in.usages[u].weight <= kMaxWeights;
    if (!good) problems.add("usage {}: it names no resource, or its weight is not within 1 … 2^52", u);
    usages = usages && good;
  }
  check_transfers(in, problems);
  const bool meetings = check_meetings(in, problems);
  if (!check_programs(in, problems) || !meetings) return problems.list;
  std::vector<std::uint32_t> pairs(in.channels.size(), 0);
  check_ranks(in, pairs, problems);
  if (usages) check_weights(in, pairs, problems);
  return problems.list;
}

}  // namespace orrery::engine
