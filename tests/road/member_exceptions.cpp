#include "members.hpp"

namespace orrery::test {

const std::vector<InformationOnly>& information_only() {
  static const char* const kProvenance = "whence the numbers come";
  static const char* const kNotes = "remarks";
  static const std::vector<InformationOnly> all = {
      {"/model/sources", R"([{"what":"everything","title":"a page"}])", kProvenance},
      {"/model/notes", R"(["a remark"])", kNotes},
      {"/cluster/node/name", "other", "for people"},
      {"/cluster/node/title", "a box", "for people"},
      {"/cluster/node/cpu", "a processor", "for people; cpu_vendor is what routes read"},
      {"/cluster/node/gpu_host_bridge", "[0,1,2,3,4,5,6,7]", "tells PHB from NODE in words; both cross the socket's own network, which holds nobody up"},
      {"/cluster/node/nic_host_bridge", "[0,1,2,3,4,5,6,7]", "tells PHB from NODE in words; both cross the socket's own network, which holds nobody up"},
      {"/cluster/node/sources", R"([{"what":"everything","title":"a page"}])", kProvenance},
      {"/cluster/node/notes", R"(["a remark"])", kNotes},
      {"/cluster/node/max_w", "5000", "power beside the GPUs, and energy counts the GPUs alone"},
      {"/cluster/node/gpu/title", "a card", "for people"},
      {"/cluster/node/gpu/vendor", "a maker", "for people"},
      {"/cluster/node/gpu/compute_unit", "core", "what sm_count is called"},
      {"/cluster/node/gpu/peak_tflops/int8", "1", "no training precision multiplies in it"},
      {"/cluster/node/gpu/sources", R"([{"what":"everything","title":"a page"}])", kProvenance},
      {"/cluster/node/gpu/notes", R"(["a remark"])", kNotes},
      {"/cluster/fabric/graph/names", R"(["a","b","c"])", "for people", R"(cluster.nodes=2 cluster.fabric=infiniband-ndr cluster.fabric.topology=graph cluster.fabric.graph={"switches":3,"links":[[0,2,1],[1,2,1]],"hosts":[[0],[1]]})"},
      {"/cluster/fabric/graph/host_names", R"(["a","b"])", "for people", R"(cluster.nodes=2 cluster.fabric=infiniband-ndr cluster.fabric.topology=graph cluster.fabric.graph={"switches":3,"links":[[0,2,1],[1,2,1]],"hosts":[[0],[1]]})"},
      {"/cluster/fabric/title", "a network", "for people"},
      {"/cluster/fabric/kind", "roce", "names the technology; what sets it apart is in efficiency, latency, routing and host_staged"},
      {"/cluster/fabric/sources", R"([{"what":"everything","title":"a page"}])", kProvenance},
      {"/cluster/fabric/notes", R"(["a remark"])", kNotes},
      {"/stack/sources", R"([{"what":"everything","title":"a page"}])", kProvenance},
      {"/stack/notes", R"(["a remark"])", kNotes},
      {"/stack/layout/launch_order_serial", "true", "forbids what no program here does: a communication that overtakes the kernels launched before it"},
  };
  return all;
}

const std::vector<OneValue>& one_value_so_far() {
  static const std::vector<OneValue> all = {
      {"/model/family", "spiking", "unknown value \"spiking\"; known are transformer, encoder"},
      {"/training/loss/kind", "mse", "expected \"cross_entropy\""},
  };
  return all;
}

}  // namespace orrery::test
