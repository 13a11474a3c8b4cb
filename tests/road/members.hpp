#pragma once
// For every member of a scenario, down into model, node, GPU, fabric and stack: another value and the job in which it matters.
#include <string>
#include <vector>

namespace orrery::test {

/// A leaf of the schema is named by its pointer; "-" is any item of an array, and a tagged object's variant stands before its members
/// (/events/-/slow_gpu/speed, /training/recompute/full/layers).
struct MemberCase {
  std::string leaf;
  std::string value;    ///< set on top of `base`, as --set does
  std::string base;     ///< overrides of the small job, "path=value path=value"
  std::string refusal = {};  ///< not empty: the value must be refused with these words instead of changing the report
};
const std::vector<MemberCase>& member_cases();

/// A member that is for people, or that something not built yet will read; why no number of a report depends on it.
struct InformationOnly {
  std::string leaf, value, why, base = "";
};
const std::vector<InformationOnly>& information_only();

/// A member of which only one value is built: any other is refused, in these words.
struct OneValue {
  std::string leaf, other, refusal;
};
const std::vector<OneValue>& one_value_so_far();

}  // namespace orrery::test
