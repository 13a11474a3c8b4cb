#include "longest_chain.hpp"

#include <algorithm>
#include <map>
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
  explicit Chains(const engine::Input& input) : in_(input), ranks_(input.ranks.size()) {
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
  struct Rank {
    std::size_t host = 0, issued = 0, ended = 0;
    Depth host_depth = 0;
    std::vector<Stream> streams;
    std::vector<Depth> recorded;
  };

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
    for (std::size_t s = 0; s < rank.streams.size(); ++s) {
      while (step(r, rank.streams[s], program.streams[s])) moved = true;
    }
    return moved;
  }

  bool step(std::uint32_t r, Stream& stream, const std::vector<engine::Instruction>& code) {
    if (stream.head == stream.issued.size()) return false;
    Rank& rank = ranks_[r];
    const engine::Instruction& i = code[stream.head];
    if (!stream.launched) {
      if (i.wait != engine::kNone && rank.recorded[i.wait] == kUnknown) return false;
      stream.ready = std::max(stream.done, stream.issued[stream.head]);
      if (i.wait != engine::kNone) stream.ready = std::max(stream.ready, rank.recorded[i.wait]);
      launch(r, stream, i);
      return true;
    }
    Depth end = stream.ready + (i.op == engine::Op::kSegment ? 1 : 0);
    for (const auto& key : stream.meetings) {
      const Meeting& meeting = meetings_.at(key);
      if (meeting.launched < members(key)) return false;
      end = std::max(end, meeting.before + 1);
    }
    stream.launched = false;
    stream.meetings.clear();
    stream.done = end;
    deepest_ = std::max(deepest_, end);
    if (i.record != engine::kNone) rank.recorded[i.record] = end;
    ++stream.head;
    ++rank.ended;
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

std::int64_t longest_chain(const engine::Input& input) { return Chains(input).run(); }

}  // namespace orrery::test
