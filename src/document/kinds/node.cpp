// orrery/node/1: GPUs, how they are wired, NICs and host (design 5.3).
#include "document/description.hpp"

namespace orrery::document {

const Type& node_type() {
  static const auto places = [](const char* name, const char* doc) { return member(name, array(integer(0, 1 << 16), 0, 1 << 16), doc); };
  static const Type type = object(document_members("node", true, with_sources({
      member("name", text(), "the maker's name").otherwise(""),
      member("gpu", reference("gpu"), "the device").required(),
      member("gpus", integer(1, 1 << 16), "devices of a node").required(),
      member("scale_up", choice({{"none"}, {"nvswitch"}, {"mesh"}, {"bridge"}, {"pcie"}}), "how the devices are joined: through switches, every pair, pairs with a bridge, or the host's PCIe").required(),
      member("nvswitch_generation", integer(0, 100), "3 and later reduce in the switch").otherwise(0),
      member("scale_up_gb_per_s", number(0, 1e9), "port of a device into the scale-up network").otherwise_text("the GPU's"),
      member("nvlink_domain_nodes", integer(1, 1 << 16), "consecutive nodes that share one scale-up domain").otherwise(1),
      member("nics", integer(0, 1 << 16), "network ports for training traffic").otherwise(0),
      member("nic_gbit_per_s", number(0, 1e9), "line rate of each").otherwise(0),
      member("pcie_switches", integer(0, 1 << 16), "0: every device on its own root port").otherwise(0),
      member("pcie_uplink_gb_per_s", number(0, 1e9), "from one PCIe switch to its root"),
      places("gpu_pcie_switch", "PCIe switch of each GPU"),
      places("nic_pcie_switch", "PCIe switch of each NIC"),
      places("gpu_numa", "NUMA domain of each GPU"),
      places("nic_numa", "NUMA domain of each NIC"),
      member("peer_to_peer", boolean(), "devices reach each other's memory; false: through host memory").otherwise(true),
      member("host_bounce_gb_per_s", number(0, 1e9), "a copy between devices through host memory"),
      member("cpu_vendor", choice({{"intel"}, {"amd"}, {"arm"}, {"ibm"}}), "maker of the host processor"),
      member("host_memory_gib", number(0, 1e9), "memory of the host"),
      member("max_w", number(0, 1e9), "power of a whole node at most"),
  })));
  return type;
}

}  // namespace orrery::document
