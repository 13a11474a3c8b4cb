#include "transfers.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "orrery/base/assert.hpp"
#include "communicators.hpp"
#include "orrery/workload/experts.hpp"
#include "usage.hpp"

namespace orrery::lower {
namespace {

using engine::kNone;
using workload::Axis;

/// A scalar agreement (norm, overflow flag) is latency; its bytes claim no bandwidth.
constexpr std::int64_t kLatencyOnlyBytes = 4096;

struct ShapeKey {
  std::int64_t ranks, domains, per_nic;
  auto operator<=>(const ShapeKey&) const = default;
};
struct Pattern {
  collective::Hops hops;
  int channels = 1;
};
bool same(const Pattern& a, const Pattern& b) {
  return a.channels == b.channels && a.hops.intra_out == b.hops.intra_out && a.hops.intra_in == b.hops.intra_in && a.hops.inter_out == b.hops.inter_out &&
         a.hops.inter_in == b.hops.inter_in && a.hops.pattern == b.hops.pattern;
}
/// Fraction of the buffer that one channel carries over its busiest hop.
double reference_fraction(const Pattern& p) {
  return std::max({p.hops.intra_out, p.hops.intra_in, p.hops.inter_out, p.hops.inter_in}) / p.channels;
}

/// What the groups of one axis put on links, by pattern: communicators of one axis on several streams share it.
struct AxisLoads {
  std::vector<GroupLayout> layouts;
  struct Known {
    Pattern pattern;
    std::vector<engine::UsageRange> range;  // by group
    std::vector<Slowest> slowest;
    std::vector<bool> done;
  };
  std::vector<Known> known;

