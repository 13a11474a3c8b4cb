// Topologies as machines print them. The matrices have the shape of servers that people posted: DGX-1's cube mesh, an HGX board with two NICs a switch,
// a bridged pair, a host with two host bridges; listings and topology.conf are written after the manuals of infiniband-diags and Slurm.
#include "catch.h"
#include "orrery/cluster/cluster.hpp"
#include "orrery/document/document.hpp"
#include "orrery/importers/importers.hpp"

using namespace orrery;
using namespace orrery::importers;
using cluster::Path;
using cluster::PathClass;

namespace {

Imported read(const std::string& text, const Options& options = {}) {
  auto i = import_topology(text, "topo.txt", options);
  INFO((i ? std::string() : to_string(i.error().front())));
  REQUIRE(i);
  return *std::move(i);
}
std::string refusal(const std::string& text) {
  const auto i = import_topology(text, "topo.txt", {});
  REQUIRE_FALSE(i);
  return to_string(i.error().front());
}
cluster::Node node_of(const Imported& i) {
  const auto resolved = document::load("node", i.document, "topo.txt", "", "");
  REQUIRE(resolved);
  auto node = cluster::read_node(resolved->value, "topo.txt", "");
  REQUIRE(node);
  return *std::move(node);
}
cluster::Fabric fabric_of(const Imported& i) {
  const auto resolved = document::load("fabric", i.document, "topo.txt", "", "");
  REQUIRE(resolved);
  auto fabric = cluster::read_fabric(resolved->value, "topo.txt", "");
  REQUIRE(fabric);
  return *std::move(fabric);
}

/// Every pair of GPUs and NICs, in the words of the file.
void check_every_pair(const Imported& i) {
  const cluster::Node node = node_of(i);
  const int gpus = static_cast<int>(i.gpus.size()), all = gpus + static_cast<int>(i.nics.size());
  const auto device = [gpus](int k) { return k < gpus ? cluster::Device{false, k} : cluster::Device{true, k - gpus}; };
  REQUIRE(i.paths.size() == static_cast<std::size_t>(all));
  for (int a = 0; a < all; ++a) {
    for (int b = 0; b < all; ++b) {
      CAPTURE(a, b);
      CHECK(to_string(cluster::path_between(node, device(a), device(b))) == to_string(i.paths[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)]));
    }
  }
}

const std::string kCubeMesh =
    "        GPU0    GPU1    GPU2    GPU3    GPU4    GPU5    GPU6    GPU7    mlx5_0  CPU Affinity\n"
    "GPU0     X      NV1     NV1     NV2     NV2     SYS     SYS     SYS     NODE    0-11,24-35\n"
    "GPU1    NV1      X      NV2     NV1     SYS     NV2     SYS     SYS     NODE    0-11,24-35\n"
    "GPU2    NV1     NV2      X      NV2     SYS     SYS     NV1     SYS     PIX     0-11,24-35\n"
    "GPU3    NV2     NV1     NV2      X      SYS     SYS     SYS     NV1     PIX     0-11,24-35\n"
    "GPU4    NV2     SYS     SYS     SYS      X      NV1     NV1     NV2     SYS     12-23,36-47\n"
    "GPU5    SYS     NV2     SYS     SYS     NV1      X      NV2     NV1     SYS     12-23,36-47\n"
    "GPU6    SYS     SYS     NV1     SYS     NV1     NV2      X      NV2     SYS     12-23,36-47\n"
    "GPU7    SYS     SYS     SYS     NV1     NV2     NV1     NV2      X      SYS     12-23,36-47\n"
    "mlx5_0  NODE    NODE    PIX     PIX     SYS     SYS     SYS     SYS      X\n\n"
    "Legend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n";

