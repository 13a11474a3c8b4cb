#include <algorithm>

#include "catch.h"
#include "orrery/document/document.hpp"
#include "scenarios.hpp"

using namespace orrery;
using document::Document;
using document::Override;
using document::Value;

namespace {

Document loaded(const std::string& text, const std::vector<Override>& overrides = {}) {
  const auto document = document::load_scenario_text(text, "job.json", "", overrides);
  if (!document) {
    for (const Diagnostic& d : document.error()) UNSCOPED_INFO(to_string(d));
  }
  REQUIRE(document.has_value());
  return *document;
}

std::vector<std::string> problems(const std::string& text, const std::vector<Override>& overrides = {}) {
  const auto document = document::load_scenario_text(text, "job.json", "", overrides);
  REQUIRE_FALSE(document.has_value());
  std::vector<std::string> all;
  for (const Diagnostic& d : document.error()) all.push_back(to_string(d));
  return all;
}

std::string problem(const std::vector<Override>& overrides) {
  const auto all = problems(test::scenario(), overrides);
  REQUIRE(all.size() == 1);
  return all.front();
}

std::string origin(const Document& d, const std::string& pointer) {
  const auto it = std::find_if(d.defaults_from.begin(), d.defaults_from.end(), [&](const auto& e) { return e.first == pointer; });
  return it == d.defaults_from.end() ? "stated" : it->second;
}

}  // namespace

TEST_CASE("a resolved scenario has every member, and tells who filled it") {
  const Document d = loaded(test::scenario());
  const Value& v = d.value;
  CHECK(v.at("training").at("precision") == Value("bf16"));
  CHECK(origin(d, "/training/precision") == "schema");
  CHECK(v.at("training").at("param_dtype") == Value("bf16"));
  CHECK(origin(d, "/training/param_dtype") == "derived");
  CHECK(v.at("training").at("offload").at("optimizer") == Value(0.0));
  CHECK(origin(d, "/training/global_batch") == "stated");
  CHECK(v.at("parallelism").at("sp") == Value(false));
  CHECK(origin(d, "/parallelism/sp") == "derived");
  CHECK(v.at("parallelism").at("schedule") == Value("1f1b"));
  CHECK(v.at("cluster").at("gpus") == Value(16));
  CHECK(v.at("parallelism").at("dp") == Value(16));
  CHECK(v.at("model").at("kv_heads") == Value(16));
  CHECK(v.at("model").at("head_dim") == Value(64));
  CHECK(v.at("stack").at("host").at("run_ahead") == Value(1000));
  CHECK(v.at("cluster").find("fabric") != nullptr);
  CHECK(std::is_sorted(d.defaults_from.begin(), d.defaults_from.end()));
}

TEST_CASE("the scenario's own member comes before the stack's, and the stack's before the schema's") {
  const std::string stack = R"({"defaults": {"attention": "math", "optimizer": "sgd", "param_dtype": "fp32", "grad_dtype": {"bf16": "bf16"}, "overlap": {"param_gather": false}}})";
  const Document d = loaded(test::scenario(), {{"stack", stack}, {"training.attention", "flash"}});
  CHECK(d.value.at("training").at("attention") == Value("flash"));
  CHECK(origin(d, "/training/attention") == "stated");
  CHECK(d.value.at("training").at("optimizer") == Value("sgd"));
  CHECK(origin(d, "/training/optimizer") == "stack");
  CHECK(d.value.at("training").at("param_dtype") == Value("fp32"));
  CHECK(d.value.at("training").at("master_weights") == Value(false));
  CHECK(d.value.at("training").at("grad_dtype") == Value("bf16"));
  CHECK(origin(d, "/training/grad_dtype") == "stack");
  CHECK(d.value.at("parallelism").at("overlap").at("param_gather") == Value(false));
  CHECK(origin(d, "/parallelism/overlap/param_gather") == "stack");
  CHECK(origin(d, "/parallelism/overlap/grad_reduce") == "schema");
}

TEST_CASE("what is not built yet is refused as such, by name") {
  CHECK(problem({{"events", R"([{"kind": "power_cap", "watts": 500}])"}}) ==
        "job.json:/events/0/kind: \"power_cap\" is not built yet; built are slow_gpu, speed_spread, degraded_link, background");
  CHECK(problem({{"cluster.nccl.tuner", "\"a.csv\""}}) == "job.json:/cluster/nccl/tuner: \"a.csv\" is not built yet");
  CHECK(problem({{"jobs", "[]"}}) == "job.json:/jobs: is not built yet");
}

TEST_CASE("a problem names file, pointer, what was found and what is accepted") {
  CHECK(problem({{"training.micro_batch", "0"}}) == "job.json:/training/micro_batch: 0 is out of range; accepted are integers from 1 to 1073741824");
  CHECK(problem({{"training.micro_batch", "1.5"}}) == "job.json:/training/micro_batch: expected an integer, found 1.5");
  CHECK(problem({{"training.micro_batch", "two"}}) == "job.json:/training/micro_batch: expected an integer, found \"two\"");
  CHECK(problem({{"training.micro_batch", "null"}}) == "job.json:/training/micro_batch: missing; an integer is required");
  CHECK(problem({{"training.global_batch", "9007199254740993"}}) == "job.json:/training/global_batch: 9007199254740993 is out of range; accepted are integers from 1 to 9007199254740992");
  CHECK(problem({{"training.precision", "bf61"}}) == "job.json:/training/precision: unknown value \"bf61\"; did you mean \"bf16\"?");
  CHECK(problem({{"training.attention", "quantum"}}) == "job.json:/training/attention: unknown value \"quantum\"; known are flash, math");
  CHECK(problem({{"training.recompute", "7"}}) == "job.json:/training/recompute: expected one of none, selective, full, or an object, found 7");
  CHECK(problem({{"training.recompute.layers", "2"}}) == "job.json:/training/recompute/mode: missing; one of full, selective is required");
  CHECK(problem({{"parallelism.overlap.tp", "true"}}) == "job.json:/parallelism/overlap/tp: expected false, or one of bulk, pipelined, ring, found true");
  CHECK(problem({{"parallelism.order", R"(["tp", "cp", "ep", "dp", "dp"])"}}) == "job.json:/parallelism/order/4: \"dp\" appears twice");
  CHECK(problem({{"parallelism.order", R"(["tp"])"}}) == "job.json:/parallelism/order: 1 items; accepted are 5");
  CHECK(problem({{"training.offload.vram", "5"}}) == "--set:/training/offload/vram: unknown member; known are optimizer, activations, parameters, optimizer_device, activations_device, parameters_device");
  CHECK(problem({{"training.micro_bacth", "1"}}) == "--set:/training/micro_bacth: unknown member; did you mean \"micro_batch\"?");
  CHECK(problems(R"({"schema": "orrery/model/1"})").front() == "job.json:/schema: expected \"orrery/scenario/1\", found \"orrery/model/1\"");
  CHECK(problems("[]") == std::vector<std::string>{"job.json: expected a scenario as an object, found an array"});
  CHECK(problems(test::scenario(R"(, "trainning": {})")) == std::vector<std::string>{"job.json:/trainning: unknown member; did you mean \"training\"?"});
}

TEST_CASE("all problems are told at once, at most twenty") {
  std::string many;
  for (int i = 0; i < 30; ++i) many += ", \"zzzzzzzz" + std::to_string(i) + "\": 1";
  CHECK(problems(test::scenario(many)).size() == 20);
  CHECK(problems(test::scenario(), {{"training.precision", "x"}, {"training.micro_batch", "0"}, {"model", "\"nothing-like-it\""}}).size() == 3);
}
