// Routes inside nodes and across fabrics.

#include "shipped.hpp"

using namespace shipped;

TEST_CASE("every pair of GPUs of every shipped node has a route that delivers each byte once") {
  for (const std::string& name : names("nodes")) {
    const Node n = node(name);
    const Cluster c = built(n, 1, std::nullopt);
    for (std::int64_t a = 0; a < n.gpus; ++a) {
      for (std::int64_t b = 0; b < n.gpus; ++b) {
        INFO(name << " from " << a << " to " << b);
        const Route r = c.route(a, b);
        if (a == b) {
          CHECK(r.hops.empty());
          continue;
        }
        REQUIRE(r.hops.size() >= 2);
        CHECK(r.switch_tiers == 0);
        CHECK(r.latency.value() > 0);
        const Link& first = c.links()[r.hops.front().link.index()];
        const Link& last = c.links()[r.hops.back().link.index()];
        CHECK(first.port == a);
        CHECK_FALSE(first.inbound);
        CHECK(last.port == b);
        CHECK(last.inbound);
        for (const Hop& hop : r.hops) {
          CHECK(c.links()[hop.link.index()].capacity.value() > 0);
          CHECK((hop.share == 1 || hop.share == 1.2));
        }
      }
    }
  }
}

TEST_CASE("NVSwitch joins any two GPUs port to port, across the nodes of one domain too") {
  CHECK(path(built(node("dgx-h100"), 1, std::nullopt), built(node("dgx-h100"), 1, std::nullopt).route(0, 5)) == "node0/gpu0/nvlink:out node0/gpu5/nvlink:in");
  const Node tray = node("gb200-tray");
  const Cluster rack = built(tray, 18, std::nullopt);
  CHECK(rack.domain_of(0) == rack.domain_of(71));
  CHECK(rack.gpus_per_domain() == 72);
  CHECK(path(rack, rack.route(1, 70)) == "node0/gpu1/nvlink:out node17/gpu2/nvlink:in");
  const Cluster two = built(tray, 36, fabric("infiniband-ndr"));
  CHECK(two.domain_of(71) == 0);
  CHECK(two.domain_of(72) == 1);
  CHECK(two.route(71, 72).switch_tiers > 0);
}

TEST_CASE("a mesh carries 25 GB/s a cable between neighbours, and passes the rest through the GPU with the widest way") {
  const Cluster c = built(node("dgx-1v"), 1, std::nullopt);
  const auto peer = [&](int a, int b) {
    const Route r = c.route(a, b);
    REQUIRE(r.hops.size() == 3);
    return c.links()[r.hops[1].link.index()].capacity;
  };
  CHECK(peer(0, 1) == gb_per_s(25));
  CHECK(peer(0, 3) == gb_per_s(50));
  CHECK(peer(4, 0) == gb_per_s(50));
  // 0 to 7: neighbours of both are 3 (2 cables, then 1) and 4 (2, then 2)
  CHECK(path(c, c.route(0, 7)) == "node0/gpu0/nvlink:out node0/gpu0/peer4:out node0/gpu4/nvlink:in node0/gpu4/nvlink:out node0/gpu4/peer7:out node0/gpu7/nvlink:in");
  const Cluster amd = built(node("mi300x-platform"), 1, std::nullopt);
  CHECK(amd.links()[amd.route(2, 6).hops[1].link.index()].capacity == gb_per_s(64));  // of 448: one of seven links
}

TEST_CASE("of 8 GPUs in pairs under 4 PCIe switches, pairs meet below their switch and share its uplink with what goes on") {
  const Node n = node("dgx-h100", {{"scale_up_kind", "pcie"}, {"cpu_vendor", "amd"}});
  const Cluster c = built(n, 1, std::nullopt);
  CHECK(path(c, c.route(0, 1)) == "node0/gpu0/pcie:out node0/gpu1/pcie:in");
  CHECK(path(c, c.route(0, 2)) == "node0/gpu0/pcie:out node0/pcie0:out node0/pcie1:in node0/gpu2/pcie:in");
  CHECK(path(c, c.route(1, 7)) == "node0/gpu1/pcie:out node0/pcie0:out node0/socket0:out node0/socket1:in node0/pcie3:in node0/gpu7/pcie:in");
  // 0 -> 2 and 1 -> 3 cross the same uplink: half of it each
  const LinkId shared = c.route(0, 2).hops[1].link;
  CHECK(c.route(1, 3).hops[1].link == shared);
  CHECK(c.links()[shared.index()].capacity == gb_per_s(63) * 0.88);
  CHECK(c.scale_up_port(3, true) == c.route(0, 3).hops.back().link);
}

TEST_CASE("an Intel root complex costs peer traffic 6/5 of its bytes, and only there") {
  const Cluster c = built(node("dgx-h100", {{"scale_up_kind", "pcie"}}), 1, std::nullopt);
  CHECK(path(c, c.route(0, 1)) == "node0/gpu0/pcie:out node0/gpu1/pcie:in");
  CHECK(path(c, c.route(0, 2)) == "node0/gpu0/pcie:out node0/pcie0:out*1.2 node0/pcie1:in*1.2 node0/gpu2/pcie:in");
}

