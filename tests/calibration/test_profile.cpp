#include "catch.h"
#include "orrery/calibration/select.hpp"

using namespace orrery;
using calibration::Profile;
using document::Value;

namespace {

std::vector<std::string> problems(const std::string& text) {
  const auto value = document::parse(text, "p.json");
  REQUIRE(value.has_value());
  const auto p = calibration::read_profile(*value, "p.json", "");
  REQUIRE_FALSE(p.has_value());
  std::vector<std::string> all;
  for (const auto& d : p.error()) all.push_back(to_string(d));
  return all;
}

Profile read(const std::string& text) {
  const auto value = document::parse(text, "p.json");
  REQUIRE(value.has_value());
  const auto p = calibration::read_profile(*value, "p.json", "");
  REQUIRE(p.has_value());
  return *p;
}

Profile named(const char* name, const char* provenance, const char* gpu, const char* architecture, const char* fabric) {
  Profile p;
  p.name = name;
  p.provenance = provenance;
  p.gpu = gpu;
  p.architecture = architecture;
  p.fabric = fabric;
  return p;
}

}  // namespace

TEST_CASE("a profile's problems are reported all at once, each with its pointer") {
  CHECK(problems(R"({"provenance":"published","gemm":{"bf16":{
      "efficiency":{"value":1.2,"origin":"published"},"launch_us":{"value":-1,"origin":"published"},
      "wave_overhead_us":{"value":2,"low":3,"high":4,"origin":"published"},"wave_hardness":{"value":0.5,"origin":"publishd"},
      "tiles":[{"m":128,"n":0}]}}})") ==
        std::vector<std::string>{
            "p.json:/gemm/bf16/efficiency/value: found 1.2; a share lies above 0 and at most at 1",
            "p.json:/gemm/bf16/wave_overhead_us: value 2 lies outside its interval 3 to 4",
            "p.json:/gemm/bf16/launch_us/value: found -1; it must not be negative",
            "p.json:/gemm/bf16/wave_hardness/origin: unknown origin \"publishd\"; did you mean \"published\"?",
            "p.json:/gemm/bf16/tiles/0/n: expected an integer from 1 to 4096",
            "p.json:/gemm/bf16/tiles/0: a tile states its m and n",
        });
  CHECK(problems(R"({"provenance":"rumour"})") ==
        std::vector<std::string>{"p.json:/provenance: found \"rumour\"; accepted are \"measured\", \"published\", \"datasheet\""});
  CHECK(problems(R"({"provenance":"published","collectives":[{"kind":"all_reduce","ranks":8,"bytes":[2,1],"time_us":[1,2]}]})") ==
        std::vector<std::string>{"p.json:/collectives/0/bytes/1: sizes must rise, and times must be positive and not fall"});
  CHECK(problems(R"({"provenance":"published","collectives":[{"kind":"all_reduce","ranks":8,"bytes":[2],"time_us":[]}]})") ==
        std::vector<std::string>{"p.json:/collectives/0: 1 sizes and 0 times; a curve has as many of each, and one at least"});
  CHECK(problems(R"({"provenance":"published","attention":[{"dim":128}]})") ==
        std::vector<std::string>{"p.json:/attention/0/kernel: an attention entry names its kernel"});
  CHECK(problems("[]") == std::vector<std::string>{"p.json: expected an object"});
}

TEST_CASE("a stated parameter keeps its interval and origin, an absent one its default") {
  const Profile p = read(R"({"provenance":"measured","gemm":{"fp8":{"efficiency":{"value":0.7,"low":0.6,"high":0.8,"origin":"measured"}}},
      "links":{"nic_efficiency":{"value":0.91,"origin":"published"}}})");
  CHECK(p.gemm.at("fp8").efficiency == calibration::Parameter{0.7, 0.6, 0.8, Origin::kMeasured});
  CHECK(p.gemm.at("fp8").launch_us == calibration::GemmProfile{}.launch_us);
  CHECK(p.gemm.at("fp8").tiles == calibration::GemmProfile{}.tiles);
  CHECK(p.links.nic_efficiency == calibration::Parameter{0.91, 0.91, 0.91, Origin::kPublished});
}

TEST_CASE("merging replaces classes whole, and sections parameter by parameter") {
  Profile base = read(R"({"provenance":"published","name":"base","gemm":{"bf16":{"efficiency":{"value":0.5,"origin":"published"}},
      "fp8":{"efficiency":{"value":0.4,"origin":"published"}}},"links":{"nic_efficiency":{"value":0.8,"origin":"published"},"ramp_us":{"value":5,"origin":"published"}},
      "attention":[{"kernel":"fa2","dim":128},{"kernel":"fa2","dim":64}],"collectives":[{"kind":"all_reduce","ranks":8,"bytes":[1],"time_us":[5]}]})");
  const Profile over = read(R"({"provenance":"measured","name":"over","gemm":{"bf16":{"efficiency":{"value":0.6,"origin":"measured"}}},
      "links":{"nic_efficiency":{"value":0.9,"origin":"measured"}},"attention":[{"kernel":"fa3","dim":128},{"kernel":"fa2","dim":64,"query_tile":64}],
      "collectives":[{"kind":"all_reduce","ranks":8,"bytes":[1],"time_us":[4]},{"kind":"all_reduce","ranks":4,"bytes":[1],"time_us":[3]}]})");
  const Profile p = merge(base, over);
  CHECK(p.name == "over");
  CHECK(p.gemm.at("bf16").efficiency.value == 0.6);
  CHECK(p.gemm.at("fp8").efficiency.value == 0.4);
  CHECK(p.links.nic_efficiency.value == 0.9);
  CHECK(p.links.ramp_us.value == 5);
  REQUIRE(p.attention.size() == 3);
  CHECK(p.attention[0].kernel == "fa3");  // of the profile that wins: what an unnamed kernel means
  CHECK(p.attention[1].query_tile == 64);
  REQUIRE(p.collectives.size() == 2);
  CHECK(p.collectives[0].time_us == std::vector<double>{4});
}

TEST_CASE("the closer profile ranks later: part over family over architecture over any, then fabric, then provenance") {
  const calibration::Target target{"h100-pcie-80gb", "Hopper", "infiniband-ndr-rail"};
  CHECK(match(named("", "published", "h100-pcie-80gb", "", ""), target) == 12);
  CHECK(match(named("", "published", "h100-sxm5-80gb", "", ""), target) == 8);
  CHECK(match(named("", "published", "", "Hopper", ""), target) == 4);
  CHECK(match(named("", "published", "", "", ""), target) == 0);
  CHECK(match(named("", "published", "", "", "infiniband-ndr-rail"), target) == 2);
  CHECK(match(named("", "published", "", "", "infiniband-ndr"), target) == 1);
  CHECK(match(named("", "published", "", "", "infiniband-hdr"), target) == -1);
  CHECK(match(named("", "published", "a100-sxm4-80gb", "Ampere", ""), target) == -1);
  CHECK(match(named("", "published", "", "Hop", ""), target) == -1);
  CHECK(match(named("", "published", "", "CDNA", ""), {"mi300x", "CDNA 3", ""}) == 4);

  const auto order = rank({named("part", "published", "h100-pcie-80gb", "", ""), named("any", "datasheet", "", "", ""), named("other", "measured", "b200-sxm", "", ""),
                           named("part2", "measured", "h100-pcie-80gb", "", ""), named("arch", "datasheet", "", "Hopper", "")},
                          target);
  std::vector<std::string> names;
  for (const auto& p : order) names.push_back(p.name);
  CHECK(names == std::vector<std::string>{"any", "arch", "part", "part2"});
}
