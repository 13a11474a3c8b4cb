// Which resources can never bind, whatever is in flight.
//
// A resource binds only if the weights x rates of what crosses it reach its capacity, and no rate exceeds its cap. So it never decides a
// rate where the sum of weight x cap over everything that can be in flight together is within capacity x 2^24. (At equality its level is
// the weighted mean of the caps of the unfrozen, at least the least of them; it is the least level only where all of those caps are equal
// to it, and then the caps freeze the same activities at the same rate.)
//
// What can be in flight together: a stream holds one instruction at a time. A collective in flight occupies one stream of each of its
// members, a pair of a batch one stream of its sender and one of its receiver; so each may be charged to any one of those (rank, stream)
// that it occupies, and a (rank, stream) counts only the largest of what is charged to it. Any choice of whom to charge gives an upper
// bound. Choices that do not depend on how ranks are numbered keep alike resources alike, for folding:
//  * pairs: all to the senders, or all to the receivers, whichever is less. A batch counts as the sum of its pairs, all at once.
//  * collectives: a group by itself, to its lowest member's streams; two streams that use it (reduce-scatter and all-gather) add.
//  * where that is too much: collectives of all groups that meet in one rank of the resource's smallest group are charged to that rank,
//    so that groups sharing a stream there exclude one another; the others as before.
// The cost is one pass over the usages for each stream that uses them. Where a stream has one thing to run there is nothing to choose the
// largest of, and where no stream has a choice of batches, senders and receivers are charged the same and one of the two is enough.
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "lower/incidence.hpp"
#include "orrery/lower/fold.hpp"

namespace orrery::lower {
namespace {

using engine::kNone;
using engine::kWeightBits;

/// Largest cap with which a stream of a program runs a usage set of the group in some slot.
struct Use {
  std::uint32_t stream = 0, set = 0;
  std::int64_t cap = 0;
};
/// Sends (or receives) of one batch over one channel slot.
struct Ends {
  std::uint32_t channel_slot = 0;
  std::vector<std::uint32_t> transfers;
  auto operator<=>(const Ends&) const = default;
};
struct Stream {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> collectives;  // distinct (group slot, transfer), ascending
  std::vector<std::vector<Ends>> sends, receives;                    // of distinct batches
};

template <class T>
void make_distinct(std::vector<T>& items) {
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
}

std::vector<Ends> ends_of(const std::vector<engine::PointToPoint>& batch, bool send) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> by_slot;
  for (const engine::PointToPoint& p : batch) {
    if (p.send == send) by_slot[p.channel_slot].push_back(p.transfer);
  }
  std::vector<Ends> ends;
  for (auto& [slot, transfers] : by_slot) {
    std::sort(transfers.begin(), transfers.end());
    ends.push_back({slot, std::move(transfers)});
  }
  return ends;
}

std::vector<Stream> streams_of(const engine::Program& program) {
  std::vector<Stream> streams(program.streams.size());
  for (std::size_t s = 0; s < streams.size(); ++s) {
    std::vector<std::uint32_t> collectives, batches;
    for (const engine::Instruction& instruction : program.streams[s]) {
      if (instruction.op == engine::Op::kCollective) collectives.push_back(instruction.index);
      if (instruction.op == engine::Op::kBatch) batches.push_back(instruction.index);
    }
    make_distinct(collectives);
    make_distinct(batches);
    for (const std::uint32_t i : collectives) streams[s].collectives.emplace_back(program.collectives[i].group_slot, program.collectives[i].transfer);
    for (const std::uint32_t i : batches) {
      streams[s].sends.push_back(ends_of(program.batches[i], true));
      streams[s].receives.push_back(ends_of(program.batches[i], false));
    }
    make_distinct(streams[s].collectives);
    make_distinct(streams[s].sends);
    make_distinct(streams[s].receives);
  }
  return streams;
}

/// The largest of several alternatives per resource, each alternative a sum; added to a total when they are over.
class Largest {
 public:
  explicit Largest(std::size_t resources) : resources_(resources) {}
  void add(std::uint32_t resource, int128 amount) {
    if (sum_.empty()) {
      sum_.assign(resources_, 0);
      most_.assign(resources_, 0);
    }
    if (sum_[resource] == 0) in_sum_.push_back(resource);
    sum_[resource] += amount;
  }
  void end_alternative() {
    for (const std::uint32_t r : in_sum_) {
      if (most_[r] == 0) in_most_.push_back(r);
      most_[r] = std::max(most_[r], sum_[r]);
      sum_[r] = 0;
    }
    in_sum_.clear();
  }
  /// most: if not null, also raised to the largest.
  void add_to(std::vector<int128>& total, std::vector<int128>* most) {
    for (const std::uint32_t r : in_most_) {
      total[r] += most_[r];
      if (most != nullptr) (*most)[r] = std::max((*most)[r], most_[r]);
      most_[r] = 0;
    }
    in_most_.clear();
  }

