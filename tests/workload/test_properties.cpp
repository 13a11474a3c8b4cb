// What holds for every layer, whatever the model, recipe, stack and shard.
#include <algorithm>
#include <string>
#include <vector>

#include "catch.h"
#include "orrery/base/checked.hpp"
#include "random_layers.hpp"
#include "samples.hpp"

using namespace orrery;
using namespace orrery::workload;
using namespace orrery::workload::samples;

namespace {

constexpr LayerKind kKinds[] = {LayerKind::kEmbedding, LayerKind::kDecoder, LayerKind::kHead};

bool inside(int i, const std::vector<Operation>& list) { return i >= 0 && static_cast<std::size_t>(i) < list.size(); }

/// Plays the three passes, allocating before and freeing after each operation; the level never falls below zero and ends at zero.
void books_balance(const Layer& layer) {
  const auto index = [](int i) { return static_cast<std::size_t>(i); };
  std::vector<std::int64_t> forward(layer.forward.size() + 1), recompute(layer.recompute.size() + 1), backward(layer.backward.size() + 1);
  std::vector<std::int64_t> forward_free(forward.size()), recompute_free(recompute.size()), backward_free(backward.size());
  for (const Tensor& t : layer.forward_tensors) {
    RC_ASSERT(t.bytes > 0 && t.alloc_at <= t.free_at && inside(t.alloc_at, layer.forward) && inside(t.free_at, layer.forward));
    forward[index(t.alloc_at)] += t.bytes, forward_free[index(t.free_at)] += t.bytes;
  }
  for (const SavedTensor& t : layer.saved) {
    RC_ASSERT(t.bytes > 0 && inside(t.forward_alloc_at, layer.forward) && inside(t.backward_free_at, layer.backward));
    forward[index(t.forward_alloc_at)] += t.bytes, backward_free[index(t.backward_free_at)] += t.bytes;
  }
  for (const Tensor& t : layer.recompute_tensors) {
    RC_ASSERT(t.bytes > 0 && inside(t.alloc_at, layer.recompute) && inside(t.free_at, layer.backward));
    recompute[index(t.alloc_at)] += t.bytes, backward_free[index(t.free_at)] += t.bytes;
  }
  for (const Tensor& t : layer.recompute_temporaries) {
    RC_ASSERT(t.bytes > 0 && t.alloc_at <= t.free_at && inside(t.alloc_at, layer.recompute) && inside(t.free_at, layer.recompute));
    recompute[index(t.alloc_at)] += t.bytes, recompute_free[index(t.free_at)] += t.bytes;
  }
  for (const Tensor& t : layer.backward_tensors) {
    RC_ASSERT(t.bytes > 0 && t.alloc_at <= t.free_at && inside(t.alloc_at, layer.backward) && inside(t.free_at, layer.backward));
    backward[index(t.alloc_at)] += t.bytes, backward_free[index(t.free_at)] += t.bytes;
  }
  std::int64_t level = 0;
  const auto play = [&level](const std::vector<std::int64_t>& allocate, const std::vector<std::int64_t>& release) {
    for (std::size_t i = 0; i < allocate.size(); ++i) {
      level += allocate[i] - release[i];
      RC_ASSERT(level >= 0);
    }
  };
  play(forward, forward_free);
  RC_ASSERT(level == saved_bytes(layer));
  play(recompute, recompute_free);
  play(backward, backward_free);
  RC_ASSERT(level == 0);
}

/// GEMM and attention FLOPs of the three passes.
double all_work(const Layer& layer) { return work(layer.forward).total() + work(layer.recompute).total() + work(layer.backward).total(); }

void all_sizes_positive(const std::vector<Operation>& operations) {
  for (const Operation& op : operations) {
    RC_ASSERT(!op.name.empty());
    if (const auto* g = std::get_if<Gemm>(&op.work)) RC_ASSERT(g->m > 0 && g->n > 0 && g->k > 0 && g->batch > 0);
    if (const auto* a = std::get_if<Attention>(&op.work)) RC_ASSERT(a->flops().value() > 0);
    if (const auto* s = std::get_if<Stream>(&op.work)) RC_ASSERT(s->read_bytes >= 0 && s->write_bytes >= 0 && s->read_bytes + s->write_bytes > 0 && s->kernels > 0);
    if (const auto* c = std::get_if<Comm>(&op.work)) RC_ASSERT(c->bytes > 0);
  }
}

/// What is started beside the rest is waited for later in the same pass, by its own ticket or by that of one after it on its axis.
void tickets_match(const std::vector<Operation>& operations) {
  std::vector<Comm> open;
  for (const Operation& op : operations) {
    if (const auto* comm = std::get_if<Comm>(&op.work); comm != nullptr && comm->ticket >= 0) open.push_back(*comm);
    if (const auto* await = std::get_if<Await>(&op.work)) {
      const auto found = std::find_if(open.begin(), open.end(), [&](const Comm& c) { return c.ticket == await->ticket; });
      RC_ASSERT(found != open.end());
      std::vector<Comm> left;
      for (auto it = open.begin(); it != open.end(); ++it) {
        if (it > found || it->axis != found->axis) left.push_back(*it);
      }
      open = left;
    }
  }
  RC_ASSERT(open.empty());
}

}  // namespace

