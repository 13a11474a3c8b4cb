#pragma once
// One run. The loop and the order of events are in engine.cpp, what a stream does in streams.cpp, hosts in host.cpp, communications in
// transfers.cpp, whose time it is in accounts.cpp, what is said when nothing can happen any more in stuck.cpp.
//
// Timed events wait in a heap. Those of one instant, and what they cause within it, go through one list per class; a list is taken
// whole before the next is looked at, lowest class first, so that the order within a list cannot change what happens: nothing that is
// dealt with in a list reads what another entry of the same list writes, save sums and counts.
#include <array>
#include <variant>
#include <vector>

#include "engine/event_queue.hpp"
#include "engine/modes.hpp"
#include "engine/state.hpp"
#include "engine/tables.hpp"
#include "orrery/base/assert.hpp"
#include "orrery/engine/maxmin.hpp"
#include "orrery/engine/run.hpp"

namespace orrery::engine {

class Play {
 public:
  Play(const Input& input, const SegmentTimes& times, const Options& options);
  std::variant<Result, Stuck, TooManyEvents, TooLong> run();

 private:
  using Ids = std::vector<std::uint32_t>;
  /// What is to be dealt with at this instant, in the order of the classes (EventClass).
  enum List : std::uint8_t {
    kSegmentEnds, kTransferEnds, kFrees, kRecords, kWakes, kHosts, kHostsStand, kLaunches, kSegmentStarts, kTransferStarts, kFlowStarts, kLists
  };

  // engine.cpp: the loop
  void add(List list, std::uint32_t id) {
    lists_[list].push_back(id);
    pending_ |= 1U << list;
  }
  template <void (Play::*kWork)(std::uint32_t)>
  void each_taken();
  template <void (Play::*kWork)(std::uint32_t)>
  void each_taken_stream();
  void settle();
  void deal_with_lists();
  void take(const Event& event);
  std::uint64_t push(SimTime at, EventClass c, EventKind kind, std::uint32_t target);
  Result result();
  void check_books() const;

  // streams.cpp
  void wake(std::uint32_t stream);
  void launch(std::uint32_t stream);
  [[nodiscard]] SimTime launch_delay(const StreamState& s) const;
  void start_segment(std::uint32_t stream);
  void end_segment(std::uint32_t stream);
  void record(std::uint32_t stream);
  void has_started(const StreamState& stream, std::uint32_t id);
  void update_modes();
  [[nodiscard]] const Program& program_of(std::uint32_t rank) const { return in_.programs[ranks_[rank].input->program]; }
  [[nodiscard]] static bool recorded(const RankState& rank, std::uint32_t event) { return (rank.events[event / 64] >> (event % 64) & 1) != 0; }

  // host.cpp
  void host(std::uint32_t rank);
  void host_stands(std::uint32_t rank);
  void watch_host(std::uint32_t rank);
  void queue_host(std::uint32_t rank) {
    if (ranks_[rank].host_queued) return;
    ranks_[rank].host_queued = true;
    add(kHosts, rank);
  }
  void issue(const RankState& rank, const HostStep& step);
  void pass_memory(std::uint32_t rank, std::uint32_t first_item, SimTime at);

  // transfers.cpp
  void launch_collective(const StreamState& s);
  void launch_batch(const StreamState& s, std::uint32_t stream);
  void start_transfer(std::uint32_t activity);
  void start_flow(std::uint32_t activity);
  void end_transfer(std::uint32_t activity);
  void free_transfer(std::uint32_t activity);
  void share();
  void set_rate(std::uint32_t activity, std::int64_t rate);
  void take_peaks();
  [[nodiscard]] const std::vector<PointToPoint>& batch_of(const StreamState& s) const {
    return program_of(s.rank).batches[s.code->index];
  }
  [[nodiscard]] std::uint32_t channel_of(std::uint32_t activity) const { return pair_channel_[activity - in_.groups.size()]; }
  [[nodiscard]] bool is_group(std::uint32_t activity) const { return activity < in_.groups.size(); }
  [[nodiscard]] UsageRange usage_of(std::uint32_t activity) const;
  [[nodiscard]] std::int64_t multiplicity_of(std::uint32_t activity) const;
  /// Calls f(stream, state) for every stream that takes part.
  template <class F>
  void each_member(std::uint32_t activity, F f);

