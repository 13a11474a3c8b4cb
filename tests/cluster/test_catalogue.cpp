// The shipped files: all of them read, cite their sources and say what nobody confirms.
#include <set>

#include "orrery/document/document.hpp"
#include "shipped.hpp"

using namespace shipped;

namespace {

void check_sources(const document::Value& v) {
  const auto& sources = v.at("sources").items();
  CHECK_FALSE(sources.empty());
  for (const auto& source : sources) {
    CHECK_FALSE(source.at("what").as_string().empty());
    CHECK_FALSE(source.at("title").as_string().empty());
    CHECK_FALSE(source.at("as_of").as_string().empty());
    CHECK(source.find("url") != nullptr);
  }
}

void check_unconfirmed(const document::Value& v) {
  std::set<std::string> seen;
  for (const auto& item : v.at("unconfirmed").items()) {
    std::string member = item.as_string();
    INFO(member);
    CHECK(seen.insert(member).second);
    std::replace(member.begin(), member.end(), '.', '/');
    CHECK(v.resolve("/" + member) != nullptr);
  }
}

}  // namespace

TEST_CASE("every shipped GPU reads, is named as its file, cites sources and lists what is unconfirmed by member") {
  for (const std::string& name : names("gpus")) {
    INFO(name);
    const document::Value v = text("gpus", name);
    CHECK(v.at("schema").as_string() == "orrery/gpu/1");
    CHECK(v.at("name").as_string() == name);
    check_sources(v);
    check_unconfirmed(v);
    const Gpu g = gpu(name);
    CHECK(g.sm_count > 0);
    CHECK(g.clock_mhz > 0);
    CHECK(g.memory_capacity.value() > 0);
    CHECK(g.memory_bandwidth.value() > 0);
    CHECK(g.l2.value() > 0);
    CHECK(g.power_limit_w == g.tdp_w);
    CHECK(g.pcie.value() > 0);
    CHECK(g.peak.fp32.has_value());
    CHECK(g.default_origin.size() == v.at("unconfirmed").items().size());
  }
}

TEST_CASE("every shipped node reads with its GPU, and every shipped fabric reads") {
  for (const std::string& name : names("nodes")) {
    INFO(name);
    const document::Value v = text("nodes", name);
    CHECK(v.at("schema").as_string() == "orrery/node/1");
    CHECK(v.at("name").as_string() == name);
    check_sources(v);
    check_unconfirmed(v);
    const Node n = node(name);
    CHECK(n.gpus > 0);
    CHECK(n.nic.value() > 0);
    CHECK(n.gpu_pcie_switch.size() == static_cast<std::size_t>(n.gpus));
    CHECK(n.nic_numa.size() == static_cast<std::size_t>(n.nics));
  }
  for (const std::string& name : names("fabrics")) {
    INFO(name);
    const document::Value v = text("fabrics", name);
    CHECK(v.at("schema").as_string() == "orrery/fabric/1");
    CHECK(v.at("name").as_string() == name);
    check_sources(v);
    check_unconfirmed(v);
    const Fabric f = fabric(name);
    CHECK(f.rail_optimised == (name.find("-rail") != std::string::npos || name == "gcp-tcpxo-fabric"));
    CHECK(f.latency_same_leaf.value() > 0);
  }
}

