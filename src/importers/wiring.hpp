#pragma once
// A node's wiring on its way from a file of any format to orrery/node/1.
#include <string>
#include <vector>

#include "orrery/importers/importers.hpp"

namespace orrery::importers {

/// Where one device stands. Numbers of switches, bridges and sockets are the file's; equal is the same.
struct Place {
  int pcie_switch = -1;  ///< -1: on a root port of its own
  int bridge = 0, socket = 0;
};

struct Wiring {
  struct Cable { int a = 0, b = 0, links = 0; };
  std::vector<Place> gpus, nics;
  std::vector<int> switch_parent;  ///< of each switch; -1: on a root port
  bool through_switch = false;     ///< NVLink goes through switches: `links` each; else `cables` join pairs
  int links = 0;
  std::vector<Cable> cables;
  bool nvlink = true;              ///< the cables are NVLink, whose rate the GPU's architecture tells; else the GPU's own port stands
  double nic_gbit_per_s = 0, pcie_gb_per_s = 0, uplink_gb_per_s = 0;  ///< 0: not stated
  std::string cpu_vendor;          ///< "intel", "amd", "arm"; empty: not stated
  double numa_gb_per_s = 0;
  std::string gpu;                 ///< catalogue name
};

/// Writes `document` and adds to `understood` and `taken`. Refuses what orrery/node/1 refuses.
Result<Imported> finish(Imported imported, const Wiring& wiring, const std::string& file, const Options& options);

}  // namespace orrery::importers
