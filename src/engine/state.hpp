#pragma once
// What changes while an input is played: 64 bytes per stream and per activity, a little more per rank.
#include <cstdint>
#include <vector>

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

struct StreamState {
  SimTime since = 0;     ///< idle: the end of the one before; launched: the launch; segment: its start
  SimTime started = 0;   ///< of the collective, or of the first pair of the batch; kNever before
  SimTime finish = 0;    ///< of the segment
  SimTime duration = 0;  ///< of the segment in the present mode; -1: not yet looked up
  std::uint64_t ticket = 0;  ///< order of the live event; others are stale
  std::uint32_t head = 0;    ///< instruction within the stream
  std::uint32_t issued = 0;
  std::uint32_t ring = 0;    ///< first entry in the issue times
  std::uint32_t rank = 0;
  std::uint32_t open_pairs = 0;
  std::int32_t batch_sms = 0;  ///< footprint of the batch
  std::uint8_t index = 0;      ///< within the rank
  Phase phase = Phase::kIdle;
  bool timed = false;  ///< a kIssued event for the head is pending
};
static_assert(sizeof(StreamState) <= 72);

enum class HostState : std::uint8_t { kRuns, kRunAhead, kSync, kDone };

struct RankState {
  SimTime clock = 0;              ///< of the host
  SimTime account_since = 0;
  std::int64_t hbm = 0;           ///< held by communication
  std::uint64_t segments = 0;     ///< bit per stream in which a segment runs
  std::uint64_t oldest = 0;       ///< Code::launches of the oldest instruction that has not started
  std::int32_t sms = 0;           ///< held by communication
  std::uint32_t mode = 0;
  std::uint32_t step = 0;         ///< of the host
  std::uint32_t account = kWaitsForHost;
  HostState host = HostState::kRuns;
  bool changed = false;           ///< to be classified at the end of the instant
  bool mode_changed = false;      ///< to be looked at in the mode update
  bool host_queued = false;
};

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
