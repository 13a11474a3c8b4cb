// The run loop. See play.hpp for how one instant is dealt with.
#include <algorithm>
#include <bit>

#include "engine/play.hpp"

namespace orrery::engine {
namespace {

constexpr int kClassShift = 56;  // 2^56 events at 1 M/s are 2,000 years

std::vector<std::int64_t> capacities(const Input& input) {
  std::vector<std::int64_t> all;
  for (const Resource& r : input.resources) all.push_back(r.capacity);
  return all;
}

}  // namespace

Play::Play(const Input& input, const SegmentTimes& times, const Options& options)
    : in_(input), options_(options), t_(make_tables(input)), modes_(input, t_, times), maxmin_(capacities(input)) {
  const std::size_t ranks = input.ranks.size();
  streams_.resize(t_.rank_first_stream.back());
  ranks_.resize(ranks);
  events_.resize(t_.rank_first_event.back());
  meetings_.resize(streams_.size());
  next_launches_.resize(streams_.size(), UINT64_MAX);
  account_ps_.resize(ranks * input.accounts);
  finish_.resize(ranks);
  peak_at_.resize(ranks);
  wanted_.resize(ranks);
  std::size_t ring = 0;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    RankState& rank = ranks_[r];
    const ProgramTable& program = t_.programs[input.ranks[r].program];
    rank.oldest = UINT64_MAX;
    rank.first_stream = t_.rank_first_stream[r];
    rank.streams = program.streams;
    rank.program = &program;
    rank.step = t_.steps.data() + program.first_step;
    rank.events = events_.data() + t_.rank_first_event[r];
    rank.input = &input.ranks[r];
    for (std::uint32_t i = 0; i < program.streams; ++i) {
      const StreamTable& table = t_.streams[program.first_stream + i];
      StreamState& s = streams_[t_.rank_first_stream[r] + i];
      s.rank = r;
      s.index = static_cast<std::uint8_t>(i);
      s.code = t_.codes.data() + table.begin;
      s.count = table.count;
      s.ring = static_cast<std::uint32_t>(ring);
      s.ring_bits = static_cast<std::uint8_t>(std::countr_zero(table.ring));
      ring += table.ring;
      ORRERY_ASSERT(ring < kNone, "issue times of all streams fit 32-bit positions");
      if (table.count == 0) {
        s.phase = Phase::kFinished;
        continue;
      }
      next_launches_[t_.rank_first_stream[r] + i] = t_.codes[table.begin].launches;
      rank.oldest = std::min(rank.oldest, t_.codes[table.begin].launches);
    }
    wanted_[r] = options.sink != nullptr && options.sink->wants(r);
    queue_host(r);
    touch(r);
  }
  issue_times_.resize(ring);
  if (options.sink != nullptr) kind_bytes_.resize(ranks * input.memory_kinds);
  segment_ps_.resize(t_.segments);
  transfers_.resize(input.transfers.size());
  set_bytes_.resize(t_.group_first_set.back() + input.channels.size());
  flow_.resize(input.resources.size());
  flow_peak_.resize(input.resources.size());
  flow_changed_.resize(input.resources.size());
  sends_.resize(input.channels.size());
  receives_.resize(input.channels.size());
  activities_.resize(t_.activities());
  std::size_t usages = 0;
  for (const Group& group : input.groups) {
    std::size_t most = 0;
    for (const UsageRange& range : group.usage_sets) most = std::max(most, t_.binding_of(range).size());
    usages += most;
  }
  for (std::uint32_t c = 0; c < input.channels.size(); ++c) {
    const std::uint32_t pairs = t_.pair_begin[c + 1] - t_.pair_begin[c];
    pair_channel_.resize(pair_channel_.size() + pairs, c);
    usages += pairs * t_.binding_of(input.channels[c].usage).size();
  }
  maxmin_.reserve(activities_.size(), usages);
  queue_.reserve(streams_.size() + activities_.size() + ranks);
  for (const List list : {kSegmentEnds, kRecords, kWakes, kLaunches, kSegmentStarts}) lists_[list].reserve(2 * streams_.size());
  for (const List list : {kTransferEnds, kFrees, kTransferStarts, kFlowStarts}) lists_[list].reserve(activities_.size());
  for (Ids* list : {&lists_[kHosts], &lists_[kHostsStand], &mode_changed_, &changed_}) list->reserve(ranks);
  taken_.reserve(2 * streams_.size());
  flows_changed_.reserve(input.resources.size());
}