TEST_CASE("every shipped file passes its description, and what is read through it is what the file says") {
  const auto load = [](const char* kind, const document::Value& what) {
    auto doc = document::load(kind, what, "job.json", "", ".");
    if (!doc) FAIL(to_string(doc.error().front()));
    return doc->value;
  };
  for (const std::string& name : names("gpus")) CHECK(good(read_gpu(load("gpu", name), name, "")).peak.fp32 == gpu(name).peak.fp32);
  for (const std::string& name : names("nodes")) {
    INFO(name);
    const Node n = good(read_node(load("node", name), name, ""));
    CHECK(n.scale_up == node(name).scale_up);
    CHECK(n.pcie == node(name).pcie);
    CHECK(n.default_origin == node(name).default_origin);
  }
  for (const std::string& name : names("fabrics")) CHECK(good(read_fabric(load("fabric", name), name, "")).routing == fabric(name).routing);

  const auto json = [](const char* t) { return *document::parse(t, "job.json"); };
  const Node n = good(read_node(load("node", json(R"({"extends":"dgx-h100","gpu":{"extends":"h100-sxm5-96gb","power_limit_w":500},"nics":4,"nic_gbit_per_s":200})")), "", ""));
  CHECK(n.gpu.name == "h100-sxm5-96gb");
  CHECK(n.gpu.power_limit_w == 500);
  CHECK(n.gpu.tdp_w == 700);
  CHECK(n.nic_pcie_switch == std::vector<int>{0, 1, 2, 3});
  CHECK(n.nic == gb_per_s(25));
  CHECK(good(read_node(load("node", json(R"({"extends":"gb200-nvl72","nics":72,"nic_gbit_per_s":800})")), "", "")).nics == 72);
  CHECK(good(read_fabric(load("fabric", json(R"({"extends":"infiniband-ndr-rail","link_gbit_per_s":200})")), "", "")).link == gb_per_s(25));
  const auto later = document::load("fabric", document::Value("slingshot-900g"), "job.json", "/cluster/fabric", ".");
  REQUIRE_FALSE(later.has_value());
  INFO(to_string(later.error().front()));
  CHECK(later.error().front().pointer == "/cluster/fabric");
}

TEST_CASE("the catalogue holds the parts, machines and fabrics that scenarios are written for") {
  const auto holds = [](const std::string& kind, const std::vector<std::string>& wanted) {
    const auto all = names(kind);
    for (const std::string& name : wanted) {
      INFO(name);
      CHECK(std::binary_search(all.begin(), all.end(), name));
    }
  };
  holds("gpus", {"v100-sxm2-16gb", "v100-sxm2-32gb", "a100-sxm4-40gb", "a100-sxm4-80gb", "a100-pcie-40gb", "a100-pcie-80gb", "a800-sxm4-80gb", "h100-sxm5-80gb",
                 "h100-pcie-80gb", "h100-nvl-94gb", "h100-sxm5-96gb", "h800-sxm5-80gb", "h20-96gb", "h200-sxm-141gb", "gh200-96gb", "b200-sxm", "gb200", "b300-sxm",
                 "gb300", "l4", "l40s", "rtx-3090", "rtx-4090", "rtx-5090", "t4", "a10", "a30", "a40", "mi250x", "mi300x", "mi325x", "mi355x", "xeon-8380-2s"});
  holds("nodes", {"dgx-1v", "dgx-2", "dgx-a100-40gb", "dgx-a100-80gb", "dgx-h100", "dgx-h200", "hgx-h100-air", "dgx-b200", "dgx-b300", "gb200-nvl72", "gb300-nvl72",
                  "box-8x-rtx3090", "box-8x-rtx4090", "box-8x-rtx5090", "box-8x-l40s", "box-8x-a100-pcie", "box-8x-h100-pcie", "box-4x-l40s", "mi300x-platform",
                  "mi355x-platform", "frontier-ex235a", "alps-gh200", "perlmutter-gpu", "meta-grand-teton-h100"});
  holds("fabrics", {"infiniband-edr", "infiniband-hdr", "infiniband-ndr", "infiniband-xdr", "infiniband-hdr-rail", "infiniband-ndr-rail", "infiniband-xdr-rail",
                    "roce-100g", "roce-200g", "roce-400g", "roce-800g", "roce-200g-rail", "roce-400g-rail", "roce-800g-rail", "ethernet-10g-tcp",
                    "ethernet-25g-tcp", "ethernet-100g-tcp"});
}

TEST_CASE("gemm.peak.*: clock x FMA x 2 x tensor cores is the catalogue's dense bf16 peak") {
  struct Case { const char *id, *part; double clock_hz, fma, cores, expected, published; };
  const Case cases[] = {{"gemm.peak.a100_bf16", "a100-sxm4-80gb", 1.41e9, 256, 432, 311.86944, 312},
                        {"gemm.peak.h100_bf16", "h100-sxm5-80gb", 1.83e9, 512, 528, 989.42976, 989},
                        {"gemm.peak.mi300x_bf16", "mi300x", 2.1e9, 256, 1216, 1307.4432, 1307}};
  for (const Case& c : cases) {
    INFO(c.id);
    const double peak = c.clock_hz * c.fma * 2 * c.cores / 1e12;
    CHECK(peak == Approx(c.expected).epsilon(1e-9));
    CHECK(c.expected == Approx(c.published).epsilon(0.005));
    const Gpu g = gpu(c.part);
    CHECK(g.clock_mhz * 1e6 == Approx(c.clock_hz));
    CHECK(g.peak.bf16->value() / 1e12 == Approx(c.expected).epsilon(0.001));  // the vendor rounds to four digits
    CHECK(c.cores == g.sm_count * 4);                                         // four tensor (matrix) cores an SM (CU)
  }
}

