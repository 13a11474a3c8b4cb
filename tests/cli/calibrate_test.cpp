// orrery calibrate from the command line: import, fit, score, show and check on one small set, and what they refuse.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "catch.h"
#include "command.hpp"
#include "orrery/document/value.hpp"

using namespace orrery;
using orrery::test::command;
using orrery::test::Folder;
using orrery::test::Said;

namespace {

/// GEMM times of an H100-like law: launch, memory and math; deterministic.
std::string table(double factor = 1, int repetitions = 1) {
  std::string text = "dtype,m,n,k,time_us\n";
  for (const int m : {128, 256, 1024, 4096})
    for (const int n : {256, 1024, 4096, 8192})
      for (const int k : {256, 1024, 4096})
        for (int r = 0; r < repetitions; ++r) {
          const double flops = 2.0 * m * n * k, bytes = 2.0 * (1.0 * m * k + 1.0 * n * k + 1.0 * m * n);
          text += fmt::format("bfloat16,{},{},{},{:.4f}\n", m, n, k, factor * (1 + 0.001 * r) * (3 + flops / 650e6 + bytes / 2.8e6));
        }
  return text;
}

document::Value json(const Said& said) {
  INFO(said.err);
  REQUIRE(said.code == 0);
  const auto parsed = document::parse(said.out, "-");
  REQUIRE(parsed);
  return *parsed;
}

}  // namespace

TEST_CASE("measurements are imported, fitted, scored and shown by four commands") {
  const Folder folder;
  const std::string csv = folder.write("gemm.csv", table()), set = folder.file("set.json"), profile = folder.file("mine.json");
  const Said imported = command({"calibrate", "import", csv, "--gpu", "h100-sxm5-80gb", "--environment", "driver=580", "-o", set});
  INFO(imported.err);
  REQUIRE(imported.code == 0);
  CHECK(imported.out == "48 points\n        48  gemm/bf16\n");
  const auto fitted = json(command({"calibrate", "fit", set, "-o", profile, "--bootstrap", "2", "--json", "-"}));
  CHECK(fitted.at("schema").as_string() == "orrery/fit/1");
  CHECK(fitted.at("gpu").as_string() == "h100-sxm5-80gb");
  const auto score = json(command({"calibrate", "score", profile, csv, "--json", "-"}));
  CHECK(score.at("schema").as_string() == "orrery/score/1");
  const auto& classes = score.at("classes").items();
  REQUIRE(classes.size() == 2);
  CHECK(classes[0].at("class").as_string() == "gemm/bf16");
  CHECK(classes[1].at("class").as_string() == "gemm/bf16/large");
  CHECK(classes[1].at("points").as_int() == 48);
  CHECK(classes[1].at("median_error").as_double() < 0.1);
  const Said shown = command({"calibrate", "show", profile, "--measurements", csv, "--svg", folder.file("fit.svg")});
  INFO(shown.err);
  CHECK(shown.code == 0);
  CHECK(shown.out.find("gemm/bf16 efficiency") != std::string::npos);
  CHECK(shown.out.find("predicted / measured over measured time") != std::string::npos);
  std::ifstream svg(folder.file("fit.svg"));
  const std::string picture((std::istreambuf_iterator<char>(svg)), std::istreambuf_iterator<char>());
  CHECK(picture.starts_with("<svg "));
  CHECK(picture.ends_with("</svg>\n"));
  // A scenario takes the profile.
  const std::string job = folder.write("job.json", test::kSmall);
  const Said run = command({"simulate", job, "--calibration", profile, "--quiet"});
  INFO(run.err);
  CHECK(run.code == 0);
}

