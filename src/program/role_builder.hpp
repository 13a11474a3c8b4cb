#pragma once
// Writes one role's item list: compute passes in host order, events between streams, memory.
#include <cstdint>
#include <vector>

#include "orrery/program/build.hpp"
#include "passes.hpp"

namespace orrery::program {

/// Appends items to a role. An event stands for "everything on that stream up to here"; waits are attached to the next compute item.
class RoleBuilder {
 public:
  RoleBuilder(Role& role, std::vector<Request>& requests, const Stack& stack) : role_(role), requests_(requests), stack_(stack) {}

  void set_position(std::int32_t microbatch, std::int32_t chunk) {
    microbatch_ = microbatch;
    chunk_ = chunk;
  }
  void allocate(MemoryKind kind, std::int64_t bytes) { memory(ItemKind::kAllocate, kind, bytes); }
  void free(MemoryKind kind, std::int64_t bytes) { memory(ItemKind::kFree, kind, bytes); }
  /// The next compute item waits for `event` (kNoEvent: nothing).
  void wait(std::uint32_t event);
  /// An event recorded when all compute issued so far has ended; kNoEvent where nothing was issued.
  std::uint32_t compute_done();
  /// Compute-stream pieces of a pass.
  void pass(const Pass& pass);
  void segment(std::uint32_t index, double extra_host_us = 0);
  /// Extra host time in front of the next items (checkpointed region, step).
  void host_work(double us);
  void host_sync(std::uint32_t event);
  /// A collective on the compute stream, or on another stream after `after`; returns the event of its end (kNoEvent on compute).
  std::uint32_t collective(Stream stream, const Request& request, std::uint32_t after = kNoEvent);
  /// A batch of sends and receives, likewise.
  std::uint32_t batch(Stream stream, std::vector<PointToPoint> members, std::uint32_t after = kNoEvent);

  Role& role() { return role_; }
  std::vector<Request>& requests() { return requests_; }

 private:
  void memory(ItemKind kind, MemoryKind memory, std::int64_t bytes);
  std::uint32_t device(Item item, std::uint32_t after);
  std::uint32_t new_event() { return role_.events++; }

  Role& role_;
  std::vector<Request>& requests_;
  const Stack& stack_;
  std::int32_t microbatch_ = -1, chunk_ = -1;
  std::vector<std::uint32_t> pending_waits_;
  std::size_t last_compute_ = SIZE_MAX;
};

}  // namespace orrery::program
