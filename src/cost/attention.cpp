// Fused attention: a saturating rate. time = FLOPs / R x (1 + s0/s) x (1 + W^(-1/xi))^xi.
//
// s0/s: masked diagonal tiles and the prologue of each query tile, amortised over the keys. W: work per SM in units of the longest query
// tile; a few heads at batch 1 leave most SMs idle, and the kernel lasts as long as its longest tile. With Q = s_q / tile query tiles of b n
// heads, causal tiles cost (Q + 1)/2 on the mean and Q at most, so W = b n (Q + 1) / (2 SMs), and where more keys than queries are seen the
// mean is nearer the most; without a mask W = b n Q / SMs. The last factor joins the two bounds, work and longest tile: xi = 1 adds them
// (tiles in order), xi = 0 takes the larger (tiles balanced). Q is not rounded up and xi <= 1, so that the time never falls when tokens or
// heads are added. R and s0 belong to a kernel and a head dim; between two dims R is interpolated, below the smallest it falls with the dim
// (the kernel pads). FLOPs are the mask's own (causal: half).
//
// In the same terms a mask leaves a query k keys on the mean (causal: s/2, a window: nearly w) and the kernel computes k + s0/2 of them,
// so the factor is 1 + (s0/2)/k, causal or not. A window's left edge is a second diagonal: blocks of key tiles that it cuts are computed
// whole, half a query tile and half a key tile more for every query that has the window full. The longest query tile then has not s keys
// but the window's and its own, so windows balance themselves.
#include <algorithm>
#include <cmath>

#include "orrery/cost/models.hpp"

namespace orrery::cost {

namespace {
constexpr double kMicro = 1e-6;
/// Share of the memory bandwidth that reading q, k, v and writing o reaches: a copy's.
constexpr double kBandwidthShare = 0.85;
constexpr double kSharpest = 0.05;  ///< below it the p-norm is its maximum, and its powers would overflow
/// Keys of a block that a window's edge cuts (flash-attention hopper/tile_size.h: 128 to 176 at head dim 64 to 128).
constexpr double kKeyTile = 128;

/// Keys of a query under the mask: on the mean, of the query tile that has most, and computed in vain at a window's left edge.
struct Keys {
  double mean = 0, most = 0, cut = 0;
};
Keys keys_of(const workload::Attention& a, double tile) {
  const double s = static_cast<double>(a.seq_kv);
  Keys k{a.mean_keys(), s, 0};
  if (a.window == 0 || a.window >= a.seq_kv) return k;
  const double w = static_cast<double>(a.window);
  if (a.chunked) {
    k.most = w;
    return k;
  }
  k.most = std::min(s, w + 0.5 * tile);
  // Never more than without a window, where those blocks are computed anyway.
  k.cut = std::min((a.causal ? 1 : 2) * 0.5 * (tile + kKeyTile) * (1 - w / s), (a.causal ? 0.5 : 1) * s - k.mean);
  return k;
}
}  // namespace

AttentionModel::AttentionModel(std::vector<calibration::AttentionProfile> entries, double sm_rate, double special_rate)
    : sm_rate_(sm_rate), special_rate_(special_rate) {
  if (entries.empty()) entries.emplace_back();
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.dim < b.dim; });
  origin_ = Origin::kMeasured;
  for (const auto& e : entries) {
    if (count_ == rows_.size()) break;
    rows_[count_++] = {static_cast<double>(e.dim),  e.forward_efficiency.value, e.backward_efficiency.value, e.saturation_causal.value,
                       e.saturation_full.value,     e.fill_exponent.value,      e.launch_us.value * kMicro,  static_cast<double>(e.query_tile)};
    residuals_.push_back(e.residual);
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
  const double tile = between(&Row::tile);
  const double query_tiles = sq / tile;
  const Keys keys = keys_of(a, tile);
  // W: causal without a window (s/2 + tile/2)/s of the longest tile on the mean, which is (Q + 1)/2 of Q; without a mask all alike.
  const double mean_of_longest = a.causal || a.window > 0 ? std::min(1.0, (keys.mean + keys.cut + 0.5 * tile) / keys.most) : 1;
  const bool plain = keys.most == skv && keys.cut == 0;
  const double work = heads * (plain ? (a.causal ? (query_tiles + sq / skv) * (keys.mean / skv) : query_tiles) : query_tiles * mean_of_longest) / device.sms;
  const double saturation = between(a.causal ? &Row::causal : &Row::full);
  const double rate = std::min(1.0, between(a.backward ? &Row::backward : &Row::forward)) * below * sm_rate_ * device.sms;
  const double xi = between(&Row::fill);
  const double fill = xi < kSharpest ? std::max(1.0, 1 / work) : std::pow(1 + std::pow(work, -1 / xi), xi);
  // The prologue and the masked half tiles of a row cost the same however many keys come before the diagonal.
  const double vain = ((a.causal ? 0.5 : 1) * saturation + keys.cut) / keys.mean;
  double math = a.flops().value() / rate * (1 + vain) * fill;
  // A cap is one hyperbolic tangent a score, forward and again in backward, in the special function units that also serve the softmax.
  if (a.softcap && special_rate_ > 0) math += heads * sq * keys.mean * (1 + vain) / (special_rate_ * device.sms) * fill;

  const double element = workload::element_bytes(a.dtype);
  const double dims = static_cast<double>(a.dim_qk + a.dim_v);
  const double passes = a.backward ? 2 : 1;  // the gradients of q, k, v, o move as well
  const double bytes = passes * element * dims * static_cast<double>(a.batch) * (sq * static_cast<double>(a.heads) + skv * static_cast<double>(a.kv_heads));
  const double memory = bytes / (device.bandwidth * kBandwidthShare);
  const double total = std::max(math, memory);
  const double modelled = between(&Row::launch) + total, wave = total / std::max(1.0, work);
  // Tables stand for the plain forward kernel: a square of scores, all keys.
  if (a.backward || a.window > 0 || a.softcap || a.seq_q != a.seq_kv) return {modelled, wave};
  const std::array<double, 3> shape = {static_cast<double>(a.batch), sq, static_cast<double>(a.heads)};
  const double residual = (1 - x) * residuals_[lo].at(shape) + x * residuals_[hi].at(shape);
  if (residual == 0) return {modelled, wave};
  return {std::max(modelled * std::exp(residual), std::max(a.flops().value() / (sm_rate_ * device.sms), bytes / device.bandwidth)), wave};
}

}  // namespace orrery::cost
