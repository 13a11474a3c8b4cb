// What a network's technology leaves of the default link parameters.
#include "catch.h"
#include "orrery/calibration/network.hpp"

using namespace orrery;
using namespace orrery::calibration;

TEST_CASE("TCP is copied by one proxy thread a rank, whatever the NIC carries, and twice as fast where each thread has one direction") {
  const LinkProfile alone = on_network({}, {true, true, 20, 12.5, 1});
  CHECK(alone.nic_efficiency.value * 12.5 == Approx(1.75));  // 2.0 on 2 x T4 over 100 Gb/s: aws-do-eks, commit f721602f
  CHECK(on_network({}, {true, true, 20, 25, 8}).nic_efficiency.value * 25 == Approx(3.5));  // 3.2 over IPoIB: aks-rdma-infiniband, commit 700dabb4
  CHECK(on_network({}, {true, true, 20, 1.25, 1}).nic_efficiency == LinkProfile().nic_efficiency);  // 10 Gb/s: the NIC, not the thread
}

TEST_CASE("without GPUDirect a GPU gets 14 GB/s each way, and GPUs on one NIC half of it together") {
  // CCI-MOC/roce-testing, commit 24e67d17: 13.9 GB/s with one H100 a node, 5.85 each with four, 400 Gb/s.
  CHECK(on_network({}, {false, true, 3.6, 50, 1}).nic_efficiency.value * 50 == Approx(14));
  CHECK(on_network({}, {false, true, 3.6, 50, 4}).nic_efficiency.value * 50 / 4 == Approx(5.875));
  CHECK(on_network({}, {false, false, 3.6, 50, 1}).nic_efficiency == LinkProfile().nic_efficiency);
}

TEST_CASE("a wire slower than that of NCCL's table is crossed twice more a hop; a faster one is the profile's to say") {
  const double ratio = LinkProfile().network_latency_ratio.value;
  CHECK(on_network({}, {false, false, 2.8, 50, 1}).network_latency_ratio.value == ratio);
  CHECK(on_network({}, {false, false, 1.8, 50, 1}).network_latency_ratio.value == ratio);
  CHECK(on_network({}, {false, false, 12.8, 50, 1}).network_latency_ratio.value == Approx(ratio + 2 * 10 / 5.0));
}

TEST_CASE("what a profile states of its network stays") {
  LinkProfile stated;
  stated.network_latency_ratio = {4.9, 3.5, 6, Origin::kPublished};
  stated.nic_efficiency = {0.8, 0.7, 0.9, Origin::kMeasured};
  CHECK(on_network(stated, {true, true, 20, 12.5, 1}) == stated);
  LinkProfile low = on_network({}, {true, true, 20, 12.5, 1});
  CHECK(low.nic_efficiency.low <= low.nic_efficiency.value);
  CHECK(low.nic_efficiency.value <= low.nic_efficiency.high);
}
