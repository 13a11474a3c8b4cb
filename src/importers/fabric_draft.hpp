#pragma once
// Switches, cables and hosts on their way from a listing to orrery/fabric/1 of topology graph.
#include <map>
#include <string>
#include <vector>

#include "orrery/importers/importers.hpp"

namespace orrery::importers {

struct FabricDraft {
  std::vector<std::string> switches;             ///< names
  std::map<std::pair<int, int>, double> cables;  ///< between two switches, lower first: in line rates
  std::vector<std::string> hosts;
  std::vector<std::vector<int>> host_switch;     ///< by host: of each NIC
  double link_gbit_per_s = 0;                    ///< 0: not stated
  int switch_ports = 0;                          ///< of the largest; 0: not stated
  bool reduces = false;                          ///< switches reduce (SHARP)
};

/// Writes `document`. Refuses what has no hosts, and what orrery/fabric/1 refuses.
Result<Imported> finish_fabric(Imported imported, const FabricDraft& draft, const std::string& file, const Options& options);

}  // namespace orrery::importers
