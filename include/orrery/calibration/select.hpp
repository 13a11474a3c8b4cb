#pragma once
// Which profiles a scenario is predicted with.
#include <string>
#include <vector>

#include "orrery/calibration/profile.hpp"

namespace orrery::calibration {

/// The part of a device and fabric that a profile is matched against.
struct Target {
  std::string gpu;           ///< catalogue name, "h100-sxm5-80gb"
  std::string architecture;  ///< "Hopper"
  std::string fabric;        ///< catalogue name; "" where the job has none
  std::string fabric_kind{}; ///< its technology: "efa"
};

struct Selected {
  Profile profile;             ///< merged
  std::vector<Profile> parts;  ///< what was merged and matches more than "any device", best first; for the report
  Diagnostics warnings;
};

/// How well a profile covers a target: -1 not at all; else 4 x GPU (0 any, 1 architecture, 2 part family, 3 the part) + fabric (0 any, 1
/// family or technology, 2 the fabric). A family is a name up to a dash: "h100" of "h100-pcie-80gb", "infiniband-ndr" of "infiniband-ndr-rail".
int match(const Profile& profile, const Target& target);

/// The best of `profiles` last: by match, then provenance (measured, published, datasheet), then name. Those that do not match are dropped.
std::vector<Profile> rank(std::vector<Profile> profiles, const Target& target);

/// member: scenario's "calibration": "default" or null (the shipped profiles that match), a name, a path, an object, or a list of these in
/// which later ones win. What a named profile leaves out comes from the default ones. Warns where nothing but datasheet values matches.
Result<Selected> select(const document::Value& member, const Target& target, const std::string& file, const std::string& base_dir = ".");

}  // namespace orrery::calibration
