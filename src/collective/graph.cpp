#include "collective/graph.hpp"

#include <algorithm>
#include <span>

namespace orrery::collective {
namespace {

// Speeds that the search tries, in GB/s per channel. Source: NCCL src/graph/search.cc (2.30.7).
constexpr double kIntra80[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
constexpr double kIntra90[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
constexpr double kIntra100[] = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18};
constexpr double kInter80[] = {48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12};
constexpr double kInter90[] = {48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12};
constexpr double kInter100[] = {96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12};

std::span<const double> intra_speeds(Arch arch) {
  if (arch == Arch::kBlackwell) return kIntra100;
  if (arch == Arch::kHopper) return kIntra90;
  return kIntra80;
}
std::span<const double> inter_speeds(Arch arch) {
  if (arch == Arch::kBlackwell) return kInter100;
  if (arch == Arch::kHopper) return kInter90;
  return kInter80;
}
/// The fastest speed of the ladder that fits; the link itself where it is slower than the whole ladder.
double fit(std::span<const double> ladder, double available) {
  for (const double speed : ladder) {
    if (speed <= available) return speed;
  }
  return available;
}
/// What NCCL counts on per NVLink, over the nominal rate. Source: NCCL src/graph/topo.h: 20.0 of 25 (sm80), 20.6 of 25 (sm90), 40.1 of 50 (sm100).
double usable_share(Arch arch) {
  if (arch == Arch::kBlackwell) return 40.1 / 50;
  if (arch == Arch::kHopper) return 20.6 / 25;
  return 20.0 / 25;
}
/// Channel speed at which the search settles on a full NVSwitch: 12 x 20 on A100, 12 x 30 on H100, 8 x 90 on B200 (modelling 6.3).
double switch_channel(Arch arch) {
  if (arch == Arch::kBlackwell) return 90;
  if (arch == Arch::kHopper) return 30;
  return 20;
}

Graph one_domain(const Shape& shape) {
  const double nominal = shape.scale_up.value() / 1e9;
  if (!shape.nvlink) return {1, fit(intra_speeds(shape.arch), nominal * 0.75), 0};  // PCIe gen3 x16 counts as 12 of 16: NCCL topo.h
  const double usable = nominal * usable_share(shape.arch);
  if (usable <= 0) return {1, 0, 0};
  const double speed = std::min(switch_channel(shape.arch), fit(intra_speeds(shape.arch), usable));
  return {std::max(1, static_cast<int>(usable / speed + 1e-9)), speed, speed};
}

}  // namespace

Graph graph(Algorithm algorithm, const Shape& shape) {
  const auto per_node = ranks_per_node(shape);
  const bool switched = algorithm == Algorithm::kNvls || algorithm == Algorithm::kNvlsTree;
  const double nic = shape.nic_per_gpu.value() / 1e9 * static_cast<double>(shape.gpus_per_nic);
  const double nominal = shape.scale_up.value() / 1e9;
  if (switched) {
    // One channel per head; a head's own port carries its channel twice, so (heads + 1) shares fit (NCCL search.cc, pattern NVLS).
    const double intra = fit(intra_speeds(shape.arch), nominal / static_cast<double>(per_node + 1));
    const double inter = shape.nodes > 1 ? fit(inter_speeds(shape.arch), shape.nic_per_gpu.value() / 1e9) : intra;
    return {static_cast<int>(per_node), intra, inter};
  }
  if (shape.nodes == 1) return one_domain(shape);
  // Between nodes a channel enters through one NIC and leaves through one; inside, it runs along the GPUs' links.
  const auto nics = std::max<std::int64_t>(1, per_node / std::max<std::int64_t>(1, shape.gpus_per_nic));
  double available = nic;
  if (per_node > 1) {
    const double inside = shape.nvlink ? nominal * usable_share(shape.arch) : nominal * 0.75;
    available = std::min(available, inside / static_cast<double>(nics));
  }
  const double speed = fit(inter_speeds(shape.arch), available);
  const int channels = static_cast<int>(std::min<std::int64_t>(nics, 32));
  // Inside the nodes a tree may be up to twice as fast as between them: the search raises its inner speed while it is below twice the outer one
  // (NCCL search.cc, "increase bwIntra for trees"), and on two nodes the model reads that speed.
  double inner = speed;
  if (per_node > 1 && (algorithm == Algorithm::kTree || algorithm == Algorithm::kCollNetDirect || algorithm == Algorithm::kCollNetChain)) {
    const double inside = shape.nvlink ? nominal * usable_share(shape.arch) : nominal * 0.75;
    const std::span<const double> ladder = inter_speeds(shape.arch);
    for (std::size_t i = ladder.size(); i-- > 0 && inner < 2 * speed;) {
      if (ladder[i] > inner && ladder[i] <= inside / channels) inner = ladder[i];
    }
  }
  // Few fast channels are split in two (NCCL search.cc, ncclTopoDupChannels); Hopper and later keep more than four of them whole.
  const bool recent = shape.arch == Arch::kHopper || shape.arch == Arch::kBlackwell;
  if (speed >= 25 && (!recent || speed >= 50 || channels <= 4)) return {2 * channels, inner / 2, speed / 2};
  return {channels, inner, speed};
}

}  // namespace orrery::collective