/// Eight GPUs behind a switch, one NIC a pair of GPUs, as a terminal prints it: tabs, escapes in the heading, affinities.
std::string switched_node(const std::string& near) {
  std::string text = "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tNIC0\tNIC1\tNIC2\tNIC3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n";
  for (int a = 0; a < 8; ++a) {
    text += "GPU" + std::to_string(a);
    for (int b = 0; b < 8; ++b) text += a == b ? "\t X " : "\tNV18";
    for (int n = 0; n < 4; ++n) text += n == a / 2 ? "\t" + near : n / 2 == a / 4 ? "\tNODE" : "\tSYS";
    text += a < 4 ? "\t0-55,112-167\t0\t\tN/A\n" : "\t56-111,168-223\t1\t\tN/A\n";
  }
  for (int n = 0; n < 4; ++n) {
    text += "NIC" + std::to_string(n);
    for (int a = 0; a < 8; ++a) text += n == a / 2 ? "\t" + near : n / 2 == a / 4 ? "\tNODE" : "\tSYS";
    for (int k = 0; k < 4; ++k) text += n == k ? "\t X " : n / 2 == k / 2 ? "\tNODE" : "\tSYS";
    text += "\t\t\t\t\n";
  }
  return text + "\nNIC Legend:\n\n  NIC0: mlx5_0\n";
}

}  // namespace

TEST_CASE("a cube mesh imports with its cables, sockets and the path of every pair") {
  const Imported i = read(kCubeMesh);
  CHECK(i.kind == "node");
  CHECK(i.lines == 13);
  CHECK(i.unread.empty());
  CHECK(i.understood.front() == "16 of 28 pairs of GPUs wired directly");
  const cluster::Node node = node_of(i);
  CHECK(node.scale_up_kind == cluster::ScaleUp::kMesh);
  CHECK(node.scale_up == gb_per_s(150));  // six links of 25 GB/s
  CHECK(node.gpu_numa == std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1});
  CHECK(node.gpu_pcie_switch[2] == node.nic_pcie_switch[0]);
  CHECK(node.gpu_pcie_switch[0] != node.nic_pcie_switch[0]);
  check_every_pair(i);
}

TEST_CASE("GPUs of one width stand behind a switch, with their NICs one PCIe switch or several away") {
  for (const std::string near : {"PIX", "PXB", "PHB"}) {
    CAPTURE(near);
    const Imported i = read(switched_node(near));
    CHECK(i.unread.empty());
    const cluster::Node node = node_of(i);
    CHECK(node.scale_up_kind == cluster::ScaleUp::kNvSwitch);
    CHECK(node.nic_numa == std::vector<int>{0, 0, 1, 1});
    check_every_pair(i);
  }
  // Under --gpu of Blackwell a link has twice the rate.
  CHECK(node_of(read(switched_node("PIX"), {"", "b200-sxm"})).scale_up == gb_per_s(900));
}

TEST_CASE("a switch below a switch has an uplink to it, which a path between its own devices leaves alone") {
  const Imported i = read(switched_node("PXB"));
  const auto c = cluster::Cluster::build(node_of(i), 2, std::nullopt, fabric_of(read("SwitchName=s Nodes=a,b\n")), {}, 1, "topo.txt");
  REQUIRE(c);
  std::vector<std::string> names;
  for (const cluster::Hop& hop : c->route(0, 8).hops) names.push_back(c->name(hop.link));
  // GPU 0's own switch is 1 below 0; NIC 0's is 12 below the same.
  CHECK(names == std::vector<std::string>{"node0/gpu0/pcie:out", "node0/pcie1:out", "node0/pcie12:in", "node0/nic0:out", "node1/nic0:in", "node1/pcie12:out", "node1/pcie1:in",
                                          "node1/gpu0/pcie:in"});
}

