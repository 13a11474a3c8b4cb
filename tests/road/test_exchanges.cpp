// Exchanges of tokens under other work, and prediction modules, down the whole road.
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

const char* const kExperts = R"({"experts": 32, "experts_per_token": 4, "expert_ffn": 1024, "shared_experts": 2})";

/// Experts over two nodes: exchanges take about as long as what they can run under.
Overrides mixture() {
  return {{"model.moe", kExperts}, {"model.hidden", "2048"}, {"parallelism.ep", "16"}, {"cluster.nodes", "2"}, {"training.global_batch", "256"}, {"training.sequence_length", "4096"}};
}

double exposed_ep(const search::Prediction& p) { return report_of(p).at("breakdown").at("exposed_comm_s").at("ep").as_double(); }

}  // namespace

TEST_CASE("a folded run with exchanges under other work equals the full one in every byte of the report") {
  CHECK(rc::check("folded = full", [] {
    const int tp = 1 << *rc::gen::inRange(0, 2), ep = 1 << *rc::gen::inRange(1, 4);
    struct Pipe { std::string pp, vp, schedule; };
    const Pipe pipe = *rc::gen::element(Pipe{"1", "1", "1f1b"}, Pipe{"2", "2", "interleaved_1f1b"}, Pipe{"2", "1", "dualpipe"}, Pipe{"2", "2", "dualpipe_v"});
    const bool shared = *rc::gen::inRange(0, 3) == 0;
    Overrides o = {{"model.moe", R"({"experts": 16, "experts_per_token": 2, "expert_ffn": 512, "shared_experts": 1})"}, {"training.global_batch", "64"},
                   {"parallelism.tp", std::to_string(tp)}, {"parallelism.sp", "true"}, {"parallelism.ep", std::to_string(ep)},
                   {"parallelism.pp", pipe.pp}, {"parallelism.vp", pipe.vp}, {"parallelism.schedule", pipe.schedule}, {"parallelism.p2p", "overlapped"},
                   {shared ? "parallelism.overlap.shared_experts" : "parallelism.overlap.ep", "true"},
                   {"parallelism.ep_dispatch", *rc::gen::element<std::string>("all_to_all", "deepep", "hierarchical")},
                   {"model.mtp_layers", std::to_string(*rc::gen::inRange(0, 3))},
                   {"training.recompute", *rc::gen::element<std::string>("none", "selective")}, {"cluster.nodes", "2"}};
    if (*rc::gen::inRange(0, 3) == 0) o.push_back({"model.moe.load", "multinomial"});
    if (*rc::gen::inRange(0, 3) == 0) o.push_back({"events", fmt::format(R"([{{"kind":"slow_gpu","rank":{},"speed":0.8}}])", *rc::gen::inRange(0, 16))});
    std::string told;
    for (const auto& x : o) told += x.path + "=" + x.value + " ";
    RC_LOG() << told;
    const auto folded = try_predict(kSmallJob, o, true), full = try_predict(kSmallJob, o, false);
    if (!folded) RC_LOG() << problems(folded.error());
    RC_ASSERT(folded.has_value() == full.has_value());
    if (!folded) RC_DISCARD("refused");
    RC_ASSERT(folded->summary.step_ps == full->summary.step_ps);
    RC_ASSERT(first_difference(bytes_of(*folded), bytes_of(*full)).empty());
  }));
}

TEST_CASE("exchanges run under another microbatch's pass: most of them are hidden, and the step is shorter") {
  for (const char* dispatch : {"all_to_all", "deepep"}) {
    const Overrides base = with(mixture(), {{"parallelism.ep_dispatch", dispatch}});
    const search::Prediction alone = predict(kSmallJob, base), beside = predict(kSmallJob, with(base, {{"parallelism.overlap.ep", "true"}}));
    CHECK(exposed_ep(beside) < 0.6 * exposed_ep(alone));
    CHECK(beside.summary.step_s < alone.summary.step_s);
    // No more is gained than what was exposed: compute goes on all the time, slower beside an exchange.
    CHECK(alone.summary.step_s - beside.summary.step_s <= exposed_ep(alone));
    const auto flops = [](const search::Prediction& x) { return report_of(x).at("throughput").at("hardware_tflops_per_gpu").as_double() * x.summary.step_s; };
    CHECK(flops(beside) == Approx(flops(alone)));
  }
}

TEST_CASE("shared experts under the exchanges take no time of their own as long as the exchanges are longer") {
  const search::Prediction alone = predict(kSmallJob, mixture()), beside = predict(kSmallJob, with(mixture(), {{"parallelism.overlap.shared_experts", "true"}}));
  CHECK(beside.summary.step_s < alone.summary.step_s);
  CHECK(exposed_ep(beside) < exposed_ep(alone));
}

TEST_CASE("DualPipe's pairs hide their exchanges") {
  const Overrides base = with(mixture(), {{"parallelism.ep", "8"}, {"parallelism.pp", "2"}, {"parallelism.schedule", "dualpipe"}, {"parallelism.p2p", "overlapped"}, {"parallelism.ep_dispatch", "deepep"}});
  const search::Prediction alone = predict(kSmallJob, base), beside = predict(kSmallJob, with(base, {{"parallelism.overlap.ep", "true"}}));
  CHECK(exposed_ep(beside) < 0.7 * exposed_ep(alone));
  CHECK(beside.summary.step_s < alone.summary.step_s);
}

TEST_CASE("a prediction module adds its own work to the last stage: time, parameters, and what it keeps") {
  const Overrides two = {{"parallelism.pp", "2"}, {"parallelism.p2p", "overlapped"}};
  const search::Prediction none = predict(kSmallJob, two), one = predict(kSmallJob, with(two, {{"model.mtp_layers", "1"}}));
  const auto part = [](const search::Prediction& p, const char* a, const char* b) { return report_of(p).at(a).at(b).as_double(); };
  CHECK(one.summary.step_s > none.summary.step_s);
  CHECK(part(one, "memory", "peak_allocated_gib") > part(none, "memory", "peak_allocated_gib"));
}