TEST_CASE("every tensor lives inside its passes and every byte that is saved is freed") {
  CHECK(rc::check("memory balances", [] {
    const Case c = random_case();
    for (const LayerKind kind : kKinds) {
      const Layer layer = make_layer(kind, c.model, c.training, c.shard, c.kernels);
      books_balance(layer);
      all_sizes_positive(layer.forward);
      all_sizes_positive(layer.recompute);
      all_sizes_positive(layer.backward);
      all_sizes_positive(layer.once_per_step);
      tickets_match(layer.forward);
      tickets_match(layer.recompute);
      tickets_match(layer.backward);
      for (const int i : layer.weight_gradient) RC_ASSERT(inside(i, layer.backward));
      RC_ASSERT(layer.parameters.total() > 0);
    }
  }));
}

TEST_CASE("recompute never works less, and keeps no more where operands are not quantised") {
  CHECK(rc::check("recompute trades", [] {
    Case c = random_case();
    const Layer with = make_layer(LayerKind::kDecoder, c.model, c.training, c.shard, c.kernels);
    RC_PRE(c.training.recompute.modules != std::vector<std::string>{"matmul_every_other"});  // keeps whole products, some of which nothing needs
    const bool none = c.training.recompute.mode == RecomputeMode::kNone;
    const bool compiled_norm = c.training.fusion == Fusion::kCompiled;  // a norm that is re-run alone is not merged with the residual
    c.training.recompute = {};
    const Layer without = make_layer(LayerKind::kDecoder, c.model, c.training, c.shard, c.kernels);
    // A quantised operand has two orientations: a checkpoint keeps the one that its re-run reads beside the one for backward.
    if (element_bytes(c.training.precision) >= 2) RC_ASSERT(saved_bytes(with) <= saved_bytes(without));
    RC_ASSERT(all_work(with) >= all_work(without));
    RC_ASSERT(none == with.recompute.empty());
    if (!compiled_norm) RC_ASSERT(with.forward == without.forward && with.backward == without.backward);
  }));
}

TEST_CASE("tensor and context parallelism split the work of a layer without rest") {
  CHECK(rc::check("ranks share", [] {
    Case c = random_case();
    const auto tp = static_cast<double>(c.shard.tp);
    for (const LayerKind kind : {LayerKind::kDecoder, LayerKind::kHead}) {
      c.shard.vocab_multiple = 1;
      c.model.vocab = 8 * ceil_div(c.model.vocab, 8);
      const Layer part = make_layer(kind, c.model, c.training, c.shard, c.kernels);
      Shard one = c.shard;
      one.tp = one.cp = 1;
      one.cp_rank = 0;
      const Layer whole = make_layer(kind, c.model, c.training, one, c.kernels);
      double forward = 0, backward = 0;
      for (c.shard.cp_rank = 0; c.shard.cp_rank < c.shard.cp; ++c.shard.cp_rank) {
        const Layer of_rank = make_layer(kind, c.model, c.training, c.shard, c.kernels);
        forward += work(of_rank.forward).total();
        backward += work(of_rank.backward).total();
      }
      c.shard.cp_rank = 0;
      RC_ASSERT(tp * forward == work(whole.forward).total());
      RC_ASSERT(tp * backward == work(whole.backward).total());
      RC_ASSERT(part.parameters.sharded * c.shard.tp == whole.parameters.sharded);
      RC_ASSERT(part.parameters.replicated == whole.parameters.replicated);
    }
  }));
}

TEST_CASE("more tokens, layers wider or a larger vocabulary never mean less work, memory or parameters") {
  CHECK(rc::check("monotone", [] {
    const Case c = random_case();
    Case more = c;
    switch (*rc::gen::inRange(0, 5)) {
      case 0: more.shard.micro_batch += 1; break;
      case 1: more.shard.sequence += 32; break;
      case 2: more.model.hidden += 64; break;
      case 3: more.model.ffn_hidden += 64; break;
      default: more.model.vocab += 1000; break;
    }
    for (const LayerKind kind : kKinds) {
      const Layer less = make_layer(kind, c.model, c.training, c.shard, c.kernels);
      const Layer larger = make_layer(kind, more.model, more.training, more.shard, more.kernels);
      RC_ASSERT(all_work(larger) >= all_work(less));
      RC_ASSERT(saved_bytes(larger) >= saved_bytes(less));
      RC_ASSERT(larger.parameters.total() >= less.parameters.total());
    }
  }));
}

TEST_CASE("the exact counter is the layers' own work for every model") {
  CHECK(rc::check("counter", [] {
    const Model m = random_model();
    Training t;
    t.causal = *rc::gen::arbitrary<bool>();
    const Shard one{.micro_batch = 1, .sequence = 96};
    const Layer decoder = make_layer(LayerKind::kDecoder, m, t, one, StackKernels{});
    const Layer head = make_layer(LayerKind::kHead, m, t, one, StackKernels{});
    const double forward = static_cast<double>(m.layers) * work(decoder.forward).total() + work(head.forward).total();
    RC_ASSERT(forward * 3 == count(m, 96, t.causal).exact * 96);
  }));
}
