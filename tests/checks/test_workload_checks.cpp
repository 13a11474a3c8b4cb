// Totals that modelling predicts for measured runs, from the counts that the production code makes: memory of a cut Llama 3 70B, time of a
// microbatch on B200, size of a checkpoint.
#include "catch.h"
#include "orrery/document/document.hpp"
#include "orrery/workload/layers.hpp"

using namespace orrery;
using namespace orrery::workload;

namespace {

Model shipped_model(const char* name) {
  const auto document = document::load("model", document::Value(name), "job.json", "/model", ORRERY_SOURCE_DIR);
  REQUIRE(document.has_value());
  const auto model = read_model(document->value, "job.json", "/model");
  REQUIRE(model.has_value());
  return *model;
}

Shard shard_of(std::int64_t tp) { return {.micro_batch = 1, .sequence = 4096, .tp = tp, .sequence_parallel = tp > 1}; }

double saved_bytes(const Layer& layer) {
  double bytes = 0;
  for (const SavedTensor& t : layer.saved) bytes += static_cast<double>(t.bytes);
  return bytes;
}

struct ForwardFlops {
  double products = 0, attention = 0;
};
ForwardFlops forward_flops(LayerKind kind, const Model& model, std::int64_t tp) {
  ForwardFlops f;
  const Layer layer = make_layer(kind, model, Training(), shard_of(tp), StackKernels());
  for (const Operation& op : layer.forward) {
    if (const auto* gemm = std::get_if<Gemm>(&op.work)) f.products += gemm->flops().value();
    if (const auto* attention = std::get_if<Attention>(&op.work)) f.attention += attention->flops().value();
  }
  return f;
}

}  // namespace

TEST_CASE("memory of Llama 3 70B cut to 12 layers: states, kept activations and fp32 logits are within 4 % of what was measured") {
  struct Case {
    const char* id;
    std::int64_t tp, dp, layers, in_flight;
    bool first_of_two;  ///< the stage with the embedding; else embedding, layers, head
    double expected_gib, measured_gib;
  };
  const Model model = shipped_model("llama-3-70b");
  const StateBytes states = state_bytes(Training());
  for (const Case& c : {Case{"mem.total.llama70b_l12.tp1pp2dp4", 1, 4, 6, 2, true, 64.4129333496, 66.55},
                        Case{"mem.total.llama70b_l12.tp2dp4", 2, 4, 12, 1, false, 59.1043395996, 60.68},
                        Case{"mem.total.llama70b_l12.tp4dp2", 4, 2, 12, 1, false, 38.1919555664, 39.07},
                        Case{"mem.total.llama70b_l12.tp8dp1", 8, 1, 12, 1, false, 27.7357635498, 28.29}}) {
    INFO(c.id);
    // The reference divides norms by tp as well, and leaves the last one out.
    const auto parameters = [&](LayerKind kind) { return static_cast<double>(layer_parameters(kind, model, shard_of(1)).total()); };
    double held = static_cast<double>(c.layers) * parameters(LayerKind::kDecoder) + parameters(LayerKind::kEmbedding);
    if (!c.first_of_two) held += parameters(LayerKind::kHead) - static_cast<double>(model.hidden);
    const double state = held / static_cast<double>(c.tp) * (states.parameter + states.gradient + (states.master + states.optimizer) / static_cast<double>(c.dp));
    const double kept = static_cast<double>(c.in_flight * c.layers) * saved_bytes(make_layer(LayerKind::kDecoder, model, Training(), shard_of(c.tp), StackKernels()));
    const double logits = c.first_of_two ? 0 : 4.0 * 4096 * static_cast<double>(model.vocab) / static_cast<double>(c.tp);
    const double gib = (state + kept + logits) / static_cast<double>(kGiB);
    CHECK(gib == Approx(c.expected_gib).epsilon(1e-9));
    CHECK(gib == Approx(c.measured_gib).epsilon(0.04));
  }
}

TEST_CASE("a checkpoint of Llama 3.1 405B holds weights, master copy and both moments: 14 bytes per parameter") {
  INFO("mem.ckpt.405b");
  const StateBytes s = state_bytes(Training());
  CHECK((s.parameter + s.master + s.optimizer) * 405.9e9 / 1e12 == Approx(5.6826).epsilon(1e-9));
}

TEST_CASE("a microbatch on B200 from counts and the machine's own rates is within 10 % of what was measured") {
  struct Case {
    const char* id;
    const char* model;
    std::int64_t tp, layers;
    double forward_tflops, backward_tflops, efficiency, tp_ms, expected_ms, measured_ms;
  };
  constexpr double kPeak = 2250e12, kBandwidth = 8e12, kTokens = 4096;
  for (const Case& c : {Case{"composite.b200.llama70b_tp1pp2", "llama-3-70b", 1, 6, 980, 821, 0.49, 0, 153.393515934, 158.45},
                        Case{"composite.b200.llama70b_tp2", "llama-3-70b", 2, 12, 823, 896, 0.49, 10.482798, 149.877716473, 165.375},
                        Case{"composite.b200.llama405b_tp1pp2", "llama-3.1-405b", 1, 2, 1121, 936, 0.5, 0, 196.307299271, 215.2}}) {
    INFO(c.id);
    const Model m = shipped_model(c.model);
    const auto layers = static_cast<double>(c.layers), tp = static_cast<double>(c.tp);
    const ForwardFlops layer = forward_flops(LayerKind::kDecoder, m, c.tp), head = forward_flops(LayerKind::kHead, m, c.tp);
    const double products = 3 * (layers * layer.products + head.products) / (c.efficiency * kPeak);
    const double attention = layers * layer.attention * (1 / (c.forward_tflops * 1e12) + 2.5 / (c.backward_tflops * 1e12));
    const auto h = static_cast<double>(m.hidden), f = static_cast<double>(m.ffn_hidden), v = static_cast<double>(m.vocab);
    const auto heads = static_cast<double>((m.heads + m.kv_heads) * m.head_dim);
    const double elementwise = 3 * (14 * h + 4 * heads + 6 * f) * kTokens * layers / tp / (0.67 * kBandwidth);
    const double loss = 20 * kTokens * v / tp / (0.3 * kBandwidth);
    const double ms = 1e3 * (products + attention + elementwise + loss) + c.tp_ms;
    CHECK(ms == Approx(c.expected_ms).epsilon(1e-6));
    CHECK(ms == Approx(c.measured_ms).epsilon(0.1));
  }
}