 private:
  std::size_t resources_;
  std::vector<int128> sum_, most_;  // by resource, from the first alternative on
  std::vector<std::uint32_t> in_sum_, in_most_;
};

class FreeResources {
 public:
  explicit FreeResources(const engine::Input& input) : input_(input), incidence_(input), largest_(input.resources.size()) {
    for (const engine::Program& program : input.programs) streams_.push_back(streams_of(program));
  }

  std::vector<bool> find() {
    std::vector<int128> largest_group(input_.resources.size(), 0);
    const std::vector<int128> groups = group_bounds(largest_group);
    std::vector<int128> pairs = pair_bounds(true);
    if (batches_alternate()) {
      const std::vector<int128> receives = pair_bounds(false);
      for (std::size_t r = 0; r < pairs.size(); ++r) pairs[r] = std::min(pairs[r], receives[r]);
    }
    std::vector<bool> free(input_.resources.size());
    for (std::uint32_t r = 0; r < free.size(); ++r) {
      const int128 room = (int128{input_.resources[r].capacity} << kWeightBits) - pairs[r];
      free[r] = groups[r] <= room || (largest_group[r] > 0 && largest_group[r] <= room && bound_at_home(r) <= room);
    }
    return free;
  }

 private:
  /// Uses of the group in a rank's slot, by stream, then set.
  const std::vector<Use>& uses(const engine::Rank& rank, std::uint32_t slot, std::uint32_t first_transfer) {
    auto [found, is_new] = uses_.try_emplace({rank.program, slot, first_transfer});
    if (is_new) {
      const std::vector<Stream>& streams = streams_[rank.program];
      for (std::uint32_t s = 0; s < streams.size(); ++s) {
        std::map<std::uint32_t, std::int64_t> cap_of_set;
        for (const auto& [group_slot, offset] : streams[s].collectives) {
          if (group_slot != slot) continue;
          const engine::Transfer& transfer = input_.transfers[first_transfer + offset];
          if (transfer.work > 0) cap_of_set[transfer.usage_set] = std::max(cap_of_set[transfer.usage_set], transfer.cap);
        }
        for (const auto& [set, cap] : cap_of_set) found->second.push_back({s, set, cap});
      }
    }
    return found->second;
  }

  /// Calls visit(use) for every use of group g by rank r, in ascending order of stream within a slot.
  template <class Visit>
  void each_use(std::uint32_t r, std::uint32_t g, const Visit& visit) {
    const engine::Rank& rank = input_.ranks[r];
    for (std::uint32_t slot = 0; slot < rank.groups.size(); ++slot) {
      if (rank.groups[slot] != g) continue;
      for (const Use& use : uses(rank, slot, input_.groups[g].first_transfer)) visit(use);
    }
  }

