#pragma once
// Points as the cost model's operations, and their times under one class's parameters: what score and fit share.
#include <optional>
#include <string>

#include "orrery/calibration/measurements.hpp"
#include "orrery/calibration/profile.hpp"
#include "orrery/cluster/parts.hpp"
#include "orrery/cost/models.hpp"

namespace orrery::fit {

/// Dense FLOP/s of the device in a type; nothing where it has no unit for it.
std::optional<double> peak_of(const cluster::Gpu& gpu, const std::string& dtype);
/// The class that times this type: its own, or fp8 for block-scaled fp8; null where there is none.
const calibration::GemmProfile* gemm_profile(const calibration::Profile& profile, const std::string& dtype);

/// One class of GEMMs on one device, quantisation of the activation included where a point's time holds it.
struct GemmTimer {
  GemmTimer(const cluster::Gpu& gpu, double peak, const calibration::GemmProfile& profile, cost::Clocks clocks);
  cost::GemmModel model;
  cost::Available device;
  double quantise_us = 0, quantise_bandwidth = 1, l2_resident = 0, l2_saving = 0, weight_resident = 0;
};
double gemm_us(const GemmTimer& timer, const calibration::Point& p);
/// Whether a point's time holds the quantisation of its activation: as it states, else where the type needs one (8 bits and less).
bool quantises(const calibration::Point& p);

workload::Attention attention_of(const calibration::Point& p);
double stream_us(const calibration::StreamProfile& profile, const cluster::Gpu& gpu, const calibration::Point& p);
/// Log-log between measured sizes; beyond the last one in proportion to bytes, below the first one its time. Requires a curve that was read.
double curve_us(const calibration::CollectiveCurve& curve, double bytes);

}  // namespace orrery::fit