  Known& of(const Pattern& p) {
    const auto found = std::find_if(known.begin(), known.end(), [&](const Known& k) { return same(k.pattern, p); });
    if (found != known.end()) return *found;
    known.push_back({p, std::vector<engine::UsageRange>(layouts.size()), std::vector<Slowest>(layouts.size()), std::vector<bool>(layouts.size(), false)});
    return known.back();
  }
};

/// The plan role that an ECMP draw depends on: the axis (of pipeline traffic: pp and its direction) and the stage. Communicators of one
/// axis share their paths: the hash is over addresses.
std::uint64_t draw_role(Axis axis, std::int64_t stage, std::uint64_t direction = 0) {
  return direction << 48 | static_cast<std::uint64_t>(axis) << 32 | static_cast<std::uint64_t>(stage);
}

/// One class of alike groups of an axis: the same shape, so the same choices, times and transfers.
struct ShapeClass {
  collective::Shape shape;
  std::vector<Pattern> patterns;              // distinct; index is the usage set
  std::vector<std::uint32_t> request_pattern; // by request of the axis
  std::vector<collective::Choice> choices;
  std::vector<collective::Shape> shapes;      // by request: the shape, and what its tokens do
  std::vector<Slowest> slowest;               // by pattern, worst group
  std::vector<std::size_t> groups;
};

/// What the tokens of an exchange do on this communicator, where a library that knows tokens carries them.
collective::Shape shape_for(const program::Request& request, collective::Shape shape) {
  const workload::TokenRoute& r = request.route;
  if (r.path == workload::TokenPath::kDirect) return shape;
  shape.tokens = {.per_token = r.per_token,
                  .domains = workload::distinct_places(r.experts, r.per_token, shape.nodes, r.group_limit),
                  .ranks = workload::distinct_places(r.experts, r.per_token, shape.ranks),
                  .combine = r.combine,
                  .bytes = static_cast<double>(r.copy_bytes),
                  .sms = r.sms};
  return shape;
}

/// NCCL's own choice, or the library that the job names.
collective::Choice choose(const program::Request& request, const collective::Shape& shape, const World& world) {
  switch (request.route.path) {
    case workload::TokenPath::kDirect: break;
    case workload::TokenPath::kHierarchical: return {collective::Algorithm::kHierarchical, collective::Protocol::kSimple, request.route.sms, Seconds(0)};
    case workload::TokenPath::kDeduplicated: return {collective::Algorithm::kDeduplicated, collective::Protocol::kSimple, request.route.sms, Seconds(0)};
  }
  return collective::choose(to_kind(request.kind), Bytes(request.bytes), shape, world.nccl);
}

void lower_communicator(std::uint32_t index, const Communicator& communicator, const World& world, Resources& resources, LinkLoads& link_loads,
                        Communication& comm, Lowered& out, AxisLoads& axis_loads, std::vector<std::uint32_t>& group_of_rank) {
  const std::vector<GroupLayout>& layouts = axis_loads.layouts;
  const Axis axis = communicator.axis;
  const std::vector<std::uint32_t>& requests = communicator.requests;
  for (const std::uint32_t r : requests) comm.request_alone[r] = layouts.empty();
  if (layouts.empty()) return;
  std::map<ShapeKey, ShapeClass> classes;
  const Users users(communicator, world);
  std::vector<std::uint32_t> place(layouts.size(), kNone);  // in the engine's list
  auto next = static_cast<std::uint32_t>(out.input.groups.size());
  for (std::size_t g = 0; g < layouts.size(); ++g) {
    if (!users.any_of(layouts[g])) continue;
    place[g] = next++;
    const ShapeKey key{static_cast<std::int64_t>(layouts[g].members.size()), static_cast<std::int64_t>(layouts[g].domains()), layouts[g].per_nic};
    ShapeClass& c = classes[key];
    if (c.groups.empty()) c.shape = make_shape(layouts[g], world);
    c.groups.push_back(g);
  }
  out.input.groups.resize(next);
  for (auto& [key, c] : classes) {
    for (const std::uint32_t r : requests) {
      const program::Request& request = world.program.requests[r];
      const collective::Kind kind = to_kind(request.kind);
      Pattern p;
      c.shapes.push_back(shape_for(request, c.shape));
      const collective::Choice choice = choose(request, c.shapes.back(), world);
      p.hops = collective::hops(kind, choice.algorithm, c.shapes.back());
      p.channels = std::max(1, choice.channels);
      const auto found = std::find_if(c.patterns.begin(), c.patterns.end(), [&](const Pattern& q) { return same(p, q); });
      c.request_pattern.push_back(static_cast<std::uint32_t>(found - c.patterns.begin()));
      if (found == c.patterns.end()) c.patterns.push_back(p);
      c.choices.push_back(choice);
    }
    c.slowest.resize(c.patterns.size());
    std::vector<bool> needed(c.patterns.size(), false);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (world.program.requests[requests[i]].bytes > kLatencyOnlyBytes) needed[c.request_pattern[i]] = true;
    }
    const auto first_transfer = static_cast<std::uint32_t>(out.input.transfers.size());
    for (const std::size_t g : c.groups) {
      engine::Group& group = out.input.groups[place[g]];
      group.members = layouts[g].members;
      std::sort(group.members.begin(), group.members.end());
      group.first_transfer = first_transfer;
      group.kind = index;
      for (std::size_t p = 0; p < c.patterns.size(); ++p) {
        engine::UsageRange range;
        if (needed[p]) {
          AxisLoads::Known& known = axis_loads.of(c.patterns[p]);
          if (!known.done[g]) {
            const std::int64_t stage = world.grid.coordinates(layouts[g].members.front()).pp;
            const std::span<const LinkLoad> loads = link_loads.of(layouts[g], c.patterns[p].hops, draw_role(axis, stage));
            known.range[g] = add_usage(loads, reference_fraction(c.patterns[p]), resources, out);
            known.slowest[g] = slowest_link(loads, world);
            known.done[g] = true;
          }
          range = known.range[g];
          const Slowest s = known.slowest[g];
          if (s.seconds_per_byte > c.slowest[p].seconds_per_byte) c.slowest[p] = s;
        }
        group.usage_sets.push_back(range);
      }
      for (const std::uint32_t m : group.members) group_of_rank[m] = place[g];
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const program::Request& request = world.program.requests[requests[i]];
      const Pattern& p = c.patterns[c.request_pattern[i]];
      const cost::CollectiveTime time = cost::collective_time(to_kind(request.kind), Bytes(request.bytes), c.choices[i], c.shapes[i], world.nccl, world.profile);
      const auto bytes = static_cast<double>(request.bytes);
      const Slowest& s = c.slowest[c.request_pattern[i]];
      TransferRow row{request.kind, axis, c.shape.ranks, request.bytes, c.choices[i], std::string(cluster::to_string(s.kind)), time.origin, 0};
      if (time.latency.value() > time.transfer.value()) row.limited_by = "latency";
      const double fraction = std::max(p.hops.intra_out, p.hops.inter_out);
      const int sms = request.sms >= 0 ? request.sms : collective::footprint_sms(c.choices[i], c.shape);
      if (request.bytes <= kLatencyOnlyBytes) {
        add_transfer(time.latency + time.transfer, Seconds(0), 0, 0, c.request_pattern[i], sms, world, std::move(row), out);
      } else {
        const Seconds transfer(std::max(time.transfer.value(), s.seconds_per_byte * bytes));
        add_transfer(time.latency, transfer, bytes * reference_fraction(p), bytes * fraction, c.request_pattern[i],
                     sms, world, std::move(row), out);
      }
    }
  }
}

/// NCCL's point-to-point channels per peer: two per NIC, or one per 14 GB/s of it; on NVLink two per link (paths.cc).
int p2p_channels(const World& world, bool same_domain) {
  if (same_domain) return std::clamp(static_cast<int>(2 * world.cluster.node().scale_up.value() / 25e9), 2, 32);
  return std::clamp(static_cast<int>(world.cluster.nic_per_gpu().value() / 14e9), 2, 16);
}

void lower_channels(const World& world, Resources& resources, Communication& comm, Lowered& out, std::vector<std::array<std::uint32_t, program::kSlots>>& channels_of_rank) {
  const plan::Parallelism& p = world.parallelism;
  bool used[program::kSlots] = {};
  std::vector<std::array<bool, program::kSlots>> role_uses(world.program.roles.size(), std::array<bool, program::kSlots>{});
  for (std::size_t r = 0; r < world.program.roles.size(); ++r) {
    for (const auto& batch : world.program.roles[r].batches) {
      for (const program::PointToPoint& m : batch) {
        role_uses[r][static_cast<std::size_t>(m.slot)] = used[static_cast<std::size_t>(m.slot)] = true;
        if (std::find(comm.channel_bytes.begin(), comm.channel_bytes.end(), m.bytes) == comm.channel_bytes.end()) comm.channel_bytes.push_back(m.bytes);
      }
    }
  }
  if (comm.channel_bytes.empty()) return;
  using Key = std::tuple<bool, double, double>;  // same domain, wire latency, seconds per byte of the slowest link
  std::map<Key, std::uint32_t> first_transfer;
  const int flows_inside = p2p_channels(world, true), flows_outside = world.cluster.fabric() ? p2p_channels(world, false) : 1;
  std::vector<LinkLoad> loads;
  for (const program::Slot direction : {program::Slot::kForwardOut, program::Slot::kBackwardOut, program::Slot::kUpForwardOut, program::Slot::kUpBackwardOut}) {
    if (!used[static_cast<std::size_t>(direction)]) continue;
    const bool forward = program::meets_next(direction);
    for (std::int64_t r = 0; r < world.grid.ranks(); ++r) {
      plan::Coordinates c = world.grid.coordinates(r);
      const std::int64_t stage = c.pp;
      if (!role_uses[world.program.role_of(stage, 0, 0)][static_cast<std::size_t>(direction)]) continue;  // alike in all variants
      c.pp = (c.pp + (forward ? 1 : p.pp - 1)) % p.pp;
      const std::int64_t to = world.grid.rank(c);
      engine::Channel channel;
      channel.sender = static_cast<std::uint32_t>(r);
      channel.receiver = static_cast<std::uint32_t>(to);
      channel.kind = static_cast<std::uint32_t>(direction);
      const cluster::Route route = world.cluster.route(r, to, draw_role(Axis::kPp, stage, 1 + channel.kind));
      const bool same_domain = world.cluster.domain_of(r) == world.cluster.domain_of(to);
      const int flows = same_domain ? flows_inside : flows_outside;
      loads.clear();
      for (const cluster::Hop& hop : route.hops) loads.push_back({hop.link, hop.share});
      channel.usage = add_usage(loads, 1.0 / flows, resources, out);
      const Slowest s = slowest_link(loads, world);
      const Key key{same_domain, route.latency.value(), s.seconds_per_byte};
      const auto found = first_transfer.find(key);
      if (found != first_transfer.end()) {
        channel.first_transfer = found->second;
      } else {
        channel.first_transfer = static_cast<std::uint32_t>(out.input.transfers.size());
        first_transfer[key] = channel.first_transfer;
        const auto [low, high] = std::minmax(channel.sender, channel.receiver);
        const collective::Shape shape = make_shape(lay_out({low, high}, world), world);
        for (const std::int64_t bytes : comm.channel_bytes) {
          const cost::CollectiveTime time = cost::point_to_point_time(Bytes(bytes), shape, same_domain, route.latency, world.profile);
          collective::Choice choice{collective::Algorithm::kPairs, collective::Protocol::kSimple, flows, Seconds(0)};
          TransferRow row{workload::CommKind::kSendRecv, Axis::kPp, 2, bytes, choice, std::string(cluster::to_string(s.kind)), time.origin, 0};
          const auto b = static_cast<double>(bytes);
          const Seconds transfer(std::max(time.transfer.value(), s.seconds_per_byte * b));
          add_transfer(time.latency, transfer, b / flows, b, 0, std::min(flows, 4), world, std::move(row), out);
        }
      }
      const auto id = static_cast<std::uint32_t>(out.input.channels.size());
      out.input.channels.push_back(channel);
      channels_of_rank[static_cast<std::size_t>(r)][static_cast<std::size_t>(direction)] = id;
      channels_of_rank[static_cast<std::size_t>(to)][static_cast<std::size_t>(program::other_end(direction))] = id;
    }
  }
}

/// A nominal capacity is raised to what one activity alone takes of it (rounding only; a degraded link keeps what it has).
void absorb_rounding(const World& world, Lowered& out) {
  // Transfers of one class of groups lie together: from its first to the next class' first. Per usage set the highest cap decides.
  std::map<std::uint32_t, std::vector<std::int64_t>> highest;  // first transfer -> cap by usage set
  for (const engine::Group& g : out.input.groups) highest[g.first_transfer];
  for (const engine::Channel& c : out.input.channels) highest[c.first_transfer];
  for (auto it = highest.begin(); it != highest.end(); ++it) {
    const std::size_t end = std::next(it) == highest.end() ? out.input.transfers.size() : std::next(it)->first;
    for (std::size_t t = it->first; t < end; ++t) {
      const engine::Transfer& transfer = out.input.transfers[t];
      if (it->second.size() <= transfer.usage_set) it->second.resize(transfer.usage_set + 1, 0);
      it->second[transfer.usage_set] = std::max(it->second[transfer.usage_set], transfer.cap);
    }
  }
  const auto raise = [&](engine::UsageRange range, std::int64_t cap) {
    std::int64_t weight = 0;  // of the usage before: most are alike
    int128 taken = 0;
    for (std::uint32_t u = range.begin; u < range.end; ++u) {
      const engine::Usage& usage = out.input.usages[u];
      if (usage.weight != weight) {
        weight = usage.weight;
        taken = (static_cast<int128>(weight) * cap + ((int128{1} << engine::kWeightBits) - 1)) >> engine::kWeightBits;
      }
      std::int64_t& capacity = out.input.resources[usage.resource].capacity;
      if (taken <= capacity) continue;
      const cluster::Link& link = world.cluster.links()[out.resource_link[usage.resource].index()];
      if (link.capacity.value() < link.nominal.value()) continue;
      // More than rounding would be a time below bytes over capacity.
      ORRERY_ASSERT(taken <= capacity + capacity / 1000 + 64, "no activity alone exceeds a link");
      capacity = static_cast<std::int64_t>(taken);
    }
  };
  for (const engine::Group& g : out.input.groups) {
    const std::vector<std::int64_t>& caps = highest[g.first_transfer];
    for (std::size_t set = 0; set < g.usage_sets.size() && set < caps.size(); ++set) raise(g.usage_sets[set], caps[set]);
  }
  for (const engine::Channel& c : out.input.channels) raise(c.usage, highest[c.first_transfer].front());
}

}  // namespace

