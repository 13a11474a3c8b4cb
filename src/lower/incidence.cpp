#include "lower/incidence.hpp"

namespace orrery::lower {

Incidence::Incidence(const engine::Input& input) : usages_(input.usages) {
  const std::size_t activities = input.groups.size() + input.channels.size();
  first_set_.reserve(activities + 1);
  for (const engine::Group& group : input.groups) {
    first_set_.push_back(static_cast<std::uint32_t>(ranges_.size()));
    ranges_.insert(ranges_.end(), group.usage_sets.begin(), group.usage_sets.end());
  }
  for (const engine::Channel& channel : input.channels) {
    first_set_.push_back(static_cast<std::uint32_t>(ranges_.size()));
    ranges_.push_back(channel.usage);
  }
  first_set_.push_back(static_cast<std::uint32_t>(ranges_.size()));

  // Counting sort by resource: sizes, then places, then entries in row order.
  column_.assign(input.resources.size() + 1, 0);
  for (const engine::UsageRange& range : ranges_) {
    for (std::uint32_t i = range.begin; i < range.end; ++i) ++column_[usages_[i].resource + 1];
  }
  for (std::size_t r = 0; r < input.resources.size(); ++r) column_[r + 1] += column_[r];
  crossings_.resize(column_.back());
  std::vector<std::size_t> place(column_.begin(), column_.end() - 1);
  for (std::uint32_t activity = 0; activity < activities; ++activity) {
    for (std::uint32_t set = 0; set < sets(activity); ++set) {
      for (const engine::Usage& usage : row(activity, set)) {
        crossings_[place[usage.resource]++] = {activity, set, usage.weight};
      }
    }
  }
}

}  // namespace orrery::lower
