#pragma once
// What the engine plays: ranks with streams of instructions, groups and channels they meet on, and resources that activities share.
// Everything is an integer: times in ps, rates in units of 2^-40 byte/ps, weights in units of 2^-24 (design section 2).
// The engine knows no GPU, no model and no collective algorithm; `lower` makes this input, and folding maps one input to a smaller one.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "orrery/base/checked.hpp"
#include "orrery/base/sim_time.hpp"

namespace orrery::engine {

inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
inline constexpr int kRateBits = 40;                                 ///< rate unit: 2^-40 byte/ps
inline constexpr int kWeightBits = 24;                               ///< weight unit: 2^-24
inline constexpr std::int64_t kMaxCapacity = std::int64_t{1} << 50;  ///< rate units, also of a cap
inline constexpr std::int64_t kMaxWeights = std::int64_t{1} << 52;   ///< weight units in flight on one resource

/// One direction of a link or port. In a folded input it stands for `multiplicity` alike ones, and its capacity is that of one of them.
struct Resource {
  std::int64_t capacity = 0;  ///< rate units
  std::int64_t multiplicity = 1;
  bool passive = false;  ///< can never bind: left out of the solution, load and bytes still counted
  bool operator==(const Resource&) const = default;
};

/// weight · θ is what one activity takes from the resource (θ: rate of its reference flow).
struct Usage {
  std::uint32_t resource = 0;
  std::int64_t weight = 0;  ///< weight units, > 0
  bool operator==(const Usage&) const = default;
};
/// A range of Input::usages.
struct UsageRange {
  std::uint32_t begin = 0, end = 0;
  bool operator==(const UsageRange&) const = default;
};

/// How one communication runs once all have launched: latency without bandwidth, then `work` at rate <= cap.
/// Alone it ends latency + ceil(work/cap) after its start. work = 0: it ends after the latency.
struct Transfer {
  SimTime latency = 0;
  std::int64_t cap = 0;            ///< rate units; 0 only where work is 0
  int128 work = 0;                 ///< rate units x ps
  std::uint32_t usage_set = 0;     ///< which of its group's usage ranges it takes; 0 for channels
  std::uint32_t account = 0;       ///< whose time it is when a compute stream waits for it in flight (Input::accounts)
  std::int64_t reference_bytes = 0;///< true bytes of the reference flow: a resource carries weight/2^24 times this
  std::int32_t sms = 0;            ///< footprint: SMs held on each rank from its own launch to the end
  std::int64_t hbm = 0;            ///< footprint: rate units of HBM bandwidth held from start to end
  bool operator==(const Transfer&) const = default;
};

/// Ranks that meet in a collective. Its k-th collective starts when every member has launched its k-th. The transfer that runs is
/// first_transfer + the instruction's transfer.
struct Group {
  std::vector<std::uint32_t> members;  ///< ranks, ascending; in a folded input the distinct classes
  std::vector<UsageRange> usage_sets;  ///< per Transfer::usage_set
  std::uint32_t first_transfer = 0;
  std::uint32_t kind = 0;              ///< colour for folding: equal for groups that play the same part
  std::int64_t multiplicity = 1;       ///< folded: how many groups it stands for
};

/// One-way channel from a sender to a receiver; the k-th send meets the k-th receive.
struct Channel {
  std::uint32_t sender = 0, receiver = 0;
  UsageRange usage;
  std::uint32_t first_transfer = 0;
  std::uint32_t kind = 0;
  std::int64_t multiplicity = 1;
};

/// One member of a batch.
struct PointToPoint {
  bool send = false;
  std::uint32_t channel_slot = 0;  ///< index into the rank's channels
  std::uint32_t transfer = 0;      ///< relative to the channel's first_transfer
};

enum class Op : std::uint8_t { kSegment, kCollective, kBatch, kRecord, kWait };

/// A device instruction. `wait` and `record` save separate instructions: it starts only after event `wait`, and records `record` at its
/// end. Events are local to the rank and recorded once each.
struct Instruction {
  Op op = Op::kSegment;
  std::uint32_t index = 0;     ///< kSegment: Program::segments; kCollective: Program::collectives; kBatch: Program::batches; else unused
  std::uint32_t wait = kNone;
  std::uint32_t record = kNone;
};

/// Kernels in a row in which no communication can start. Its duration in every mode comes from SegmentTimes.
struct Segment {
  std::uint32_t account = 0;   ///< whose time it is while it runs
  SimTime wave = 0;            ///< a communication launched while it runs starts up to this much later (min with what remains)
};

struct Collective {
  std::uint32_t group_slot = 0;  ///< index into the rank's groups
  std::uint32_t transfer = 0;    ///< relative to the group's first_transfer
};

/// The host's list, in program order. The host clock advances by `cost` for each; kIssue makes the next instruction of `stream` known to
/// the device, which may start it at host-clock-before + lead or later. kSync waits until `event` is recorded. Memory is counted when the
/// host passes. A captured graph is one kIssue with many launches counted as one.
enum class HostOp : std::uint8_t { kIssue, kAllocate, kFree, kWork, kSync };
struct HostInstruction {
  HostOp op = HostOp::kIssue;
  std::uint8_t stream = 0;
  std::uint8_t memory_kind = 0;
  std::uint32_t launches = 1;  ///< device launches that this counts for the run-ahead limit
  std::uint32_t event = kNone;
  SimTime cost = 0;
  SimTime lead = 0;            ///< <= cost + a segment's own length; see Segment
  std::int64_t bytes = 0;      ///< kAllocate, kFree
};

/// What ranks of one role run. Stream 0 is the compute stream: the one whose waiting is accounted.
struct Program {
  std::vector<HostInstruction> host;
  std::vector<std::vector<Instruction>> streams;
  std::vector<Segment> segments;
  std::vector<Collective> collectives;
  std::vector<std::vector<PointToPoint>> batches;
  std::uint32_t events = 0;  ///< events 0 … events-1 are used
};

struct Rank {
  std::uint32_t program = 0;
  std::uint32_t variant = 0;  ///< of the hardware: SegmentTimes may differ
  std::vector<std::uint32_t> groups;    ///< by group slot
  std::vector<std::uint32_t> channels;  ///< by channel slot
  std::int64_t multiplicity = 1;
  std::uint32_t lowest = 0;  ///< lowest rank of the class: itself in an unfolded input
};

/// Accounts 0 and 1 are the engine's; `lower` names the rest.
inline constexpr std::uint32_t kWaitsForPeer = 0;  ///< bubble: the peer has not started it, or the rank has finished
inline constexpr std::uint32_t kWaitsForHost = 1;  ///< launch and host

struct Input {
  std::vector<Resource> resources;
  std::vector<Usage> usages;
  std::vector<Transfer> transfers;
  std::vector<Group> groups;
  std::vector<Channel> channels;
  std::vector<Program> programs;
  std::vector<Rank> ranks;
  std::uint32_t accounts = 2;      ///< how many accounts there are
  std::uint32_t memory_kinds = 0;
  std::uint32_t run_ahead = 1000;  ///< launches the host may be beyond the oldest one not yet started
};

/// Durations of segments by mode; asked once per (program, segment, variant, mode) and remembered by the engine. Must be pure.
class SegmentTimes {
 public:
  virtual ~SegmentTimes() = default;
  /// ps for the whole segment while `sms` SMs and `hbm` rate units of HBM bandwidth are held by communication. 0 is allowed.
  virtual SimTime duration(std::uint32_t program, std::uint32_t segment, std::uint32_t variant, std::int32_t sms, std::int64_t hbm) const = 0;
};

/// Bounds of design section 2 that the input breaks, in words; empty where it is sound.
std::vector<std::string> check(const Input& input);

}  // namespace orrery::engine
