// Convolutions by the two algorithms that training libraries choose from, the cheaper one taken, as cuDNN's search does
// (cudnnFindConvolutionForwardAlgorithm; torch.backends.cudnn.benchmark).
//
// Implicit GEMM (Chetlur et al., arXiv:1410.0759, section 3.2): one product whose left operand is the input, read through an index instead of
// being unrolled in memory. It is timed as that product; of memory it moves the true tensors, for the repeats are found in L2.
//
// Winograd F(m x m, 3 x 3) (Lavin and Gray, arXiv:1509.09308): for 3 x 3 kernels of stride 1 every m x m tile of the output takes
// (m + 2)^2 multiplications a channel instead of 9 m^2. Not fused, it is a transform of the input to (m + 2)^2 planes, a batch of (m + 2)^2
// products, and a transform back; weights are transformed as well, and are small. m = 2 saves 2.25x of the work and writes 4x of the input;
// m = 4 saves 4x and writes 2.25x, but its constants cost accuracy that 16-bit operands do not have (their section 6.2 measures it in fp32),
// so it is a choice for 32-bit operands alone. The weight gradient is a convolution with a large kernel and stays with the implicit GEMM.
#include <algorithm>

#include "orrery/base/checked.hpp"
#include "orrery/cost/cost.hpp"

namespace orrery::cost {
namespace {

using workload::Convolution;
using workload::ConvolutionPass;

bool winograd_fits(const Convolution& c) { return c.kernel == 3 && c.stride == 1 && c.pass != ConvolutionPass::kWeightGradient; }

}  // namespace

KernelTime GpuCost::implicit_gemm(const Convolution& c, const Available& device) const {
  const double in = workload::element_bytes(c.in);
  return gemm_[static_cast<std::size_t>(c.in)].time(c.implicit_gemm(), device, in, workload::element_bytes(c.out), in * static_cast<double>(c.operand_elements()));
}

KernelTime GpuCost::winograd(const Convolution& c, std::int64_t tile, const Available& device) const {
  const bool forward = c.pass == ConvolutionPass::kForward;
  const std::int64_t from = forward ? c.in_channels : c.out_channels, to = forward ? c.out_channels : c.in_channels;
  const std::int64_t size = forward ? c.out_size : c.in_size;
  const std::int64_t planes = (tile + 2) * (tile + 2), across = ceil_div(size, tile), tiles = c.images * across * across;
  const double in = workload::element_bytes(c.in);
  const auto bytes = [&](std::int64_t elements) { return static_cast<std::int64_t>(static_cast<double>(elements) * in); };
  const StreamModel& transform = stream_[static_cast<std::size_t>(workload::StreamKind::kPermute)];
  const auto moved = [&](std::int64_t read, std::int64_t written) {
    return transform.time({workload::StreamKind::kPermute, bytes(read), bytes(written), 1}, device).total;
  };
  const KernelTime product = gemm_[static_cast<std::size_t>(c.in)].time(
      {.m = tiles, .n = to, .k = from, .batch = planes, .in = c.in, .out = c.in, .layout = workload::GemmLayout::kTN}, device, in, in);
  const std::int64_t weights = from * to;
  const double transforms = moved(c.images * size * size * from, planes * tiles * from) + moved(9 * weights, planes * weights) +
                            moved(planes * tiles * to, c.images * size * size * to);
  return {product.total + transforms, product.wave};
}

KernelTime GpuCost::convolution_kernel(const Convolution& c, const Available& device) const {
  KernelTime best = implicit_gemm(c, device);
  if (!winograd_fits(c)) return best;
  for (const std::int64_t tile : {std::int64_t{2}, std::int64_t{4}}) {
    if (tile == 4 && workload::element_bytes(c.in) < 4) continue;
    const KernelTime way = winograd(c, tile, device);
    if (way.total < best.total) best = way;
  }
  return best;
}

Duration GpuCost::convolution(const Convolution& c, const Mode& mode) const {
  // No profile holds measurements of convolutions: the product's are the nearest there is.
  return {Seconds(convolution_kernel(c, available(mode)).total / speed_), weaker(gemm_[static_cast<std::size_t>(c.in)].origin(c.implicit_gemm()), Origin::kExtrapolated)};
}

}  // namespace orrery::cost
