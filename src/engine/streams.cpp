// What a stream does: its head instruction becomes ready, starts, ends, and its event is recorded.
#include <algorithm>
#include <bit>

#include "engine/play.hpp"

namespace orrery::engine {

/// Looks at the head: it starts once its event is recorded and the host's issue has taken effect.
void Play::wake(std::uint32_t stream) {
  StreamState& s = streams_[stream];
  if (s.phase != Phase::kIdle || s.issued <= s.head) return;  // record() or issue() wakes it
  const Code& code = *s.code;
  if (code.wait != kNone && !recorded(ranks_[s.rank], code.wait)) return;  // record() wakes it
  const SimTime issued = issue_times_[s.slot(s.head)];
  if (issued > now_) {
    if (!s.timed) push(issued, EventClass::kWake, EventKind::kIssued, stream);
    s.timed = true;
    return;
  }
  s.phase = Phase::kReady;
  ++launched_;
  switch (code.op) {
    case Op::kSegment: add(kSegmentStarts, stream); return;
    case Op::kCollective:
    case Op::kBatch: add(kLaunches, stream); return;
    case Op::kRecord:
    case Op::kWait:
      has_started(s, stream);
      add(kRecords, stream);
      return;
  }
}

/// The host may go on once the oldest instruction that had not started does.
void Play::has_started(const StreamState& s, std::uint32_t id) {
  RankState& rank = ranks_[s.rank];
  const std::uint64_t started = next_launches_[id];
  next_launches_[id] = s.head + 1 < s.count ? s.code[1].launches : UINT64_MAX;
  if (started != rank.oldest) return;
  std::uint64_t oldest = UINT64_MAX;
  for (std::uint32_t i = rank.first_stream; i < rank.first_stream + rank.streams; ++i) oldest = std::min(oldest, next_launches_[i]);
  rank.oldest = oldest;
  if (rank.host != HostState::kRunAhead) return;
  if (rank.step->launches <= oldest || rank.step->launches - oldest <= in_.run_ahead) queue_host(s.rank);
}

/// How long the launch of a head instruction waits for SMs. A communication kernel that needs some waits for the running kernel's wave to
/// end; one that needs none (copy engines) does not. A segment that starts at this very instant comes after the launch, whatever the
/// order in which both were found out.
SimTime Play::launch_delay(const StreamState& s) const {
  const StreamState& compute = streams_[ranks_[s.rank].first_stream];
  if (compute.phase != Phase::kSegment || compute.since == now_ || s.index == 0) return 0;
  const Rank& rank = *ranks_[s.rank].input;
  const Program& program = in_.programs[rank.program];
  const SimTime delay = std::min(compute.finish - now_, program.segments[compute.code->index].wave);
  if (delay <= 0) return 0;
  std::int32_t sms = 0;
  if (s.code->op == Op::kCollective) {
    const Collective& c = program.collectives[s.code->index];
    sms = in_.transfers[in_.groups[rank.groups[c.group_slot]].first_transfer + c.transfer].sms;
  } else {
    for (const PointToPoint& p : program.batches[s.code->index]) {
      sms = std::max(sms, in_.transfers[in_.channels[rank.channels[p.channel_slot]].first_transfer + p.transfer].sms);
    }
  }
  return sms > 0 ? delay : 0;
}

void Play::launch(std::uint32_t stream) {
  StreamState& s = streams_[stream];
  touch(s.rank);
  if (s.phase == Phase::kReady) {
    const SimTime delay = launch_delay(s);
    if (delay > 0) {
      s.phase = Phase::kDelayed;
      push(now_ + delay, EventClass::kLaunch, EventKind::kLaunch, stream);
      return;
    }
  }
  s.phase = Phase::kLaunched;
  s.since = now_;
  meetings_[stream].started = kNever;
  has_started(s, stream);
  if (s.code->op == Op::kCollective) launch_collective(s);
  else launch_batch(s, stream);
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
  const StreamState& s = streams_[stream];
  RankState& rank = ranks_[s.rank];
  rank.segments &= ~(std::uint64_t{1} << s.index);
  segment_ps_[rank.program->first_segment + s.code->index] += int128{now_ - s.since} * rank.input->multiplicity;
  add(kRecords, stream);
}

void Play::record(std::uint32_t stream) {
  StreamState& s = streams_[stream];
  const Code& code = *s.code;
  if (wanted_[s.rank] && s.phase != Phase::kReady) {
    ran_.push_back({stream, s.head, s.since, s.phase == Phase::kSegment ? s.since : meetings_[stream].started});
  }
  ++ended_;
  touch(s.rank);
  if (code.record != kNone) {
    const RankState& rank = ranks_[s.rank];
    rank.events[code.record / 64] |= std::uint64_t{1} << (code.record % 64);
    const std::uint32_t event = rank.program->first_event + code.record;
    for (std::uint32_t w = t_.waiters_begin[event]; w < t_.waiters_begin[event + 1]; ++w) {
      const std::uint32_t waiter = rank.first_stream + t_.waiters[w].stream;
      if (streams_[waiter].head == t_.waiters[w].instruction && waiter != stream) add(kWakes, waiter);
    }
    if (rank.host == HostState::kSync && rank.step->event == code.record) queue_host(s.rank);
  }
  ++s.head;
  s.since = now_;
  if (s.head == s.count) {
    s.phase = Phase::kFinished;
    finish_[s.rank] = std::max(finish_[s.rank], now_);
    if (s.index == 0) watch_host(s.rank);
    return;
  }
  ++s.code;
  s.phase = Phase::kIdle;
  if (s.head < s.issued) add(kWakes, stream);
}

/// Once per round of an instant: what is held on a rank has changed, or segments have started there.
void Play::update_modes() {
  for (const std::uint32_t r : mode_changed_) {
    RankState& rank = ranks_[r];
    rank.mode_changed = false;
    const std::uint32_t mode = modes_.is(rank.mode, rank.sms, rank.hbm) ? rank.mode : modes_.number(rank.sms, rank.hbm);
    const bool changed = mode != rank.mode;
    rank.mode = mode;
    for (std::uint64_t left = rank.segments; left != 0; left &= left - 1) {
      const std::uint32_t stream = rank.first_stream + static_cast<std::uint32_t>(std::countr_zero(left));
      StreamState& s = streams_[stream];
      const bool starts = s.duration < 0;
      if (!starts && (!changed || s.finish == now_)) continue;
      const SimTime duration = modes_.duration(t_.rank_variant[r], s.code->index, mode);
      if (duration == s.duration) continue;
      const int128 rest = starts ? duration : (int128{s.finish - now_} * duration + s.duration - 1) / s.duration;
      const auto remaining = static_cast<SimTime>(std::min<int128>(rest, kNever - now_));
      s.duration = duration;
      s.finish = now_ + remaining;
      if (remaining == 0) {
        s.ticket = 0;
        add(kSegmentEnds, stream);
      } else {
        s.ticket = push(s.finish, EventClass::kFinish, EventKind::kSegmentEnd, stream);
      }
    }
  }
  mode_changed_.clear();
}

}  // namespace orrery::engine
