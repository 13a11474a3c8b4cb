#include <algorithm>
#include <cstdlib>

#include "catch.h"
#include "document/description.hpp"
#include "orrery/document/document.hpp"
#include "scenarios.hpp"
#include "temporary.hpp"

using namespace orrery;
using document::Document;
using document::Override;
using document::Value;

namespace {

/// A catalogue of our own: what the real one holds does not decide what the rules are.
class Catalogue {
 public:
  Catalogue() {
    if (const char* stated = std::getenv("ORRERY_CONFIG_DIR")) old_ = stated;
    write("gpus/tiny.json", test::kGpu);
    write("gpus/tiny-fast.json", R"({"schema": "orrery/gpu/1", "extends": "tiny", "name": "fast", "clock_mhz": 2000, "peak_tflops": {"bf16": 600, "fp32": null}, "tdp_w": null})");
    write("nodes/box.json", R"({"schema": "orrery/node/1", "name": "box", "gpu": "tiny", "gpus": 8, "scale_up_kind": "nvswitch", "nics": 8, "nic_gbit_per_s": 400, "unconfirmed": ["nics"]})");
    write("stacks/generic.json", R"({"schema": "orrery/stack/1", "name": "generic", "host": {"step_us": 7}})");
    write("models/m.json", test::kModel);
    write("models/loop-a.json", R"({"schema": "orrery/model/1", "extends": "loop-b"})");
    write("models/loop-b.json", R"({"schema": "orrery/model/1", "extends": "loop-a"})");
    write("models/broken.json", R"({"schema": "orrery/model/1", "layers": "many"})");
    write("models/truncated.json", R"({"schema": )");
    write("models/list.json", "[]");
    write("models/bare.json", R"({"layers": 1})");
    ::setenv("ORRERY_CONFIG_DIR", folder_.path().c_str(), 1);
  }
  ~Catalogue() {
    if (old_.empty()) ::unsetenv("ORRERY_CONFIG_DIR");
    else ::setenv("ORRERY_CONFIG_DIR", old_.c_str(), 1);
  }
  Catalogue(const Catalogue&) = delete;
  Catalogue& operator=(const Catalogue&) = delete;

  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path(name); }

 private:
  test::TemporaryFolder folder_;
  std::string old_;
};

const char* const kJob = R"({"schema": "orrery/scenario/1", "model": "m", "training": {"sequence_length": 2048, "global_batch": 64, "micro_batch": 1},
  "cluster": {"node": "box", "nodes": 2}})";

Document loaded(const std::vector<Override>& overrides) {
  const auto document = document::load_scenario_text(kJob, "job.json", "", overrides);
  if (!document) {
    for (const Diagnostic& d : document.error()) UNSCOPED_INFO(to_string(d));
  }
  REQUIRE(document.has_value());
  return *document;
}

std::vector<std::string> refused(std::string_view kind, const Value& reference) {
  const auto document = document::load(kind, reference, "job.json", "/x", "");
  REQUIRE_FALSE(document.has_value());
  std::vector<std::string> all;
  for (const Diagnostic& d : document.error()) all.push_back(to_string(d));
  return all;
}

const Value& at(const Document& d, const std::string& pointer) {
  const Value* v = d.value.resolve(pointer);
  REQUIRE(v != nullptr);
  return *v;
}

}  // namespace

TEST_CASE("catalogue names are replaced by what they name, all the way down") {
  const Catalogue catalogue;
  const Document d = loaded({});
  CHECK(at(d, "/model/hidden") == Value(1024));
  CHECK(at(d, "/cluster/node/gpu/sm_count") == Value(100));
  CHECK(at(d, "/stack/host/step_us") == Value(7));
  CHECK(d.warnings == Diagnostics{{"job.json", "/cluster/node", "no source confirms nics"}});
}

TEST_CASE("a path through a catalogue name changes one member of what it names") {
  const Catalogue catalogue;
  const Document d = loaded({{"cluster.node.gpu.memory_capacity_gib", "64"}, {"/cluster/node/nics", "4"}, {"stack.host.sync_us", "9"}, {"model.layers", "8"}});
  CHECK(at(d, "/cluster/node/gpu/memory_capacity_gib") == Value(64));
  CHECK(at(d, "/cluster/node/gpu/sm_count") == Value(100));
  CHECK(at(d, "/cluster/node/nics") == Value(4));
  CHECK(at(d, "/cluster/node/gpus") == Value(8));
  CHECK(at(d, "/stack/host/sync_us") == Value(9));
  CHECK(at(d, "/stack/host/step_us") == Value(7));
  CHECK(at(d, "/model/layers") == Value(8));
  CHECK(at(d, "/model/hidden") == Value(1024));
}