std::uint64_t Play::push(SimTime at, EventClass c, EventKind kind, std::uint32_t target) {
  const std::uint64_t order = (static_cast<std::uint64_t>(c) << kClassShift) | ++sequence_;
  if (at > kLatest) too_long_ = true;
  queue_.push({at, order, kind, target});
  return order;
}

/// Puts a timed event of this instant into the list of its class, unless something newer has taken its place.
void Play::take(const Event& event) {
  switch (event.kind) {
    case EventKind::kSegmentEnd:
      if (streams_[event.target].ticket == event.order) add(kSegmentEnds, event.target);
      return;
    case EventKind::kTransferEnd:
      if (activities_[event.target].ticket == event.order) add(kTransferEnds, event.target);
      return;
    case EventKind::kIssued:
      streams_[event.target].timed = false;
      add(kWakes, event.target);
      return;
    case EventKind::kHostStands: add(kHostsStand, event.target); return;
    case EventKind::kLaunch: add(kLaunches, event.target); return;
    case EventKind::kFlow: add(kFlowStarts, event.target); return;
  }
}

template <void (Play::*kWork)(std::uint32_t)>
void Play::each_taken() {
  for (const std::uint32_t id : taken_) (this->*kWork)(id);
}

/// The same for streams, of which an unfolded run has more than a cache holds: asks for those a few places ahead.
template <void (Play::*kWork)(std::uint32_t)>
void Play::each_taken_stream() {
  constexpr std::size_t kAhead = 6;
  const std::size_t size = taken_.size();
  for (std::size_t i = 0; i < size; ++i) {
    if (i + 2 * kAhead < size) {
      __builtin_prefetch(&streams_[taken_[i + 2 * kAhead]], 1);
      __builtin_prefetch(&ranks_[streams_[taken_[i + kAhead]].rank], 1);
    }
    (this->*kWork)(taken_[i]);
  }
}

/// Until all lists are empty: takes the whole list of the lowest class.
void Play::deal_with_lists() {
  while (pending_ != 0) {
    const auto list = static_cast<List>(std::countr_zero(pending_));
    pending_ &= pending_ - 1;
    taken_.swap(lists_[list]);
    dealt_with_ += static_cast<std::int64_t>(taken_.size());
    switch (list) {
      case kSegmentEnds: each_taken_stream<&Play::end_segment>(); break;
      case kTransferEnds: each_taken<&Play::end_transfer>(); break;
      case kFrees: each_taken<&Play::free_transfer>(); break;
      case kRecords: each_taken_stream<&Play::record>(); break;
      case kWakes: each_taken_stream<&Play::wake>(); break;
      case kHosts: each_taken<&Play::host>(); break;
      case kHostsStand: each_taken<&Play::host_stands>(); break;
      case kLaunches: each_taken_stream<&Play::launch>(); break;
      case kSegmentStarts: each_taken_stream<&Play::start_segment>(); break;
      case kTransferStarts: each_taken<&Play::start_transfer>(); break;
      case kFlowStarts: each_taken<&Play::start_flow>(); break;
      case kLists: break;
    }
    taken_.clear();
  }
}

/// One instant, to its end.
void Play::settle() {
  do {
    deal_with_lists();
    if (sharing_changed_) share();
    if (!mode_changed_.empty()) update_modes();
  } while (pending_ != 0);
  sample();
}

