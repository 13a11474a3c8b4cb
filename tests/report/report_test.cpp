#include <sstream>

#include "catch.h"
#include "metrics/job.hpp"
#include "orrery/report/report.hpp"

using namespace orrery;
using document::Value;

namespace {

using Defaults = std::vector<std::pair<std::string, std::string>>;

metrics::testing::Job job() {
  auto j = metrics::testing::job(false);
  j.inputs.basis = {"tiny", "h100-sxm5-80gb", "megatron-core", "2.27", 1830, true};
  j.inputs.calibration = {{"h100-sxm5-80gb", "published", 0.06, std::nullopt}};
  j.inputs.warnings = {{"default-origin", "/cluster/node", "a field has no source"}};
  return j;
}
metrics::Summary summary() {
  const auto j = job();
  return metrics::summarise(j.input, j.result, j.inputs);
}
const Value kScenario = document::parse(R"({"schema": "orrery/scenario/1", "name": "two stages"})", "s.json").value();
const Defaults kDefaults = {{"/parallelism/dp", "derived"}, {"/seed", "schema"}};

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

}  // namespace

TEST_CASE("the JSON report has every member of the contract, null where unknown") {
  const metrics::Summary s = summary();
  const Value report = report::json({s, kScenario, kDefaults});
  for (const char* pointer :
       {"/schema", "/orrery_version", "/scenario", "/defaults_from", "/calibration/0/name", "/calibration/0/provenance", "/calibration/0/expected_error/median",
        "/calibration/0/expected_error/p90", "/model/parameters", "/model/parameters_without_embedding", "/model/active_parameters",
        "/model/flops_per_token/exact", "/model/flops_per_token/megatron", "/model/flops_per_token/megatron_legacy", "/model/flops_per_token/palm",
        "/model/flops_per_token/six_n", "/model/flops_per_token/torchtitan", "/model/flops_per_token/narayanan", "/step/time_s", "/step/low_s", "/step/high_s",
        "/step/coverage", "/step/band_basis", "/throughput/tokens_per_s", "/throughput/tokens_per_s_per_gpu", "/throughput/samples_per_s",
        "/throughput/model_tflops_per_gpu", "/throughput/hardware_tflops_per_gpu", "/throughput/mfu", "/throughput/hfu", "/throughput/flops_convention",
        "/throughput/peak_tflops", "/throughput/peak_dtype", "/throughput/pipeline_efficiency", "/breakdown/compute_s", "/breakdown/optimizer_s",
        "/breakdown/exposed_comm_s/tp", "/breakdown/exposed_comm_s/cp", "/breakdown/exposed_comm_s/ep", "/breakdown/exposed_comm_s/pp",
        "/breakdown/exposed_comm_s/dp", "/breakdown/bubble_s", "/breakdown/other_s", "/memory/fits", "/memory/capacity_gib", "/memory/peak_gib",
        "/memory/peak_allocated_gib", "/memory/peak_reserved_gib", "/memory/worst_rank", "/memory/host_gib", "/memory/by_kind_gib/parameters",
        "/memory/by_kind_gib/gradients", "/memory/by_kind_gib/optimizer", "/memory/by_kind_gib/activations", "/memory/by_kind_gib/buffers",
        "/memory/by_kind_gib/framework", "/origins/measured", "/engine/events", "/engine/rank_classes", "/engine/ranks", "/stages/0/stage", "/stages/0/chunks",
        "/stages/0/layers", "/stages/0/ranks", "/stages/0/compute_s", "/stages/0/bubble_s", "/stages/0/peak_gib", "/collectives/0/kind", "/collectives/0/group",
        "/collectives/0/ranks", "/collectives/0/bytes", "/collectives/0/count", "/collectives/0/time_s", "/collectives/0/exposed_s",
        "/collectives/0/algbw_gb_per_s", "/collectives/0/busbw_gb_per_s", "/collectives/0/algorithm", "/collectives/0/protocol", "/collectives/0/channels",
        "/collectives/0/limited_by", "/collectives/0/origin", "/links/0/link", "/links/0/kind", "/links/0/count", "/links/0/capacity_gb_per_s",
        "/links/0/mean_utilisation", "/links/0/peak_utilisation", "/energy/step_j", "/energy/gpu_mean_w", "/energy/j_per_token", "/price/currency",
        "/price/per_gpu_hour", "/price/per_million_tokens", "/goodput/availability", "/goodput/mttf_h", "/goodput/checkpoint_interval_s",
        "/goodput/effective_tokens_per_s", "/warnings/0/code", "/warnings/0/pointer", "/warnings/0/text"}) {
    CAPTURE(pointer);
    CHECK(report.resolve(pointer) != nullptr);
  }
  CHECK(report.at("schema") == Value("orrery/report/1"));
  CHECK(report.at("scenario") == kScenario);
  CHECK(report.at("defaults_from") == Value(Value::Object{{"/parallelism/dp", "derived"}, {"/seed", "schema"}}));
  CHECK(report.at("calibration").items()[0].at("expected_error").at("p90").is_null());
  CHECK(report.at("price").at("per_million_tokens").is_null());
  CHECK(report.at("memory").at("host_gib").is_null());
}

