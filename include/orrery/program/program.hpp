#pragma once
// The Program: for every rank role, in host order, the instructions of its streams as a GPU would get them. No durations and no
// placement here: `lower` adds those. Ranks of one role (one pipeline stage, and alike in it) share one program.
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "orrery/plan/plan.hpp"
#include "orrery/workload/operation.hpp"

namespace orrery::program {

inline constexpr std::uint32_t kNoEvent = std::numeric_limits<std::uint32_t>::max();

/// Streams of a rank. Collectives that the compute stream would wait for anyway (TP without overlap, the end of the step) are issued on
/// it; blocking pipeline traffic too. The rest overlap and have streams of their own.
enum class Stream : std::uint8_t {
  kCompute, kGradReduce, kParamGather, kForwardSend, kForwardReceive, kBackwardSend, kBackwardReceive, kUpForwardSend, kUpForwardReceive, kUpBackwardSend,
  kUpBackwardReceive, kCopyOut, kCopyIn, kHostUpdate, kContext, kReplicaReduce, kTensor, kExperts
};
inline constexpr std::size_t kStreams = 18;
const char* to_string(Stream s);

enum class MemoryKind : std::uint8_t { kParameters, kGradients, kOptimizer, kActivations, kBuffers, kFramework };
inline constexpr std::size_t kMemoryKinds = 6;
inline constexpr std::array<const char*, kMemoryKinds> kMemoryKindNames = {"parameters", "gradients", "optimizer", "activations", "buffers", "framework"};

enum class Phase : std::uint8_t { kForward, kBackward, kRecompute, kOptimizer };
const char* to_string(Phase p);

/// Kernels in a row on the compute stream. Host time is `host_op_us` per launch.
struct Segment {
  std::string name;                         ///< "decoder forward 2": for traces
  Phase phase = Phase::kForward;
  std::vector<workload::Operation> operations;  ///< none is a Comm
  double host_op_us = 0;
};

/// A collective over one of the rank's groups; equal requests share an entry.
struct Request {
  workload::Axis axis = workload::Axis::kTp;
  workload::CommKind kind = workload::CommKind::kAllReduce;
  std::int64_t bytes = 0;
  int sms = -1;                 ///< that its kernel holds; -1: NCCL's choice
  workload::TokenRoute route{};
  bool operator==(const Request&) const = default;
};

/// Pipeline channels of a rank, by slot: the next stage is (s + 1) mod pp. The last four are of chunks that microbatches pass upward, from
/// the last stage to the first: their activations go to the stage before, their gradients to the next.
enum class Slot : std::uint8_t { kForwardOut, kForwardIn, kBackwardOut, kBackwardIn, kUpForwardOut, kUpForwardIn, kUpBackwardOut, kUpBackwardIn };
inline constexpr std::size_t kSlots = 8;
/// The stream of a slot's own, where traffic overlaps.
constexpr Stream stream_of(Slot s) { return static_cast<Stream>(static_cast<std::uint8_t>(Stream::kForwardSend) + static_cast<std::uint8_t>(s)); }
/// The slot at the other end.
constexpr Slot other_end(Slot s) { return static_cast<Slot>(static_cast<std::uint8_t>(s) ^ 1U); }
/// Whether the other end is at stage s + 1 (else s - 1).
constexpr bool meets_next(Slot s) {
  return s == Slot::kForwardOut || s == Slot::kBackwardIn || s == Slot::kUpForwardIn || s == Slot::kUpBackwardOut;
}

struct PointToPoint {
  Slot slot = Slot::kForwardOut;
  std::int64_t bytes = 0;
  [[nodiscard]] bool send() const { return static_cast<std::uint8_t>(slot) % 2 == 0; }
  bool operator==(const PointToPoint&) const = default;
};

enum class ItemKind : std::uint8_t { kSegment, kCollective, kBatch, kWait, kAllocate, kFree, kHostWork, kHostSync };

/// One step of the host's list. Device items (segment, collective, batch, wait) go to `stream` in this order.
struct Item {
  ItemKind kind = ItemKind::kSegment;
  Stream stream = Stream::kCompute;
  MemoryKind memory = MemoryKind::kActivations;
  std::uint32_t index = 0;       ///< Role::segments, Program::requests or Role::batches
  std::uint32_t wait = kNoEvent, record = kNoEvent;
  std::int32_t microbatch = -1, chunk = -1;  ///< for names in traces
  std::int64_t bytes = 0;        ///< kAllocate, kFree
  double host_us = 0;            ///< host time beyond the segment's launches; kHostWork: all of it
};

/// One tensor: taken from the allocator (bytes > 0), or given back (0). `pool`: the stream it is taken on; a block serves its own stream only.
struct BlockEvent {
  std::uint32_t slot = 0;
  MemoryKind memory = MemoryKind::kActivations;
  std::uint8_t pool = 0;
  std::int64_t bytes = 0;
};

/// A rank's tensors one by one, in the host's order. The items carry the same bytes in sums, one allocation and one free per piece, which
/// is what a timeline needs; how much an allocator reserves depends on the single sizes. Layers of a kind and microbatches share lists: a
/// call names a list and where its slots begin among the role's handles.
struct BlockTrace {
  struct List {
    std::vector<BlockEvent> events;
    bool first_step = false;     ///< states that the first update makes
  };
  struct Call {
    std::uint32_t list = 0, base = 0;
    bool operator==(const Call&) const = default;
  };
  std::vector<List> lists;
  std::vector<Call> start, step; ///< before the first step; of every step
  std::vector<std::size_t> marks;  ///< calls of `step` at which a pass of a microbatch begins
  std::uint32_t handles = 0;
};

/// An entry of the stage's order list, and which instruction of the compute stream its pass begins with.
struct PlacedEntry {
  plan::ScheduleEntry entry;
  std::uint32_t instruction = 0;
};

struct Role {
  std::int64_t stage = 0;
  std::int64_t variant = 0;           ///< among the roles of the stage
  BlockTrace blocks;
  std::vector<PlacedEntry> order;     ///< as issued; empty in programs that no schedule made
  std::vector<Item> items;
  std::vector<Segment> segments;
  std::vector<std::vector<PointToPoint>> batches;
  std::uint32_t events = 0;
  std::int64_t parameters = 0;        ///< of one rank
  std::int64_t layers = 0;
  std::int64_t host_bytes = 0;        ///< offloaded to host memory
  std::int64_t drive_bytes = 0;       ///< and to the node's drives
};

struct Program {
  std::vector<Role> roles;            ///< stage x variants() + variant
  std::vector<Request> requests;
  std::uint32_t run_ahead = 1000;
  plan::PipelineShape pipeline;       ///< of the roles' order lists
  /// How many ranks of a context-parallel or expert-parallel group have programs of their own; 1: they are alike. Roles of one stage
  /// communicate alike: the same requests, messages and events in the same order; only what they compute and hold differs.
  std::int64_t cp_variants = 1, ep_variants = 1;
  [[nodiscard]] std::int64_t variants() const { return cp_variants * ep_variants; }
  [[nodiscard]] std::int64_t stages() const { return static_cast<std::int64_t>(roles.size()) / variants(); }
  /// Index of the role of a rank.
  [[nodiscard]] std::size_t role_of(std::int64_t stage, std::int64_t cp_rank, std::int64_t ep_rank) const {
    return static_cast<std::size_t>(stage * variants() + (cp_variants > 1 ? cp_rank : 0) * ep_variants + (ep_variants > 1 ? ep_rank : 0));
  }
};

/// What is wrong with a program, naming stage, stream and instruction: order lists that cannot run, sends without receives, collectives that members issue in
/// another order, frees without allocations, events recorded twice or never, a cycle of waits. Empty where it is sound.
std::vector<std::string> verify(const Program& program);

}  // namespace orrery::program
