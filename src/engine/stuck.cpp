// Who waits for what, and since when, once nothing can happen any more. Ranks are named by the lowest of their class.
#include <array>

#include <fmt/format.h>

#include "engine/play.hpp"

namespace orrery::engine {
namespace {

constexpr std::size_t kMostLines = 20;

std::string time_text(SimTime t) {
  struct Unit {
    SimTime ps;
    const char* name;
  };
  constexpr std::array<Unit, 4> units = {{{1'000'000'000'000, "s"}, {1'000'000'000, "ms"}, {1'000'000, "us"}, {1'000, "ns"}}};
  for (const Unit& u : units) {
    if (t >= u.ps) return fmt::format("{}.{:03} {}", t / u.ps, t % u.ps / (u.ps / 1000), u.name);
  }
  return fmt::format("{} ps", t);
}

}  // namespace

Stuck Play::stuck() const {
  std::vector<std::string> waits;
  std::size_t more = 0;
  const auto say = [&](std::string line) {
    if (waits.size() < kMostLines) waits.push_back(std::move(line));
    else ++more;
  };
  const auto name = [&](std::uint32_t rank) { return in_.ranks[rank].lowest; };
  for (std::uint32_t r = 0; r < in_.ranks.size(); ++r) {
    const RankState& rank = ranks_[r];
    if (rank.host == HostState::kSync) {
      const HostStep& step = *rank.step;
      say(fmt::format("rank {} host instruction {} waits for event {}, since {}", name(r), step.item, step.event, time_text(rank.clock)));
    } else if (rank.host == HostState::kRunAhead) {
      const HostStep& step = *rank.step;
      say(fmt::format("rank {} host instruction {} waits for an older launch to start (run-ahead limit {}), since {}", name(r), step.item, in_.run_ahead,
                      time_text(rank.clock)));
    }
    for (std::uint32_t i = t_.rank_first_stream[r]; i < t_.rank_first_stream[r + 1]; ++i) {
      const StreamState& s = streams_[i];
      if (s.phase == Phase::kFinished) continue;
      const Code& code = *s.code;
      const std::string who = fmt::format("rank {} stream {} instruction {}", name(r), s.index, s.head);
      const std::string since = time_text(s.since);
      if (s.phase == Phase::kIdle && code.wait != kNone && !recorded(rank, code.wait)) {
        const Place& p = t_.recorder[rank.program->first_event + code.wait];
        if (p.stream == kNone) say(fmt::format("{} waits for event {}, which nothing records, since {}", who, code.wait, since));
        else say(fmt::format("{} waits for event {} of stream {} instruction {}, since {}", who, code.wait, p.stream, p.instruction, since));
      } else if (s.phase == Phase::kIdle) {
        say(fmt::format("{} waits for the host to issue it, since {}", who, since));
      } else if (code.op == Op::kCollective) {
        const std::uint32_t g = in_.ranks[r].groups[in_.programs[in_.ranks[r].program].collectives[code.index].group_slot];
        const Group& group = in_.groups[g];
        for (std::size_t m = 0; m < group.members.size(); ++m) {
          const std::uint32_t member = t_.member_streams[t_.group_begin[g] + m];
          const bool there = member != kNone && streams_[member].phase == Phase::kLaunched && streams_[member].code->op == Op::kCollective &&
                             in_.ranks[group.members[m]].groups[in_.programs[in_.ranks[group.members[m]].program].collectives[streams_[member].code->index].group_slot] == g;
          if (there) continue;
          say(fmt::format("{} waits for rank {} to launch collective {} of group {}, since {}", who, name(group.members[m]), activities_[g].launched, g, since));
          break;
        }
      } else {
        for (const PointToPoint& p : batch_of(s)) {  // the first of the batch whose peer is missing
          const std::uint32_t c = in_.ranks[r].channels[p.channel_slot];
          if ((p.send ? receives_[c] : sends_[c]) >= (p.send ? sends_[c] : receives_[c])) continue;
          const Channel& channel = in_.channels[c];
          say(fmt::format("{} waits for rank {} to launch {} {} of channel {}, since {}", who, name(p.send ? channel.receiver : channel.sender),
                          p.send ? "receive" : "send", p.send ? receives_[c] : sends_[c], c, since));
          break;
        }
      }
    }
  }
  if (more > 0) waits.back() = fmt::format("and {} more", more + 1);
  return Stuck{now_, std::move(waits)};
}

}  // namespace orrery::engine
