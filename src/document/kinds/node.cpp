// orrery/node/1: GPUs, how they are wired, NICs and host (design 5.3).
#include "document/description.hpp"

namespace orrery::document {

const Type& node_type() {
  static const auto places = [](const char* name, const char* doc) { return member(name, array(integer(0, 1 << 16), 0, 1 << 16), doc); };
  static const Type type = object(document_members("node", true, with_sources({
      member("name", text(), "catalogue name").otherwise(""),
      member("title", text(), "the maker's name").otherwise(""),
      member("gpu", reference("gpu"), "the device").required(),
      member("gpus", integer(1, 4096), "devices of a node").required(),
      member("scale_up_kind", choice({{"none"}, {"nvswitch"}, {"mesh"}, {"bridge"}, {"pcie"}}), "how the devices are joined: through switches, in pairs of a mesh, by a bridge, or over the host's PCIe").required(),
      member("nvswitch_generation", integer(0, 100), "3 and later reduce in the switch").otherwise(0),
      member("scale_up_gb_per_s", number(0, 1e9), "port of a device into the scale-up network").otherwise_text("the GPU's"),
      member("mesh_links", array(array(integer(0, 1 << 16), 3, 3), 0, 1 << 16), "of a mesh: [GPU, GPU, cables]"),
      member("nvlink_domain_nodes", integer(1, 1 << 16), "consecutive nodes that share one scale-up domain").otherwise(1),
      member("nics", integer(0, 4096), "network ports for training traffic").otherwise(0),
      member("nic_gbit_per_s", number(0, 1e9), "line rate of each").otherwise(0),
      member("pcie_switches", integer(0, 4096), "0: every device on its own root port").otherwise(0),
      member("pcie_gb_per_s", number(0, 1e9), "slot of a GPU").otherwise_text("the GPU's"),
      member("pcie_uplink_gb_per_s", number(0, 1e9), "from one PCIe switch to its root").otherwise_text("pcie_gb_per_s"),
      member("pcie_efficiency", positive(1), "payload over line rate on PCIe").otherwise(1),
      places("gpu_pcie_switch", "PCIe switch of each GPU").otherwise_text("even division"),
      places("nic_pcie_switch", "PCIe switch of each NIC").otherwise_text("even division"),
      member("pcie_switch_parent", array(integer(-1, 1 << 16), 0, 1 << 16), "the PCIe switch that each PCIe switch hangs on; -1: a root port").otherwise_text("root ports"),
      places("gpu_host_bridge", "PCIe host bridge of each GPU: what one carries is PHB, several of a socket NODE").otherwise_text("one per socket"),
      places("nic_host_bridge", "PCIe host bridge of each NIC").otherwise_text("one per socket"),
      member("numa_domains", integer(1, 4096), "sockets").otherwise(1),
      places("gpu_numa", "socket of each GPU").otherwise_text("even division"),
      places("nic_numa", "socket of each NIC").otherwise_text("even division"),
      member("numa_gb_per_s", number(0, 1e9), "between two sockets"),
      member("peer_to_peer", boolean(), "devices reach each other's memory; false: through host memory").otherwise(true),
      member("host_bounce_gb_per_s", number(0, 1e9), "a copy between devices through host memory").otherwise_text("PCIe's"),
      member("cpu_vendor", choice({{"intel"}, {"amd"}, {"arm"}, {"ibm"}, {"unknown"}}), "maker of the host processor").otherwise("unknown"),
      member("cpu", text(), "host processor").otherwise(""),
      member("host_memory_gib", number(0, 1e9), "memory of the host"),
      member("host_memory_gb_per_s", number(0, 1e9), "bandwidth of the host's memory, all sockets").otherwise_text("200 per socket, unconfirmed"),
      member("nvme_drives", integer(0, 4096), "local NVMe drives for data"),
      member("nvme_tb", number(0, 1e6), "what they hold together"),
      member("nvme_read_gb_per_s", number(0, 1e6), "what they read together").otherwise_text("6.9 a drive, unconfirmed"),
      member("nvme_write_gb_per_s", number(0, 1e6), "what they write together").otherwise_text("4.2 a drive, unconfirmed"),
      member("c2c_gb_per_s", number(0, 1e9), "coherent link between a GPU and its host processor (NVLink-C2C); null: none, PCIe is the way"),
      member("max_w", number(0, 1e9), "power of a whole node at most"),
  })));
  return type;
}

}  // namespace orrery::document
