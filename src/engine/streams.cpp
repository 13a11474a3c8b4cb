// What a stream does: its head instruction becomes ready, starts, ends, and its event is recorded.
#include <algorithm>
#include <bit>

#include "engine/play.hpp"

namespace orrery::engine {

/// Looks at the head: it starts once its event is recorded and the host's issue has taken effect.
void Play::wake(std::uint32_t stream) {
  StreamState& s = streams_[stream];
  if (s.phase != Phase::kIdle) return;
  const StreamTable& table = table_of(s);
  const Code& code = t_.codes[table.begin + s.head];
  if (code.wait != kNone && !recorded(s.rank, code.wait)) return;  // record() wakes it
  if (s.issued <= s.head) return;                                  // issue() wakes it
  const SimTime issued = issue_times_[s.ring + (s.head & (table.ring - 1))];
  if (issued > now_) {
    if (!s.timed) push(issued, EventClass::kWake, EventKind::kIssued, stream);
    s.timed = true;
    return;
  }
  s.phase = Phase::kReady;
  ++launched_;
  switch (code.op) {
    case Op::kSegment: segment_starts_.push_back(stream); return;
    case Op::kCollective:
    case Op::kBatch: launches_.push_back(stream); return;
    case Op::kRecord:
    case Op::kWait:
      has_started(s, stream);
      records_.push_back(stream);
      return;
  }
}

/// The host may go on once the oldest instruction that had not started does.
void Play::has_started(const StreamState& s, std::uint32_t id) {
  const StreamTable& table = table_of(s);
  RankState& rank = ranks_[s.rank];
  const std::uint64_t started = next_launches_[id];
  next_launches_[id] = s.head + 1 < table.count ? t_.codes[table.begin + s.head + 1].launches : UINT64_MAX;
  if (started != rank.oldest) return;
  const auto first = next_launches_.begin() + t_.rank_first_stream[s.rank];
  rank.oldest = *std::min_element(first, next_launches_.begin() + t_.rank_first_stream[s.rank + 1]);
  if (rank.host != HostState::kRunAhead) return;
  const HostStep& step = t_.steps[program_of(s.rank).first_step + rank.step];
  if (step.launches <= rank.oldest || step.launches - rank.oldest <= in_.run_ahead) queue_host(s.rank);
}

/// A communication kernel that needs SMs waits for the running kernel's wave to end; one that needs none (copy engines) does not.
void Play::launch(std::uint32_t stream) {
  StreamState& s = streams_[stream];
  const Code& code = code_of(s);
  const StreamState& compute = streams_[t_.rank_first_stream[s.rank]];
  // A segment that starts at this very instant comes after the launch, whatever the order in which both were found out.
  if (s.phase == Phase::kReady && compute.phase == Phase::kSegment && compute.since < now_ && s.index != 0) {
    const Rank& rank = in_.ranks[s.rank];
    const Program& program = in_.programs[rank.program];
    std::int32_t sms = 0;
    if (code.op == Op::kCollective) {
      const Collective& c = program.collectives[code.index];
      sms = in_.transfers[in_.groups[rank.groups[c.group_slot]].first_transfer + c.transfer].sms;
    } else {
      for (const PointToPoint& p : program.batches[code.index]) {
        sms = std::max(sms, in_.transfers[in_.channels[rank.channels[p.channel_slot]].first_transfer + p.transfer].sms);
      }
    }
    const SimTime delay = std::min(compute.finish - now_, program.segments[code_of(compute).index].wave);
    if (sms > 0 && delay > 0) {
      s.phase = Phase::kDelayed;
      push(now_ + delay, EventClass::kLaunch, EventKind::kLaunch, stream);
      touch(s.rank);
      return;
    }
  }
  s.phase = Phase::kLaunched;
  s.since = now_;
  s.started = kNever;
  has_started(s, stream);
  touch(s.rank);
  if (code.op == Op::kCollective) launch_collective(stream, code.index);
  else launch_batch(stream, code.index);
}

void Play::start_segment(std::uint32_t stream) {
  StreamState& s = streams_[stream];
  s.phase = Phase::kSegment;
  s.since = now_;
  s.duration = -1;  // the mode update at the end of this round knows it
  ranks_[s.rank].segments |= std::uint64_t{1} << s.index;
  has_started(s, stream);
  touch(s.rank);
  touch_mode(s.rank);
}

void Play::end_segment(std::uint32_t stream) {
  StreamState& s = streams_[stream];
  const Rank& rank = in_.ranks[s.rank];
  ranks_[s.rank].segments &= ~(std::uint64_t{1} << s.index);
  segment_ps_[program_of(s.rank).first_segment + code_of(s).index] += int128{now_ - s.since} * rank.multiplicity;
  s.started = s.since;
  records_.push_back(stream);
}

void Play::record(std::uint32_t stream) {
  StreamState& s = streams_[stream];
  const StreamTable& table = table_of(s);
  const Code& code = t_.codes[table.begin + s.head];
  if (wanted_[s.rank] && s.phase != Phase::kReady) ran_.push_back({stream, s.head, s.since, s.started});
  ++ended_;
  touch(s.rank);
  if (code.record != kNone) {
    events_[t_.rank_first_event[s.rank] + code.record / 64] |= std::uint64_t{1} << (code.record % 64);
    const ProgramTable& program = program_of(s.rank);
    const std::uint32_t event = program.first_event + code.record;
    const std::uint32_t first = t_.rank_first_stream[s.rank];
    for (std::uint32_t w = t_.waiters_begin[event]; w < t_.waiters_begin[event + 1]; ++w) {
      const std::uint32_t waiter = first + t_.waiters[w].stream;
      if (streams_[waiter].head == t_.waiters[w].instruction && waiter != stream) wakes_.push_back(waiter);
    }
    const RankState& rank = ranks_[s.rank];
    if (rank.host == HostState::kSync && t_.steps[program.first_step + rank.step].event == code.record) queue_host(s.rank);
  }
  ++s.head;
  s.since = now_;
  if (s.head == table.count) {
    s.phase = Phase::kFinished;
    finish_[s.rank] = std::max(finish_[s.rank], now_);
    if (s.index == 0) watch_host(s.rank);
    return;
  }
  s.phase = Phase::kIdle;
  wakes_.push_back(stream);
}

/// Once per round of an instant: what is held on a rank has changed, or segments have started there.
void Play::update_modes() {
  for (const std::uint32_t r : mode_changed_) {
    RankState& rank = ranks_[r];
    rank.mode_changed = false;
    const std::uint32_t mode = modes_.number(rank.sms, rank.hbm);
    const bool changed = mode != rank.mode;
    rank.mode = mode;
    for (std::uint64_t left = rank.segments; left != 0; left &= left - 1) {
      const std::uint32_t stream = t_.rank_first_stream[r] + static_cast<std::uint32_t>(std::countr_zero(left));
      StreamState& s = streams_[stream];
      const bool starts = s.duration < 0;
      if (!starts && (!changed || s.finish == now_)) continue;
      const SimTime duration = modes_.duration(t_.rank_variant[r], code_of(s).index, mode);
      SimTime remaining = duration;
      if (!starts) {
        if (duration == s.duration) continue;
        remaining = static_cast<SimTime>((int128{s.finish - now_} * duration + s.duration - 1) / s.duration);
      }
      s.duration = duration;
      ORRERY_ASSERT(remaining <= kNever - now_, "simulated time stays below 106 days");
      s.finish = now_ + remaining;
      if (remaining == 0) {
        s.ticket = 0;
        segment_ends_.push_back(stream);
      } else {
        s.ticket = push(s.finish, EventClass::kFinish, EventKind::kSegmentEnd, stream);
      }
    }
  }
  mode_changed_.clear();
}

}  // namespace orrery::engine