TEST_CASE("without peer access GPUs meet in host memory, at the rate of the bounce") {
  const Cluster c = built(node("box-8x-rtx4090"), 1, std::nullopt);
  CHECK(path(c, c.route(0, 5)) == "node0/pcie0:out node0/socket0:out node0/socket1:in node0/pcie5:in");
  CHECK(c.links()[c.scale_up_port(0, false).index()].capacity == gb_per_s(20));
  const Node boxed = node("box-8x-l40s", {{"peer_to_peer", false}, {"host_bounce_gb_per_s", 20}});
  const Cluster l = built(boxed, 1, std::nullopt);
  CHECK(path(l, l.route(0, 1)) == "node0/gpu0/pcie:out node0/pcie0:out node0/pcie0:in node0/gpu1/pcie:in");
}

TEST_CASE("bridges join GPUs in pairs; the other pairs meet over PCIe") {
  const Cluster c = built(node("box-8x-a100-pcie", {{"scale_up_kind", "bridge"}}), 1, std::nullopt);
  CHECK(path(c, c.route(2, 3)) == "node0/gpu2/nvlink:out node0/gpu3/nvlink:in");
  CHECK(c.links()[c.scale_up_port(2, false).index()].capacity == gb_per_s(300));
  CHECK(path(c, c.route(1, 2)) == "node0/gpu1/pcie:out node0/gpu2/pcie:in");
}

TEST_CASE("GPUDirect stays below the PCIe switch that GPU and NIC share, else it crosses both uplinks") {
  const Fabric ndr = fabric("infiniband-ndr-rail");
  const Cluster c = built(node("dgx-h100"), 2, ndr);
  CHECK(path(c, c.route(3, 11)) == "node0/gpu3/pcie:out node0/nic3:out node1/nic3:in node1/gpu3/pcie:in");
  const Cluster one_nic = built(node("dgx-h100", {{"nics", 1}}), 2, ndr);
  CHECK(path(one_nic, one_nic.route(6, 8)) ==
        "node0/gpu6/pcie:out node0/pcie3:out node0/socket1:out node0/socket0:in node0/pcie0:in node0/nic0:out node1/nic0:in node1/gpu0/pcie:in");
  CHECK(one_nic.gpus_per_nic() == 8);
  CHECK(one_nic.nic_per_gpu() == gb_per_s(50) * ndr.efficiency / 8);
  CHECK(one_nic.nic_per_gpu(2) == gb_per_s(50) * ndr.efficiency / 2);
}

TEST_CASE("TCP passes host memory at both ends") {
  const Cluster c = built(node("dgx-h100"), 2, fabric("ethernet-100g-tcp"));
  CHECK(path(c, c.route(3, 11)) ==
        "node0/gpu3/pcie:out node0/pcie1:out node0/pcie1:in node0/nic3:out node1/nic3:in node1/pcie1:out node1/pcie1:in node1/gpu3/pcie:in");
}

TEST_CASE("a GPU with four NICs spreads over them, and two GPUs share one NIC where there are half as many") {
  const Cluster p5 = built(node("p5.48xlarge"), 2, fabric("roce-100g"));
  CHECK(p5.nics_per_gpu() == 4);
  const Route r = p5.route(2, 10);
  CHECK(p5.nic_of(2) == 8);
  CHECK(crossing(p5, r, LinkKind::kNic, false) == Approx(1));
  CHECK(std::count_if(r.hops.begin(), r.hops.end(), [](const Hop& h) { return h.share == 0.25; }) >= 8);
  const Cluster p4d = built(node("p4d.24xlarge"), 2, fabric("roce-100g"));
  CHECK(p4d.gpus_per_nic() == 2);
  CHECK(p4d.nic_of(4) == p4d.nic_of(5));
  CHECK(p4d.nic_per_gpu() == gb_per_s(12.5) * fabric("roce-100g").efficiency / 2);
}

TEST_CASE("gpus_per_node uses GPUs 0 to k-1 and their NICs") {
  const auto c = good(Cluster::build(node("gb200-nvl72"), 2, 64, fabric("infiniband-ndr-rail"), {}, 1, "job.json"));
  CHECK(c.gpus_per_node() == 64);
  CHECK(c.nics_per_node() == 64);
  CHECK(c.domain_of(63) == 0);
  CHECK(c.domain_of(64) == 1);
  const auto half = good(Cluster::build(node("p4d.24xlarge"), 2, 3, fabric("roce-100g"), {}, 1, "job.json"));
  CHECK(half.nics_per_node() == 2);
}

TEST_CASE("latency is 2.8 us under one InfiniBand leaf and 3.7 across, 3.6 and 5.6 on RoCE") {
  const Node n = node("dgx-h100");
  const auto latency = [&](const char* name, std::int64_t to) { return built(n, 64, fabric(name)).route(0, to).latency.value() * 1e6; };
  CHECK(latency("infiniband-ndr-rail", 8) == Approx(2.8));
  CHECK(latency("infiniband-ndr-rail", 9) == Approx(3.7));
  CHECK(latency("roce-400g", 8) == Approx(3.6));
  CHECK(latency("roce-400g", 8 * 63) == Approx(5.6));
}

TEST_CASE("2,048 and 8,192 nodes of 8 GPUs keep one link per direction and device") {
  const Node n = node("dgx-h100");
  const Fabric f = fabric("infiniband-ndr-rail");
  for (const std::int64_t nodes : {2048, 8192}) {
    INFO(nodes);
    const Cluster c = built(n, nodes, f);
    CHECK(c.tree()->tiers == 3);
    // per node: 8 ports, 8 PCIe links, 4 uplinks, 8 NICs, 2 sockets, the drives
    CHECK(c.links().size() == static_cast<std::size_t>(nodes * 62 + 2 * c.tree()->leaves + 2 * c.tree()->pods));
  }
}
