// Expert-parallel exchanges by kernels written for them (DeepEP's normal kernels; modelling 6.7).
//
// Three things can be the slowest: the scale-up port, which carries one copy per distinct rank; the NIC, which carries one per distinct other
// domain; and the SMs that the kernel was given, half of which send and half receive. The last is what a few SMs on one node are bound by, and is
// a cost per token and per copy, each fixed and by the byte. Between nodes the SMs forward what the NICs bring and are not what binds.
#include <algorithm>

#include "cost/collective_model.hpp"
#include "orrery/cost/cost.hpp"

namespace orrery::cost {

CollectiveTime token_exchange_time(Bytes bytes, const collective::Choice& choice, const collective::Shape& shape, const collective::Nccl& nccl, const calibration::Profile& profile) {
  const collective::Tokens& t = shape.tokens;
  const calibration::ExchangeProfile& x = profile.exchange;
  const calibration::ExchangeDirection& d = t.combine ? x.combine : x.dispatch;
  const auto size = static_cast<double>(bytes.value());
  const collective::Hops hops = collective::hops(collective::Kind::kAllToAll, choice.algorithm, shape);
  const bool deduplicated = choice.algorithm == collective::Algorithm::kDeduplicated;

  double seconds = size * hops.intra_out / (shape.scale_up.value() * x.scale_up_efficiency.value);
  Origin origin = x.scale_up_efficiency.origin;
  if (shape.nodes > 1) {
    seconds = std::max(seconds, size * hops.inter_out / (shape.nic_per_gpu.value() * profile.links.nic_efficiency.value));
    origin = weaker(origin, profile.links.nic_efficiency.origin);
  } else if (deduplicated && t.bytes > 0 && t.sms > 0) {
    const double tokens = size / (static_cast<double>(t.per_token) * t.bytes);
    const double token = d.token_us.value + t.bytes / d.token_gb_per_s.value * 1e-3, copy = d.copy_us.value + t.bytes / d.copy_gb_per_s.value * 1e-3;
    seconds = std::max(seconds, tokens * (token + t.ranks * copy) * 2 / t.sms * 1e-6);
    origin = weaker(origin, weaker(d.token_us.origin, d.copy_gb_per_s.origin));
  }
  const collective::LatencyParts parts = collective::nccl_latency_parts(collective::Kind::kAllToAll, choice.algorithm, choice.protocol, shape, nccl);
  const double latency_us = d.latency_us.value + parts.network_us * profile.links.network_latency_ratio.value;
  return {Seconds(latency_us * 1e-6), Seconds(std::max(seconds, wire_us(hops, size, shape) * 1e-6)), weaker(origin, d.latency_us.origin)};
}

}  // namespace orrery::cost
