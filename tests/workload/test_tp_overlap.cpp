// Collectives of sequence parallelism under their products.
#include <algorithm>
#include <vector>

#include "catch.h"
#include "samples.hpp"

using namespace orrery;
using namespace orrery::workload;
using namespace orrery::workload::samples;

namespace {

constexpr TpOverlap kHow[] = {TpOverlap::kBulk, TpOverlap::kPipelined, TpOverlap::kRing};

Layer decoder(TpOverlap how, bool bulk = true) {
  StackKernels kernels;
  kernels.tp_overlap_bulk = bulk;
  return make_layer(LayerKind::kDecoder, llama3_70b(), Training{}, {.micro_batch = 1, .sequence = 8192, .tp = 8, .sequence_parallel = true, .tp_overlap = how}, kernels);
}

struct Tally {
  int pieces = 0;            ///< GEMMs
  int waited_for = 0;        ///< collectives that nothing runs beside
  std::int64_t rows = 0;
  double flops = 0;
};
Tally tally(const std::vector<Operation>& operations) {
  Tally t;
  for (const Operation& op : operations) {
    if (const auto* gemm = std::get_if<Gemm>(&op.work)) ++t.pieces, t.rows += gemm->m, t.flops += gemm->flops().value();
    if (const auto* comm = std::get_if<Comm>(&op.work)) t.waited_for += comm->ticket < 0 ? 1 : 0;
  }
  return t;
}

/// Bytes that a rank receives over the tensor-parallel group: (t-1)/t of a gather or scatter, all of a message.
std::int64_t received(const std::vector<Operation>& operations) {
  return (comm_bytes(operations, CommKind::kAllGather) + comm_bytes(operations, CommKind::kReduceScatter)) / 8 * 7 + comm_bytes(operations, CommKind::kSendRecv);
}

}  // namespace

TEST_CASE("however tensor-parallel collectives overlap, a layer computes and receives the same") {
  const Layer none = decoder(TpOverlap::kNone);
  for (const TpOverlap how : kHow) {
    for (const bool bulk : {true, false}) {
      const Layer layer = decoder(how, bulk);
      CHECK(tally(layer.forward).flops == tally(none.forward).flops);
      CHECK(tally(layer.backward).flops == tally(none.backward).flops);
      CHECK(received(layer.forward) == received(none.forward));
      CHECK(received(layer.backward) == received(none.backward));
      CHECK(saved_bytes(layer) == saved_bytes(none));
    }
  }
}

TEST_CASE("bulk overlap runs backward's gather under the input gradient and its scatter under the weight gradient, and nothing forward") {
  const Layer layer = decoder(TpOverlap::kBulk);
  CHECK(layer.forward == decoder(TpOverlap::kNone).forward);
  // Of six collectives of backward, the gathers of the row-parallel products' gradients are waited for.
  CHECK(tally(decoder(TpOverlap::kNone).backward).waited_for == 6);
  CHECK(tally(layer.backward).waited_for == 2);
  const std::vector<std::string> order = names(layer.backward);
  const auto at = [&](const std::string& name) { return std::find(order.begin(), order.end(), name) - order.begin(); };
  CHECK(at("all_gather_qkv") < at("qkv_input_gradient"));
  CHECK(at("qkv_input_gradient") < at("reduce_scatter_qkv"));
  CHECK(at("reduce_scatter_qkv") < at("wait_qkv"));
  CHECK(at("wait_qkv") < at("qkv_weight_gradient"));
  CHECK(at("qkv_weight_gradient") < at("wait_qkv_gradient"));
}

TEST_CASE("pipelined overlap cuts a product into four pieces, a ring into one a rank") {
  // Forward: qkv, projection, gate and up, down; backward: the two row-parallel input gradients.
  const Tally none = tally(decoder(TpOverlap::kNone).forward), none_backward = tally(decoder(TpOverlap::kNone).backward);
  for (const auto& [how, pieces] : {std::pair{TpOverlap::kPipelined, 4}, std::pair{TpOverlap::kRing, 8}}) {
    const Layer layer = decoder(how);
    CHECK(tally(layer.forward).pieces == pieces * none.pieces);
    CHECK(tally(layer.forward).rows == none.rows);
    CHECK(tally(layer.forward).waited_for == 0);
    CHECK(tally(layer.backward).pieces == none_backward.pieces + 2 * (pieces - 1));
    CHECK(tally(layer.backward).waited_for == 0);
  }
  // Copy engines move a ring's pieces; a pipelined collective holds the stack's SMs.
  for (const Operation& op : decoder(TpOverlap::kRing).forward) {
    if (const auto* comm = std::get_if<Comm>(&op.work)) CHECK((comm->kind == CommKind::kSendRecv && comm->sms == 0 && comm->bytes == 2 * 8192 * 8192 / 8));
  }
  for (const Operation& op : decoder(TpOverlap::kPipelined).forward) {
    if (const auto* comm = std::get_if<Comm>(&op.work)) CHECK((comm->sms == 16 && comm->bytes == 2 * 8192 * 8192 / 4));
  }
}

TEST_CASE("a stack without bulk overlap cuts the input gradient with its scatter and waits for the second gather") {
  const Layer layer = decoder(TpOverlap::kRing, false);
  CHECK(tally(layer.backward).waited_for == 2);
  const Tally none = tally(decoder(TpOverlap::kNone).backward);
  CHECK(tally(layer.backward).pieces == none.pieces + 4 * 7);
}

TEST_CASE("selective recompute of every other product counts the pieces of a product once") {
  Training t;
  t.recompute.mode = RecomputeMode::kSelective;
  t.recompute.modules = {"matmul_every_other"};
  const auto kept = [&](TpOverlap how) {
    return saved_bytes(make_layer(LayerKind::kDecoder, llama3_70b(), t, {.micro_batch = 1, .sequence = 8192, .tp = 8, .sequence_parallel = true, .tp_overlap = how}, StackKernels{}));
  };
  for (const TpOverlap how : kHow) CHECK(kept(how) == kept(TpOverlap::kNone));
}