TEST_CASE("bridged pairs, host bridges and several sockets import with the path of every pair") {
  check_every_pair(read("        GPU0    GPU1    GPU2    GPU3    CPU Affinity\n"
                        "GPU0     X      NV12    SYS     SYS     0-7\nGPU1    NV12     X      SYS     SYS     0-7\n"
                        "GPU2    SYS     SYS      X      NODE    8-15\nGPU3    SYS     SYS     NODE     X      8-15\n"));
  check_every_pair(read("        GPU0    GPU1    GPU2    GPU3    GPU4    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
                        "GPU0     X      SYS     SYS     SYS     SYS     8-15    1               N/A\n"
                        "GPU1    SYS      X      PHB     NODE    NODE    0-7     0               N/A\n"
                        "GPU2    SYS     PHB      X      NODE    NODE    0-7     0               N/A\n"
                        "GPU3    SYS     NODE    NODE     X      PHB     0-7     0               N/A\n"
                        "GPU4    SYS     NODE    NODE    PHB      X      0-7     0               N/A\n"));
}

TEST_CASE("what is no matrix, or contradicts itself, is refused in words") {
  CHECK(refusal("nothing\n") == "topo.txt: no topology that is known here: nvidia-smi topo -m, NCCL topology XML, ibnetdiscover, iblinkinfo, Slurm topology.conf");
  CHECK(refusal("GPU0 GPU1\nGPU0 X NV1\n") == "topo.txt: 1 rows of GPUs, but the heading names 2");
  CHECK(refusal("GPU0 GPU1\nGPU0 X\nGPU1 NV1 X\n") == "topo.txt: line 2: GPU0 has 1 cells; the heading names 2 devices");
  CHECK(refusal("GPU0 GPU1\nGPU0 X NVX\nGPU1 NV1 X\n") == "topo.txt: line 2: \"NVX\" is no path; known are X, NV#, PIX, PXB, PHB, NODE, SYS");
  CHECK(refusal("GPU0 GPU1\nGPU0 X NV1\nGPU1 NV2 X\n") == "topo.txt: GPU0 to GPU1 is NV1, but back it is NV2");
  CHECK(refusal("GPU0 GPU1\nGPU0 SYS NV1\nGPU1 NV1 X\n") == "topo.txt: GPU0 to GPU0 is SYS; X stands for a device and itself");
  CHECK(refusal("GPU0 GPU1\nGPU1 NV1 X\nGPU0 X NV1\n") == "topo.txt: line 2: GPU1 comes out of order");
}

TEST_CASE("lines that say nothing are listed with their numbers, and what was taken is named") {
  const Imported i = read("Mon Jan 1\n        GPU0    GPU1\nGPU0     X      PHB\nGPU1    PHB      X\nwhat is this\n");
  CHECK(i.unread == std::vector<Unread>{{1, "Mon Jan 1", "before the matrix"}, {5, "what is this", "neither a device of the heading nor the legend"}});
  CHECK(i.taken.front() == "gpu: l40s, by the number of its links; the matrix has no names (--gpu)");
}

TEST_CASE("NCCL's XML imports with its switches, NVLink and the path of every pair") {
  const std::string gpu = R"(class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16")";
  std::string text = "<system version=\"1\">\n";
  for (int socket = 0; socket < 2; ++socket) {
    const std::string s = std::to_string(socket);
    text += "<cpu numaid=\"" + s + "\" arch=\"x86_64\" vendor=\"GenuineIntel\">\n<pci busid=\"b" + s + "\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n";
    for (int g = 0; g < 2; ++g) {
      const std::string bus = "g" + s + std::to_string(g);
      text += "<pci busid=\"c" + bus + "\" class=\"0x060400\"><pci busid=\"" + bus + "\" " + gpu + "><gpu dev=\"0\" sm=\"90\"><nvlink target=\"g0" + std::to_string(socket == 0 ? 1 - g : g) +
              "\" count=\"4\" tclass=\"0x030200\"/></gpu></pci></pci>\n";
    }
    text += "<pci busid=\"n" + s + "\" class=\"0x020700\"><nic><net name=\"mlx5_" + s + "\" speed=\"400000\"/></nic></pci>\n</pci>\n<odd/>\n</cpu>\n";
  }
  const Imported i = read(text + "</system>\n");
  CHECK(i.understood.front() == "h100-sxm5-80gb by its PCI id 0x10de:0x2330");
  CHECK(i.unread.size() == 2);
  CHECK(i.unread.front() == Unread{8, "<odd>", "not known here"});
  const cluster::Node node = node_of(i);
  CHECK(node.nic == gbit_per_s(400));
  CHECK(node.cpu_vendor == "intel");
  CHECK(node.pcie == gb_per_s(63));
  CHECK(i.paths[0][1] == PathClass{Path::kNvLink, 4});
  CHECK(i.paths[0][4] == PathClass{Path::kPxb, 0});
  CHECK(i.paths[1][3] == PathClass{Path::kNvLink, 4});
  CHECK(i.paths[2][3] == PathClass{Path::kPxb, 0});
  CHECK(i.paths[0][3] == PathClass{Path::kSys, 0});
  check_every_pair(i);
  CHECK(refusal("<system><cpu>") == "topo.txt: line 1: no XML; write the file again with NCCL_TOPO_DUMP_FILE");
  CHECK(refusal("<system><cpu/></system>") == "topo.txt: no GPU in it: NCCL's topology has <gpu> below <pci>, or <pci> of class 0x03");
}