  /// Calls visit(resource, weight x cap) for every usage; neighbours are mostly alike.
  template <class Visit>
  void each_amount(std::uint32_t activity, std::uint32_t set, std::int64_t cap, const Visit& visit) const {
    std::int64_t weight = 0;
    int128 amount = 0;
    for (const engine::Usage& usage : incidence_.row(activity, set)) {
      if (usage.weight != weight) {
        weight = usage.weight;
        amount = int128{weight} * cap;
      }
      visit(usage.resource, amount);
    }
  }

  /// Also the largest amount of a single group on a single stream, which no choice of ranks can go below.
  std::vector<int128> group_bounds(std::vector<int128>& largest_group) {
    std::vector<int128> total(input_.resources.size(), 0);
    std::vector<Use> here;
    for (std::uint32_t g = 0; g < input_.groups.size(); ++g) {
      here.clear();
      each_use(input_.groups[g].members.front(), g, [&](const Use& use) { here.push_back(use); });
      for (std::size_t i = 0; i < here.size();) {
        std::size_t end = i + 1;
        while (end < here.size() && here[end].stream == here[i].stream) ++end;
        if (end == i + 1) {  // no alternatives: straight into the total
          each_amount(g, here[i].set, here[i].cap, [&](std::uint32_t resource, int128 amount) {
            total[resource] += amount;
            largest_group[resource] = std::max(largest_group[resource], amount);
          });
        } else {
          for (std::size_t use = i; use < end; ++use) {
            each_amount(g, here[use].set, here[use].cap, [&](std::uint32_t resource, int128 amount) { largest_.add(resource, amount); });
            largest_.end_alternative();
          }
          largest_.add_to(total, &largest_group);
        }
        i = end;
      }
    }
    return total;
  }

  /// Whether what is in flight on some channel depends on the batch, so that the senders' bound and the receivers' may differ.
  [[nodiscard]] bool batches_alternate() const {
    const auto choice = [](const std::vector<std::vector<Ends>>& batches) {
      return batches.size() > 1 || (!batches.empty() && std::any_of(batches.front().begin(), batches.front().end(), [](const Ends& e) { return e.transfers.size() > 1; }));
    };
    for (const std::vector<Stream>& program : streams_) {
      for (const Stream& stream : program) {
        if (choice(stream.sends) || choice(stream.receives)) return true;
      }
    }
    return false;
  }

  std::vector<int128> pair_bounds(bool send) {
    std::vector<int128> total(input_.resources.size(), 0);
    for (const engine::Rank& rank : input_.ranks) {
      for (const Stream& stream : streams_[rank.program]) {
        const std::vector<std::vector<Ends>>& batches = send ? stream.sends : stream.receives;
        if (batches.size() == 1) {  // no alternatives: straight into the total
          each_pair_usage(rank, batches.front(), [&](std::uint32_t resource, int128 amount) { total[resource] += amount; });
          continue;
        }
        for (const std::vector<Ends>& batch : batches) {
          each_pair_usage(rank, batch, [&](std::uint32_t resource, int128 amount) { largest_.add(resource, amount); });
          largest_.end_alternative();
        }
        largest_.add_to(total, nullptr);
      }
    }
    return total;
  }
  template <class Visit>
  void each_pair_usage(const engine::Rank& rank, const std::vector<Ends>& batch, const Visit& visit) const {
    const auto groups = static_cast<std::uint32_t>(input_.groups.size());
    for (const Ends& ends : batch) {
      const std::uint32_t c = rank.channels[ends.channel_slot];
      for (const std::uint32_t offset : ends.transfers) {
        const engine::Transfer& transfer = input_.transfers[input_.channels[c].first_transfer + offset];
        if (transfer.work == 0) continue;
        each_amount(groups + c, 0, transfer.cap, visit);
      }
    }
  }

