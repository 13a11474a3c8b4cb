// Context parallelism down the whole road.
#include <rapidcheck.h>

#include <fmt/format.h>

#include "road.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

Overrides with(Overrides base, const Overrides& more) {
  base.insert(base.end(), more.begin(), more.end());
  return base;
}

/// 64k tokens over 8 ranks of one node: attention is most of the work.
Overrides long_context() {
  return {{"training.sequence_length", "65536"}, {"training.global_batch", "2"}, {"parallelism.cp", "8"}};
}

double exposed_cp(const search::Prediction& p) { return report_of(p).at("breakdown").at("exposed_comm_s").at("cp").as_double(); }

}  // namespace

TEST_CASE("a folded run with context parallelism equals the full one in every byte of the report") {
  CHECK(rc::check("folded = full", [] {
    const int cp = 1 << *rc::gen::inRange(1, 4);
    const int tp = 1 << *rc::gen::inRange(0, 2);
    const int pp = 1 << *rc::gen::inRange(0, 2);
    const int dp = 1 << *rc::gen::inRange(0, 2);
    const int gpus = cp * tp * pp * dp;
    Overrides o = {{"training.sequence_length", "4096"}, {"training.global_batch", "8"}, {"parallelism.cp", std::to_string(cp)}, {"parallelism.tp", std::to_string(tp)},
                   {"parallelism.pp", std::to_string(pp)}, {"parallelism.dp", std::to_string(dp)},
                   {"parallelism.cp_method", *rc::gen::element<std::string>("ring", "ring_naive", "all_gather", "ulysses")},
                   {"parallelism.zero", std::to_string(*rc::gen::inRange(0, pp > 1 ? 3 : 4))},
                   {"parallelism.order", *rc::gen::element<std::string>(R"(["tp","cp","ep","dp","pp"])", R"(["cp","tp","dp","ep","pp"])", R"(["tp","ep","dp","cp","pp"])")},
                   {"training.attention_mask", *rc::gen::element<std::string>("causal", "full")},
                   {"training.recompute", *rc::gen::element<std::string>("none", "selective", "full")},
                   {"stack", *rc::gen::element<std::string>("generic", "megatron-core", "torchtitan")},
                   {"cluster.nodes", std::to_string(std::max(1, gpus / 8))}, {"cluster.gpus", std::to_string(gpus)}};
    if (*rc::gen::inRange(0, 3) == 0) o.push_back({"events", fmt::format(R"([{{"kind":"slow_gpu","rank":{},"speed":0.8}}])", *rc::gen::inRange(0, gpus))});
    std::string told;
    for (const auto& x : o) told += x.path + "=" + x.value + " ";
    RC_LOG() << told;
    const auto folded = try_predict(kSmallJob, o, true), full = try_predict(kSmallJob, o, false);
    if (!folded) RC_LOG() << problems(folded.error());
    RC_ASSERT(folded.has_value() == full.has_value());
    if (!folded) RC_DISCARD("refused");
    RC_ASSERT(folded->summary.step_ps == full->summary.step_ps);
    RC_ASSERT(first_difference(bytes_of(*folded), bytes_of(*full)).empty());
    RC_ASSERT(folded->summary.rank_classes <= full->summary.rank_classes);
  }));
}

TEST_CASE("a balanced ring beats contiguous pieces by what their last rank has more of") {
  const Overrides attention_only = with(long_context(), {{"model.ffn_hidden", "64"}, {"training.sequence_length", "262144"}});
  const double balanced = predict(kSmallJob, attention_only).summary.step_s;
  const double naive = predict(kSmallJob, with(attention_only, {{"parallelism.cp_method", "ring_naive"}})).summary.step_s;
  CHECK(naive > 1.5 * balanced);  // 1.875 where attention is all there is
  CHECK(naive < 1.875 * balanced);
}

TEST_CASE("a ring hides its exchanges under long attention, and shows them under short") {
  const search::Prediction hidden = predict(kSmallJob, long_context());
  CHECK(exposed_cp(hidden) < 0.01 * hidden.summary.step_s);
  const search::Prediction shown = predict(kSmallJob, with(long_context(), {{"training.sequence_length", "2048"}, {"training.global_batch", "8"}}));
  CHECK(exposed_cp(shown) > exposed_cp(hidden) / hidden.summary.step_s * shown.summary.step_s);
  // Gathered keys and values and exchanged heads are waited for.
  for (const char* method : {"all_gather", "ulysses"}) {
    CHECK(exposed_cp(predict(kSmallJob, with(long_context(), {{"parallelism.cp_method", method}}))) > exposed_cp(hidden));
  }
}

TEST_CASE("model FLOPs do not depend on how attention crosses ranks, nor do hardware FLOPs without recompute") {
  const search::Prediction one = predict(kSmallJob, {{"training.sequence_length", "4096"}, {"training.global_batch", "8"}});
  for (const char* method : {"ring", "ring_naive", "all_gather", "ulysses"}) {
    const search::Prediction p = predict(kSmallJob, {{"training.sequence_length", "4096"}, {"training.global_batch", "8"}, {"parallelism.cp", "4"}, {"parallelism.cp_method", method}});
    const auto flops = [](const search::Prediction& x, const char* name) {
      return report_of(x).at("throughput").at(name).as_double() * x.summary.step_s;
    };
    CHECK(flops(p, "model_tflops_per_gpu") == Approx(flops(one, "model_tflops_per_gpu")));
    CHECK(flops(p, "hardware_tflops_per_gpu") == Approx(flops(one, "hardware_tflops_per_gpu")));
  }
}

TEST_CASE("context parallelism divides activations and leaves parameters and their states to ZeRO") {
  const auto memory = [](const Overrides& o) { return report_of(predict(kSmallJob, o)).at("memory").at("by_kind_gib"); };
  const document::Value one = memory({{"training.sequence_length", "32768"}, {"training.global_batch", "8"}, {"cluster.gpus", "1"}});
  const document::Value eight = memory({{"training.sequence_length", "32768"}, {"training.global_batch", "8"}, {"parallelism.cp", "8"}});
  CHECK(eight.at("parameters") == one.at("parameters"));
  CHECK(eight.at("optimizer") == one.at("optimizer"));
  CHECK(eight.at("activations").as_double() == Approx(one.at("activations").as_double() / 8).epsilon(0.05));
  // The group that shards is dp x cp.
  const document::Value sharded = memory({{"training.sequence_length", "32768"}, {"training.global_batch", "8"}, {"parallelism.cp", "8"}, {"parallelism.zero", "1"}});
  CHECK(sharded.at("optimizer").as_double() == Approx(one.at("optimizer").as_double() / 8).epsilon(0.02));  // blocks are rounded up
}
