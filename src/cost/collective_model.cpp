// Latency: NCCL's composition (collective::nccl_latency_parts) times the ratio of measured floors to it, inside and between domains.
// Transfer: bytes of the busiest hop (collective::hops) over the fitted share of that link's rate, with a ramp: plateaus hold from about
// 4 GiB, and the 16-256 MB that training sends run at 55-90 % of them (modelling 6.5).
#include "cost/collective_model.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::cost {
namespace {

using collective::Algorithm;
using collective::Protocol;

double link_us(double bytes, BytesPerSecond rate) { return bytes <= 0 ? 0 : bytes / rate.value() * 1e6; }

struct Efficiency {
  double share;
  Origin origin;
};
Efficiency inside(Algorithm algorithm, const collective::Shape& shape, const calibration::LinkProfile& links) {
  const calibration::Parameter& p = !shape.nvlink                                                          ? links.pcie_efficiency
                                    : algorithm == Algorithm::kNvls || algorithm == Algorithm::kNvlsTree ? links.nvls_efficiency
                                    : algorithm == Algorithm::kPairs                                     ? links.pairs_efficiency
                                                                                                         : links.scale_up_efficiency;
  return {p.value, p.origin};
}

/// Share of the bandwidth that a protocol keeps beside its flags: 8 of 16 bytes (LL), 120 of 128 (LL128), and less in trees, as NCCL
/// counts it (src/graph/tuning.cc). Its absolute caps are left out: they belong to one generation of links, and time falls with bandwidth.
double protocol_share(Algorithm algorithm, Protocol protocol, const collective::Shape& shape) {
  const bool tree = algorithm == Algorithm::kTree;
  switch (protocol) {
    case Protocol::kLL: return tree ? 1 / 3.8 : 0.5;
    case Protocol::kLL128: return !tree ? 0.92 : shape.nodes == 1 ? 7.0 / 9 : 120.0 / 128;
    case Protocol::kSimple: return 1;
  }
  return 1;
}

/// Time of the busiest link at its fitted rate.
double plateau_us(const collective::Hops& hops, double inside_share, double bytes, const collective::Shape& shape, const calibration::LinkProfile& links) {
  const double up = link_us(bytes * std::max(hops.intra_out, hops.intra_in) / inside_share, shape.scale_up);
  if (shape.nodes == 1) return up;
  return std::max(up, link_us(bytes * std::max(hops.inter_out, hops.inter_in) / links.nic_efficiency.value, shape.nic_per_gpu));
}

double slowed_us(double plateau, const collective::Shape& shape, const calibration::LinkProfile& links) {
  return shape.nodes > 1 ? ramped_us(plateau, links.network_ramp_us.value, kNetworkRampExponent) : ramped_us(plateau, links.ramp_us.value, kRampExponent);
}

}  // namespace

double ramped_us(double plateau_us, double ramp_us, double exponent) {
  return plateau_us <= 0 ? 0 : plateau_us * (1 + std::pow(ramp_us / plateau_us, exponent));
}

double wire_us(const collective::Hops& hops, double bytes, const collective::Shape& shape) {
  return std::max(link_us(bytes * std::max(hops.intra_out, hops.intra_in), shape.scale_up),
                  link_us(bytes * std::max(hops.inter_out, hops.inter_in), shape.nic_per_gpu));
}

double model_transfer_us(collective::Kind kind, Algorithm algorithm, double bytes, const collective::Shape& shape, const calibration::LinkProfile& links) {
  return slowed_us(plateau_us(collective::hops(kind, algorithm, shape), inside(algorithm, shape, links).share, bytes, shape, links), shape, links);
}

ModelTime model_time(collective::Kind kind, Algorithm algorithm, double bytes, const collective::Shape& shape, const collective::Nccl& nccl,
                     const calibration::LinkProfile& links) {
  const collective::Hops hops = collective::hops(kind, algorithm, shape);
  const Efficiency up = inside(algorithm, shape, links);
  const double plateau = plateau_us(hops, up.share, bytes, shape, links);
  ModelTime best;
  best.origin = weaker(weaker(Origin::kExtrapolated, up.origin), weaker(links.latency_ratio.origin, links.ramp_us.origin));
  if (shape.nodes > 1) {
    best.origin = weaker(weaker(best.origin, links.nic_efficiency.origin), weaker(links.network_latency_ratio.origin, links.network_ramp_us.origin));
  }
  bool found = false;
  for (const Protocol protocol : {Protocol::kLL, Protocol::kLL128, Protocol::kSimple}) {
    if (!collective::possible(kind, algorithm, protocol, shape, nccl)) continue;
    const collective::LatencyParts parts = collective::nccl_latency_parts(kind, algorithm, protocol, shape, nccl);
    const double latency = parts.inside_us * links.latency_ratio.value + parts.network_us * links.network_latency_ratio.value;
    const double transfer = slowed_us(plateau / protocol_share(algorithm, protocol, shape), shape, links);
    if (found && latency + transfer >= best.latency_us + best.transfer_us) continue;
    best.latency_us = latency;
    best.transfer_us = transfer;
    found = true;
  }
  return best;
}

}  // namespace orrery::cost
