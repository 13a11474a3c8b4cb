// Whose time it is on a rank's compute stream, looked at once at the end of every instant that touched the rank: the account of what runs;
// else of what is in flight that it waits for, found by following events to the streams that are to record them; else of the peer or the host.
#include <algorithm>

#include "engine/play.hpp"

namespace orrery::engine {

/// The account of the transfer that a launched stream has in flight; of a batch, the first pair in the batch's order that is.
std::uint32_t Play::account_in_flight(const StreamState& s) const {
  const Code& code = *s.code;
  const Rank& rank = *ranks_[s.rank].input;
  const auto account = [&](std::uint32_t activity) {
    const Activity& a = activities_[activity];
    return a.in_flight ? in_.transfers[a.transfer].account : kNone;
  };
  if (code.op == Op::kCollective) return account(rank.groups[in_.programs[rank.program].collectives[code.index].group_slot]);
  for (const PointToPoint& p : batch_of(s)) {
    const std::uint32_t c = rank.channels[p.channel_slot];
    const std::uint32_t first = t_.pair_begin[c], slots = t_.pair_begin[c + 1] - first;
    for (std::uint32_t i = 0; i < slots; ++i) {  // those in flight are among the last sends, the oldest of which has slot sends mod slots
      const std::uint32_t found = account(first + (sends_[c] + i) % slots);
      if (found != kNone) return found;
    }
  }
  return kNone;
}

std::uint32_t Play::account_of(std::uint32_t stream) const {
  const RankState& rank = ranks_[streams_[stream].rank];
  // A chain of waits visits a stream once; a longer one is a circle, which no instant resolves.
  for (std::uint32_t hops = rank.streams; hops > 0; --hops) {
    const StreamState& s = streams_[stream];
    switch (s.phase) {
      case Phase::kSegment: return in_.programs[rank.input->program].segments[s.code->index].account;
      case Phase::kLaunched: {
        const std::uint32_t account = account_in_flight(s);
        return account == kNone ? kWaitsForPeer : account;
      }
      case Phase::kDelayed:
      case Phase::kReady: return kWaitsForHost;
      case Phase::kFinished: return kWaitsForPeer;
      case Phase::kIdle: break;
    }
    const std::uint32_t wait = s.code->wait;
    if (wait == kNone || recorded(rank, wait)) return kWaitsForHost;
    const Place& producer = t_.recorder[rank.program->first_event + wait];
    if (producer.stream == kNone) return kWaitsForPeer;
    stream = rank.first_stream + producer.stream;
  }
  return kWaitsForPeer;
}

std::uint32_t Play::classify(std::uint32_t rank) const {
  const std::uint32_t first = ranks_[rank].first_stream, end = first + ranks_[rank].streams;
  if (first < end && streams_[first].phase != Phase::kFinished) return account_of(first);
  for (std::uint32_t stream = first; stream < end; ++stream) {
    const StreamState& s = streams_[stream];
    if (s.phase == Phase::kSegment) return account_of(stream);
    if (s.phase != Phase::kLaunched) continue;
    const std::uint32_t account = account_in_flight(s);
    if (account != kNone) return account;
  }
  return ranks_[rank].clock > now_ ? kWaitsForHost : kWaitsForPeer;
}

void Play::book(std::uint32_t rank, SimTime until) {
  RankState& state = ranks_[rank];
  account_ps_[std::size_t{rank} * in_.accounts + state.account] += until - state.account_since;
  state.account_since = until;
}

void Play::sample() {
  for (const std::uint32_t rank : changed_) {
    RankState& state = ranks_[rank];
    state.changed = false;
    const StreamState* compute = state.streams > 0 ? &streams_[state.first_stream] : nullptr;
    const bool runs = compute != nullptr && compute->phase == Phase::kSegment;  // mostly
    const std::uint32_t account = runs ? in_.programs[state.input->program].segments[compute->code->index].account : classify(rank);
    if (account == state.account) continue;
    book(rank, now_);
    state.account = account;
  }
  changed_.clear();
  take_peaks();
  if (ran_.empty()) return;
  std::stable_sort(ran_.begin(), ran_.end(), [](const Ran& a, const Ran& b) { return a.stream < b.stream; });
  for (const Ran& r : ran_) {
    const StreamState& s = streams_[r.stream];
    options_.sink->ran(s.rank, s.index, r.instruction, r.launched, r.started, now_);
  }
  ran_.clear();
}

}  // namespace orrery::engine