Result<Communication> lower_communication(const World& world, Lowered& out, const std::string& file) {
  Communication comm;
  comm.request_alone.assign(world.program.requests.size(), true);
  Resources resources(world, out);
  const auto ranks = static_cast<std::size_t>(world.grid.ranks());
  const std::vector<Communicator> all = communicators(world.program);
  std::vector<std::vector<std::uint32_t>> group_of_rank(all.size(), std::vector<std::uint32_t>(ranks, kNone));  // [communicator][rank]
  LinkLoads link_loads(world);
  AxisLoads loads;
  for (std::uint32_t c = 0; c < all.size(); ++c) {
    if (workload::with_host(all[c].axis)) {
      lower_host_copies(c, all[c], world, resources, comm, out, group_of_rank[c]);
      continue;
    }
    if (c == 0 || all[c].axis != all[c - 1].axis) loads = AxisLoads{make_groups(all[c].axis, world), {}};
    lower_communicator(c, all[c], world, resources, link_loads, comm, out, loads, group_of_rank[c]);
  }
  std::array<std::uint32_t, program::kSlots> none{};
  none.fill(kNone);
  std::vector<std::array<std::uint32_t, program::kSlots>> channels_of_rank(ranks, none);
  lower_channels(world, resources, comm, out, channels_of_rank);
  if (!resources.problem().empty()) return fail(file, "/cluster", resources.problem());
  absorb_rounding(world, out);

  // Slots of a role: the communicators that its program uses, in order; then the pipeline slots that it uses.
  std::vector<std::vector<std::uint32_t>> communicator_of_slot;  // [role][group slot]
  for (const program::Role& role : world.program.roles) {
    RoleSlots slots;
    slots.group_slot.assign(world.program.requests.size() * program::kStreams, kNone);
    slots.group_transfer.assign(slots.group_slot.size(), kNone);
    slots.channel_slot.fill(kNone);
    std::vector<std::uint32_t>& used = communicator_of_slot.emplace_back();
    for (std::uint32_t c = 0; c < all.size(); ++c) {
      const auto uses = [&](const program::Item& item) {
        return item.kind == program::ItemKind::kCollective && item.stream == all[c].stream && world.program.requests[item.index].axis == all[c].axis;
      };
      if (comm.request_alone[all[c].requests.front()] || std::none_of(role.items.begin(), role.items.end(), uses)) continue;
      for (std::uint32_t i = 0; i < all[c].requests.size(); ++i) {
        const std::size_t at = RoleSlots::place(all[c].requests[i], all[c].stream);
        slots.group_slot[at] = slots.groups;
        slots.group_transfer[at] = i;
      }
      ++slots.groups;
      used.push_back(c);
    }
    for (const auto& batch : role.batches) {
      for (const program::PointToPoint& m : batch) slots.channel_slot[static_cast<std::size_t>(m.slot)] = 0;
    }
    for (std::uint32_t& slot : slots.channel_slot) {
      if (slot != kNone) slot = slots.channels++;
    }
    comm.roles.push_back(std::move(slots));
  }
  out.input.ranks.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    engine::Rank& rank = out.input.ranks[r];
    const plan::Coordinates at = world.grid.coordinates(static_cast<std::int64_t>(r));
    rank.program = static_cast<std::uint32_t>(world.program.role_of(at.pp, at.cp, world.grid.expert_coordinates(static_cast<std::int64_t>(r)).ep));
    rank.lowest = static_cast<std::uint32_t>(r);
    const RoleSlots& slots = comm.roles[rank.program];
    rank.groups.reserve(slots.groups);
    for (const std::uint32_t c : communicator_of_slot[rank.program]) {
      ORRERY_ASSERT(group_of_rank[c][r] != kNone, "a role that issues a collective has its group");
      rank.groups.push_back(group_of_rank[c][r]);
    }
    rank.channels.reserve(slots.channels);
    for (std::size_t s = 0; s < program::kSlots; ++s) {
      if (slots.channel_slot[s] != kNone) rank.channels.push_back(channels_of_rank[r][s]);
    }
    for (const std::uint32_t ch : rank.channels) ORRERY_ASSERT(ch != kNone, "a role that sends or receives has its channel");
  }
  for (const engine::Resource& resource : out.input.resources) {
    if (resource.capacity > engine::kMaxCapacity) {
      return fail(file, "/cluster", "a link is faster than 1 PB/s, which is beyond what the engine's integers hold; lower its bandwidth");
    }
  }
  return comm;
}

}  // namespace orrery::lower
