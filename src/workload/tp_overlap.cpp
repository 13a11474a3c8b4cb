// Collectives of sequence parallelism under their products, cut into pieces (modelling 8.5).
//
// A gather brings the rows of one piece while the product of the piece before runs; a scatter sends what one piece made while the next runs.
// With G and C the whole product and collective, n pieces take max(G, C) + min(G, C)/n, and what smaller products lose. The first piece of
// a gather and the last of a scatter have nothing to run under.
//
// kPipelined: n collectives of a share each, over NVLink with some SMs (Transformer Engine userbuffers "pipeline"; num_splits 4 in
// common/comm_gemm_overlap). kRing: one piece a rank, moved by copy engines (userbuffers "ring_exchange" with use_ce; PyTorch
// _symmetric_memory fused_all_gather_matmul, fused_matmul_reduce_scatter): its own piece is there already, and in a scatter it stays; pieces
// of a scatter go to their owners as made, who add them up at the end.
#include "writer.hpp"

namespace orrery::workload {
namespace {
constexpr std::int64_t kSplits = 4;
}

std::int64_t Writer::tp_pieces() const {
  if (!s.sp) return 1;
  if (shard.tp_overlap == TpOverlap::kRing) return s.tp;
  return shard.tp_overlap == TpOverlap::kPipelined ? std::min(kSplits, s.shard_tokens) : 1;
}

Comm Writer::overlapped(CommKind kind, std::int64_t n) {
  return {kind, Axis::kTp, n, tape.ticket(), kind == CommKind::kSendRecv ? 0 : kernels.tp_overlap_sms};
}

void Writer::gather_under(const std::string& name, TensorId part, TensorId whole, std::int64_t n, const Step& step, const Piece& compute) {
  const std::int64_t pieces = tp_pieces();
  const bool ring = shard.tp_overlap == TpOverlap::kRing;
  std::vector<int> tickets;
  for (std::int64_t i = ring ? 1 : 0; i < pieces; ++i) {
    const Comm comm = overlapped(ring ? CommKind::kSendRecv : CommKind::kAllGather, n * (i + 1) / pieces - n * i / pieces);
    step({(ring ? "pass_on_" : "all_gather_") + name, comm}, {part}, {whole}, kNoRegion);
    tickets.push_back(comm.ticket);
  }
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t waits = ring ? i - 1 : i;
    if (waits >= 0) step({"wait_" + name, Await{tickets[static_cast<std::size_t>(waits)]}}, {}, {}, kNoRegion);
    compute(s.tokens * (i + 1) / pieces - s.tokens * i / pieces);
  }
}

void Writer::scatter_under(const std::string& name, TensorId partial, TensorId out, std::int64_t n, const Step& step, const Piece& compute) {
  const std::int64_t pieces = tp_pieces();
  const bool ring = shard.tp_overlap == TpOverlap::kRing;
  int last = -1;
  for (std::int64_t i = 0; i < pieces; ++i) {
    compute(s.tokens * (i + 1) / pieces - s.tokens * i / pieces);
    if (ring && i + 1 == pieces) break;
    const Comm comm = overlapped(ring ? CommKind::kSendRecv : CommKind::kReduceScatter, n * (i + 1) / pieces - n * i / pieces);
    step({(ring ? "pass_on_" : "reduce_scatter_") + name, comm}, {partial}, {ring ? partial : out}, kNoRegion);
    last = comm.ticket;
  }
  step({"wait_" + name, Await{last}}, {partial}, {}, kNoRegion);
  if (ring) step({"reduce_" + name, Stream{StreamKind::kReduce, n, n / pieces, 1}}, {partial}, {out}, kScatterResult);
}

}  // namespace orrery::workload
