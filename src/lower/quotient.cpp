#include "lower/quotient.hpp"

#include <algorithm>
#include <span>

#include "orrery/base/assert.hpp"

namespace orrery::lower {
namespace {

using engine::kNone;

std::uint32_t class_or_none(const std::vector<std::uint32_t>& class_of, std::uint32_t i) { return i == kNone ? kNone : class_of[i]; }

/// Sums of weights by (activity class, usage set), "cells", for one resource at a time; cleared by what was touched.
class CellSums {
 public:
  explicit CellSums(std::size_t cells) : sum_(cells, 0) {}
  void add(std::uint32_t cell, std::int64_t weight) {
    if (sum_[cell] == 0) touched_.push_back(cell);  // weights are > 0: once each, while only adding
    sum_[cell] += weight;
  }
  void subtract(std::uint32_t cell, std::int64_t weight) {
    if (sum_[cell] == 0) touched_.push_back(cell);
    sum_[cell] -= weight;
  }
  [[nodiscard]] bool all_zero() const {
    return std::all_of(touched_.begin(), touched_.end(), [&](std::uint32_t cell) { return sum_[cell] == 0; });
  }
  [[nodiscard]] std::int64_t operator[](std::uint32_t cell) const { return sum_[cell]; }
  [[nodiscard]] const std::vector<std::uint32_t>& touched() const { return touched_; }
  void clear() {
    for (const std::uint32_t cell : touched_) sum_[cell] = 0;
    touched_.clear();
  }

 private:
  std::vector<std::int64_t> sum_;
  std::vector<std::uint32_t> touched_;
};

/// Numbers the (activity class, usage set) pairs; classes of groups first, then of channels.
struct Cells {
  Cells(const engine::Input& full, const Incidence& incidence, const Classes& classes) {
    const std::vector<std::uint32_t>& groups = classes.groups.lowest;
    const auto all_groups = static_cast<std::uint32_t>(full.groups.size());
    std::vector<std::uint32_t> first;  // by activity class
    for (const std::uint32_t g : groups) {
      first.push_back(count);
      count += incidence.sets(g);
    }
    for (std::size_t c = 0; c < classes.channels.lowest.size(); ++c) {
      first.push_back(count);
      ++count;
    }
    of_activity.reserve(incidence.activities());
    for (std::uint32_t g = 0; g < all_groups; ++g) of_activity.push_back(first[classes.groups.of[g]]);
    for (const std::uint32_t c : classes.channels.of) of_activity.push_back(first[groups.size() + c]);
  }
  [[nodiscard]] std::uint32_t operator()(std::uint32_t activity, std::uint32_t set) const { return of_activity[activity] + set; }

