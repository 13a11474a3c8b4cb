#pragma once
// Traces name ranks, the folded engine plays classes: this sink repeats what a class did for every traced rank of it.
#include <algorithm>
#include <vector>

#include "orrery/engine/run.hpp"

namespace orrery::simulate {

class TracedRanks final : public engine::Sink {
 public:
  /// Ranks that `sink` wants, by class of `rank_class`.
  TracedRanks(engine::Sink& sink, const std::vector<std::uint32_t>& rank_class, std::size_t classes) : sink_(sink), ranks_(classes) {
    for (std::uint32_t r = 0; r < rank_class.size(); ++r) {
      if (sink.wants(r)) ranks_[rank_class[r]].push_back(r);
    }
  }
  bool wants(std::uint32_t rank) const override { return !ranks_[rank].empty(); }
  void ran(std::uint32_t rank, std::uint32_t stream, std::uint32_t instruction, SimTime launched, SimTime started, SimTime ended) override {
    for (const std::uint32_t r : ranks_[rank]) sink_.ran(r, stream, instruction, launched, started, ended);
  }
  void memory(std::uint32_t rank, SimTime at, std::uint32_t kind, std::int64_t bytes) override {
    for (const std::uint32_t r : ranks_[rank]) sink_.memory(r, at, kind, bytes);
  }

 private:
  engine::Sink& sink_;
  std::vector<std::vector<std::uint32_t>> ranks_;
};

}  // namespace orrery::simulate