TEST_CASE("the numbers of the JSON report are the summary's, in the units of their names") {
  const metrics::Summary s = summary();
  const Value report = report::json({s, kScenario, kDefaults});
  CHECK(report.at("step").at("time_s").as_double() == s.step_s);
  CHECK(report.at("memory").at("peak_gib").as_double() == Approx(75));
  CHECK(report.at("memory").at("by_kind_gib").at("activations").as_double() == Approx(12));
  CHECK(report.at("collectives").items()[0].at("group") == Value("dp"));
  CHECK(report.at("collectives").items()[0].at("kind") == Value("all_reduce"));
  const Value& b = report.at("breakdown");
  double sum = b.at("compute_s").as_double() + b.at("optimizer_s").as_double() + b.at("bubble_s").as_double() + b.at("other_s").as_double();
  for (const auto& [axis, seconds] : b.at("exposed_comm_s").members()) sum += seconds.as_double();
  CHECK(sum == Approx(s.step_s).epsilon(1e-12));
}

TEST_CASE("a report's text parses back to the report") {
  const metrics::Summary s = summary();
  const Value report = report::json({s, kScenario, kDefaults});
  CHECK(document::parse(document::dump(report), "report").value() == report);
}

TEST_CASE("every format is named once, and those that are built render") {
  const metrics::Summary s = summary();
  std::vector<std::string_view> names;
  for (const report::Format& f : report::formats()) {
    CHECK(std::count(names.begin(), names.end(), f.name) == 0);
    names.push_back(f.name);
    if (f.render != nullptr) CHECK_FALSE(f.render({s, kScenario, kDefaults}).empty());
  }
  CHECK(names == std::vector<std::string_view>{"json", "table", "html", "openmetrics"});
}

TEST_CASE("the table's first line names the job, its second says what the numbers mean") {
  const metrics::Summary s = summary();
  const auto text = lines(report::table({s, kScenario, kDefaults}));
  CHECK(text[0] == "two stages: tiny on 4 x h100-sxm5-80gb");
  CHECK(text[1] == "dense bf16 peak 10 TFLOP/s at 1830 MHz; exact FLOPs, causal; megatron-core, NCCL");
  CHECK(text[2] == "  2.27; time by origin: measured 57%, published 8%, datasheet 9%, default 25%");
}

TEST_CASE("the table shows speed, pipeline efficiency beside its closed form, the breakdown and the memory") {
  const metrics::Summary s = summary();
  const std::string text = report::table({s, kScenario, kDefaults});
  for (const char* line : {"  step                      100.000 us  76.923 us to 130.000 us (uncalibrated)\n",
                           "  tokens/s                    80000000  20000000.0 per GPU\n",
                           "  model TFLOP/s/GPU                2.0  MFU 20.0 %\n",
                           "  hardware TFLOP/s/GPU             3.0  HFU 30.0 %\n",
                           "  pipeline efficiency           81.9 %  closed form 80.0 %\n",
                           "  compute                    65.000 us  65.0 %\n",
                           "    gemm                     32.500 us  32.5 %\n",
                           "  exposed dp                  7.000 us  7.0 %\n",
                           "  bubble                     15.000 us  15.0 %\n",
                           "  launch, host                5.000 us  5.0 %\n",
                           "  peak                       75.00 GiB  allocated 73.00, reserved 73.00 GiB\n",
                           "  all_reduce dp ring             2  1.907 MiB   10.000 us    7.000 us    200.0\n",
                           "  memory of rank 0\n",
                           "  fits in 80.00 GiB: 5.00 GiB to spare\n"}) {
    CAPTURE(text, line);
    CHECK(text.find(line) != std::string::npos);
  }
}

