#include "interpreter.hpp"

#include <algorithm>
#include <stdexcept>

#include "orrery/engine/maxmin.hpp"

namespace orrery::engine::testing {
namespace {

enum class Is { kIdle, kReady, kDelayed, kRuns, kLaunched, kOver };

struct Stream {
  std::size_t head = 0;
  Is is = Is::kIdle;
  bool ended = false;       // to be recorded
  SimTime since = 0, finish = kNever, duration = -1;
  SimTime due = kNever;     // of a delayed launch
  std::vector<SimTime> issued;
  int open = 0;
};
struct Running {  // a transfer in flight
  std::uint32_t transfer = 0;
  UsageRange usage;
  std::vector<std::pair<std::size_t, std::size_t>> members;  // rank, stream
  bool group = false;
  std::uint32_t channel = kNone;
  SimTime started = 0, flows_at = 0, finish = kNever, updated = 0;
  std::int64_t rate = 0;
  int128 remaining = 0;
  bool flowing = false, over = false;
};
struct Host {
  std::size_t item = 0;
  SimTime clock = 0;
};

class Interpreter {
 public:
  Interpreter(const Input& input, const SegmentTimes& segment_times) : in(input), times(segment_times) {
    for (const Rank& r : in.ranks) {
      const Program& p = in.programs[r.program];
      streams.emplace_back(p.streams.size());
      recorded.emplace_back(p.events, false);
    }
    hosts.resize(in.ranks.size());
    modes.resize(in.ranks.size(), {0, 0});
    sums.resize(in.ranks.size(), 0);
    arrived.resize(in.groups.size());
    out.ranks.resize(in.ranks.size());
    for (RankResult& r : out.ranks) {
      r.account_ps.resize(in.accounts);
      r.peak_kind_bytes.resize(in.memory_kinds);
    }
    kinds.resize(in.ranks.size(), std::vector<std::int64_t>(in.memory_kinds, 0));
    for (const Program& p : in.programs) out.segment_ps.emplace_back(p.segments.size());
    out.transfers.resize(in.transfers.size());
    out.resources.resize(in.resources.size());
    sends.resize(in.channels.size());
    receives.resize(in.channels.size());
  }

  Result play() {
    while (true) {
      do {
        while (finish() || record() || wake() || host() || launch() || start()) {
        }
        share();
        update_modes();
      } while (due());
      const SimTime next = next_time();
      if (next == kNever) break;
      for (std::size_t r = 0; r < streams.size(); ++r) out.ranks[r].account_ps[account(r)] += next - now;
      now = next;
    }
    for (std::size_t r = 0; r < streams.size(); ++r) {
      for (const Stream& s : streams[r]) out.ranks[r].finish = std::max(out.ranks[r].finish, s.since);
      out.ranks[r].finish = std::max(out.ranks[r].finish, hosts[r].clock);
      out.end = std::max(out.end, out.ranks[r].finish);
      if (hosts[r].item < program(r).host.size()) throw std::logic_error("a host is stuck");
      for (std::size_t s = 0; s < streams[r].size(); ++s) {
        if (streams[r][s].head < program(r).streams[s].size()) throw std::logic_error("a stream is stuck");
      }
    }
    return out;
  }

 private:
  const Program& program(std::size_t r) const { return in.programs[in.ranks[r].program]; }
  const Instruction& head(std::size_t r, std::size_t s) const { return program(r).streams[s][streams[r][s].head]; }
  bool at_end(std::size_t r, std::size_t s) const { return streams[r][s].head == program(r).streams[s].size(); }
  template <class F>
  bool any_stream(F f) {
    bool any = false;
    for (std::size_t r = 0; r < streams.size(); ++r) {
      for (std::size_t s = 0; s < streams[r].size(); ++s) any = (!at_end(r, s) && f(r, s)) || any;
    }
    return any;
  }
  bool due() const {
    for (const auto& rank : streams) {
      for (const Stream& s : rank) {
        if (s.is == Is::kRuns && s.finish == now) return true;
      }
    }
    return false;
  }

