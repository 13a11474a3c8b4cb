// Communications. A collective starts when its last member has launched, a pair when both of its ends have. It waits for its latency, then
// takes bandwidth: at its cap where nothing it crosses can bind, else at its max-min rate.
#include <algorithm>

#include "engine/play.hpp"

namespace orrery::engine {

UsageRange Play::usage_of(std::uint32_t activity) const {
  if (!is_group(activity)) return in_.channels[channel_of(activity)].usage;
  return in_.groups[activity].usage_sets[in_.transfers[activities_[activity].transfer].usage_set];
}

std::int64_t Play::multiplicity_of(std::uint32_t activity) const {
  return is_group(activity) ? in_.groups[activity].multiplicity : in_.channels[channel_of(activity)].multiplicity;
}

void Play::launch_collective(const StreamState& s) {
  const Rank& rank = *ranks_[s.rank].input;
  const Collective& c = in_.programs[rank.program].collectives[s.code->index];
  const std::uint32_t g = rank.groups[c.group_slot];
  const Group& group = in_.groups[g];
  Activity& a = activities_[g];
  a.transfer = group.first_transfer + c.transfer;
  const std::int32_t sms = in_.transfers[a.transfer].sms;
  if (sms > 0) {
    ranks_[s.rank].sms += sms;
    touch_mode(s.rank);
  }
  if (++a.arrived == group.members.size()) add(kTransferStarts, g);
}

void Play::launch_batch(const StreamState& s, std::uint32_t stream) {
  const Rank& rank = *ranks_[s.rank].input;
  const std::vector<PointToPoint>& batch = batch_of(s);
  Meeting& meeting = meetings_[stream];
  meeting.open_pairs = static_cast<std::uint32_t>(batch.size());
  meeting.batch_sms = 0;
  for (const PointToPoint& p : batch) {
    const std::uint32_t c = rank.channels[p.channel_slot];
    const std::uint32_t transfer = in_.channels[c].first_transfer + p.transfer;
    meeting.batch_sms = std::max(meeting.batch_sms, in_.transfers[transfer].sms);
    // Pairs in flight on a channel belong to the sender's present batch, so their numbers modulo its largest batch differ.
    const std::uint32_t slots = t_.pair_begin[c + 1] - t_.pair_begin[c];
    if (p.send) activities_[t_.pair_begin[c] + sends_[c] % slots].transfer = transfer;
    std::uint32_t& mine = p.send ? sends_[c] : receives_[c];
    const std::uint32_t theirs = p.send ? receives_[c] : sends_[c];
    if (mine < theirs) add(kTransferStarts, t_.pair_begin[c] + mine % slots);
    ++mine;
  }
  if (meeting.batch_sms > 0) {
    ranks_[s.rank].sms += meeting.batch_sms;
    touch_mode(s.rank);
  }
  if (batch.empty()) {
    meeting.started = now_;
    add(kRecords, stream);
  }
}

void Play::start_transfer(std::uint32_t activity) {
  Activity& a = activities_[activity];
  const Transfer& transfer = in_.transfers[a.transfer];
  a.in_flight = true;
  a.started = now_;
  ++transfers_started_;
  each_member(activity, [&](std::uint32_t stream, const StreamState& s) {
    meetings_[stream].started = std::min(meetings_[stream].started, now_);
    if (transfer.hbm > 0) {
      ranks_[s.rank].hbm += transfer.hbm;
      touch_mode(s.rank);
    }
    touch(s.rank);
  });
  if (transfer.latency == 0) {
    start_flow(activity);
    return;
  }
  const bool flows = transfer.work > 0;
  ORRERY_ASSERT(transfer.latency <= kNever - now_, "simulated time stays below 106 days");
  a.ticket = push(now_ + transfer.latency, flows ? EventClass::kStart : EventClass::kFinish, flows ? EventKind::kFlow : EventKind::kTransferEnd, activity);
}

void Play::start_flow(std::uint32_t activity) {
  Activity& a = activities_[activity];
  const Transfer& transfer = in_.transfers[a.transfer];
  if (transfer.work == 0) {
    add(kTransferEnds, activity);
    return;
  }
  a.remaining = transfer.work;
  a.updated = now_;
  a.rate = 0;
  const std::span<const Usage> binding = t_.binding_of(usage_of(activity));
  if (binding.empty()) {
    set_rate(activity, transfer.cap);
    return;
  }
  a.shares = true;
  sharing_changed_ = true;
  maxmin_.add(activity, transfer.cap, binding);
}

/// The rate holds from now on: what is left, and when it ends. Rate 0: it is over.
void Play::set_rate(std::uint32_t activity, std::int64_t rate) {
  Activity& a = activities_[activity];
  const auto add = [&](std::span<const Usage> usages) {
    for (const Usage& u : usages) {
      flow_[u.resource] += int128{u.weight} * (rate - a.rate);
      if (flow_changed_[u.resource]) continue;
      flow_changed_[u.resource] = true;
      flows_changed_.push_back(u.resource);
    }
  };
  const UsageRange range = usage_of(activity);
  add(t_.binding_of(range));
  add(t_.passive_of(range));
  a.remaining = std::max(int128{0}, a.remaining - int128{a.rate} * (now_ - a.updated));
  a.updated = now_;
  a.rate = rate;
  if (rate == 0) return;
  const int128 left = (a.remaining + rate - 1) / rate;
  a.ticket = push(now_ + static_cast<SimTime>(std::min<int128>(left, kNever - now_)), EventClass::kFinish, EventKind::kTransferEnd, activity);
}

/// Once per round of an instant, if flows came or went.
void Play::share() {
  sharing_changed_ = false;
  for (const std::uint32_t activity : maxmin_.solve()) {
    const std::int64_t rate = maxmin_.rate(activity);
    ORRERY_ASSERT(rate > 0, "a resource has a rate unit for everything that can cross it at once");
    set_rate(activity, rate);
  }
}

void Play::take_peaks() {
  for (const std::uint32_t r : flows_changed_) {
    flow_changed_[r] = false;
    flow_peak_[r] = std::max(flow_peak_[r], flow_[r]);
  }
  flows_changed_.clear();
}

void Play::end_transfer(std::uint32_t activity) { add(kFrees, activity); }

void Play::free_transfer(std::uint32_t activity) {
  Activity& a = activities_[activity];
  const Transfer& transfer = in_.transfers[a.transfer];
  ++transfers_ended_;
  transfers_[a.transfer].count += multiplicity_of(activity);
  transfers_[a.transfer].time_ps += int128{now_ - a.started} * multiplicity_of(activity);
  const bool group = is_group(activity);
  const std::uint32_t set = group ? t_.group_first_set[activity] + transfer.usage_set : t_.group_first_set.back() + channel_of(activity);
  set_bytes_[set] += transfer.reference_bytes;
  if (a.rate > 0) set_rate(activity, 0);
  if (a.shares) {
    a.shares = false;
    sharing_changed_ = true;
    maxmin_.remove(activity);
  }
  each_member(activity, [&](std::uint32_t stream, const StreamState& s) {
    RankState& rank = ranks_[s.rank];
    std::int32_t sms = group ? transfer.sms : 0;
    rank.hbm -= transfer.hbm;
    touch(s.rank);
    if (group || --meetings_[stream].open_pairs == 0) {
      add(kRecords, stream);
      if (!group) sms = meetings_[stream].batch_sms;
    }
    rank.sms -= sms;
    if (sms > 0 || transfer.hbm > 0) touch_mode(s.rank);
  });
  a.in_flight = false;
  if (group) {
    a.arrived = 0;
    ++a.launched;
  }
}

}  // namespace orrery::engine