TEST_CASE("a job that does not fit says by how much, and what would help") {
  auto j = job();
  j.inputs.gpu.memory_capacity = Bytes(60 * kGiB);
  const metrics::Summary s = metrics::summarise(j.input, j.result, j.inputs);
  const std::string text = report::table({s, kScenario, kDefaults});
  CHECK(text.find("  does not fit in 60.00 GiB: 15.00 GiB too much\n    zero 3 frees up to 30.0 GiB\n") != std::string::npos);
}

TEST_CASE("no line of a table is wider than 80 columns, however long the names") {
  auto j = job();
  j.inputs.basis.model = std::string(70, 'm');
  j.inputs.basis.stack = std::string(60, 's');
  j.inputs.transfers[0].bytes = 1'000'000'000'000;
  const metrics::Summary s = metrics::summarise(j.input, j.result, j.inputs);
  const Value scenario = Value::Object{{"name", std::string(200, 'n')}};
  const report::Subject subject{s, scenario, kDefaults};
  const report::Alternative alternative{std::string(100, 'a'), &subject, {}};
  const std::vector<report::Alternative> alternatives = {alternative};
  for (const std::string& text : {report::table(subject), report::memory_table(subject), report::whatif_table(subject, alternatives)})
    for (const std::string& line : lines(text)) {
      CAPTURE(line);
      CHECK(line.size() <= 80);
    }
}

TEST_CASE("bold is an escape around the title and nothing else") {
  const metrics::Summary s = summary();
  const report::Subject subject{s, kScenario, kDefaults};
  const std::string plain = report::table(subject), bold = report::table(subject, true);
  CHECK(plain.find('\x1b') == std::string::npos);
  CHECK(bold == "\x1b[1mtwo stages: tiny on 4 x h100-sxm5-80gb\x1b[0m" + plain.substr(plain.find('\n')));
}

TEST_CASE("the terms of a difference sum to it and come largest first") {
  const metrics::Summary before = summary();
  auto j = job();
  for (auto& r : j.result.ranks) {
    r.account_ps[0] += 30 * metrics::testing::kMicrosecond;  // bubble
    r.account_ps[4] -= 3 * metrics::testing::kMicrosecond;   // dp
  }
  j.result.end += 27 * metrics::testing::kMicrosecond;
  const metrics::Summary after = metrics::summarise(j.input, j.result, j.inputs);
  const auto terms = report::difference(before, after);
  CHECK(terms[0].name == "bubble");
  CHECK(terms[0].difference_s() == Approx(30e-6));
  CHECK(terms[1].name == "exposed_comm.dp");
  CHECK(terms[1].difference_s() == Approx(-3e-6));
  double sum = 0;
  for (const report::Term& t : terms) sum += t.difference_s();
  CHECK(sum == Approx(after.step_s - before.step_s).epsilon(1e-9));
}

TEST_CASE("a what-if keeps answers and refusals apart") {
  const metrics::Summary s = summary();
  const report::Subject subject{s, kScenario, kDefaults};
  const std::vector<report::Alternative> alternatives = {{"same", &subject, {}}, {"impossible", nullptr, {{"job.json", "/parallelism/pp", "too many"}}}};
  const Value json = report::whatif_json(subject, alternatives);
  CHECK(json.at("schema") == Value("orrery/whatif/1"));
  CHECK(json.at("alternatives").items()[0].at("step_ratio") == Value(1.0));
  CHECK(json.at("alternatives").items()[0].at("refused").items().empty());
  CHECK(json.at("alternatives").items()[1].at("report").is_null());
  CHECK(json.at("alternatives").items()[1].at("refused").items()[0].at("text") == Value("too many"));
  const std::string text = report::whatif_table(subject, alternatives);
  CHECK(text.find("what if same\n") != std::string::npos);
  CHECK(text.find("  refused: job.json:/parallelism/pp: too many\n") != std::string::npos);
}