  // accounts.cpp
  void touch(std::uint32_t rank) {
    if (ranks_[rank].changed) return;
    ranks_[rank].changed = true;
    changed_.push_back(rank);
  }
  void touch_mode(std::uint32_t rank) {
    if (ranks_[rank].mode_changed) return;
    ranks_[rank].mode_changed = true;
    mode_changed_.push_back(rank);
  }
  void sample();
  [[nodiscard]] std::uint32_t classify(std::uint32_t rank) const;
  [[nodiscard]] std::uint32_t account_of(std::uint32_t stream) const;
  [[nodiscard]] std::uint32_t account_in_flight(const StreamState& s) const;  ///< kNone where nothing is
  void book(std::uint32_t rank, SimTime until);

  // stuck.cpp
  [[nodiscard]] Stuck stuck() const;

  const Input& in_;
  const Options options_;
  const Tables t_;
  Modes modes_;
  MaxMin maxmin_;
  EventQueue queue_;
  SimTime now_ = 0;
  std::uint64_t sequence_ = 0;
  std::int64_t dealt_with_ = 0;
  bool too_long_ = false;  // something was to happen after kLatest

  std::vector<StreamState> streams_;
  std::vector<Meeting> meetings_;                      // by stream
  std::vector<RankState> ranks_;
  std::vector<Activity> activities_;
  std::vector<std::uint32_t> pair_channel_;
  std::vector<std::uint32_t> sends_, receives_;        // launched, by channel
  std::vector<std::uint64_t> next_launches_;           // by stream: Code::launches of the first instruction that has not started
  std::vector<std::uint64_t> events_;                  // recorded: bits
  std::vector<SimTime> issue_times_;                   // rings of the streams

  std::array<Ids, kLists> lists_;
  std::uint32_t pending_ = 0;  // bit per list that is not empty
  Ids taken_;                  // the list being dealt with
  Ids mode_changed_, changed_;
  bool sharing_changed_ = false;
  struct Ran {
    std::uint32_t stream, instruction;
    SimTime launched, started;
  };
  std::vector<Ran> ran_;  // ended at this instant on ranks that the sink wants

  // What is measured.
  std::vector<SimTime> account_ps_;   // [rank][account]
  std::vector<SimTime> finish_, peak_at_;
  std::vector<int128> segment_ps_;    // by running number of the segment
  std::vector<TransferResult> transfers_;
  std::vector<int128> set_bytes_;     // reference bytes that went over a usage set
  std::vector<int128> flow_, flow_peak_;  // by resource: Σ weight x rate now, and the highest at the end of an instant
  std::vector<bool> flow_changed_;
  Ids flows_changed_;
  std::vector<bool> wanted_;          // by the sink
  std::vector<std::int64_t> kind_bytes_;  // [rank][kind], of wanted ranks
  std::int64_t launched_ = 0, ended_ = 0;           // instructions
  std::int64_t transfers_started_ = 0, transfers_ended_ = 0;
};

template <class F>
void Play::each_member(std::uint32_t activity, F f) {
  if (is_group(activity)) {
    for (std::size_t m = t_.group_begin[activity]; m < t_.group_begin[activity + 1]; ++m) f(t_.member_streams[m], streams_[t_.member_streams[m]]);
    return;
  }
  const std::uint32_t c = channel_of(activity);
  f(t_.sender_stream[c], streams_[t_.sender_stream[c]]);
  f(t_.receiver_stream[c], streams_[t_.receiver_stream[c]]);
}

}  // namespace orrery::engine
