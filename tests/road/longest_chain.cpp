#include "longest_chain.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "orrery/base/assert.hpp"

namespace orrery::test {
namespace {

using Depth = std::int64_t;
constexpr Depth kUnknown = -1;

/// What meets: the k-th collective of a group, or the k-th message of a channel.
struct Meeting {
  std::size_t launched = 0;
  Depth before = 0;  ///< of the members that have launched
};

/// Plays the order of things without times. A depth is the number of durations on the longest chain that ends there.
class Chains {
 public:
  Chains(const engine::Input& input, const Records* records) : in_(input), ranks_(input.ranks.size()) {
    if (records != nullptr) find_changes(*records);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const engine::Program& program = in_.programs[in_.ranks[r].program];
      ranks_[r].streams.resize(program.streams.size());
      ranks_[r].recorded.assign(program.events, kUnknown);
    }
  }

  Depth run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::uint32_t r = 0; r < ranks_.size(); ++r) moved = advance(r) || moved;
    }
    for (const Rank& rank : ranks_) ORRERY_ASSERT(rank.ended == rank.issued, "a sound input plays to its end");
    return deepest_;
  }

 private:
  struct Stream {
    std::vector<Depth> issued;  ///< by instruction: depth of what the host had waited for
    std::size_t head = 0;
    Depth done = 0;             ///< of the instruction before the head
    bool launched = false;
    std::vector<std::tuple<bool, std::uint32_t, std::uint64_t>> meetings;  ///< of the launched head: group or channel, which, number
    Depth ready = 0;            ///< before the launched head
  };
  /// What a communication of the same rank does to the pace of a segment: it takes SMs when it is launched there and memory bandwidth when
  /// all have launched it, and gives both back at its end. The pairs of a batch start and end one by one.
  enum class At : std::uint8_t { kLaunch, kStart, kEnd };
  struct Change {
    std::uint32_t stream = 0, instruction = 0;
    At at = At::kLaunch;
    Depth times = 0;
  };
  using Place = std::pair<std::uint32_t, std::uint32_t>;  ///< stream, instruction
  struct Rank {
    std::size_t host = 0, issued = 0, ended = 0;
    Depth host_depth = 0;
    std::vector<Stream> streams;
    std::vector<Depth> recorded;
    std::map<Place, std::vector<Change>> changes;  ///< of segments that something runs beside
    std::set<Place> delayed;                       ///< communications that may have waited for a wave
    std::map<std::pair<Place, At>, Depth> known;   ///< of communications
  };

  /// What ran beside what, from the times of the run.
  void find_changes(const Records& records) {
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
      const engine::Program& program = in_.programs[in_.ranks[r].program];
      const auto& streams = records.of(r);
      for (std::uint32_t s = 0; s < streams.size(); ++s) {
        for (const Records::Ran& segment : streams[s]) {
          if (program.streams[s][segment.instruction].op != engine::Op::kSegment) continue;
          for (std::uint32_t o = 0; o < streams.size(); ++o) {
            if (o != s) find_beside(ranks_[r], program, {s, segment.instruction}, segment, o, streams[o]);
          }
        }
      }
    }
  }
  static void find_beside(Rank& rank, const engine::Program& program, const Place& place, const Records::Ran& segment, std::uint32_t stream,
                          const std::vector<Records::Ran>& others) {
    const auto first = std::partition_point(others.begin(), others.end(), [&](const Records::Ran& o) { return o.ended <= segment.launched; });
    for (auto o = first; o != others.end() && o->launched <= segment.ended; ++o) {
      const engine::Instruction& i = program.streams[stream][o->instruction];
      if (i.op != engine::Op::kCollective && i.op != engine::Op::kBatch) continue;
      const Depth parts = i.op == engine::Op::kBatch ? static_cast<Depth>(program.batches[i.index].size()) : 1;
      const auto within = [&](SimTime at) { return at >= segment.launched && at < segment.ended; };
      const auto changes = [&](At at) { rank.changes[place].push_back({stream, o->instruction, at, parts}); };
      if (o->launched > segment.launched) rank.delayed.insert({stream, o->instruction});
      if (o->launched < segment.ended) changes(At::kLaunch);
      if (parts == 1 && within(o->started)) changes(At::kStart);
      if (within(o->ended)) changes(At::kEnd);
    }
  }

  bool advance(std::uint32_t r) {
    Rank& rank = ranks_[r];
    const engine::Program& program = in_.programs[in_.ranks[r].program];
    bool moved = false;
    for (; rank.host < program.host.size(); ++rank.host, moved = true) {
      const engine::HostInstruction& h = program.host[rank.host];
      if (h.op == engine::HostOp::kSync) {
        if (rank.recorded[h.event] == kUnknown) break;
        rank.host_depth = std::max(rank.host_depth, rank.recorded[h.event]);
      } else if (h.op == engine::HostOp::kIssue) {
        rank.streams[h.stream].issued.push_back(rank.host_depth);
        ++rank.issued;
      }
    }
    for (std::uint32_t s = 0; s < rank.streams.size(); ++s) {
      while (step(r, s, program.streams[s])) moved = true;
    }
    return moved;
  }

  bool step(std::uint32_t r, std::uint32_t s, const std::vector<engine::Instruction>& code) {
    Rank& rank = ranks_[r];
    Stream& stream = rank.streams[s];
    if (stream.head == stream.issued.size()) return false;
    const engine::Instruction& i = code[stream.head];
    const Place place{s, static_cast<std::uint32_t>(stream.head)};
    if (!stream.launched) {
      if (i.wait != engine::kNone && rank.recorded[i.wait] == kUnknown) return false;
      stream.ready = std::max(stream.done, stream.issued[stream.head]);
      if (i.wait != engine::kNone) stream.ready = std::max(stream.ready, rank.recorded[i.wait]);
      if (rank.delayed.contains(place)) ++stream.ready;
      rank.known[{place, At::kLaunch}] = stream.ready;
      launch(r, stream, i);
      return true;
    }
    Depth end = stream.ready;
    if (i.op == engine::Op::kSegment) {
      end += 1;
      if (!slowed(rank, place, end)) return false;
    }
    Depth start = stream.ready;
    for (const auto& key : stream.meetings) {
      const Meeting& meeting = meetings_.at(key);
      if (meeting.launched < members(key)) return false;
      start = std::max(start, meeting.before);
      end = std::max(end, meeting.before + 1);
    }
    if (!stream.meetings.empty()) rank.known[{place, At::kStart}] = start, rank.known[{place, At::kEnd}] = end;
    stream.launched = false;
    stream.meetings.clear();
    stream.done = end;
    deepest_ = std::max(deepest_, end);
    if (i.record != engine::kNone) rank.recorded[i.record] = end;
    ++stream.head;
    ++rank.ended;
    return true;
  }

  /// The end of a segment that what ran beside it may have slowed. False while that is not known yet.
  static bool slowed(const Rank& rank, const Place& segment, Depth& end) {
    const auto changes = rank.changes.find(segment);
    if (changes == rank.changes.end()) return true;
    Depth paces = 0;
    for (const Change& c : changes->second) {
      const auto known = rank.known.find({{c.stream, c.instruction}, c.at});
      if (known == rank.known.end()) return false;
      end = std::max(end, known->second + 1);
      paces += 2 * c.times;
    }
    end += paces;
    return true;
  }

  void launch(std::uint32_t r, Stream& stream, const engine::Instruction& i) {
    const engine::Rank& rank = in_.ranks[r];
    const engine::Program& program = in_.programs[rank.program];
    stream.launched = true;
    if (i.op == engine::Op::kCollective) {
      const std::uint32_t g = rank.groups[program.collectives[i.index].group_slot];
      meet(stream, {true, g, collectives_[{r, g}]++});
    } else if (i.op == engine::Op::kBatch) {
      for (const engine::PointToPoint& p : program.batches[i.index]) {
        const std::uint32_t c = rank.channels[p.channel_slot];
        meet(stream, {false, c, p.send ? sends_[c]++ : receives_[c]++});
      }
    }
  }
  void meet(Stream& stream, const std::tuple<bool, std::uint32_t, std::uint64_t>& key) {
    Meeting& meeting = meetings_[key];
    ++meeting.launched;
    meeting.before = std::max(meeting.before, stream.ready);
    stream.meetings.push_back(key);
  }
  [[nodiscard]] std::size_t members(const std::tuple<bool, std::uint32_t, std::uint64_t>& key) const {
    return std::get<0>(key) ? in_.groups[std::get<1>(key)].members.size() : 2;
  }

  const engine::Input& in_;
  std::vector<Rank> ranks_;
  std::map<std::tuple<bool, std::uint32_t, std::uint64_t>, Meeting> meetings_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> collectives_;  // launched, by rank and group
  std::map<std::uint32_t, std::uint64_t> sends_, receives_;                       // launched, by channel
  Depth deepest_ = 0;
};

}  // namespace

Records::Records(const engine::Input& input) : ranks_(input.ranks.size()) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) ranks_[r].resize(input.programs[input.ranks[r].program].streams.size());
}

std::int64_t longest_chain(const engine::Input& input, const Records* records) { return Chains(input, records).run(); }

}  // namespace orrery::test