std::variant<Result, Stuck, TooManyEvents, TooLong> Play::run() {
  settle();
  if (dealt_with_ > options_.max_events) return TooManyEvents{options_.max_events};
  if (too_long_) return TooLong{now_};
  while (!queue_.empty()) {
    now_ = queue_.top().at;
    while (!queue_.empty() && queue_.top().at == now_) take(queue_.pop());
    settle();
    if (dealt_with_ > options_.max_events) return TooManyEvents{options_.max_events};
    if (too_long_) return TooLong{now_};
  }
  const bool played = std::all_of(streams_.begin(), streams_.end(), [](const StreamState& s) { return s.phase == Phase::kFinished; });
  const bool hosts = std::all_of(ranks_.begin(), ranks_.end(), [](const RankState& r) { return r.host == HostState::kDone; });
  if (!played || !hosts) return stuck();
  check_books();
  return result();
}

void Play::check_books() const {
  ORRERY_ASSERT(launched_ == ended_, "every instruction that was launched has ended");
  ORRERY_ASSERT(transfers_started_ == transfers_ended_, "every transfer that started has ended");
  ORRERY_ASSERT(sends_ == receives_, "every send met its receive");
  for (const RankState& rank : ranks_) ORRERY_ASSERT(rank.sms == 0 && rank.hbm == 0, "footprints are given back");
  for (const int128& flow : flow_) ORRERY_ASSERT(flow == 0, "nothing flows at the end");
}

Result Play::result() {
  Result out;
  out.events = dealt_with_;
  for (const SimTime f : finish_) out.end = std::max(out.end, f);
  for (std::uint32_t r = 0; r < in_.ranks.size(); ++r) {
    book(r, out.end);
    RankResult rank;
    const auto first = account_ps_.begin() + static_cast<std::ptrdiff_t>(std::size_t{r} * in_.accounts);
    rank.account_ps.assign(first, first + in_.accounts);
    SimTime sum = 0;
    for (const SimTime ps : rank.account_ps) sum += ps;
    ORRERY_ASSERT(sum == out.end, "the accounts of a rank share the whole run");
    rank.finish = finish_[r];
    rank.peak_bytes = ranks_[r].program->peak_bytes;
    rank.peak_at = peak_at_[r];
    rank.peak_kind_bytes = ranks_[r].program->peak_kinds;
    out.ranks.push_back(std::move(rank));
  }
  for (std::size_t p = 0; p < in_.programs.size(); ++p) {
    const auto first = segment_ps_.begin() + t_.programs[p].first_segment;
    out.segment_ps.emplace_back(first, first + static_cast<std::ptrdiff_t>(in_.programs[p].segments.size()));
  }
  out.transfers = transfers_;
  out.resources.resize(in_.resources.size());
  const auto load = [&](UsageRange range, int128 bytes) {
    for (std::uint32_t u = range.begin; u < range.end; ++u) out.resources[in_.usages[u].resource].load += in_.usages[u].weight * bytes;
  };
  for (std::size_t g = 0; g < in_.groups.size(); ++g) {
    for (std::size_t set = 0; set < in_.groups[g].usage_sets.size(); ++set) load(in_.groups[g].usage_sets[set], set_bytes_[t_.group_first_set[g] + set]);
  }
  for (std::size_t c = 0; c < in_.channels.size(); ++c) load(in_.channels[c].usage, set_bytes_[t_.group_first_set.back() + c]);
  for (std::size_t r = 0; r < in_.resources.size(); ++r) {
    const int128 unit = int128{1} << kWeightBits;
    out.resources[r].peak = static_cast<std::int64_t>((flow_peak_[r] + unit - 1) / unit);
  }
  return out;
}

std::variant<Result, Stuck, TooManyEvents, TooLong> run(const Input& input, const SegmentTimes& times, const Options& options) {
  Play play(input, times, options);
  return play.run();
}

}  // namespace orrery::engine