  /// One group's alternatives on one resource: for a (stream, set), weight x cap.
  struct Charge {
    std::uint32_t group, stream;
    int128 amount;
  };
  void charge(std::uint32_t rank, std::uint32_t resource, std::uint32_t group, std::vector<Charge>& charges) {
    each_use(rank, group, [&](const Use& use) {
      int128 weight = 0;
      for (const Crossing& crossing : incidence_.column(resource)) {
        if (crossing.activity == group && crossing.set == use.set) weight += crossing.weight;
      }
      if (weight > 0) charges.push_back({group, use.stream, weight * use.cap});
    });
  }
  static int128 sum_of_largest(std::vector<Charge>& charges, bool by_group) {
    std::sort(charges.begin(), charges.end(), [&](const Charge& a, const Charge& b) {
      if (by_group && a.group != b.group) return a.group < b.group;
      if (a.stream != b.stream) return a.stream < b.stream;
      return a.amount > b.amount;
    });
    int128 sum = 0;
    for (std::size_t i = 0; i < charges.size(); ++i) {
      const bool first = i == 0 || charges[i].stream != charges[i - 1].stream || (by_group && charges[i].group != charges[i - 1].group);
      if (first) sum += charges[i].amount;
    }
    charges.clear();
    return sum;
  }

  /// Collectives only, with groups that share a rank charged to it. The rank is of the smallest group, the one in most of the groups;
  /// among equals that of the lowest program. Looked for only where groups and crossings are few: the search costs their product.
  int128 bound_at_home(std::uint32_t resource) {
    constexpr std::size_t kMaxMembers = 16, kMaxCrossings = 64;
    const int128 no_bound = int128{1} << 126;
    incidence_.make_columns();
    if (incidence_.column(resource).size() > kMaxCrossings) return no_bound;
    groups_here_.clear();
    for (const Crossing& crossing : incidence_.column(resource)) {
      if (crossing.activity < input_.groups.size()) groups_here_.push_back(crossing.activity);
    }
    make_distinct(groups_here_);
    const std::uint32_t smallest = *std::min_element(groups_here_.begin(), groups_here_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return input_.groups[a].members.size() < input_.groups[b].members.size();
    });
    if (groups_here_.size() < 2 || input_.groups[smallest].members.size() > kMaxMembers) return no_bound;

    const auto is_member = [&](std::uint32_t rank, std::uint32_t group) {
      const auto& mine = input_.ranks[rank].groups;
      return std::find(mine.begin(), mine.end(), group) != mine.end();
    };
    std::uint32_t home = kNone;
    std::tuple<std::size_t, std::uint32_t> best;  // groups without it, program
    for (const std::uint32_t rank : input_.groups[smallest].members) {
      std::size_t without = 0;
      for (const std::uint32_t group : groups_here_) without += is_member(rank, group) ? 0U : 1U;
      const std::tuple<std::size_t, std::uint32_t> merit{without, input_.ranks[rank].program};
      if (home == kNone || merit < best) {
        home = rank;
        best = merit;
      }
    }
    std::vector<Charge>& charges = charges_;
    for (const std::uint32_t group : groups_here_) {
      if (is_member(home, group)) charge(home, resource, group, charges);
    }
    int128 bound = sum_of_largest(charges, false);
    for (const std::uint32_t group : groups_here_) {
      if (!is_member(home, group)) charge(input_.groups[group].members.front(), resource, group, charges);
    }
    return bound + sum_of_largest(charges, true);
  }

  const engine::Input& input_;
  Incidence incidence_;
  Largest largest_;
  std::vector<std::vector<Stream>> streams_;  // by program
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::vector<Use>> uses_;
  std::vector<std::uint32_t> groups_here_;
  std::vector<Charge> charges_;
};

}  // namespace

void drop_free_resources(engine::Input& input) {
  const std::vector<bool> free = FreeResources(input).find();
  for (std::size_t r = 0; r < free.size(); ++r) input.resources[r].passive = free[r];
}

}  // namespace orrery::lower
