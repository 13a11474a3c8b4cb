#include <algorithm>
#include <set>

#include "catch.h"
#include "orrery/calibration/select.hpp"
#include "orrery/document/document.hpp"

using namespace orrery;
using calibration::Profile;
using document::Value;

namespace {

std::vector<std::string> names() {
  const auto all = document::catalogue("profile");
  REQUIRE(all.has_value());
  return *all;
}

Profile shipped(const std::string& name) {
  const auto loaded = document::load("profile", Value(name), "", "", ".");
  if (!loaded) FAIL_CHECK(to_string(loaded.error().front()));
  REQUIRE(loaded.has_value());
  const auto profile = calibration::read_profile(loaded->value, loaded->file, "");
  if (!profile) FAIL_CHECK(to_string(profile.error().front()));
  REQUIRE(profile.has_value());
  return *profile;
}

calibration::Selected selected(const Value& member, const calibration::Target& target) {
  const auto s = calibration::select(member, target, "job.json");
  if (!s) FAIL_CHECK(to_string(s.error().front()));
  REQUIRE(s.has_value());
  return *s;
}

}  // namespace

TEST_CASE("every shipped profile passes its description and its reader, and cites sources") {
  std::set<std::string> seen;
  for (const std::string& name : names()) {
    CAPTURE(name);
    const Profile p = shipped(name);
    CHECK(p.name == name);
    CHECK_FALSE(p.sources.empty());
    seen.insert(name);
  }
  for (const char* name : {"a100", "h100", "h200", "b200", "l40s", "volta", "ampere", "ada", "hopper", "blackwell", "cdna", "cpu", "generic"}) CHECK(seen.count(name) == 1);
}

TEST_CASE("fitted profiles state their held-out error, derived ones never claim a measurement") {
  for (const char* name : {"a100", "h100", "h200", "b200", "l40s"}) {
    CAPTURE(name);
    const Profile p = shipped(name);
    REQUIRE(p.expected_error_median.has_value());
    REQUIRE(p.expected_error_p90.has_value());
    CHECK(*p.expected_error_median < 0.10);
    CHECK(*p.expected_error_p90 < 0.35);
  }
  for (const char* name : {"volta", "ampere", "ada", "hopper", "blackwell", "cdna", "cpu", "generic"}) {
    CAPTURE(name);
    const Profile p = shipped(name);
    CHECK(p.provenance == "datasheet");
    CHECK_FALSE(p.expected_error_median.has_value());
    for (const auto& [dtype, g] : p.gemm) CHECK(g.wave_overhead_us.origin >= Origin::kExtrapolated);
  }
}

TEST_CASE("the default choice takes the part's own profile, then its architecture's, then the generic one with a warning") {
  const auto h100 = selected(Value("default"), {"h100-sxm5-80gb", "Hopper", ""});
  REQUIRE_FALSE(h100.parts.empty());
  CHECK(h100.warnings.empty());
  CHECK(h100.profile.gemm.at("bf16") == shipped("h100").gemm.at("bf16"));
  CHECK(h100.profile.gemm.at("fp32") == shipped("generic").gemm.at("fp32"));  // what no closer profile knows

  const auto h800 = selected(Value(nullptr), {"h800-sxm5-80gb", "Hopper", ""});
  CHECK(h800.profile.gemm.at("bf16") == shipped("h100").gemm.at("bf16"));
  const auto h20 = selected(Value("default"), {"h20-96gb", "Hopper", ""});
  CHECK(h20.profile.gemm.at("bf16") == shipped("hopper").gemm.at("bf16"));
  const auto b300 = selected(Value("default"), {"b300-sxm", "Blackwell Ultra", ""});
  CHECK(b300.profile.gemm.at("bf16") == shipped("blackwell").gemm.at("bf16"));
  CHECK(b300.warnings.empty());
  const auto family = selected(Value("default"), {"h100-pcie-80gb", "Hopper", ""});
  CHECK(family.profile.gemm.at("bf16") == shipped("h100").gemm.at("bf16"));

  // fp16 and tf32 borrow the part's own bf16 fit; an entry of the generic profile would come before it.
  const auto a100 = selected(Value("default"), {"a100-sxm4-80gb", "Ampere", ""});
  for (const char* borrowed : {"fp16", "tf32", "int8"}) CHECK(a100.profile.gemm.count(borrowed) == 0);

  const auto unknown = selected(Value("default"), {"tensor-toaster-9000", "Toast", ""});
  CHECK(unknown.profile.gemm.at("bf16") == shipped("generic").gemm.at("bf16"));
  REQUIRE(unknown.warnings.size() == 1);
  CHECK(to_string(unknown.warnings.front()) ==
        "job.json:/calibration: no calibration profile covers gpu \"tensor-toaster-9000\" (architecture \"Toast\"): datasheet values are used; calibrate, or name a profile");
}

TEST_CASE("calibration none stands on data sheets alone, and says so") {
  const auto s = calibration::select(Value("none"), {"h100-sxm5-80gb", "Hopper", ""}, "job.json");
  REQUIRE(s.has_value());
  REQUIRE(s->warnings.size() == 1);
  CHECK(to_string(s->warnings[0]) == "job.json:/calibration: no calibration is asked for: datasheet values are used");
  for (const calibration::Profile& p : s->parts) CHECK(p.provenance == "datasheet");
  CHECK(s->profile.collectives.empty());
}

TEST_CASE("in a list of profiles the later one wins, class by class") {
  const calibration::Target target{"h100-sxm5-80gb", "Hopper", ""};
  const auto s = selected(Value(Value::Array{Value("default"), Value("a100")}), target);
  CHECK(s.profile.gemm.at("bf16") == shipped("a100").gemm.at("bf16"));
  CHECK(s.profile.gemm.at("fp8") == shipped("h100").gemm.at("fp8"));
  CHECK(s.parts.front().name == "a100");
  const auto back = selected(Value(Value::Array{Value("a100"), Value("h100")}), target);
  CHECK(back.profile.gemm.at("bf16") == shipped("h100").gemm.at("bf16"));
}

TEST_CASE("a profile inside the scenario counts, and an unknown name is refused where it stands") {
  Value own;
  own.set("provenance", Value("measured"));
  own.set("name", Value("mine"));
  own.set("schema", Value("orrery/profile/1"));
  Value efficiency;
  efficiency.set("value", Value(0.5));
  efficiency.set("origin", Value("measured"));
  Value bf16;
  bf16.set("efficiency", efficiency);
  Value gemm;
  gemm.set("bf16", bf16);
  own.set("gemm", gemm);
  const auto s = selected(own, {"h100-sxm5-80gb", "Hopper", ""});
  CHECK(s.profile.gemm.at("bf16").efficiency.value == 0.5);
  CHECK(s.profile.gemm.at("bf16").efficiency.origin == Origin::kMeasured);

  const auto refused = calibration::select(Value(Value::Array{Value("default"), Value("h1000")}), {"h100-sxm5-80gb", "Hopper", ""}, "job.json");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().front().file == "job.json");
  CHECK(refused.error().front().pointer == "/calibration/1");
}
