#include "usage.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "segments.hpp"

namespace orrery::lower {

std::int64_t whole(double units) { return static_cast<std::int64_t>(std::min(std::ceil(units), 0x1p62)); }
std::int64_t rate_units(BytesPerSecond b) { return whole(b.value() * kRateUnitsPerBytePerSecond); }

std::uint32_t Resources::of(LinkId link) {
  std::uint32_t& r = of_link_[link.index()];
  if (r == engine::kNone) {
    r = static_cast<std::uint32_t>(out_.input.resources.size());
    const cluster::Link& l = world_.cluster.links()[link.index()];
    engine::Resource resource;
    const BytesPerSecond odd = l.capacity.value() < kLeastRate ? l.capacity : l.nominal;
    const bool sound = l.capacity.value() >= kLeastRate && l.nominal.value() <= kMostRate;
    if (!sound && problem_.empty()) {
      problem_ = fmt::format("link {} carries {:.3g} bytes/s, and from {:.0g} to {:.0g} are played; look at the rates of the node, its GPU, the fabric and the events", world_.cluster.name(link),
                             odd.value(), kLeastRate, kMostRate);
    }
    resource.capacity = sound ? static_cast<std::int64_t>(l.capacity.value() * kRateUnitsPerBytePerSecond) : 1;
    out_.input.resources.push_back(resource);
    out_.resource_link.push_back(link);
  }
  return r;
}

engine::UsageRange add_usage(std::span<const LinkLoad> loads, double reference, Resources& resources, Lowered& out) {
  engine::UsageRange range;
  range.begin = static_cast<std::uint32_t>(out.input.usages.size());
  double bytes = 0;  // of the load before: most are alike
  std::int64_t weight = 0;
  for (const LinkLoad& load : loads) {
    if (load.bytes != bytes) {
      bytes = load.bytes;
      weight = static_cast<std::int64_t>(std::ceil(bytes / reference * kWeightOne));
    }
    if (weight > 0) out.input.usages.push_back({resources.of(load.link), weight});
  }
  range.end = static_cast<std::uint32_t>(out.input.usages.size());
  return range;
}

Slowest slowest_link(std::span<const LinkLoad> loads, const World& world) {
  Slowest s;
  for (const LinkLoad& load : loads) {
    const cluster::Link& link = world.cluster.links()[load.link.index()];
    const double t = load.bytes / link.nominal.value();
    if (t > s.seconds_per_byte) s = {t, link.kind};
  }
  return s;
}

namespace {

/// Every distinct line of the collectives table has an account of its own, so that exposed time is known per line.
std::uint32_t add_row(TransferRow row, Lowered& out) {
  for (std::uint32_t i = 0; i < out.rows.size(); ++i) {
    row.account = out.rows[i].account;
    if (row == out.rows[i]) return i;
  }
  out.accounts.push_back({Account::Kind::kCommunication, row.axis});
  row.account = static_cast<std::uint32_t>(out.accounts.size() - 1);
  out.rows.push_back(row);
  return static_cast<std::uint32_t>(out.rows.size() - 1);
}

}  // namespace

void add_transfer(Seconds latency, Seconds transfer, double reference, double wire, std::uint32_t usage_set, int sms, const World& world, TransferRow row, Lowered& out) {
  engine::Transfer t;
  t.usage_set = usage_set;
  t.sms = sms;
  t.latency = sim_time_or_too_long(latency);
  if (row.bytes > 0 && transfer.value() > 0) {
    const SimTime ps = std::max<SimTime>(1, sim_time_or_too_long(transfer));
    t.reference_bytes = std::max<std::int64_t>(1, std::llround(reference));
    t.cap = std::max<std::int64_t>(1, whole(reference * 0x1p40 / static_cast<double>(ps)));
    t.work = static_cast<int128>(t.cap) * ps;
    t.hbm = rate_units(BytesPerSecond(world.profile.overlap.hbm_per_wire_byte.value * wire / transfer.value()));
  }
  const std::uint32_t index = add_row(std::move(row), out);
  t.account = out.rows[index].account;
  out.transfer_row.push_back(index);
  out.input.transfers.push_back(t);
}

}  // namespace orrery::lower
