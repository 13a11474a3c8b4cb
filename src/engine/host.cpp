// Hosts. A host runs ahead of its device in one go, from one point where it must stop to the next; the times at which its issues take
// effect wait in a ring per stream, and an event is made only for a stream that is otherwise ready.
#include <algorithm>

#include "engine/play.hpp"

namespace orrery::engine {

void Play::issue(const RankState& rank, const HostStep& step) {
  const std::uint32_t stream = rank.first_stream + step.stream;
  StreamState& s = streams_[stream];
  ORRERY_ASSERT(s.issued - s.head <= 1U << s.ring_bits, "a ring holds all that the run-ahead lets the host issue");
  issue_times_[s.slot(s.issued)] = rank.clock + step.lead;
  if (s.head == s.issued && s.phase == Phase::kIdle) add(kWakes, stream);
  ++s.issued;
}

void Play::host(std::uint32_t r) {
  RankState& rank = ranks_[r];
  const ProgramTable& program = *rank.program;
  const HostStep* const begin = t_.steps.data() + program.first_step;
  const HostStep* const peak = program.peak_step == kNone || program.peak_step == 0 ? nullptr : begin + (program.peak_step - 1);
  rank.host_queued = false;
  const bool first = rank.host == HostState::kRuns;
  if (first) {
    if (program.peak_step == 0) peak_at_[r] = program.peak_offset;
    if (wanted_[r]) pass_memory(r, 0, 0);
    rank.clock = program.before_first_step;
  }
  rank.clock = std::max(rank.clock, now_);  // it stood still until something happened at this instant
  for (; rank.step != begin + program.steps; ++rank.step) {
    const HostStep& step = *rank.step;
    if (step.sync) {
      if (!recorded(rank, step.event)) {
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
      issue(rank, step);
    }
    if (rank.step == peak) peak_at_[r] = rank.clock + program.peak_offset;
    if (wanted_[r]) pass_memory(r, step.item + 1, rank.clock + program_of(r).host[step.item].cost);
    rank.clock += step.cost;
  }
  rank.host = HostState::kDone;
  finish_[r] = std::max(finish_[r], rank.clock);
  watch_host(r);
}

/// Once the compute stream has finished, its time is the host's until the host stands still.
void Play::watch_host(std::uint32_t r) {
  if (ranks_[r].streams > 0 && streams_[ranks_[r].first_stream].phase != Phase::kFinished) return;
  touch(r);
  if (ranks_[r].clock > now_) push(ranks_[r].clock, EventClass::kHost, EventKind::kHostStands, r);
}

void Play::host_stands(std::uint32_t rank) { touch(rank); }

/// Tells the sink of the allocations and frees from item `first` up to where the host may stop next, the host's clock being `at`.
void Play::pass_memory(std::uint32_t r, std::uint32_t first, SimTime at) {
  const std::vector<HostInstruction>& list = program_of(r).host;
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