TEST_CASE("overrides are applied in order, and null unsets") {
  const Catalogue catalogue;
  CHECK(at(loaded({{"training.micro_batch", "2"}, {"training.micro_batch", "4"}}), "/training/micro_batch") == Value(4));
  CHECK(at(loaded({{"name", "x"}, {"name", "null"}}), "/name") == Value(""));
  CHECK(at(loaded({{"cluster.node.gpu", "tiny-fast"}, {"cluster.node.gpu.sm_count", "50"}}), "/cluster/node/gpu/name") == Value("fast"));
  const Document d = loaded({{"parallelism.order", R"(["tp", "cp", "ep", "dp", "pp"])"}, {"parallelism.order.3", "pp"}, {"parallelism.order.4", "dp"}});
  CHECK(at(d, "/parallelism/order/3") == Value("pp"));
  CHECK(at(loaded({{"name", "3"}, {"name", "\"3\""}}), "/name") == Value("3"));
  CHECK(at(loaded({{"training.recompute", "full"}, {"training.recompute", R"({"mode": "full"})"}, {"training.recompute.layers", "2"}}), "/training/recompute/method") == Value("uniform"));
  CHECK(at(loaded({{"events", R"([{"kind": "speed_spread", "cv": 0.01}, {"kind": "slow_gpu", "rank": 1, "speed": 0.5}])"}, {"events.0", "null"}}), "/events/0/kind") == Value("slow_gpu"));
}

TEST_CASE("extends merges objects deeply and null deletes") {
  const Catalogue catalogue;
  const auto gpu = document::load("gpu", "tiny-fast", "", "", "");
  REQUIRE(gpu.has_value());
  CHECK(gpu->value.at("clock_mhz") == Value(2000));
  CHECK(gpu->value.at("peak_tflops").at("bf16") == Value(600));
  CHECK(gpu->value.at("peak_tflops").at("fp32").is_null());
  CHECK(gpu->value.at("tdp_w").is_null());
  CHECK(gpu->value.at("sm_count") == Value(100));
  const auto node = document::load("node", Value(Value::Object{{"extends", "box"}, {"gpu", "tiny-fast"}, {"nics", 2}}), "", "", "");
  REQUIRE(node.has_value());
  CHECK(node->value.at("gpu").at("name") == Value("fast"));
  CHECK(node->value.at("nics") == Value(2));
  CHECK(node->value.find("extends") == nullptr);
}

TEST_CASE("a relative path starts from the folder of the file that holds it") {
  const Catalogue catalogue;
  catalogue.write("work/parts/gpu.json", R"({"schema": "orrery/gpu/1", "extends": "./base.json", "sm_count": 7})");
  catalogue.write("work/parts/base.json", test::kGpu);
  catalogue.write("work/node.json", R"({"schema": "orrery/node/1", "extends": "box", "gpu": "parts/gpu.json"})");
  catalogue.write("work/job.json", R"({"schema": "orrery/scenario/1", "model": "m", "training": {"sequence_length": 2048, "global_batch": 64, "micro_batch": 1}, "cluster": {"node": "node.json", "nodes": 1}})");
  const auto job = document::load_scenario(catalogue.path("work/job.json"), {});
  REQUIRE(job.has_value());
  CHECK(*job->value.resolve("/cluster/node/gpu/sm_count") == Value(7));
}

TEST_CASE("a reference that leads nowhere says what was looked for") {
  const Catalogue catalogue;
  CHECK(refused("model", "n") == std::vector<std::string>{"job.json:/x: unknown model \"n\"; did you mean \"m\"?"});
  CHECK(refused("model", "gpt-17-from-the-future") == std::vector<std::string>{"job.json:/x: unknown model \"gpt-17-from-the-future\"; \"orrery catalog list\" shows the 7 known"});
  CHECK(refused("model", "../models/m") == std::vector<std::string>{"job.json:/x: ../models/m: cannot be read: no such file or directory"});
  CHECK(refused("model", "nowhere.json") == std::vector<std::string>{"job.json:/x: nowhere.json: cannot be read: no such file or directory"});
  CHECK(refused("model", "/") == std::vector<std::string>{"job.json:/x: /: cannot be read: is a directory"});
  CHECK(refused("model", 7) == std::vector<std::string>{"job.json:/x: expected a catalogue name, a path or an object, found 7"});
  CHECK(refused("modle", "m") == std::vector<std::string>{"unknown kind \"modle\"; did you mean \"model\"?"});
}

