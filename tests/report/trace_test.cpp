#include "catch.h"
#include "orrery/document/value.hpp"
#include "orrery/report/trace.hpp"

using namespace orrery;
using document::Value;

namespace {

/// Rank 0 sends to rank 1, one microbatch: a segment and a send there, a receive and a segment here.
struct Pair {
  engine::Input input;
  metrics::Inputs inputs;
  program::Program program;

  Pair() {
    input.channels = {{.sender = 0, .receiver = 1, .usage = {}, .first_transfer = 1, .kind = 0, .multiplicity = 1}};
    input.groups = {{.members = {0, 1}, .usage_sets = {}, .first_transfer = 0, .kind = 0, .multiplicity = 1}};
    input.transfers.resize(2);
    input.memory_kinds = 2;
    for (bool sender : {true, false}) {
      engine::Program p;
      p.streams.resize(program::kStreams);
      p.segments.resize(1);
      p.collectives = {{.group_slot = 0, .transfer = 0}};
      p.batches = {{{.send = sender, .channel_slot = 0, .transfer = 0}}};
      p.streams[0] = {{.op = engine::Op::kSegment, .index = 0}, {.op = engine::Op::kCollective, .index = 0}};
      p.streams[sender ? 3 : 4] = {{.op = engine::Op::kBatch, .index = 0}};
      input.programs.push_back(p);
      engine::Rank r;
      r.program = sender ? 0 : 1;
      r.groups = {0};
      r.channels = {0};
      r.lowest = sender ? 0 : 8;
      r.multiplicity = sender ? 1 : 4;
      input.ranks.push_back(r);
      program::Role role;
      role.segments.resize(1);
      role.segments[0].name = sender ? "decoder \"forward\"" : "head";
      program::Item item;
      item.kind = program::ItemKind::kSegment;
      item.microbatch = 3;
      item.chunk = 1;
      role.items = {item};
      program.roles.push_back(role);
    }
    inputs.memory_kinds = {"parameters", "activations"};
    inputs.transfers.resize(2);
    inputs.transfers[0] = {.kind = collective::Kind::kAllReduce, .axis = workload::Axis::kWorld, .limited_by = "nic"};
    inputs.transfers[1] = {.kind = collective::Kind::kSendRecv, .axis = workload::Axis::kPp, .limited_by = "nic"};
  }
};

std::vector<Value> events(const std::string& json, const std::string& phase) {
  const Value document = document::parse(json, "trace").value();
  std::vector<Value> found;
  for (const Value& e : document.at("traceEvents").items())
    if (e.at("ph") == Value(phase)) found.push_back(e);
  return found;
}

void play(report::ChromeTrace& trace) {
  trace.memory(0, 0, 0, 100);
  trace.ran(0, 0, 0, 0, 1'500'000, 2'500'001);
  trace.memory(0, 5, 1, 50);
  trace.ran(0, 3, 0, 2'500'001, 2'600'000, 3'000'000);
  trace.ran(1, 4, 0, 0, 2'600'000, 3'000'000);
  trace.ran(1, 0, 1, 0, 3'000'000, 4'000'000);
}

}  // namespace

TEST_CASE("a trace shows slices of streams with their names, times in microseconds to the picosecond") {
  Pair pair;
  report::ChromeTrace trace(pair.input, pair.inputs, pair.program, {1, 0, 0});
  play(trace);
  const auto slices = events(trace.json(), "X");
  REQUIRE(slices.size() == 4);
  CHECK(slices[0].at("name") == Value("decoder \"forward\""));
  CHECK(slices[0].at("ts").as_double() == 1.5);
  CHECK(slices[0].at("dur").as_double() == 1.000001);
  CHECK(slices[0].at("args").at("microbatch") == Value(3));
  CHECK(slices[0].at("args").at("chunk") == Value(1));
  CHECK(slices[0].at("args").at("waited_us").as_double() == 1.5);
  CHECK(slices[1].at("name") == Value("send"));
  CHECK(slices[1].at("tid") == Value(3));
  CHECK(slices[2].at("name") == Value("receive"));
  CHECK(slices[2].at("pid") == Value(8));
  CHECK(slices[3].at("name") == Value("all_reduce world"));
}

TEST_CASE("memory is a counter with all kinds in each sample") {
  Pair pair;
  report::ChromeTrace trace(pair.input, pair.inputs, pair.program, {0, 1});
  play(trace);
  const auto samples = events(trace.json(), "C");
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].at("args") == Value(Value::Object{{"parameters", 100}, {"activations", 0}}));
  CHECK(samples[1].at("args") == Value(Value::Object{{"parameters", 100}, {"activations", 50}}));
}

TEST_CASE("an arrow leads from a send's start to its receive's end, if both are traced") {
  Pair pair;
  report::ChromeTrace trace(pair.input, pair.inputs, pair.program, {0, 1});
  play(trace);
  const std::string json = trace.json();
  const auto from = events(json, "s"), to = events(json, "f");
  REQUIRE(from.size() == 1);
  REQUIRE(to.size() == 1);
  CHECK(from[0].at("id") == to[0].at("id"));
  CHECK(from[0].at("pid") == Value(0));
  CHECK(from[0].at("ts").as_double() == 2.6);
  CHECK(to[0].at("pid") == Value(8));
  CHECK(to[0].at("tid") == Value(4));
  CHECK(to[0].at("ts").as_double() == 3.0);

  report::ChromeTrace one(pair.input, pair.inputs, pair.program, {0});
  one.ran(0, 3, 0, 0, 0, 10);
  CHECK(events(one.json(), "s").empty());
}

TEST_CASE("processes are ranks, a class named by its lowest; threads are the streams in use") {
  Pair pair;
  report::ChromeTrace trace(pair.input, pair.inputs, pair.program, {0, 1});
  CHECK(trace.wants(1));
  CHECK_FALSE(trace.wants(2));
  std::vector<std::string> names;
  for (const Value& e : events(trace.json(), "M"))
    if (e.at("args").at("name").is_string()) names.push_back(e.at("args").at("name").as_string());
  CHECK(names == std::vector<std::string>{"rank 0", "compute", "forward send", "rank 8 (and 3 alike)", "compute", "forward receive"});
}