  bool finish() {
    bool any = any_stream([&](std::size_t r, std::size_t s) {
      Stream& x = streams[r][s];
      if (x.is != Is::kRuns || x.finish != now) return false;
      out.segment_ps[in.ranks[r].program][head(r, s).index] += now - x.since;
      x.is = Is::kOver;
      x.ended = true;
      return true;
    });
    for (Running& t : running) {
      if (t.over || t.finish != now) continue;
      any = t.over = true;
      out.transfers[t.transfer].count += 1;
      out.transfers[t.transfer].time_ps += now - t.started;
      for (std::uint32_t u = t.usage.begin; u < t.usage.end; ++u) {
        out.resources[in.usages[u].resource].load += int128{in.usages[u].weight} * in.transfers[t.transfer].reference_bytes;
      }
      for (const auto& [r, s] : t.members) {
        Stream& x = streams[r][s];
        if (t.group || --x.open == 0) {
          x.is = Is::kOver;
          x.ended = true;
        }
      }
    }
    running.erase(std::remove_if(running.begin(), running.end(), [](const Running& t) { return t.over; }), running.end());
    return any;
  }
  bool record() {
    return any_stream([&](std::size_t r, std::size_t s) {
      Stream& x = streams[r][s];
      if (!x.ended) return false;
      if (head(r, s).record != kNone) recorded[r][head(r, s).record] = true;
      x.ended = false;
      x.is = Is::kIdle;
      x.since = now;
      x.duration = -1;
      ++x.head;
      return true;
    });
  }
  bool wake() {
    return any_stream([&](std::size_t r, std::size_t s) {
      Stream& x = streams[r][s];
      const Instruction& i = head(r, s);
      if (x.is != Is::kIdle || (i.wait != kNone && !recorded[r][i.wait])) return false;
      if (x.issued.size() <= x.head || x.issued[x.head] > now) return false;
      x.is = Is::kReady;
      if (i.op == Op::kRecord || i.op == Op::kWait) {
        x.is = Is::kOver;
        x.ended = true;
      }
      return true;
    });
  }
  /// Launches up to and including the n-th issue of a stream.
  std::uint64_t launches(std::size_t r, std::size_t stream, std::size_t n) const {
    std::uint64_t sum = 0;
    std::size_t seen = 0;
    for (const HostInstruction& h : program(r).host) {
      if (h.op != HostOp::kIssue) continue;
      sum += h.launches;
      if (h.stream == stream && seen++ == n) return sum;
    }
    return UINT64_MAX;
  }
  bool host() {
    bool any = false;
    for (std::size_t r = 0; r < hosts.size(); ++r) {
      Host& h = hosts[r];
      if (h.item == program(r).host.size() || h.clock > now) continue;
      const HostInstruction& i = program(r).host[h.item];
      if (i.op == HostOp::kSync && !recorded[r][i.event]) continue;
      if (i.op == HostOp::kIssue) {
        std::uint64_t oldest = UINT64_MAX;
        for (std::size_t s = 0; s < streams[r].size(); ++s) {
          const Stream& x = streams[r][s];
          const bool started = x.is == Is::kRuns || x.is == Is::kLaunched || x.is == Is::kOver;
          oldest = std::min(oldest, launches(r, s, x.head + (started ? 1 : 0)));
        }
        const std::uint64_t mine = launches(r, i.stream, streams[r][i.stream].issued.size());
        if (mine > oldest && mine - oldest > in.run_ahead) continue;
        h.clock = now;
        streams[r][i.stream].issued.push_back(h.clock + i.lead);
      }
      h.clock = now;
      if (i.op == HostOp::kAllocate || i.op == HostOp::kFree) {
        const std::int64_t change = i.op == HostOp::kAllocate ? i.bytes : -i.bytes;
        sums[r] += change;
        kinds[r][i.memory_kind] += change;
        if (sums[r] > out.ranks[r].peak_bytes) {
          out.ranks[r].peak_bytes = sums[r];
          out.ranks[r].peak_at = now;
          out.ranks[r].peak_kind_bytes = kinds[r];
        }
      }
      h.clock += i.cost;
      ++h.item;
      any = true;
    }
    return any;
  }
  std::vector<std::uint32_t> transfers_of(std::size_t r, const Instruction& i) const {
    const Rank& rank = in.ranks[r];
    if (i.op == Op::kCollective) {
      const Collective& c = program(r).collectives[i.index];
      return {in.groups[rank.groups[c.group_slot]].first_transfer + c.transfer};
    }
    std::vector<std::uint32_t> all;
    for (const PointToPoint& p : program(r).batches[i.index]) all.push_back(in.channels[rank.channels[p.channel_slot]].first_transfer + p.transfer);
    return all;
  }
  std::int32_t sms_of(std::size_t r, const Instruction& i) const {
    std::int32_t most = 0;
    for (const std::uint32_t t : transfers_of(r, i)) most = std::max(most, in.transfers[t].sms);
    return most;
  }
  bool launch() {
    return any_stream([&](std::size_t r, std::size_t s) {
      Stream& x = streams[r][s];
      const Instruction& i = head(r, s);
      if (i.op != Op::kCollective && i.op != Op::kBatch) return false;
      if (x.is == Is::kReady) {
        const Stream& compute = streams[r][0];
        if (s != 0 && compute.is == Is::kRuns && compute.since < now && sms_of(r, i) > 0) {
          const SimTime delay = std::min(compute.finish - now, program(r).segments[head(r, 0).index].wave);
          if (delay > 0) {
            x.is = Is::kDelayed;
            x.due = now + delay;
            return true;
          }
        }
      } else if (x.is != Is::kDelayed || x.due != now) {
        return false;
      }
      x.is = Is::kLaunched;
      const Rank& rank = in.ranks[r];
      if (i.op == Op::kCollective) {
        arrived[rank.groups[program(r).collectives[i.index].group_slot]].emplace_back(r, s);
        return true;
      }
      x.open = static_cast<int>(program(r).batches[i.index].size());
      for (const PointToPoint& p : program(r).batches[i.index]) {
        const std::uint32_t c = rank.channels[p.channel_slot];
        (p.send ? sends : receives)[c].push_back({r, s, in.channels[c].first_transfer + p.transfer});
      }
      return true;
    });
  }
  bool start() {
    bool any = any_stream([&](std::size_t r, std::size_t s) {
      Stream& x = streams[r][s];
      if (x.is != Is::kReady) return false;
      x.is = Is::kRuns;
      x.since = now;
      x.finish = kNever;
      return true;
    });
    for (std::size_t g = 0; g < in.groups.size(); ++g) {
      if (arrived[g].size() != in.groups[g].members.size()) continue;
      Running t;
      const auto [r, s] = arrived[g].front();
      t.transfer = transfers_of(r, head(r, s)).front();
      t.usage = in.groups[g].usage_sets[in.transfers[t.transfer].usage_set];
      t.members = arrived[g];
      t.group = true;
      arrived[g].clear();
      begin(t);
      any = true;
    }
    for (std::size_t c = 0; c < in.channels.size(); ++c) {
      while (!sends[c].empty() && !receives[c].empty()) {
        Running t;
        t.transfer = sends[c].front().transfer;
        t.usage = in.channels[c].usage;
        t.channel = static_cast<std::uint32_t>(c);
        t.members = {{sends[c].front().rank, sends[c].front().stream}, {receives[c].front().rank, receives[c].front().stream}};
        sends[c].erase(sends[c].begin());
        receives[c].erase(receives[c].begin());
        begin(t);
        any = true;
      }
    }
    return any;
  }
  void begin(Running t) {
    const Transfer& x = in.transfers[t.transfer];
    t.started = now;
    t.flows_at = now + x.latency;
    t.remaining = x.work;
    if (x.work == 0) t.finish = t.flows_at;
    running.push_back(t);
  }
  void share() {
    std::vector<std::int64_t> capacities;
    for (const Resource& r : in.resources) capacities.push_back(r.capacity);
    std::vector<std::vector<Usage>> usages;
    std::vector<Running*> who;
    for (Running& t : running) {
      if (t.flows_at > now || in.transfers[t.transfer].work == 0 || t.finish == now) continue;
      if (!t.flowing) t.updated = now;
      t.flowing = true;
      std::vector<Usage>& u = usages.emplace_back();
      for (std::uint32_t i = t.usage.begin; i < t.usage.end; ++i) {
        if (!in.resources[in.usages[i].resource].passive) u.push_back(in.usages[i]);
      }
      who.push_back(&t);
    }
    std::vector<Flow> flows;
    for (std::size_t i = 0; i < who.size(); ++i) flows.push_back({in.transfers[who[i]->transfer].cap, usages[i]});
    const std::vector<std::int64_t> rates = solve_dense(capacities, flows);
    for (std::size_t i = 0; i < who.size(); ++i) {
      Running& t = *who[i];
      t.remaining = std::max(int128{0}, t.remaining - int128{t.rate} * (now - t.updated));
      t.updated = now;
      t.rate = rates[i];
      t.finish = now + static_cast<SimTime>((t.remaining + t.rate - 1) / t.rate);
    }
  }
  void update_modes() {
    for (std::size_t r = 0; r < streams.size(); ++r) {
      std::pair<std::int32_t, std::int64_t> mode{0, 0};
      for (std::size_t s = 0; s < streams[r].size(); ++s) {
        if (streams[r][s].is == Is::kLaunched) mode.first += sms_of(r, head(r, s));
      }
      for (const Running& t : running) {
        for (const auto& [rank, s] : t.members) {
          if (rank == r) mode.second += in.transfers[t.transfer].hbm;
        }
      }
      for (std::size_t s = 0; s < streams[r].size(); ++s) {
        Stream& x = streams[r][s];
        if (x.is != Is::kRuns || (x.duration >= 0 && mode == modes[r])) continue;
        const SimTime d = times.duration(in.ranks[r].program, head(r, s).index, in.ranks[r].variant, mode.first, mode.second);
        if (x.duration < 0) x.finish = now + d;
        else if (x.finish > now) x.finish = now + static_cast<SimTime>((int128{x.finish - now} * d + x.duration - 1) / x.duration);
        x.duration = d;
      }
      modes[r] = mode;
    }
  }
  SimTime next_time() const {
    SimTime next = kNever;
    const auto at = [&](SimTime t) {
      if (t > now) next = std::min(next, t);
    };
    for (std::size_t r = 0; r < streams.size(); ++r) {
      at(hosts[r].clock);
      for (std::size_t s = 0; s < streams[r].size(); ++s) {
        const Stream& x = streams[r][s];
        if (at_end(r, s)) continue;
        if (x.is == Is::kRuns) at(x.finish);
        if (x.is == Is::kDelayed) at(x.due);
        if (x.is == Is::kIdle && x.issued.size() > x.head) at(x.issued[x.head]);
      }
    }
    for (const Running& t : running) at(t.flows_at > now ? t.flows_at : t.finish);
    return next;
  }
  std::uint32_t in_flight(std::size_t r, std::size_t s) const {
    const Instruction& i = head(r, s);
    if (i.op == Op::kCollective) {
      for (const Running& t : running) {
        if (t.group && std::count(t.members.begin(), t.members.end(), std::pair(r, s)) > 0) return in.transfers[t.transfer].account;
      }
      return kNone;
    }
    for (const PointToPoint& p : program(r).batches[i.index]) {
      for (const Running& t : running) {  // pairs of a channel start in order
        if (t.channel == in.ranks[r].channels[p.channel_slot]) return in.transfers[t.transfer].account;
      }
    }
    return kNone;
  }
  std::uint32_t account(std::size_t r) const {
    if (streams[r].empty() || at_end(r, 0)) {
      for (std::size_t s = 0; s < streams[r].size(); ++s) {
        if (at_end(r, s)) continue;
        if (streams[r][s].is == Is::kRuns) return program(r).segments[head(r, s).index].account;
        if (streams[r][s].is == Is::kLaunched && in_flight(r, s) != kNone) return in_flight(r, s);
      }
      return hosts[r].clock > now ? kWaitsForHost : kWaitsForPeer;
    }
    std::size_t s = 0;
    for (std::size_t hops = 0; hops <= streams[r].size(); ++hops) {
      const Stream& x = streams[r][s];
      const Instruction& i = head(r, s);
      if (x.is == Is::kRuns) return program(r).segments[i.index].account;
      if (x.is == Is::kLaunched) return in_flight(r, s) == kNone ? kWaitsForPeer : in_flight(r, s);
      if (x.is == Is::kDelayed || i.wait == kNone || recorded[r][i.wait]) return kWaitsForHost;
      for (std::size_t p = 0; p < streams[r].size(); ++p) {
        for (const Instruction& j : program(r).streams[p]) {
          if (j.record == i.wait) s = p;
        }
      }
    }
    return kWaitsForPeer;
  }

  struct Ready {
    std::size_t rank, stream;
    std::uint32_t transfer;
  };
  const Input& in;
  const SegmentTimes& times;
  Result out;
  SimTime now = 0;
  std::vector<std::vector<Stream>> streams;
  std::vector<Host> hosts;
  std::vector<std::vector<bool>> recorded;
  std::vector<std::pair<std::int32_t, std::int64_t>> modes;
  std::vector<std::int64_t> sums;
  std::vector<std::vector<std::int64_t>> kinds;
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> arrived;
  std::vector<std::vector<Ready>> sends, receives;
  std::vector<Running> running;
};

}  // namespace

Result interpret(const Input& in, const SegmentTimes& times) { return Interpreter(in, times).play(); }

}  // namespace orrery::engine::testing
