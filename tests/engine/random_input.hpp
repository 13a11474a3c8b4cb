#pragma once
// Random inputs that end: every instruction waits only for earlier ones of one global order, which is also every host's order.
#include "build_input.hpp"
#include "orrery/base/random.hpp"

namespace orrery::engine::testing {

struct Knobs {
  bool latencies = true;  ///< also host costs, leads and waves
  bool modes = true;
  SimTime scale = 1;      ///< of every duration
  std::int64_t rate = 1;  ///< of every capacity and cap
};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}
  /// Uniform in [low, high].
  std::int64_t operator()(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_bits(seed_, "engine test", index_++) % static_cast<std::uint64_t>(high - low + 1));
  }
  bool once_in(std::int64_t n) { return (*this)(1, n) == 1; }

 private:
  std::uint64_t seed_, index_ = 0;
};

/// Streams: 0 segments and blocking collectives, 1 and 2 collectives, 3 batches, 4 copies. place[r]: where rank r stands.
inline Built random_input(std::uint64_t seed, const Knobs& knobs, const std::vector<std::uint32_t>& place) {
  Draw draw(seed);
  const auto ranks = static_cast<std::uint32_t>(place.size());
  Built b(ranks, 5);
  b.times.percent_per_sm = knobs.modes ? 3 : 0;
  b.in.run_ahead = static_cast<std::uint32_t>(draw(0, 12));
  const auto links = static_cast<std::uint32_t>(draw(1, 5));
  for (std::uint32_t l = 0; l < links; ++l) {
    const std::int64_t capacity = draw(900, 3000);
    b.resource(capacity * knobs.rate, draw.once_in(5));
  }
  const auto usages = [&] {
    std::vector<std::pair<std::uint32_t, std::int64_t>> u;
    for (std::uint32_t l = 0; l < links; ++l) {
      if (draw.once_in(2)) u.push_back({l, draw(kUnit / 2, 2 * kUnit)});
    }
    return b.usage(u);
  };
  const auto transfers = [&] {
    std::vector<Transfer> t;
    for (int i = 0; i < 3; ++i) {
      const SimTime latency = draw(0, 40);
      const std::int64_t cap = draw(300, 2500);
      const int128 work = int128{draw(0, 3) == 0 ? 0 : draw(1, 300)} * draw(300, 2500) * 1000;
      const auto account = static_cast<std::uint32_t>(draw(3, 7));
      const auto sms = static_cast<std::int32_t>(draw(0, 8));
      const std::int64_t hbm = draw(0, 50);
      t.push_back(transfer(knobs.latencies ? latency * knobs.scale : 0, cap * knobs.rate, work * knobs.scale, account, knobs.modes ? sms : 0, knobs.modes ? hbm : 0));
    }
    return t;
  };
  struct Meeting {
    std::uint32_t id;
    std::uint8_t stream;
    std::vector<std::uint32_t> members;
  };
  std::vector<Meeting> groups;
  for (int g = 0; g < 4; ++g) {
    std::vector<std::uint32_t> members;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      if (draw.once_in(2)) members.push_back(place[r]);
    }
    if (members.empty()) members.push_back(place[0]);
    std::sort(members.begin(), members.end());
    const UsageRange u = usages();
    groups.push_back({b.group(members, u, transfers()), static_cast<std::uint8_t>(g % 3), members});
  }
  struct Way {
    std::uint32_t id, from, to;
  };
  std::vector<Way> channels;
  for (int c = 0; c < 4; ++c) {
    const auto from = static_cast<std::uint32_t>(draw(0, ranks - 1)), to = static_cast<std::uint32_t>(draw(0, ranks - 1));
    if (from == to) continue;
    const UsageRange u = usages();
    channels.push_back({b.channel(place[from], place[to], u, transfers()), place[from], place[to]});
  }
  std::vector<std::vector<std::uint32_t>> recorded(ranks);
  const auto wait = [&](std::uint32_t r) {
    if (recorded[r].empty() || draw.once_in(2)) return kNone;
    return recorded[r][static_cast<std::size_t>(draw(std::max<std::int64_t>(0, static_cast<std::int64_t>(recorded[r].size()) - 4), static_cast<std::int64_t>(recorded[r].size()) - 1))];
  };
  const auto record = [&](std::uint32_t r) { return draw.once_in(2) ? b.event(r) : kNone; };
  const auto done = [&](std::uint32_t r, std::uint32_t event) {
    if (event != kNone) recorded[r].push_back(event);
    HostInstruction& h = b.in.programs[r].host.back();
    const SimTime cost = draw(0, 30), lead = draw(0, 30);
    h.launches = static_cast<std::uint32_t>(draw(0, 3));
    if (knobs.latencies) {
      h.cost = cost * knobs.scale;
      h.lead = lead * knobs.scale;
    }
  };
  const std::int64_t operations = draw(5, 60);
  for (std::int64_t o = 0; o < operations; ++o) {
    const std::int64_t kind = draw(0, 9);
    const std::uint32_t r = place[static_cast<std::size_t>(draw(0, ranks - 1))];
    if (kind < 4) {
      const std::uint32_t w = wait(r), e = record(r);
      const SimTime duration = draw(0, 400), wave = draw(0, 60);
      b.segment(r, duration * knobs.scale, w, e, kind == 0 ? 4 : 0, knobs.latencies ? wave * knobs.scale : 0);
      done(r, e);
    } else if (kind < 6) {
      const Meeting& g = groups[static_cast<std::size_t>(draw(0, 3))];
      const auto t = static_cast<std::uint32_t>(draw(0, 2));
      for (std::uint32_t i = 0; i < ranks; ++i) {  // in the order of the ranks, wherever they stand
        if (!std::binary_search(g.members.begin(), g.members.end(), place[i])) continue;
        const std::uint32_t w = wait(place[i]), e = record(place[i]);
        b.collective(place[i], g.stream, g.id, t, w, e);
        done(place[i], e);
      }
    } else if (kind < 8 && !channels.empty()) {
      const Way& c = channels[static_cast<std::size_t>(draw(0, static_cast<std::int64_t>(channels.size()) - 1))];
      const auto t = static_cast<std::uint32_t>(draw(0, 2)), t2 = static_cast<std::uint32_t>(draw(0, 2));
      const bool two = draw.once_in(2);
      for (const bool send : {true, false}) {
        const std::uint32_t at = send ? c.from : c.to;
        std::vector<Built::End> ends = {{send, c.id, t}};
        if (two) ends.push_back({send, c.id, t2});
        const std::uint32_t w = wait(at), e = record(at);
        b.batch(at, 3, ends, w, e);
        done(at, e);
      }
    } else if (kind == 8) {
      const bool is_record = draw.once_in(2);
      const std::uint32_t w = wait(r), e = is_record ? b.event(r) : kNone;
      if (!is_record && w == kNone) continue;
      b.put(r, static_cast<std::uint8_t>(draw(0, 4)), {is_record ? Op::kRecord : Op::kWait, 0, w, e});
      done(r, e);
    } else if (draw.once_in(3) && !recorded[r].empty()) {
      b.host(r, {HostOp::kSync, 0, 0, 1, recorded[r].back(), knobs.latencies ? draw(0, 30) * knobs.scale : 0, 0, 0});
    } else {
      b.host(r, {HostOp::kAllocate, 0, static_cast<std::uint8_t>(draw(0, 1)), 1, kNone, knobs.latencies ? draw(0, 30) * knobs.scale : 0, 0, draw(1, 99)});
    }
  }
  return b;
}

inline std::vector<std::uint32_t> in_place(std::uint32_t ranks) {
  std::vector<std::uint32_t> place(ranks);
  for (std::uint32_t r = 0; r < ranks; ++r) place[r] = r;
  return place;
}

}  // namespace orrery::engine::testing
