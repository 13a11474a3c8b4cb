#pragma once
// What a rank's memory holds over a step, every kind stacked on the last, as a picture (SVG).
#include <cstdint>
#include <string>
#include <vector>

#include "orrery/engine/run.hpp"

namespace orrery::report {

/// Collects the tensors of one rank while the engine plays; the allocator's own overhead and the context are the line that is drawn beside them.
class MemorySvg : public engine::Sink {
 public:
  /// kinds: names by engine memory kind.
  MemorySvg(std::uint32_t rank, std::vector<std::string> kinds) : rank_(rank), kinds_(std::move(kinds)), held_(kinds_.size(), 0) {}

  [[nodiscard]] bool wants(std::uint32_t rank) const override { return rank == rank_; }
  void ran(std::uint32_t, std::uint32_t, std::uint32_t, SimTime, SimTime, SimTime) override {}
  void memory(std::uint32_t rank, SimTime at, std::uint32_t kind, std::int64_t bytes) override;

  /// end: of the step. capacity: of the device, drawn as a line.
  [[nodiscard]] std::string svg(const std::string& title, SimTime end, std::int64_t capacity) const;
  /// The moment at which most is held, and how much.
  struct Peak {
    SimTime at = 0;
    std::int64_t bytes = 0;
    std::vector<std::int64_t> held = {};  ///< by kind
  };
  [[nodiscard]] Peak peak() const;
  /// Equal parts of the step, each as it was when it held most.
  struct Column {
    SimTime at = 0;                       ///< where it begins
    std::vector<std::int64_t> held;
  };
  [[nodiscard]] std::vector<Column> columns(std::size_t count, SimTime end) const;
  [[nodiscard]] const std::vector<std::string>& kinds() const { return kinds_; }

 private:
  struct Sample {
    SimTime at = 0;
    std::vector<std::int64_t> held;  ///< by kind, from then on
  };
  std::uint32_t rank_;
  std::vector<std::string> kinds_;
  std::vector<std::int64_t> held_;
  std::vector<Sample> samples_;
};

}  // namespace orrery::report