TEST_CASE("a problem inside a named file is told with that file's name") {
  const Catalogue catalogue;
  CHECK(refused("model", "broken").front() == catalogue.path("models/broken.json") + ":/layers: expected an integer, found \"many\"");
  CHECK(refused("model", "truncated") == std::vector<std::string>{catalogue.path("models/truncated.json") + ": line 1, column 12: the text ends before the document does"});
  CHECK(refused("model", "list") == std::vector<std::string>{catalogue.path("models/list.json") + ": expected a model as an object, found an array"});
  CHECK(refused("model", "bare") == std::vector<std::string>{catalogue.path("models/bare.json") + ":/schema: missing; \"orrery/model/1\" is required"});
  CHECK(refused("gpu", Value(Value::Object{{"extends", "tiny"}, {"sm_count", nullptr}})) == std::vector<std::string>{"job.json:/x/sm_count: missing; an integer is required"});
}

TEST_CASE("a cycle of extends is refused with its chain") {
  const Catalogue catalogue;
  CHECK(refused("model", "loop-a") == std::vector<std::string>{catalogue.path("models/loop-b.json") + ":/extends: extends itself: loop-a -> loop-b -> loop-a"});
}

TEST_CASE("every shipped file of the catalogue is accepted") {
  std::size_t files = 0;
  for (const document::DocumentKind& kind : document::document_kinds()) {
    if (kind.folder.empty()) continue;
    const auto names = document::catalogue(kind.name);
    REQUIRE(names.has_value());
    for (const std::string& name : *names) {
      CAPTURE(kind.name, name);
      const auto document = document::load(kind.name, Value(name), "", "", "");
      if (!document) {
        for (const Diagnostic& d : document.error()) UNSCOPED_INFO(to_string(d));
      }
      CHECK(document.has_value());
      ++files;
    }
  }
  CHECK(files > 100);
}

TEST_CASE("the generic stack is the format's defaults") {
  const auto generic = document::load("stack", "generic", "", "", "");
  const auto empty = document::load("stack", Value(Value::Object{{"schema", "orrery/stack/1"}}), "", "", "");
  REQUIRE(generic.has_value());
  REQUIRE(empty.has_value());
  for (const char* part : {"defaults", "kernels", "data_parallel", "host", "end_of_step", "memory", "layout", "nccl_version"}) {
    CAPTURE(part);
    CHECK(document::dump(generic->value.at(part)) == document::dump(empty->value.at(part)));
  }
}

TEST_CASE("every stack names its sources and what no source confirms") {
  const auto names = document::catalogue("stack");
  REQUIRE(names.has_value());
  for (const char* wanted : {"deepspeed", "generic", "hf-trainer", "llm-foundry", "megatron-core", "megatron-lm-2021", "nanotron", "nemo", "torchtitan"}) {
    CAPTURE(wanted);
    REQUIRE(std::find(names->begin(), names->end(), wanted) != names->end());
    const auto stack = document::load("stack", wanted, "", "", "");
    REQUIRE(stack.has_value());
    CHECK_FALSE(stack->value.at("sources").items().empty());
    for (const Value& member : stack->value.at("unconfirmed").items()) {
      std::string pointer = "/" + member.as_string();
      std::replace(pointer.begin(), pointer.end(), '.', '/');
      CAPTURE(pointer);
      CHECK(stack->value.resolve(pointer) != nullptr);
    }
  }
}

TEST_CASE("Megatron blocks on sends under 1F1B, overlaps them when interleaved, and accumulates fp16 in fp16") {
  const std::vector<Override> base = {{"stack", "megatron-core"}};
  const auto job = [&](std::vector<Override> more) {
    more.insert(more.begin(), base.begin(), base.end());
    const auto d = document::load_scenario_text(test::scenario(), "job.json", "", more);
    REQUIRE(d.has_value());
    return d->value;
  };
  CHECK(*job({{"parallelism.pp", "2"}}).resolve("/parallelism/p2p") == Value("blocking"));
  CHECK(*job({{"parallelism.pp", "2"}, {"parallelism.vp", "2"}}).resolve("/parallelism/p2p") == Value("overlapped"));
  CHECK(*job({}).resolve("/training/grad_dtype") == Value("fp32"));
  CHECK(*job({{"training.precision", "fp16"}}).resolve("/training/grad_dtype") == Value("fp16"));
  CHECK(*job({{"training.precision", "fp16"}}).resolve("/training/param_dtype") == Value("fp16"));
}
