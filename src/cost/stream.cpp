// Memory-bound kernels: launch + (bytes + half_bytes) / (bandwidth x efficiency), per kernel.
//
// half_bytes is the size at which half the bandwidth is reached (latency x bandwidth), so the time is linear in bytes. A kernel that reads
// what its predecessor has just written finds it in L2 when it is small; the reads are then cheaper by the L2 factor. The discount fades from
// `l2_resident` to twice that, so that the time stays continuous and rising, and it never passes what the device memory could do.
#include <algorithm>

#include "orrery/cost/models.hpp"

namespace orrery::cost {

StreamModel::StreamModel(const calibration::StreamProfile& p, double l2_resident, double l2_factor)
    : efficiency_(p.efficiency.value),
      half_bytes_(p.half_bytes.value),
      launch_(p.launch_us.value * 1e-6),
      l2_resident_(l2_resident),
      l2_saving_(1 - 1 / l2_factor),
      origin_(weaker(p.efficiency.origin, p.half_bytes.origin)) {}

KernelTime StreamModel::time(const workload::Stream& s, const Available& device) const {
  const double read = static_cast<double>(s.read_bytes), written = static_cast<double>(s.write_bytes), kernels = s.kernels;
  if (kernels <= 0 || read + written <= 0) return {kernels > 0 ? kernels * launch_ : 0, 0};
  double charged = read + written;
  if (l2_resident_ > 0) {
    const double excess = charged / kernels / l2_resident_ - 1;
    charged -= read * l2_saving_ * (1 - std::clamp(excess, 0.0, 1.0));
  }
  const double ramp = half_bytes_ / (device.bandwidth * efficiency_);
  const double moving = std::max(charged / (device.bandwidth * efficiency_), (read + written) / device.bandwidth);
  return {kernels * (launch_ + ramp) + moving, std::min(ramp, moving / kernels)};
}

}  // namespace orrery::cost
