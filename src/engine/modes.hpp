#pragma once
// The modes of a GPU, (SMs, HBM bandwidth) held by communication, numbered as they turn up, and the segments' durations in each.
// Mode 0 is (0, 0). A duration is asked once per (program, segment, hardware variant, mode).
#include <vector>

#include "engine/tables.hpp"
#include "orrery/engine/input.hpp"

namespace orrery::engine {

class Modes {
 public:
  Modes(const Input& input, const Tables& tables, const SegmentTimes& times);
  std::uint32_t number(std::int32_t sms, std::int64_t hbm);
  [[nodiscard]] bool is(std::uint32_t mode, std::int32_t sms, std::int64_t hbm) const { return modes_[mode].sms == sms && modes_[mode].hbm == hbm; }
  SimTime duration(std::uint32_t variant, std::uint32_t segment, std::uint32_t mode) {
    const std::uint32_t table = table_of_[std::size_t{mode} * variants_ + variant];
    if (table != kNone) {
      const SimTime known = durations_[std::size_t{table} + segment];
      if (known >= 0) return known;
    }
    return ask(variant, segment, mode);
  }

 private:
  struct Mode {
    std::int32_t sms;
    std::int64_t hbm;
  };
  SimTime ask(std::uint32_t variant, std::uint32_t segment, std::uint32_t mode);
  void rehash();
  [[nodiscard]] std::size_t bucket(std::int32_t sms, std::int64_t hbm) const;

  const Input& input_;
  const Tables& tables_;
  const SegmentTimes& times_;
  std::size_t variants_;
  std::vector<Mode> modes_;
  std::uint32_t last_ = 0;               // the answer before: ranks of one group ask in a row
  std::vector<std::uint32_t> buckets_;   // open addressing, power of two; looked up, never walked
  std::vector<std::uint32_t> table_of_;  // [mode][variant]: first entry in durations_
  std::vector<SimTime> durations_;       // -1: not asked yet
};

}  // namespace orrery::engine
