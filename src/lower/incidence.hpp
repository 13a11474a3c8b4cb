#pragma once
// Who crosses what: the usages of an engine input as a sparse matrix, rows for activities and columns for resources.
// An activity is a group (0 … groups-1) or a channel (groups … groups+channels-1); a group's row depends on the usage set in use.
#include <cstdint>
#include <span>
#include <vector>

#include "orrery/engine/input.hpp"

namespace orrery::lower {

/// One crossing of a resource, seen from the resource.
struct Crossing {
  std::uint32_t activity = 0;
  std::uint32_t set = 0;  ///< usage set of the group; 0 for a channel
  std::int64_t weight = 0;
};

class Incidence {
 public:
  explicit Incidence(const engine::Input& input);
  /// Needed before column(); does nothing the second time.
  void make_columns();

  [[nodiscard]] std::uint32_t activities() const { return static_cast<std::uint32_t>(first_set_.size() - 1); }
  [[nodiscard]] std::uint32_t sets(std::uint32_t activity) const { return first_set_[activity + 1] - first_set_[activity]; }
  [[nodiscard]] std::span<const engine::Usage> row(std::uint32_t activity, std::uint32_t set) const {
    const engine::UsageRange range = ranges_[first_set_[activity] + set];
    return usages_.subspan(range.begin, range.end - range.begin);
  }
  /// Crossings of a resource, in order of activity, then set.
  [[nodiscard]] std::span<const Crossing> column(std::uint32_t resource) const {
    return std::span(crossings_).subspan(column_[resource], column_[resource + 1] - column_[resource]);
  }

 private:
  std::span<const engine::Usage> usages_;
  std::size_t resources_;
  std::vector<std::uint32_t> first_set_;     // by activity, and one past the last: its sets in ranges_
  std::vector<engine::UsageRange> ranges_;
  std::vector<std::size_t> column_;          // by resource, and one past the last: its crossings
  std::vector<Crossing> crossings_;
};

}  // namespace orrery::lower