TEST_CASE("a static topology of bare buses has as many GPUs in every socket, and the rest are NICs") {
  const Imported i = read("<system>\n<cpu numaid=\"0\"><pci busid=\"1\"/><pci busid=\"2\"/></cpu>\n<cpu numaid=\"1\"><pci busid=\"3\"/><pci busid=\"4\"/><pci busid=\"5\"/></cpu>\n</system>\n");
  CHECK(i.gpus == std::vector<std::string>{"1", "2", "3", "4"});
  CHECK(i.nics == std::vector<std::string>{"5"});
  check_every_pair(i);
}

TEST_CASE("ibnetdiscover gives switches, cables once, hosts with their NICs in order, and no aggregation nodes") {
  const std::string leaf1 = "Switch\t65 \"S-1\"\t# \"MF0;leaf-1:MQM9700/U1\" enhanced port 0 lid 1 lmc 0\n"
                            "[1]\t\"H-a\"[1](a) \t# \"node1 mlx5_1\" lid 11 4xNDR\n[2]\t\"H-b\"[1](b) \t# \"node2 mlx5_0\" lid 12 4xNDR\n"
                            "[3]\t\"S-9\"[1]\t# \"MF0;spine:MQM9700/U1\" lid 9 4xNDR\n[4]\t\"S-9\"[2]\t# \"MF0;spine:MQM9700/U1\" lid 9 4xNDR\n"
                            "[65]\t\"H-x\"[1](x) \t# \"Mellanox Technologies Aggregation Node\" lid 19 4xNDR\n";
  const std::string leaf2 = "vendid=0x2c9\nSwitch\t65 \"S-2\"\t# \"MF0;leaf-2:MQM9700/U1\" enhanced port 0 lid 2 lmc 0\n"
                            "[1]\t\"H-c\"[1](c) \t# \"node1 mlx5_0\" lid 13 4xNDR\n[3]\t\"S-9\"[3]\t# \"MF0;spine:MQM9700/U1\" lid 9 4xHDR\nodd\n";
  const std::string spine = "Switch\t65 \"S-9\"\t# \"MF0;spine:MQM9700/U1\" enhanced port 0 lid 9 lmc 0\n[1]\t\"S-1\"[3]\t# \"leaf-1\" lid 1 4xNDR\n[2]\t\"S-1\"[4]\t# \"leaf-1\" lid 1 4xNDR\n";
  const Imported i = read(leaf1 + leaf2 + spine);
  CHECK(i.kind == "fabric");
  CHECK(i.unread == std::vector<Unread>{{11, "odd", "neither a section nor a port"}});
  const cluster::Fabric f = fabric_of(i);
  CHECK(f.topology == cluster::Topology::kGraph);
  CHECK(f.link == gbit_per_s(400));
  CHECK(f.leaf_ports == 64);
  CHECK(f.in_network_reduction);
  REQUIRE(f.graph.links.size() == 2);
  CHECK(f.graph.links[0].cables == 2);
  CHECK(f.graph.links[1].cables == 0.5);  // 4xHDR
  // node1's mlx5_0 hangs on the second leaf (switch 2, after the spine that the first leaf names), mlx5_1 on the first.
  CHECK(f.graph.hosts == std::vector<std::vector<int>>{{2, 0}, {0}});
}