TEST_CASE("the gate ends with 0, 1 or 2, and writes what CI reads") {
  const Folder folder;
  const std::string base = folder.write("a.csv", table(1, 20)), slow = folder.write("b.csv", table(1.2, 20)), junit = folder.file("gate.xml");
  CHECK(command({"calibrate", "check", base, base}).code == 0);
  const Said failed = command({"calibrate", "check", base, slow, "--junit", junit, "--annotations"});
  CHECK(failed.code == 1);
  CHECK(failed.out.find("48 slower\n") != std::string::npos);
  CHECK(failed.out.find("::error title=calibration slower::gemm bf16 tn 1024x1024x1024: ") != std::string::npos);
  CHECK(failed.out.find("failed: 48 keys, 0 the same\n") != std::string::npos);
  std::ifstream file(junit);
  const std::string xml((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  CHECK(xml.find("tests=\"48\" failures=\"48\"") != std::string::npos);
  const Said diff = command({"calibrate", "check", base, slow, "--json", "-"});
  CHECK(diff.code == 1);
  const auto parsed = document::parse(diff.out, "-");
  REQUIRE(parsed);
  CHECK(parsed->at("schema").as_string() == "orrery/calibration-diff/1");
  CHECK_FALSE(parsed->at("passed").as_bool());
  CHECK(parsed->at("keys").items().size() == 48);
  CHECK(command({"calibrate", "check", base, folder.file("none.csv")}).code == 2);
}

TEST_CASE("a history records what passed, and another device cannot be compared") {
  const Folder folder;
  const std::string csv = folder.write("a.csv", table(1, 10)), a = folder.file("a.json"), b = folder.file("b.json");
  REQUIRE(command({"calibrate", "import", csv, "--gpu", "h100-sxm5-80gb", "-o", a}).code == 0);
  REQUIRE(command({"calibrate", "import", csv, "--gpu", "a100-sxm4-80gb", "-o", b}).code == 0);
  CHECK(command({"calibrate", "check", a, a, "--history", folder.file("history"), "--record"}).code == 0);
  CHECK(std::filesystem::exists(folder.file("history") + "/000000.json"));
  const Said other = command({"calibrate", "check", a, b});
  CHECK(other.code == 2);
  CHECK(other.out.empty());
  CHECK(other.err == "orrery: " + b + ":/gpu: the baseline was measured on h100-sxm5-80gb, the new set on a100-sxm4-80gb: other devices have other times\n");
}

TEST_CASE("calibrate refuses in its own words") {
  const Folder folder;
  const std::string csv = folder.write("a.csv", table());
  CHECK(command({"calibrate", "fit", csv, "-o", folder.file("p.json")}).err == "orrery: the measurements do not say which device they are of: name it with --gpu\n");
  CHECK(command({"calibrate", "fit", csv, "--gpu", "h100-sxm5-80gb"}).err == "orrery: calibrate: fit: -o FILE is required\n");
  CHECK(command({"calibrate", "score", "h100", csv, "--context", "cold"}).err == "orrery: --context cold: accepted are burst, sustained\n");
  CHECK(command({"calibrate", "score", "h100", csv, "--column", "m"}).err == "orrery: --column m: expected OURS=THEIRS\n");
  CHECK(command({"calibrate", "import", folder.write("e.csv", "")}).code == 2);
}

TEST_CASE("the loop on this machine: measured, fitted, scored and held against itself", "[slow]") {
  const Folder folder;
  const std::string set = folder.file("host.json"), profile = folder.file("profile.json");
  const Said ran = command({"calibrate", "run", "--backend", "host", "--threads", "1", "--repetitions", "7", "--quiet", "-o", set});
  if (ran.code != 0) {
    CHECK(ran.err.find("this build has no host back end") != std::string::npos);
    return;
  }
  // The machine as a device: one core, a little faster than the best that was seen.
  std::ifstream file(set);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto measured = document::parse(text, "host.json");
  REQUIRE(measured);
  double flops = 0, bytes = 0;
  for (const auto& p : measured->at("points").items()) {
    double best = 1e18;
    for (const auto& t : p.at("time_us").items()) best = std::min(best, t.as_double());
    if (p.at("kind").as_string() == "gemm") flops = std::max(flops, 2 * p.at("m").as_double() * p.at("n").as_double() * p.at("k").as_double() / best * 1e6);
    else if (p.at("read_bytes").as_double() + p.at("write_bytes").as_double() > 6e7) bytes = std::max(bytes, (p.at("read_bytes").as_double() + p.at("write_bytes").as_double()) / best * 1e6);
  }
  const std::string device = folder.write("core.json", fmt::format(R"({{"schema": "orrery/gpu/1", "extends": "xeon-8380-2s", "name": "core", "sm_count": 1, "memory_bandwidth_gb_per_s": {:.3f}, "peak_tflops": {{"fp32": {:.6f}}}}})",
                                                                    1.1 * bytes / 1e9, 1.1 * flops / 1e12));
  const auto fitted = json(command({"calibrate", "fit", set, "--gpu", device, "-o", profile, "--bootstrap", "2", "--quiet", "--json", "-"}));
  const auto score = json(command({"calibrate", "score", profile, set, "--gpu", device, "--quiet", "--json", "-"}));
  bool gemm = false;
  for (const auto& c : score.at("classes").items()) {
    WARN(c.at("class").as_string() << ": median error " << c.at("median_error").as_double() << ", p90 " << c.at("p90_error").as_double());
    gemm = gemm || c.at("class").as_string() == "gemm/fp32";
    // Of a machine that others use at the same time no more can be asked.
    if (c.at("class").as_string() == "gemm/fp32/large") CHECK(c.at("median_error").as_double() < 0.5);
  }
  CHECK(gemm);
  CHECK(command({"calibrate", "check", set, set}).code == 0);
}
