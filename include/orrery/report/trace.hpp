#pragma once
// The timeline of a few ranks for trace viewers: Chrome's JSON trace format, which Perfetto opens.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "orrery/engine/run.hpp"
#include "orrery/metrics/inputs.hpp"
#include "orrery/program/program.hpp"

namespace orrery::report {

/// Collects what ran on some ranks while the engine plays `input`, then prints it: a process per rank, a thread per stream, memory by
/// kind as a counter, an arrow from each send to its receive where both ends are traced. References must outlive it.
class ChromeTrace : public engine::Sink {
 public:
  /// ranks: those of `input` (classes where it is folded). Each is named by the lowest rank it stands for.
  ChromeTrace(const engine::Input& input, const metrics::Inputs& inputs, const program::Program& program, std::vector<std::uint32_t> ranks);

  [[nodiscard]] bool wants(std::uint32_t rank) const override;
  void ran(std::uint32_t rank, std::uint32_t stream, std::uint32_t instruction, SimTime launched, SimTime started, SimTime ended) override;
  void memory(std::uint32_t rank, SimTime at, std::uint32_t kind, std::int64_t bytes) override;

  /// The whole document, on one event a line. Call once, after the run.
  [[nodiscard]] std::string json();

 private:
  /// A slice, a memory sample or one end of an arrow, already printed.
  void event(std::string line) { events_.push_back(std::move(line)); }
  [[nodiscard]] std::string label(std::uint32_t rank, std::uint32_t stream, std::uint32_t instruction) const;
  void arrows(std::uint32_t rank, std::uint32_t stream, const engine::Instruction& instruction, SimTime started, SimTime ended);

  struct End {
    std::uint32_t rank = 0, stream = 0;
    SimTime at = 0;
  };
  struct Flow {
    std::vector<End> sends, receives;  ///< the k-th meets the k-th
  };

  const engine::Input& input_;
  const metrics::Inputs& inputs_;
  const program::Program& program_;
  std::vector<std::uint32_t> ranks_;                                   ///< ascending
  std::vector<std::string> events_;
  std::map<std::uint32_t, Flow> flows_;                                ///< by channel
  std::map<std::uint32_t, std::vector<std::int64_t>> held_;            ///< bytes by kind of a rank
  std::map<std::uint32_t, std::vector<std::vector<const program::Item*>>> items_;  ///< device items by stream, of a program
};

}  // namespace orrery::report