  std::vector<std::uint32_t> of_activity;  // cell of its set 0
  std::uint32_t count = 0;
};

std::vector<engine::UsageRange> make_usages(const Incidence& incidence, const Cells& cells, const std::vector<std::uint32_t>& lowest,
                                            std::vector<engine::Usage>& usages) {
  struct Entry {
    std::uint32_t cell;
    engine::Usage usage;
  };
  std::vector<Entry> entries;
  std::vector<engine::UsageRange> ranges(cells.count);
  CellSums sums(cells.count);
  for (std::uint32_t r = 0; r < lowest.size(); ++r) {
    for (const Crossing& crossing : incidence.column(lowest[r])) sums.add(cells(crossing.activity, crossing.set), crossing.weight);
    for (const std::uint32_t cell : sums.touched()) {
      entries.push_back({cell, {r, sums[cell]}});
      ++ranges[cell].end;
    }
    sums.clear();
  }
  // Counting sort by cell; entries came in ascending order of resource class and stay so within a cell.
  std::uint32_t begin = 0;
  for (engine::UsageRange& range : ranges) {
    const std::uint32_t size = range.end;
    range = {begin, begin};
    begin += size;
  }
  usages.resize(entries.size());
  for (const Entry& entry : entries) usages[ranges[entry.cell].end++] = entry.usage;
  return ranges;
}

void count_members(const std::vector<std::uint32_t>& class_of, auto& items) {
  for (auto& item : items) item.multiplicity = 0;
  for (const std::uint32_t c : class_of) ++items[c].multiplicity;
}

}  // namespace

engine::Input make_quotient(const engine::Input& full, const Incidence& incidence, const Classes& classes) {
  engine::Input quotient;
  quotient.transfers = full.transfers;
  quotient.programs = full.programs;
  quotient.accounts = full.accounts;
  quotient.memory_kinds = full.memory_kinds;
  quotient.run_ahead = full.run_ahead;

  const std::vector<std::uint32_t>& lowest_resource = classes.resources.lowest;
  const Cells cells(full, incidence, classes);
  const std::vector<engine::UsageRange> ranges = make_usages(incidence, cells, lowest_resource, quotient.usages);

  for (const std::uint32_t r : lowest_resource) quotient.resources.push_back(full.resources[r]);
  for (const std::uint32_t r : classes.ranks.lowest) {
    engine::Rank rank = full.ranks[r];
    for (std::uint32_t& g : rank.groups) g = class_or_none(classes.groups.of, g);
    for (std::uint32_t& c : rank.channels) c = class_or_none(classes.channels.of, c);
    quotient.ranks.push_back(std::move(rank));
  }
  for (const std::uint32_t g : classes.groups.lowest) {
    engine::Group group = full.groups[g];
    for (std::uint32_t& member : group.members) member = classes.ranks.of[member];
    std::sort(group.members.begin(), group.members.end());
    group.members.erase(std::unique(group.members.begin(), group.members.end()), group.members.end());
    for (std::uint32_t set = 0; set < group.usage_sets.size(); ++set) group.usage_sets[set] = ranges[cells(g, set)];
    quotient.groups.push_back(std::move(group));
  }
  for (const std::uint32_t c : classes.channels.lowest) {
    engine::Channel channel = full.channels[c];
    channel.sender = classes.ranks.of[channel.sender];
    channel.receiver = classes.ranks.of[channel.receiver];
    channel.usage = ranges[cells(static_cast<std::uint32_t>(full.groups.size()) + c, 0)];
    quotient.channels.push_back(channel);
  }
  count_members(classes.resources.of, quotient.resources);
  count_members(classes.ranks.of, quotient.ranks);
  count_members(classes.groups.of, quotient.groups);
  count_members(classes.channels.of, quotient.channels);
  return quotient;
}

namespace {

void verify_ranks(const engine::Input& full, const Classes& classes, const engine::Input& quotient) {
  std::vector<std::uint32_t> met(quotient.groups.size(), kNone), met_by(quotient.groups.size(), kNone);
  for (std::uint32_t r = 0; r < full.ranks.size(); ++r) {
    const engine::Rank& rank = full.ranks[r];
    const engine::Rank& one = quotient.ranks[classes.ranks.of[r]];
    ORRERY_ASSERT(rank.program == one.program && rank.variant == one.variant, "a rank class has one program and one variant");
    ORRERY_ASSERT(rank.groups.size() == one.groups.size() && rank.channels.size() == one.channels.size(), "equal programs have equal slots");
    for (std::size_t slot = 0; slot < rank.groups.size(); ++slot) {
      const std::uint32_t g = rank.groups[slot];
      const std::uint32_t c = class_or_none(classes.groups.of, g);
      ORRERY_ASSERT(c == one.groups[slot], "a slot of a rank class holds groups of one class");
      if (g == kNone) continue;
      ORRERY_ASSERT(met_by[c] != r || met[c] == g, "different groups of a rank are of different classes");
      met_by[c] = r;
      met[c] = g;
    }
    for (std::size_t slot = 0; slot < rank.channels.size(); ++slot) {
      ORRERY_ASSERT(class_or_none(classes.channels.of, rank.channels[slot]) == one.channels[slot], "a slot of a rank class holds channels of one class");
    }
  }
}

void verify_groups(const engine::Input& full, const Classes& classes, const engine::Input& quotient) {
  std::vector<std::uint32_t> seen_by(quotient.ranks.size(), kNone);
  for (std::uint32_t g = 0; g < full.groups.size(); ++g) {
    const engine::Group& group = full.groups[g];
    const engine::Group& one = quotient.groups[classes.groups.of[g]];
    ORRERY_ASSERT(group.first_transfer == one.first_transfer && group.usage_sets.size() == one.usage_sets.size(), "a group class runs the same transfers");
    std::size_t distinct = 0;
    for (const std::uint32_t member : group.members) {
      const std::uint32_t c = classes.ranks.of[member];
      if (seen_by[c] == g) continue;
      seen_by[c] = g;
      ++distinct;
    }
    bool same = distinct == one.members.size();
    for (const std::uint32_t c : one.members) same = same && seen_by[c] == g;
    ORRERY_ASSERT(same, "groups of a class have members of the same classes");
  }
  for (std::uint32_t c = 0; c < full.channels.size(); ++c) {
    const engine::Channel& channel = full.channels[c];
    const engine::Channel& one = quotient.channels[classes.channels.of[c]];
    ORRERY_ASSERT(channel.first_transfer == one.first_transfer && classes.ranks.of[channel.sender] == one.sender &&
                      classes.ranks.of[channel.receiver] == one.receiver,
                  "channels of a class join the same classes and run the same transfers");
  }
}

/// Every resource of a class carries the weights that the quotient says, of every activity class. Members mostly list them in one order.
void verify_columns(const engine::Input& full, const Incidence& incidence, const Classes& classes, const Cells& cells) {
  const std::vector<std::uint32_t>& lowest = classes.resources.lowest;
  CellSums sums(cells.count);
  for (std::uint32_t r = 0; r < full.resources.size(); ++r) {
    const std::uint32_t one = lowest[classes.resources.of[r]];
    const std::span<const Crossing> mine = incidence.column(r), its = incidence.column(one);
    if (r == one || std::equal(mine.begin(), mine.end(), its.begin(), its.end(), [&](const Crossing& a, const Crossing& b) {
          return a.weight == b.weight && cells(a.activity, a.set) == cells(b.activity, b.set);
        })) {
      continue;
    }
    for (const Crossing& crossing : mine) sums.add(cells(crossing.activity, crossing.set), crossing.weight);
    for (const Crossing& crossing : its) sums.subtract(cells(crossing.activity, crossing.set), crossing.weight);
    ORRERY_ASSERT(sums.all_zero(), "resources of a class carry the same weights of every activity class");
    sums.clear();
  }
}

/// (weights of one activity on a class of resources that can bind) x |activities| = (weight on one resource) x |resources|.
void verify_rows(const engine::Input& full, const Incidence& incidence, const Classes& classes, const engine::Input& quotient) {
  CellSums sums(quotient.resources.size());
  const auto groups = static_cast<std::uint32_t>(full.groups.size());
  std::vector<std::uint32_t> lowest = classes.groups.lowest;
  const std::size_t group_classes = lowest.size();
  for (const std::uint32_t c : classes.channels.lowest) lowest.push_back(groups + c);
  const auto same_place = [&](const engine::Usage& a, const engine::Usage& b) {
    return a.weight == b.weight && classes.resources.of[a.resource] == classes.resources.of[b.resource];
  };
  for (std::uint32_t a = 0; a < incidence.activities(); ++a) {
    const std::size_t c = a < groups ? classes.groups.of[a] : group_classes + classes.channels.of[a - groups];
    for (std::uint32_t set = 0; set < incidence.sets(a); ++set) {
      const std::span<const engine::Usage> mine = incidence.row(a, set), its = incidence.row(lowest[c], set);
      if (a != lowest[c] && std::equal(mine.begin(), mine.end(), its.begin(), its.end(), same_place)) continue;
      for (const engine::Usage& usage : mine) {
        if (!full.resources[usage.resource].passive) sums.add(classes.resources.of[usage.resource], usage.weight);
      }
      const bool is_group = a < groups;
      const engine::UsageRange range = is_group ? quotient.groups[c].usage_sets[set] : quotient.channels[c - group_classes].usage;
      const std::int64_t members = is_group ? quotient.groups[c].multiplicity : quotient.channels[c - group_classes].multiplicity;
      std::size_t met = 0;
      bool same = true;
      for (std::uint32_t i = range.begin; i < range.end; ++i) {
        const engine::Usage& usage = quotient.usages[i];
        const engine::Resource& resource = quotient.resources[usage.resource];
        if (resource.passive) continue;
        ++met;
        same = same && int128{sums[usage.resource]} * members == int128{usage.weight} * resource.multiplicity;
      }
      ORRERY_ASSERT(same && met == sums.touched().size(), "activities of a class put the same weights on every resource class");
      sums.clear();
    }
  }
}

}  // namespace

void verify_quotient(const engine::Input& full, const Incidence& incidence, const Classes& classes, const engine::Input& quotient) {
  verify_ranks(full, classes, quotient);
  verify_groups(full, classes, quotient);
  verify_columns(full, incidence, classes, Cells(full, incidence, classes));
  verify_rows(full, incidence, classes, quotient);
}

}  // namespace orrery::lower
