#pragma once
// How many roundings can follow one another in a run, whatever they are: the longest chain of segments and transfers that wait for each
// other by stream order, events, the host's waits and meetings, with what a running segment is slowed by. The critical path is one such
// chain.
#include <cstdint>
#include <vector>

#include "orrery/engine/run.hpp"

namespace orrery::test {

/// When everything ran, by rank and stream, in the stream's order.
class Records : public engine::Sink {
 public:
  struct Ran {
    std::uint32_t instruction = 0;
    SimTime launched = 0, started = 0, ended = 0;
  };
  explicit Records(const engine::Input& input);
  bool wants(std::uint32_t) const override { return true; }
  void ran(std::uint32_t rank, std::uint32_t stream, std::uint32_t instruction, SimTime launched, SimTime started, SimTime ended) override {
    ranks_[rank][stream].push_back({instruction, launched, started, ended});
  }
  void memory(std::uint32_t, SimTime, std::uint32_t, std::int64_t) override {}
  [[nodiscard]] const std::vector<std::vector<Ran>>& of(std::uint32_t rank) const { return ranks_[rank]; }

 private:
  std::vector<std::vector<std::vector<Ran>>> ranks_;
};

/// A segment and a transfer are one duration each. A communication that starts or ends on a rank may change the pace of the segment that
/// runs there: the segment is then longer by two for each (the instant, and the new pace), and comes after what set the instant. A
/// communication that waits for the running segment's wave is longer by one. Without records nothing runs beside anything.
/// Requires a sound input whose host never waits for its run-ahead.
std::int64_t longest_chain(const engine::Input& input, const Records* records = nullptr);

}  // namespace orrery::test
