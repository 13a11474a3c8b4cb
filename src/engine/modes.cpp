#include "engine/modes.hpp"

#include "orrery/base/assert.hpp"

namespace orrery::engine {

Modes::Modes(const Input& input, const Tables& tables, const SegmentTimes& times)
    : input_(input), tables_(tables), times_(times), variants_(tables.variants), buckets_(64, kNone) {
  number(0, 0);
}

std::size_t Modes::bucket(std::int32_t sms, std::int64_t hbm) const {
  const std::uint64_t key = (static_cast<std::uint64_t>(hbm) * std::uint64_t{0x9e3779b97f4a7c15}) ^ (static_cast<std::uint64_t>(sms) * std::uint64_t{0xbf58476d1ce4e5b9});
  return static_cast<std::size_t>((key ^ (key >> 32)) & (buckets_.size() - 1));
}

std::uint32_t Modes::number(std::int32_t sms, std::int64_t hbm) {
  if (!modes_.empty() && is(last_, sms, hbm)) return last_;
  std::size_t at = bucket(sms, hbm);
  for (; buckets_[at] != kNone; at = (at + 1) & (buckets_.size() - 1)) {
    const Mode& mode = modes_[buckets_[at]];
    if (mode.sms == sms && mode.hbm == hbm) return last_ = buckets_[at];
  }
  const auto number = static_cast<std::uint32_t>(modes_.size());
  modes_.push_back({sms, hbm});
  table_of_.resize(table_of_.size() + variants_, kNone);
  buckets_[at] = number;
  if (2 * modes_.size() > buckets_.size()) rehash();
  return last_ = number;
}

void Modes::rehash() {
  buckets_.assign(2 * buckets_.size(), kNone);
  for (std::uint32_t m = 0; m < modes_.size(); ++m) {
    std::size_t at = bucket(modes_[m].sms, modes_[m].hbm);
    while (buckets_[at] != kNone) at = (at + 1) & (buckets_.size() - 1);
    buckets_[at] = m;
  }
}

SimTime Modes::ask(std::uint32_t variant, std::uint32_t segment, std::uint32_t mode) {
  const std::uint32_t program = tables_.variant_program[variant];
  std::uint32_t& table = table_of_[std::size_t{mode} * variants_ + variant];
  if (table == kNone) {
    ORRERY_ASSERT(durations_.size() < kNone, "durations of all modes fit 32-bit positions");
    table = static_cast<std::uint32_t>(durations_.size());
    durations_.resize(durations_.size() + input_.programs[program].segments.size(), -1);
  }
  const SimTime d = times_.duration(program, segment, tables_.variant_hardware[variant], modes_[mode].sms, modes_[mode].hbm);
  ORRERY_ASSERT(d >= 0, "a segment takes no negative time");
  durations_[std::size_t{table} + segment] = d;
  return d;
}

}  // namespace orrery::engine
