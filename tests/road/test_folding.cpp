#include <rapidcheck.h>

#include <fmt/format.h>

#include "road.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

struct Cut {
  const char* scenario;
  Overrides overrides;
};

/// The shipped scenarios on at most 64 GPUs: fewer replicas, and of the 405B model half the stages with half the layers.
std::vector<Cut> cut_scenarios() {
  return {{"llama-3.1-8b-8gpu", {}},
          {"llama-3.1-70b-64gpu", {}},
          {"gpt3-175b-1024gpu", {{"parallelism.dp", "1"}, {"cluster.nodes", "8"}, {"training.global_batch", "24"}}},
          {"llama-3.1-405b-16k", {{"parallelism.dp", "1"}, {"parallelism.pp", "8"}, {"model.layers", "62"}, {"cluster.nodes", "8"}, {"training.global_batch", "16"}}},
          {"llama-3.1-405b-8k", {{"parallelism.dp", "2"}, {"parallelism.pp", "4"}, {"parallelism.vp", "4"}, {"model.layers", "14"}, {"cluster.nodes", "8"}, {"training.global_batch", "16"}}}};
}

void require_equal(const std::string& text, const Overrides& overrides) {
  const search::Prediction folded = predict(text, overrides, true);
  const search::Prediction full = predict(text, overrides, false);
  CHECK(folded.summary.step_ps == full.summary.step_ps);
  CHECK(first_difference(bytes_of(folded), bytes_of(full)).empty());
  CHECK(folded.summary.rank_classes <= full.summary.rank_classes);
}

}  // namespace

TEST_CASE("a folded run of a shipped scenario, cut to 64 GPUs, equals the full one in every byte of the report") {
  for (const Cut& cut : cut_scenarios()) {
    INFO(cut.scenario);
    require_equal(shipped(cut.scenario), cut.overrides);
  }
}

TEST_CASE("a folded run equals the full one on random small jobs, with slow GPUs and degraded links") {
  CHECK(rc::check("folded = full", [] {
    const int tp = 1 << *rc::gen::inRange(0, 4);
    const int pp = 1 << *rc::gen::inRange(0, 3);
    const int dp = 1 << *rc::gen::inRange(0, 3);
    const int gpus = tp * pp * dp;
    const int nodes = std::max(1, gpus / 8);
    const int vp = pp > 1 && *rc::gen::inRange(0, 2) == 1 ? 2 : 1;
    Overrides o = {{"parallelism.tp", std::to_string(tp)}, {"parallelism.pp", std::to_string(pp)}, {"parallelism.dp", std::to_string(dp)},
                   {"parallelism.vp", std::to_string(vp)}, {"cluster.nodes", std::to_string(nodes)}, {"cluster.gpus", std::to_string(gpus)},
                   {"parallelism.zero", std::to_string(*rc::gen::inRange(0, pp > 1 ? 3 : 4))},
                   {"training.recompute", *rc::gen::element<std::string>("none", "selective", "full")},
                   {"stack", *rc::gen::element<std::string>("generic", "megatron-core", "torchtitan")},
                   {"cluster.fabric", *rc::gen::element<std::string>("infiniband-ndr-rail", "infiniband-ndr", "roce-400g", "roce-400g-rail")},
                   {"seed", std::to_string(*rc::gen::inRange(0, 1000))}};
    std::string events;
    if (*rc::gen::inRange(0, 2) == 1) events += fmt::format(R"({{"kind":"slow_gpu","rank":{},"speed":0.8}})", *rc::gen::inRange(0, gpus));
    if (*rc::gen::inRange(0, 2) == 1) events += fmt::format(R"({}{{"kind":"degraded_link","link":"node{}/nic{}","capacity":0.5}})", events.empty() ? "" : ",", *rc::gen::inRange(0, nodes), *rc::gen::inRange(0, 8));
    o.push_back({"events", "[" + events + "]"});
    std::string told;
    for (const auto& x : o) told += x.path + "=" + x.value + " ";
    RC_LOG() << told;
    auto folded = try_predict(kSmallJob, o, true);
    auto full = try_predict(kSmallJob, o, false);
    RC_ASSERT(folded.has_value() == full.has_value());
    if (!folded) {
      RC_LOG() << problems(folded.error());
      RC_DISCARD("refused");
    }
    RC_ASSERT(folded->summary.step_ps == full->summary.step_ps);
    const std::string difference = first_difference(bytes_of(*folded), bytes_of(*full));
    RC_LOG() << difference;
    RC_ASSERT(difference.empty());
  }));
}

