// Latency. NCCL's table has InfiniBand's wire in it (2.8 us one way: DeepSeek-V3 hardware paper, arXiv:2505.09343, table 5). On a slower one every hop
// takes two more crossings, for the receiver posts its buffer before the sender writes (NCCL src/transport/net_ib.cc; aws-ofi-nccl likewise). A hop of
// a tree under LL is 5 us of the table. What that gives beside sweeps that were not fitted to: 4.0 over EFA of p5 instances (fitted 4.9), 6.8 over
// GPUDirect-TCPXO (9), 8.4 over TCP (9.1 on 2 x T4, 5.5 over IPoIB, 7.3 on GH200 without its plugin).
//
// Sockets. One proxy thread of a rank copies between GPU buffers, host buffers and the kernel, sent and received together: 4.0 GB/s on 2 x T4 (aws-do-eks,
// karpenter README), 3.2 over IPoIB (aks-rdma-infiniband, expected-output.md), 3.0 a NIC on GH200 (cscs-docs, nccl.md, the plugin missing). Where GPUs
// share a NIC, a ring enters at one of them and leaves at another, so each thread has one direction only.
//
// Without GPUDirect a GPU gets 14 GB/s each way through host memory, and GPUs that share a NIC 0.47 of it (CCI-MOC/roce-testing, sendrecv over 400 Gb/s with
// one and with four H100 a node). On neither was anything else measured, so the interval is wide.
#include "orrery/calibration/network.hpp"

#include <algorithm>

namespace orrery::calibration {
namespace {

constexpr double kTableWire = 2.8, kTableHop = 5.0;
constexpr double kProxy = 3.5, kStaged = 14, kStagedShare = 0.47;

void lower_to(Parameter& p, double value) {
  if (p.origin != Origin::kDefault || value >= p.value) return;
  p.value = value;
  p.low = std::min(p.low, value / 1.4);
  p.high = std::min(1.0, std::max(value * 1.4, value));
}

}  // namespace

LinkProfile on_network(LinkProfile links, const Network& network) {
  Parameter& ratio = links.network_latency_ratio;
  if (ratio.origin == Origin::kDefault && network.latency_us > kTableWire) {
    const double slower = 2 * (network.latency_us - kTableWire) / kTableHop;
    ratio.value += slower;
    ratio.high = std::max(ratio.high, ratio.value * 1.6);
  }
  if (network.nic_gb_per_s <= 0) return links;
  if (network.sockets) {
    lower_to(links.nic_efficiency, (network.gpus_per_nic > 1 ? kProxy : kProxy / 2) / network.nic_gb_per_s);
  } else if (network.host_staged) {
    const auto sharing = static_cast<double>(std::max<std::int64_t>(1, network.gpus_per_nic));
    lower_to(links.nic_efficiency, std::min(kStagedShare, kStaged * sharing / network.nic_gb_per_s));
  }
  return links;
}

}  // namespace orrery::calibration
