// How long a lone collective takes (modelling 6.5), split into a latency that needs no bandwidth and a transfer.
//   1. A curve for these ranks and domains: monotone interpolation in log-log. Its time at the smallest size is the latency floor, the rest transfer.
//   2. Inside a domain, curves for fewer and for more ranks: interpolated in log(ranks).
//   3. Beyond the sizes of a curve: its nearest time, scaled as the parametric model scales.
//   4. No curve: the parametric model.
// A curve measured on other links than the target's has its transfer scaled as its bytes over the slowest link, and its origin weakened. Origins: a point
// of a curve keeps the curve's origin; between points it is at best interpolated, so a published curve stays published; beyond, extrapolated.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "cost/collective_curves.hpp"
#include "cost/collective_model.hpp"
#include "orrery/cost/cost.hpp"

namespace orrery::cost {
namespace {

using calibration::CollectiveCurve;
using collective::Kind;
using collective::Shape;

struct Request {
  Kind kind;
  double bytes;
  const collective::Choice& choice;
  const Shape& shape;
  const collective::Nccl& nccl;
  const calibration::Profile& profile;
};

CollectiveTime microseconds(double latency, double transfer, Origin origin) {
  return {Seconds(latency * 1e-6), Seconds(transfer * 1e-6), origin};
}

/// The curve's answer for its own number of ranks, on the target's links.
CollectiveTime from_curve(const Request& q, const CollectiveCurve& curve) {
  Shape shape = q.shape;
  shape.ranks = curve.ranks;
  Shape measured = shape;
  if (curve.scale_up_gb_per_s > 0) measured.scale_up = gb_per_s(curve.scale_up_gb_per_s);
  if (curve.nic_gb_per_s > 0 && shape.nodes > 1) measured.nic_per_gpu = gb_per_s(curve.nic_gb_per_s);

  const collective::Hops hops = collective::hops(q.kind, q.choice.algorithm, shape);
  const CurveTime read = read_curve(curve, q.bytes);
  Origin origin = weaker(curve.origin, read.exact ? Origin::kMeasured : Origin::kInterpolated);
  const double first = curve.bytes.front(), first_us = curve.time_us.front(), last = curve.bytes.back();
  const auto modelled = [&](double size) { return model_transfer_us(q.kind, q.choice.algorithm, size, measured, q.profile.links); };
  const auto model = [&](double size) { return model_time(q.kind, q.choice.algorithm, size, measured, q.nccl, q.profile.links); };
  double floor = read.floor_us ? *read.floor_us : std::min(first_us, model(first).latency_us);
  double transfer = read.time_us - floor;
  if (read.below) {
    const ModelTime here = model(q.bytes), there = model(first);
    const double total = first_us * (here.latency_us + here.transfer_us) / (there.latency_us + there.transfer_us);
    floor = std::min(total, here.latency_us);
    transfer = total - floor;
    origin = weaker(origin, Origin::kExtrapolated);
  }
  if (read.beyond) {
    transfer = std::max(transfer, wire_us(hops, last, measured)) * modelled(q.bytes) / modelled(last);
    origin = weaker(origin, Origin::kExtrapolated);
  }
  if (measured.scale_up != shape.scale_up || (shape.nodes > 1 && measured.nic_per_gpu != shape.nic_per_gpu)) {
    transfer *= wire_us(hops, 1e6, shape) / wire_us(hops, 1e6, measured);  // one ratio for all sizes, so that time stays monotone in bytes
    origin = weaker(origin, Origin::kExtrapolated);
  }
  const double total = floor + transfer;
  const double wire = wire_us(hops, q.bytes, shape);
  const double at_least = std::max(transfer, wire);
  return microseconds(std::max(0.0, total - at_least), at_least, origin);
}

/// Between two numbers of ranks, in log(ranks).
CollectiveTime between(const Request& q, const CollectiveCurve& fewer, const CollectiveCurve& more) {
  const CollectiveTime a = from_curve(q, fewer), b = from_curve(q, more);
  const double x = std::log(static_cast<double>(q.shape.ranks) / fewer.ranks) / std::log(static_cast<double>(more.ranks) / fewer.ranks);
  const auto mix = [&](Seconds low, Seconds high) { return low.value() * (1 - x) + high.value() * x; };
  const double total = mix(a.latency + a.transfer, b.latency + b.transfer);
  const double wire = wire_us(collective::hops(q.kind, q.choice.algorithm, q.shape), q.bytes, q.shape) * 1e-6;
  const double transfer = std::max(mix(a.transfer, b.transfer), wire);
  return {Seconds(std::max(0.0, total - transfer)), Seconds(transfer), weaker(weaker(a.origin, b.origin), Origin::kInterpolated)};
}

std::optional<CollectiveTime> from_curves(const Request& q) {
  // A curve of no stated algorithm is what NCCL chose by itself: it does not answer for a forced one.
  const bool reduced = q.shape.sharp && q.shape.nodes > 1;  // nor for a fabric that reduces: the curves' did not
  const collective::Nccl free = collective::unlimited(q.nccl);
  const collective::Choice own = collective::choose(q.kind, Bytes(static_cast<std::int64_t>(q.bytes)), q.shape, free);
  const bool own_choice = !reduced && own.algorithm == q.choice.algorithm && (q.nccl == free || own.protocol == q.choice.protocol);
  const auto find = [&](std::int64_t ranks) -> const CollectiveCurve* {
    const CollectiveCurve* curve = find_curve(q.profile.collectives, to_string(q.kind), to_string(q.choice.algorithm), own_choice, ranks, q.shape.nodes, q.nccl.version);
    // What a switch of stated speed carries says nothing of a host bus.
    return curve != nullptr && curve->scale_up_gb_per_s > 0 && !q.shape.nvlink ? nullptr : curve;
  };
  if (const CollectiveCurve* curve = find(q.shape.ranks)) return from_curve(q, *curve);
  if (q.shape.nodes > 1) return std::nullopt;
  std::int64_t below = 0, above = std::numeric_limits<std::int64_t>::max();
  for (const CollectiveCurve& c : q.profile.collectives) {
    if (find(c.ranks) == nullptr) continue;
    if (c.ranks < q.shape.ranks) below = std::max<std::int64_t>(below, c.ranks);
    else above = std::min<std::int64_t>(above, c.ranks);
  }
  if (below < 2 || above == std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  return between(q, *find(below), *find(above));
}

/// Fewer channels than NCCL would take carry what each of them can.
CollectiveTime held_to_channels(const Request& q, CollectiveTime time) {
  if (q.nccl.max_channels == 0) return time;
  const double rate = q.nccl.max_channels * collective::channel_gb_per_s(q.shape, q.nccl) * 1e9;
  if (rate <= 0) return time;
  time.transfer = std::max(time.transfer, Seconds(q.bytes * collective::busbw_factor(q.kind, q.shape.ranks) / rate));
  return time;
}

}  // namespace

CollectiveTime collective_time(Kind kind, Bytes bytes, const collective::Choice& choice, const Shape& shape, const collective::Nccl& nccl,
                               const calibration::Profile& profile) {
  if (shape.ranks <= 1) return {Seconds(0), Seconds(0), Origin::kMeasured};
  // Around a ring inside a domain every port sends once and receives once, as between two.
  if (kind == Kind::kSendRecv && shape.nodes == 1) return point_to_point_time(bytes, shape, true, Seconds(0), profile);
  if (choice.algorithm == collective::Algorithm::kHierarchical || choice.algorithm == collective::Algorithm::kDeduplicated) {
    return token_exchange_time(bytes, choice, shape, nccl, profile);
  }
  const Request q{kind, static_cast<double>(bytes.value()), choice, shape, nccl, profile};
  if (auto known = from_curves(q)) return held_to_channels(q, *known);
  const ModelTime m = model_time(kind, choice.algorithm, q.bytes, shape, nccl, profile.links);
  return held_to_channels(q, microseconds(m.latency_us, m.transfer_us, m.origin));
}

CollectiveTime point_to_point_time(Bytes bytes, const Shape& shape, bool same_domain, Seconds wire_latency, const calibration::Profile& profile) {
  const double size = static_cast<double>(bytes.value());
  Shape pair = shape;
  pair.ranks = 2;
  pair.nodes = same_domain ? 1 : 2;
  const collective::Nccl nccl;
  if (same_domain) {
    // An all-to-all of two is one send and one receive of half the array on each side: the same kernel as a send.
    const collective::Choice choice = collective::choose(Kind::kAllToAll, Bytes(2 * bytes.value()), pair, nccl);
    const Request q{Kind::kAllToAll, 2 * size, choice, pair, nccl, profile};
    if (const CollectiveCurve* curve = find_curve(profile.collectives, to_string(Kind::kAllToAll), to_string(choice.algorithm), true, 2, 1, nccl.version); curve != nullptr && shape.nvlink) {
      return from_curve(q, *curve);
    }
    const ModelTime m = model_time(Kind::kSendRecv, collective::Algorithm::kPairs, size, pair, nccl, profile.links);
    return microseconds(m.latency_us, m.transfer_us, m.origin);
  }
  // One hop: launch inside, NCCL's proxy and the route between. It fills its pipeline once, not once per step, so it ramps as a link does.
  const calibration::LinkProfile& links = profile.links;
  const collective::LatencyParts parts =
      collective::nccl_latency_parts(Kind::kSendRecv, collective::Algorithm::kPairs, collective::Protocol::kSimple, pair, nccl);
  const double latency = parts.inside_us * links.latency_ratio.value + parts.network_us * links.network_latency_ratio.value + wire_latency.value() * 1e6;
  const double plateau = size / (shape.nic_per_gpu.value() * links.nic_efficiency.value) * 1e6;
  return microseconds(latency, ramped_us(plateau, links.ramp_us.value, kNetworkRampExponent),
                      weaker(weaker(Origin::kExtrapolated, links.nic_efficiency.origin), links.network_latency_ratio.origin));
}

}  // namespace orrery::cost