TEST_CASE("the precision ladder of a generation: tf32 is half of bf16, fp8 twice") {
  for (const char* name : {"a100-sxm4-80gb", "h100-sxm5-80gb", "b200-sxm", "mi300x"}) {
    INFO(name);
    const Gpu g = gpu(name);
    CHECK(g.peak.tf32->value() / g.peak.bf16->value() == Approx(0.5).epsilon(0.001));
    if (g.peak.fp8) CHECK(g.peak.fp8->value() / g.peak.bf16->value() == Approx(2).epsilon(0.001));
  }
}

TEST_CASE("one MI250X GCD is one rank: half of the part's 220 CUs, 128 GB and 383 TFLOP/s; Frontier's node has 8") {
  const Gpu g = gpu("mi250x");
  CHECK(g.sm_count == 110);
  CHECK(g.memory_capacity.value() == Approx(64e9).epsilon(1e-4));
  CHECK(g.peak.bf16->value() == Approx(191.5e12));
  CHECK(node("frontier-ex235a").gpus == 8);
}

TEST_CASE("capacity is what a job can use, else what the driver reports, else the marketed GB as 1e9 bytes with origin default") {
  CHECK(to_gib(gpu("h100-sxm5-80gb").memory_capacity) == Approx(79.65));
  CHECK(gpu("h100-sxm5-80gb").default_origin.empty());
  const Gpu marketed = gpu("h100-sxm5-96gb");
  CHECK(marketed.memory_capacity.value() == Approx(96e9).epsilon(1e-5));
  CHECK(std::count(marketed.default_origin.begin(), marketed.default_origin.end(), "memory_capacity_gib") == 1);
}

TEST_CASE("the Xeon server's fp32 peak is cores x clock x 64 (two AVX-512 FMA units) and its memory 16 channels of DDR4-3200") {
  const Gpu g = gpu("xeon-8380-2s");
  CHECK(g.peak.fp32->value() == Approx(g.sm_count * g.clock_mhz * 1e6 * 64));
  CHECK(g.memory_bandwidth.value() == Approx(2 * 8 * 3200e6 * 8));
}

TEST_CASE("unconfirmed members of GPU, node and fabric reach the report") {
  const Node n = node("box-8x-rtx4090");
  const Fabric f = fabric("infiniband-hdr");
  const auto all = unconfirmed(n, f);
  CHECK(std::count(all.begin(), all.end(), Unconfirmed{"node", "box-8x-rtx4090", "host_bounce_gb_per_s"}) == 1);
  CHECK(std::count(all.begin(), all.end(), Unconfirmed{"fabric", "infiniband-hdr", "leaf_ports"}) == 1);
  const Node weak = node("dgx-h100", {{"gpu", text("gpus", "h100-sxm5-96gb")}});
  const auto gpus = unconfirmed(weak, std::nullopt);
  CHECK(std::count(gpus.begin(), gpus.end(), Unconfirmed{"gpu", "h100-sxm5-96gb", "memory_capacity_gib"}) == 1);
  const document::Value v = catalogue(n, f);
  CHECK(v.at("fabric").at("name").as_string() == "infiniband-hdr");
  CHECK(v.at("node").at("unconfirmed").items().size() == n.default_origin.size());
  CHECK(catalogue(n, std::nullopt).at("fabric").is_null());
}

TEST_CASE("speeds meet as the minimum of both ends: an H800 in a DGX H100 keeps its 200 GB/s, an H100 on 200 Gb/s NICs 25 GB/s") {
  CHECK(node("dgx-h100").scale_up == gb_per_s(450));
  CHECK(node("dgx-h100", {{"gpu", text("gpus", "h800-sxm5-80gb")}}).scale_up == gb_per_s(200));
  const Node slow = node("dgx-h100", {{"nic_gbit_per_s", 200}});
  Fabric f = fabric("infiniband-ndr-rail");
  CHECK(built(slow, 4, f).nic_per_gpu() == gb_per_s(25) * f.efficiency);
  f.link = gbit_per_s(100);
  CHECK(built(slow, 4, f).nic_per_gpu() == gb_per_s(12.5) * f.efficiency);
}

