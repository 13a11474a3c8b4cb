// Hosts. A host runs ahead of its device in one go, from one point where it must stop to the next; the times at which its issues take
// effect wait in a ring per stream, and an event is made only for a stream that is otherwise ready.
#include <algorithm>

#include "engine/play.hpp"

namespace orrery::engine {

void Play::queue_host(std::uint32_t rank) {
  if (ranks_[rank].host_queued) return;
  ranks_[rank].host_queued = true;
  hosts_.push_back(rank);
}

void Play::issue(std::uint32_t r, const HostStep& step) {
  const std::uint32_t stream = t_.rank_first_stream[r] + step.stream;
  StreamState& s = streams_[stream];
  const std::uint32_t ring = table_of(s).ring;
  ORRERY_ASSERT(s.issued - s.head <= ring, "a ring holds all that the run-ahead lets the host issue");
  issue_times_[s.ring + (s.issued & (ring - 1))] = ranks_[r].clock + step.lead;
  if (s.head == s.issued && s.phase == Phase::kIdle) wakes_.push_back(stream);
  ++s.issued;
}

void Play::host(std::uint32_t r) {
  RankState& rank = ranks_[r];
  const ProgramTable& program = program_of(r);
  rank.host_queued = false;
  const bool first = rank.host == HostState::kRuns;
  if (first) {
    if (program.peak_step == 0) peak_at_[r] = program.peak_offset;
    if (wanted_[r]) pass_memory(r, 0, 0);
    rank.clock = program.before_first_step;
  }
  rank.clock = std::max(rank.clock, now_);  // it stood still until something happened at this instant
  for (; rank.step < program.steps; ++rank.step) {
    const HostStep& step = t_.steps[program.first_step + rank.step];
    if (step.sync) {
      if (!recorded(r, step.event)) {
        rank.host = HostState::kSync;
        watch_host(r);
        return;
      }
    } else {
      if (step.launches > rank.oldest && step.launches - rank.oldest > in_.run_ahead) {
        rank.host = HostState::kRunAhead;
        watch_host(r);
        return;
      }
      issue(r, step);
    }
    if (rank.step + 1 == program.peak_step) peak_at_[r] = rank.clock + program.peak_offset;
    if (wanted_[r]) pass_memory(r, step.item + 1, rank.clock + in_.programs[in_.ranks[r].program].host[step.item].cost);
    rank.clock += step.cost;
  }
  rank.host = HostState::kDone;
  finish_[r] = std::max(finish_[r], rank.clock);
  watch_host(r);
}

/// Once the compute stream has finished, its time is the host's until the host stands still.
void Play::watch_host(std::uint32_t r) {
  const std::uint32_t first = t_.rank_first_stream[r];
  if (first < t_.rank_first_stream[r + 1] && streams_[first].phase != Phase::kFinished) return;
  touch(r);
  if (ranks_[r].clock > now_) push(ranks_[r].clock, EventClass::kHost, EventKind::kHostStands, r);
}

void Play::host_stands(std::uint32_t rank) { touch(rank); }

/// Tells the sink of the allocations and frees from item `first` up to where the host may stop next, the host's clock being `at`.
void Play::pass_memory(std::uint32_t r, std::uint32_t first, SimTime at) {
  const std::vector<HostInstruction>& list = in_.programs[in_.ranks[r].program].host;
  for (std::uint32_t i = first; i < list.size(); ++i) {
    const HostInstruction& h = list[i];
    if (h.op == HostOp::kIssue || h.op == HostOp::kSync) return;
    if (h.op != HostOp::kWork) {
      std::int64_t& bytes = kind_bytes_[std::size_t{r} * in_.memory_kinds + h.memory_kind];
      bytes += h.op == HostOp::kAllocate ? h.bytes : -h.bytes;
      options_.sink->memory(r, at, h.memory_kind, bytes);
    }
    at += h.cost;
  }
}

}  // namespace orrery::engine
