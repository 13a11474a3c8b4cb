#pragma once
// The parametric time of a collective, for what no curve covers.
#include "orrery/calibration/profile.hpp"
#include "orrery/collective/collective.hpp"

namespace orrery::cost {

struct CollectiveTime;
/// An exchange of tokens by a library for it (token_exchange.cpp).
CollectiveTime token_exchange_time(Bytes bytes, const collective::Choice& choice, const collective::Shape& shape, const collective::Nccl& nccl,
                                   const calibration::Profile& profile);

struct ModelTime {
  double latency_us = 0, transfer_us = 0;
  Origin origin = Origin::kExtrapolated;  ///< the weakest parameter it took
};
/// The algorithm's fastest protocol at this size. The sum rises with bytes and falls with bandwidth, and transfer >= wire_us().
ModelTime model_time(collective::Kind kind, collective::Algorithm algorithm, double bytes, const collective::Shape& shape,
                     const collective::Nccl& nccl, const calibration::LinkProfile& links);

/// The transfer with the whole bandwidth of the links (protocol Simple): rises with bytes, falls with bandwidth.
double model_transfer_us(collective::Kind kind, collective::Algorithm algorithm, double bytes, const collective::Shape& shape,
                         const calibration::LinkProfile& links);

/// Bytes over nominal capacity of the busiest link: no algorithm is faster.
double wire_us(const collective::Hops& hops, double bytes, const collective::Shape& shape);

/// x (1 + (ramp/x)^exponent): how a transfer of plateau time x (us) is slowed by its own pipeline.
double ramped_us(double plateau_us, double ramp_us, double exponent);
inline constexpr double kRampExponent = 0.44;        ///< inside a domain; H100, A100, B200 curves (modelling 6.5, corrections)
inline constexpr double kNetworkRampExponent = 0.6;  ///< between domains: all-reduce sweeps on two nodes of H100, B200, A100, MI355X

}  // namespace orrery::cost