TEST_CASE("iblinkinfo gives the same cables, and what nobody plugged in counts for nothing") {
  const Imported i = read(
      "Switch: 0x0001 MF0;leaf-1:MQM9700/U1:\n"
      "           1    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>      11    1[  ] \"node1 mlx5_0\" ( )\n"
      "           1    2[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>      12    1[  ] \"node2 mlx5_0\" ( )\n"
      "           1    3[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>       9    1[  ] \"spine\" ( )\n"
      "           1    4[  ] ==(                Down/ Polling)==>             [  ] \"\" ( )\n"
      "Switch: 0x0009 spine:\n"
      "           9    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>       1    3[  ] \"MF0;leaf-1:MQM9700/U1\" ( )\n");
  CHECK(i.unread.empty());
  const cluster::Fabric f = fabric_of(i);
  CHECK(f.link == gbit_per_s(400));
  CHECK(f.graph.switches == 2);
  CHECK(f.graph.links.size() == 1);
  CHECK(f.graph.hosts == std::vector<std::vector<int>>{{0}, {0}});
}

TEST_CASE("Slurm's trees, forests and blocks import with every node under its switch") {
  const Imported tree = read("# two leaves\nSwitchName=s0 Nodes=tux[0-2]\nSwitchName=s1 Nodes=tux[3,05-06] LinkSpeed=900\nSwitchName=top \\\n  Switches=s[0-1]\n");
  CHECK(tree.lines == 5);
  CHECK(tree.unread == std::vector<Unread>{{3, "LinkSpeed=900", "Slurm itself does nothing with it, and its unit is not defined"}});
  CHECK(tree.document.at("graph").at("host_names").items().at(4).as_string() == "tux05");
  const cluster::Fabric f = fabric_of(tree);
  CHECK(f.graph.hosts == std::vector<std::vector<int>>{{0}, {0}, {0}, {1}, {1}, {1}});
  REQUIRE(f.graph.links.size() == 2);
  CHECK(f.graph.links[0].cables == 3);

  const Imported forest = read("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=m[1-2]\n");
  CHECK(std::find(forest.taken.begin(), forest.taken.end(), "2 parts that nothing in the file joins: a job has to stay in one") != forest.taken.end());
  CHECK(fabric_of(forest).graph.links.empty());

  const cluster::Fabric blocks = fabric_of(read("BlockName=b1 Nodes=r[0-1]n[1-9]\nBlockName=b2 Nodes=x[1-18]\nBlockSizes=18,36\n"));
  CHECK(blocks.graph.hosts.size() == 36);
  CHECK(blocks.graph.switches == 3);
  CHECK(blocks.graph.links.size() == 2);

  CHECK(refusal("SwitchName=a Nodes=n[3-1]\n") == "topo.txt: line 1: \"n[3-1]\" is no list of names such as node[01-16,20]");
  CHECK(refusal("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n") == "topo.txt: line 2: node n1 hangs on another switch already");
  CHECK(refusal("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n") == "topo.txt: line 2: a is named twice");
  CHECK(refusal("SwitchName=a Switches=b\n") == "topo.txt: line 1: there is no switch b");
  CHECK(refusal("SwitchName=a Switches=b\nSwitchName=b Switches=a\nSwitchName=c Nodes=n\n") == "topo.txt: its switches go round in a circle");
  CHECK(refusal("SwitchName=a\n") == "topo.txt: no host hangs on any of its 1 switches");
}
