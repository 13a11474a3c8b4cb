#pragma once
// What a network's technology does to collectives where nothing was measured on it.
#include <cstdint>

#include "orrery/calibration/profile.hpp"

namespace orrery::calibration {

struct Network {
  bool sockets = false;         ///< TCP: a proxy thread copies what it sends and receives
  bool host_staged = false;     ///< every message passes through host memory: no GPUDirect RDMA
  double latency_us = 0;        ///< one way, host to host under one leaf
  double nic_gb_per_s = 0;      ///< of one NIC and direction; 0: there is none
  std::int64_t gpus_per_nic = 1;
};

/// The link parameters on this network: those that a profile states stay, defaults become what the technology leaves of them.
LinkProfile on_network(LinkProfile links, const Network& network);

}  // namespace orrery::calibration
