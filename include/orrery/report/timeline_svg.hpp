#pragma once
// The pipeline as a picture: one lane per rank, a box per pass of a microbatch, SVG.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "orrery/engine/run.hpp"
#include "orrery/program/program.hpp"

namespace orrery::report {

/// Collects what ran on the compute streams of some ranks while the engine plays `input`. A box is an entry of the stage's order list,
/// from its first kernel to its last: forward, backward or one of its halves; what follows the list is the end of the step. The two of a
/// pair share their time and have half a lane each. References must outlive it.
class TimelineSvg : public engine::Sink {
 public:
  /// ranks: those of `input`, drawn in ascending order.
  TimelineSvg(const engine::Input& input, const program::Program& program, std::vector<std::uint32_t> ranks);

  [[nodiscard]] bool wants(std::uint32_t rank) const override;
  void ran(std::uint32_t rank, std::uint32_t stream, std::uint32_t instruction, SimTime launched, SimTime started, SimTime ended) override;
  void memory(std::uint32_t, SimTime, std::uint32_t, std::int64_t) override {}

  [[nodiscard]] std::string svg(const std::string& title) const;

 private:
  struct Box {
    SimTime from = 0, to = 0;
    bool drawn = false;
  };
  struct Lane {
    std::vector<Box> entries;  ///< by entry of the order list; a pair's first one stands for both
    Box end_of_step;
  };
  const engine::Input& input_;
  const program::Program& program_;
  std::map<std::uint32_t, Lane> lanes_;
  std::map<std::uint32_t, std::uint32_t> last_;  ///< by role: the compute instruction after which the step ends
};

}  // namespace orrery::report
