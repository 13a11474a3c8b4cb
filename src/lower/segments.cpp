#include "segments.hpp"

#include <algorithm>

#include "orrery/base/assert.hpp"
#include "orrery/engine/run.hpp"

namespace orrery::lower {

SimTime sim_time_or_too_long(Seconds s) { return s < to_seconds(engine::kLatest) ? to_sim_time(s) : engine::kLatest + 1; }

std::uint32_t kernel_launches(const workload::Operation& operation) {
  if (const auto* stream = std::get_if<workload::Stream>(&operation.work)) return static_cast<std::uint32_t>(stream->kernels);
  if (const auto* experts = std::get_if<workload::GroupedGemm>(&operation.work)) {
    return experts->launch == workload::GroupLaunch::kOneKernel ? 1 : std::max<std::uint32_t>(1, static_cast<std::uint32_t>(experts->tokens.size()));
  }
  return 1;  // a convolution too: its transforms, where it has any, are one call's
}

SegmentPricer::SegmentPricer(const World& world, const std::vector<double>& variants) {
  for (const double speed : variants) gpus_.emplace_back(world.cluster.node().gpu, world.profile, speed, world.attention_kernel);
  ORRERY_ASSERT(!gpus_.empty(), "there is at least one hardware variant");
  const cost::GpuCost& gpu = gpus_.front();
  for (const program::Role& role : world.program.roles) {
    std::vector<std::uint32_t>& index = index_.emplace_back();
    for (const program::Segment& segment : role.segments) {
      const auto same = [&](const Distinct& d) {
        return d.segment->host_op_us == segment.host_op_us && d.segment->phase == segment.phase && d.segment->operations == segment.operations;
      };
      const auto found = std::find_if(distinct_.begin(), distinct_.end(), same);
      index.push_back(static_cast<std::uint32_t>(found - distinct_.begin()));
      if (found != distinct_.end()) continue;
      Distinct d;
      d.segment = &segment;
      double issued = 0, device = 0;
      for (const workload::Operation& op : segment.operations) {
        const cost::Duration duration = gpu.operation(op);
        const std::uint32_t n = kernel_launches(op);
        issued += segment.host_op_us * 1e-6 * n;
        d.lead = std::max(d.lead, Seconds(issued - device));
        d.launches += n;
        device += duration.time.value();
        d.cost.seconds_by_origin[static_cast<std::size_t>(duration.origin)] += duration.time.value();
        // The variant's order is Gemm, Attention, Stream; products of experts and convolutions are products.
        const bool product = std::holds_alternative<workload::GroupedGemm>(op.work) || std::holds_alternative<workload::Convolution>(op.work);
        d.cost.seconds_by_class[product ? 0 : op.work.index()] += duration.time.value();
        d.cost.wave = std::max(d.cost.wave, gpu.wave(op));
      }
      d.cost.total = Seconds(device);
      d.host = Seconds(issued);
      distinct_.push_back(d);
    }
  }
}

SegmentPricer::Longest SegmentPricer::longest() const {
  Longest longest;
  for (const Distinct& d : distinct_) {
    const double seconds = std::max(d.cost.total.value(), d.host.value());
    if (longest.segment == nullptr || !(seconds <= longest.seconds)) longest = {d.segment, seconds};
  }
  return longest;
}

SegmentCost SegmentPricer::cost(std::uint32_t role, std::uint32_t segment) const { return at(role, segment).cost; }
Seconds SegmentPricer::lead(std::uint32_t role, std::uint32_t segment) const { return at(role, segment).lead; }
std::uint32_t SegmentPricer::launches(std::uint32_t role, std::uint32_t segment) const { return at(role, segment).launches; }
Seconds SegmentPricer::host_time(std::uint32_t role, std::uint32_t segment) const { return at(role, segment).host; }

SimTime SegmentPricer::duration(std::uint32_t program, std::uint32_t segment, std::uint32_t variant, std::int32_t sms, std::int64_t hbm) const {
  const Distinct& d = at(program, segment);
  if (sms == 0 && hbm == 0 && variant == 0) return sim_time_or_too_long(d.cost.total);
  const cost::Mode mode{sms, BytesPerSecond(static_cast<double>(hbm) * 0x1p-40 * kPicosecondsPerSecond)};
  double seconds = 0;
  for (const workload::Operation& op : d.segment->operations) seconds += gpus_[variant].operation(op, mode).time.value();
  return sim_time_or_too_long(Seconds(seconds));
}

}  // namespace orrery::lower
