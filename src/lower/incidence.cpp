#include "lower/incidence.hpp"

namespace orrery::lower {

Incidence::Incidence(const engine::Input& input) : usages_(input.usages), resources_(input.resources.size()) {
  first_set_.reserve(input.groups.size() + input.channels.size() + 1);
  ranges_.reserve(2 * input.groups.size() + input.channels.size());
  for (const engine::Group& group : input.groups) {
    first_set_.push_back(static_cast<std::uint32_t>(ranges_.size()));
    ranges_.insert(ranges_.end(), group.usage_sets.begin(), group.usage_sets.end());
  }
  for (const engine::Channel& channel : input.channels) {
    first_set_.push_back(static_cast<std::uint32_t>(ranges_.size()));
    ranges_.push_back(channel.usage);
  }
  first_set_.push_back(static_cast<std::uint32_t>(ranges_.size()));
}

void Incidence::make_columns() {
  if (!column_.empty()) return;
  // Counting sort by resource: sizes, then places, then entries in row order.
  column_.assign(resources_ + 1, 0);
  for (const engine::UsageRange& range : ranges_) {
    for (std::uint32_t i = range.begin; i < range.end; ++i) ++column_[usages_[i].resource + 1];
  }
  for (std::size_t r = 0; r < resources_; ++r) column_[r + 1] += column_[r];
  crossings_.resize(column_.back());
  std::vector<std::size_t> place(column_.begin(), column_.end() - 1);
  for (std::uint32_t activity = 0; activity < activities(); ++activity) {
    for (std::uint32_t set = 0; set < sets(activity); ++set) {
      for (const engine::Usage& usage : row(activity, set)) crossings_[place[usage.resource]++] = {activity, set, usage.weight};
    }
  }
}

}  // namespace orrery::lower
