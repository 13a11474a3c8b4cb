#pragma once
// Writes one role's item list: compute passes in host order, events between streams, memory.
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "block_recorder.hpp"
#include "orrery/program/build.hpp"
#include "passes.hpp"

namespace orrery::program {

/// Appends items to a role. An event stands for "everything on that stream up to here"; waits are attached to the next compute item.
class RoleBuilder {
 public:
  RoleBuilder(Role& role, std::vector<Request>& requests, const Stack& stack, const plan::Parallelism& parallelism)
      : role_(role), requests_(requests), stack_(stack), parallelism_(parallelism), blocks_(role.blocks) {}

  void set_position(std::int32_t microbatch, std::int32_t chunk) {
    microbatch_ = microbatch;
    chunk_ = chunk;
  }
  /// One tensor. `pool`: the stream that it is taken on (a free takes the oldest of its kind and size).
  void allocate(MemoryKind kind, std::int64_t bytes, Stream pool = Stream::kCompute) {
    memory(ItemKind::kAllocate, kind, bytes);
    blocks_.allocate(kind, bytes, static_cast<std::uint8_t>(pool));
  }
  void free(MemoryKind kind, std::int64_t bytes) {
    memory(ItemKind::kFree, kind, bytes);
    blocks_.free(kind, bytes);
  }
  /// Bytes in the timeline alone: their tensors are written to blocks() one by one.
  void account(ItemKind kind, MemoryKind memory_kind, std::int64_t bytes) { memory(kind, memory_kind, bytes); }
  BlockRecorder& blocks() { return blocks_; }
  /// The next compute item waits for `event` (kNoEvent: nothing).
  void wait(std::uint32_t event);
  /// An event recorded when all compute issued so far has ended; kNoEvent where nothing was issued.
  std::uint32_t compute_done();
  /// Instructions issued to the compute stream so far.
  [[nodiscard]] std::uint32_t compute_issued() const { return compute_issued_; }
  /// Compute-stream pieces of a pass, for which `base` is where the handles of its layer and microbatch begin.
  void pass(const Pass& pass, std::uint32_t base);
  /// The forward pass of layer `layer` of the present chunk: what it keeps is found again by the passes after it.
  void opening_pass(const Pass& pass, std::size_t layer, std::uint32_t slots);
  void inner_pass(const Pass& pass, std::size_t layer) { this->pass(pass, base(layer).second); }
  /// The last pass of a layer and microbatch: nothing of it is left.
  void closing_pass(const Pass& pass, std::size_t layer, std::uint32_t slots);
  /// A pass piece by piece: handles are opened or found, the pass begun, its pieces issued in order, and closed handles given back.
  std::uint32_t open(std::size_t layer, std::uint32_t slots);
  [[nodiscard]] std::uint32_t handles(std::size_t layer) { return base(layer).second; }
  void close(std::size_t layer, std::uint32_t slots);
  void start(const Pass& pass, std::uint32_t base);
  /// ended: events of the pass' tickets.
  void issue(const Piece& piece, std::vector<std::uint32_t>& ended);
  /// A collective of the compute stream on the experts' stream instead, behind all compute so far; the event of its end. What it reads stays
  /// until `settle`, where the compute stream waits for `ended` (kNoEvent: it has waited already).
  std::uint32_t issue_beside(const Piece& piece);
  void settle(const Piece& piece, std::uint32_t ended);
  /// A pass that keeps nothing.
  void lone_pass(const Pass& pass, std::uint32_t slots);
  void segment(std::uint32_t index, double extra_host_us = 0);
  /// Extra host time in front of the next items (checkpointed region, step).
  void host_work(double us);
  void host_sync(std::uint32_t event);
  /// A collective on the compute stream, or on another stream after `after`; returns the event of its end (kNoEvent on compute).
  std::uint32_t collective(Stream stream, const Request& request, std::uint32_t after = kNoEvent);
  /// An event of its own for "all compute so far", which no segment carries: ranks that skip a segment have it too.
  std::uint32_t mark();
  /// A batch of sends and receives, likewise.
  std::uint32_t batch(Stream stream, std::vector<PointToPoint> members, std::uint32_t after = kNoEvent);

  Role& role() { return role_; }
  std::vector<Request>& requests() { return requests_; }

 private:
  void memory(ItemKind kind, MemoryKind memory, std::int64_t bytes);
  std::uint32_t device(Item item, std::uint32_t after);
  std::uint32_t new_event() { return role_.events++; }

  /// Handles of a layer and microbatch in flight.
  std::pair<std::int32_t, std::uint32_t>& base(std::size_t layer);

  Role& role_;
  std::vector<Request>& requests_;
  const Stack& stack_;
  const plan::Parallelism& parallelism_;
  BlockRecorder blocks_;
  std::map<std::pair<std::int32_t, std::size_t>, std::vector<std::pair<std::int32_t, std::uint32_t>>> in_flight_;  ///< by chunk and layer: (microbatch, base)
  std::int32_t microbatch_ = -1, chunk_ = -1;
  std::vector<std::uint32_t> pending_waits_;
  std::size_t last_compute_ = SIZE_MAX;
  std::uint32_t compute_issued_ = 0;
};

}  // namespace orrery::program
