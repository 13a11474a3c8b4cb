#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "fit/shapes.hpp"
#include "orrery/cost/cost.hpp"
#include "orrery/fit/fit.hpp"

namespace orrery::fit {

using calibration::Point;

Predictor::Predictor(const cluster::Gpu& gpu, const calibration::Profile& profile) : gpu_(gpu), profile_(profile) {}

Result<double> Predictor::predict(const Point& p) const {
  const auto clocks = p.context == "sustained" ? cost::Clocks::kSustained : cost::Clocks::kBurst;
  switch (p.kind) {
    case Point::Kind::kGemm: {
      const auto peak = peak_of(gpu_, p.dtype);
      if (!peak) return fail("", "", fmt::format("{} has no {} peak", gpu_.name, p.dtype));
      const calibration::GemmProfile* g = gemm_profile(profile_, p.dtype);
      if (g == nullptr) return fail("", "", fmt::format("the profile has no gemm/{}", p.dtype));
      return gemm_us(GemmTimer(gpu_, *peak, *g, clocks), p);
    }
    case Point::Kind::kAttention: {
      std::string kernel = p.kernel;
      if (kernel.empty() && !profile_.attention.empty()) kernel = profile_.attention.front().kernel;
      const bool known = std::any_of(profile_.attention.begin(), profile_.attention.end(), [&](const auto& a) { return a.kernel == kernel; });
      if (!known) return fail("", "", fmt::format("the profile has no attention kernel \"{}\"", kernel));
      return cost::GpuCost(gpu_, profile_, 1.0, kernel, clocks).attention(attention_of(p)).time.value() * 1e6;
    }
    case Point::Kind::kStream: {
      if (!profile_.stream.contains(p.stream)) return fail("", "", fmt::format("the profile has no stream/{}", p.stream));
      return stream_us(profile_.stream.at(p.stream), gpu_, p);
    }
    case Point::Kind::kCollective: break;
  }
  for (const calibration::CollectiveCurve& c : profile_.collectives) {
    if (c.kind != p.collective || c.ranks != p.ranks || c.nodes != p.nodes || (!p.algorithm.empty() && !c.algorithm.empty() && c.algorithm != p.algorithm)) continue;
    return curve_us(c, static_cast<double>(p.bytes));
  }
  return fail("", "", fmt::format("the profile has no curve of {} over {} ranks on {} nodes", p.collective, p.ranks, p.nodes));
}

}  // namespace orrery::fit
