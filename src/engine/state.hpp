#pragma once
// What changes while an input is played: 64 bytes per stream and per activity, 128 per rank.
#include <cstdint>
#include <vector>

#include "engine/tables.hpp"
#include "orrery/base/sim_time.hpp"
#include "orrery/engine/input.hpp"

namespace orrery::engine {

enum class Phase : std::uint8_t {
  kIdle,      ///< the head instruction waits for its event or its issue
  kReady,     ///< queued at this instant
  kDelayed,   ///< a launch waits for SMs
  kSegment,   ///< runs
  kLaunched,  ///< a collective or batch is launched: peers are missing, or it is in flight
  kFinished,  ///< nothing is left
};

struct alignas(64) StreamState {
  SimTime since = 0;         ///< idle: the end of the one before; launched: the launch; segment: its start
  SimTime finish = 0;        ///< of the segment
  SimTime duration = 0;      ///< of the segment in the present mode; -1: not yet looked up
  std::uint64_t ticket = 0;  ///< order of the live event; others are stale
  const Code* code = nullptr;  ///< the head instruction
  std::uint32_t head = 0;      ///< its number within the stream
  std::uint32_t issued = 0;
  std::uint32_t count = 0;     ///< instructions of the stream
  std::uint32_t ring = 0;      ///< first entry in the issue times
  std::uint32_t rank = 0;
  std::uint8_t ring_bits = 0;  ///< 2^ring_bits entries
  std::uint8_t index = 0;      ///< within the rank
  Phase phase = Phase::kIdle;
  bool timed = false;  ///< a kIssued event for the head is pending
  [[nodiscard]] std::size_t slot(std::uint32_t instruction) const { return ring + (instruction & ((1U << ring_bits) - 1)); }
};
static_assert(sizeof(StreamState) == 64);

/// What a launched collective or batch adds to its stream.
struct Meeting {
  SimTime started = 0;  ///< of the collective, or of the first pair of the batch; kNever before
  std::uint32_t open_pairs = 0;
  std::int32_t batch_sms = 0;  ///< footprint of the batch
};

enum class HostState : std::uint8_t { kRuns, kRunAhead, kSync, kDone };

struct alignas(64) RankState {
  SimTime account_since = 0;
  std::int64_t hbm = 0;           ///< held by communication
  std::uint64_t segments = 0;     ///< bit per stream in which a segment runs
  std::uint64_t oldest = 0;       ///< Code::launches of the oldest instruction that has not started
  std::int32_t sms = 0;           ///< held by communication
  std::uint32_t mode = 0;
  std::uint32_t account = kWaitsForHost;
  std::uint32_t first_stream = 0, streams = 0;
  HostState host = HostState::kRuns;
  bool changed = false;           ///< to be classified at the end of the instant
  bool mode_changed = false;      ///< to be looked at in the mode update
  bool host_queued = false;
  // The host, and what never changes.
  SimTime clock = 0;
  const HostStep* step = nullptr;  ///< where the host stands
  const ProgramTable* program = nullptr;
  std::uint64_t* events = nullptr; ///< recorded: bits
  const Rank* input = nullptr;
};
static_assert(sizeof(RankState) == 128);

/// A communication: activity g < groups is what group g does now; the rest are the pairs of the channels (Tables::pair_begin).
struct Activity {
  int128 remaining = 0;    ///< rate units x ps, at `updated`
  SimTime started = 0, updated = 0;
  std::int64_t rate = 0;
  std::uint64_t ticket = 0;
  std::uint32_t transfer = 0;
  std::uint32_t arrived = 0;  ///< members of the group that have launched
  std::uint32_t launched = 0; ///< collectives of the group that have ended: the number of the present one
  bool in_flight = false;
  bool shares = false;        ///< is in the max-min problem
};

}  // namespace orrery::engine