TEST_CASE("overriding the number of NICs or GPUs makes the wiring anew by even division") {
  const Node n = node("dgx-h100", {{"nics", 4}, {"nic_gbit_per_s", 100}});
  CHECK(n.nic_pcie_switch == std::vector<int>{0, 1, 2, 3});
  CHECK(n.nic_numa == std::vector<int>{0, 0, 1, 1});
  CHECK(node("ND40rs_v2").nic_numa == std::vector<int>{0});
  CHECK(node("ND40rs_v2", {{"nics", 2}}).nic_numa == std::vector<int>{0, 1});
  CHECK(node("gb200-nvl72", {{"nics", 72}}).nic_pcie_switch == std::vector<int>(72, -1));
  CHECK(node("dgx-1v", {{"gpus", 4}}).mesh.size() == 6);  // the four GPUs of one half are all neighbours
}

TEST_CASE("a node or fabric that cannot be is refused by member") {
  const auto why = [](const std::vector<std::pair<std::string, document::Value>>& overrides) {
    const auto n = read_node(node_text("dgx-h100", overrides), "job.json", "/cluster/node");
    REQUIRE_FALSE(n.has_value());
    return to_string(n.error().front());
  };
  CHECK(why({{"gpus", 0}}) == "job.json:/cluster/node/gpus: a node of 0 GPUs runs nothing; use 1 or more");
  CHECK(why({{"nics", std::int64_t{1} << 40}}) == "job.json:/cluster/node/nics: 2147483647 in one node is out of range; 0 to 4096");
  CHECK(why({{"scale_up_kind", "ring"}}) == "job.json:/cluster/node/scale_up_kind: known are none, nvswitch, mesh, bridge, pcie");
  CHECK(why({{"scale_up_kind", "mesh"}, {"nvlink_domain_nodes", 2}}) == "job.json:/cluster/node/nvlink_domain_nodes: only NVSwitch joins 2 nodes in one domain; use 1");
  CHECK(why({{"gpu", text("gpus", "l40s")}}) == "job.json:/cluster/node/scale_up_gb_per_s: a l40s has no scale-up port; use scale_up_kind pcie or another GPU");
  CHECK(why({{"gpu_numa", document::Value::Array{0, 0, 0, 0, 1, 1, 1, 2}}}) == "job.json:/cluster/node/gpu_numa/7: there is no socket 2; 0 to 1");
  CHECK(why({{"nic_pcie_switch", document::Value::Array{0, 0, 0, 0, 1, 1, 1, -1}}}) ==
        "job.json:/cluster/node/nic_pcie_switch/7: there is no PCIe switch -1; 0 to 3");
  CHECK(why({{"numa_gb_per_s", 0}}) == "job.json:/cluster/node/numa_gb_per_s: 2 sockets need a link between them; use more than 0");
  CHECK(why({{"gpu", nullptr}}) == "job.json:/cluster/node/gpu: no GPU is given; name one of the catalogue");

  const auto fabric_why = [](const std::string& member, document::Value value) {
    document::Value v = text("fabrics", "roce-400g");
    v.set(member, std::move(value));
    const auto f = read_fabric(v, "job.json", "/cluster/fabric");
    REQUIRE_FALSE(f.has_value());
    return to_string(f.error().front());
  };
  CHECK(fabric_why("routing", "random") ==
        "job.json:/cluster/fabric/routing: known are \"ideal\", \"adaptive\", \"static_rail\" and {\"ecmp\": {\"qps\": 4, \"draw\": \"per_role\" or "
        "\"per_flow\"}} with qps 1 or more");
  CHECK(fabric_why("oversubscription", 0) == "job.json:/cluster/fabric/oversubscription: host bytes/s over uplink bytes/s; use 1 or more, or more than 0");
  CHECK(fabric_why("efficiency", 1.5) == "job.json:/cluster/fabric/efficiency: the payload share of the line rate; use more than 0, at most 1");
}
