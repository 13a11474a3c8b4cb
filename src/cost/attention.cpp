// Fused attention: a saturating rate. time = FLOPs / R x (1 + s0/s) x (1 + W^(-1/xi))^xi.
//
// s0/s: masked diagonal tiles and the prologue of each query tile, amortised over the keys. W: work per SM in units of the longest query
// tile; a few heads at batch 1 leave most SMs idle, and the kernel lasts as long as its longest tile. With Q = s_q / tile query tiles of b n
// heads, causal tiles cost (Q + 1)/2 on the mean and Q at most, so W = b n (Q + 1) / (2 SMs); without a mask W = b n Q / SMs. The last
// factor joins the two bounds, work and longest tile: xi = 1 adds them (tiles in order), xi = 0 takes the larger (tiles balanced). Q is not
// rounded up and xi <= 1, so that the time never falls when tokens or heads are added. R and s0 belong to a kernel and a head dim; between
// two dims R is interpolated, below the smallest it falls with the dim (the kernel pads). FLOPs are the mask's own (causal: half).
#include <algorithm>
#include <cmath>

#include "orrery/cost/models.hpp"

namespace orrery::cost {

namespace {
constexpr double kMicro = 1e-6;
/// Share of the memory bandwidth that reading q, k, v and writing o reaches: a copy's.
constexpr double kBandwidthShare = 0.85;
constexpr double kSharpest = 0.05;  ///< below it the p-norm is its maximum, and its powers would overflow
}  // namespace

AttentionModel::AttentionModel(std::vector<calibration::AttentionProfile> entries, double sm_rate) : sm_rate_(sm_rate) {
  if (entries.empty()) entries.emplace_back();
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.dim < b.dim; });
  origin_ = Origin::kMeasured;
  for (const auto& e : entries) {
    if (count_ == rows_.size()) break;
    rows_[count_++] = {static_cast<double>(e.dim),  e.forward_efficiency.value, e.backward_efficiency.value, e.saturation_causal.value,
                       e.saturation_full.value,     e.fill_exponent.value,      e.launch_us.value * kMicro,  static_cast<double>(e.query_tile)};
    for (const Origin o : {e.forward_efficiency.origin, e.backward_efficiency.origin, e.saturation_causal.origin, e.fill_exponent.origin}) origin_ = weaker(origin_, o);
  }
}

KernelTime AttentionModel::time(const workload::Attention& a, const Available& device) const {
  if (a.batch <= 0 || a.seq_q <= 0 || a.seq_kv <= 0 || a.heads <= 0 || a.dim_qk <= 0) return {};
  const double dim = 0.5 * static_cast<double>(a.dim_qk + a.dim_v);
  std::size_t hi = 0;
  while (hi + 1 < count_ && rows_[hi].dim < dim) ++hi;
  const std::size_t lo = hi > 0 && rows_[hi].dim >= dim ? hi - 1 : hi;
  const double x = lo == hi ? 0 : std::clamp((dim - rows_[lo].dim) / (rows_[hi].dim - rows_[lo].dim), 0.0, 1.0);
  const auto between = [&](double Row::*member) { return rows_[lo].*member + x * (rows_[hi].*member - rows_[lo].*member); };
  const double below = std::min(1.0, dim / rows_[0].dim);

  const double sq = static_cast<double>(a.seq_q), skv = static_cast<double>(a.seq_kv);
  const double heads = static_cast<double>(a.batch) * static_cast<double>(a.heads);
  const double query_tiles = sq / between(&Row::tile);
  const double work = heads * (a.causal ? 0.5 * (query_tiles + 1) : query_tiles) / device.sms;  // W
  const double saturation = between(a.causal ? &Row::causal : &Row::full);
  const double rate = std::min(1.0, between(a.backward ? &Row::backward : &Row::forward)) * below * sm_rate_ * device.sms;
  const double xi = between(&Row::fill);
  const double fill = xi < kSharpest ? std::max(1.0, 1 / work) : std::pow(1 + std::pow(work, -1 / xi), xi);
  const double math = a.flops().value() / rate * (1 + saturation / skv) * fill;

  const double element = workload::element_bytes(a.dtype);
  const double dims = static_cast<double>(a.dim_qk + a.dim_v);
  const double passes = a.backward ? 2 : 1;  // the gradients of q, k, v, o move as well
  const double bytes = passes * element * dims * static_cast<double>(a.batch) * (sq * static_cast<double>(a.heads) + skv * static_cast<double>(a.kv_heads));
  const double memory = bytes / (device.bandwidth * kBandwidthShare);
  const double total = std::max(math, memory);
  return {between(&Row::launch) + total, total / std::max(1.0, work)};
}

}  // namespace orrery::cost