TEST_CASE("a folded run equals the full one under every pipeline schedule, even and with one slow GPU") {
  for (const char* setting : {"gpipe 1", "interleaved_1f1b 2", "bfs 2", "zb_h1 1", "zb_h2 1", "zb_v 2", "v_half 2", "v_min 2", "dualpipe 1", "dualpipe_v 2"}) {
    const std::string text = setting, name = text.substr(0, text.find(' '));
    for (const char* events : {"[]", R"([{"kind":"slow_gpu","rank":5,"speed":0.8}])"}) {
      INFO(name << " " << events);
      require_equal(kSmallJob, {{"parallelism.tp", "2"}, {"parallelism.pp", "4"}, {"parallelism.vp", text.substr(text.find(' ') + 1)}, {"parallelism.schedule", name},
                                {"parallelism.zero", name == "zb_v" ? "2" : "1"}, {"cluster.nodes", "2"}, {"events", events}});
    }
  }
}

TEST_CASE("one slow GPU of 16,384 splits a few classes and still folds", "[slow]") {
  const search::Prediction even = predict(shipped("llama-3.1-405b-16k"));
  const search::Prediction slow = predict(shipped("llama-3.1-405b-16k"), {{"events", R"([{"kind":"slow_gpu","rank":4711,"speed":0.8}])"}});
  CHECK(even.summary.rank_classes == 16);
  CHECK(slow.summary.rank_classes > even.summary.rank_classes);
  CHECK(slow.summary.rank_classes < 16384 / 4);
  CHECK(slow.summary.step_ps > even.summary.step_ps);
}

TEST_CASE("a folded run of 1,024 GPUs equals the full one in every byte of the report", "[slow]") {
  require_equal(shipped("gpt3-175b-1024gpu"), {});
  require_equal(shipped("llama-3.1-405b-16k"), {{"parallelism.dp", "8"}, {"cluster.nodes", "128"}, {"training.global_batch", "128"}});
}

TEST_CASE("a skewed histogram of experts splits classes and nothing else: folded equals full under every dispatch") {
  const Overrides experts = {{"model.moe", R"({"experts":16,"experts_per_token":4,"expert_ffn":1024,"shared_experts":1,"load":{"histogram":[9,1,1,1,1,1,1,1,1,1,1,1,1,1,1,3]}})"},
                             {"cluster.nodes", "2"}, {"parallelism.ep", "8"}, {"parallelism.zero", "1"}};
  for (const char* dispatch : {"all_to_all", "hierarchical", "deepep", "all_gather"}) {
    for (const char* layout : {"1", "2"}) {
      INFO(dispatch << " pp " << layout);
      Overrides o = experts;
      o.push_back({"parallelism.ep_dispatch", dispatch});
      o.push_back({"parallelism.pp", layout});
      require_equal(kSmallJob, o);
      const search::Prediction skewed = predict(kSmallJob, o);
      o.push_back({"model.moe.load", "balanced"});
      const search::Prediction even = predict(kSmallJob, o);
      CHECK(even.summary.rank_classes < skewed.summary.rank_classes);
      CHECK(even.summary.step_ps < skewed.summary.step_ps);
    }
  }
}

TEST_CASE("every layout of experts is played, folded as in full") {
  for (const char* tp : {"1", "2"}) {
    for (const char* etp : {"1", "2"}) {
      for (const char* zero : {"0", "1", "2", "3"}) {
        INFO("tp " << tp << " etp " << etp << " zero " << zero);
        require_equal(kSmallJob, {{"model.moe", R"({"experts":8,"experts_per_token":2,"expert_ffn":1024,"dense_layers":1})"}, {"parallelism.ep", "4"}, {"parallelism.tp", tp},
                                  {"parallelism.etp", etp}, {"parallelism.zero", zero}});
      }
    }
  }
}
