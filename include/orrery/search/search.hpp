#pragma once
// Many trips down the road: a scenario to its prediction, and many scenarios on several threads.
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "orrery/metrics/metrics.hpp"
#include "orrery/simulate/simulate.hpp"

namespace orrery::search {

/// A scenario's answer: what a report needs, without what was played.
struct Prediction {
  document::Document scenario;  ///< resolved
  metrics::Summary summary;
};

/// What the engine's indices of an outcome mean.
metrics::Inputs describe(const simulate::Outcome& outcome);
/// The same for the full input, whether or not the outcome was folded: what a trace of single ranks needs.
metrics::Inputs describe_full(const simulate::Outcome& outcome);

Prediction summarise(const simulate::Outcome& outcome);
Result<Prediction> predict(const document::Document& scenario, const simulate::Options& options = {});

/// Calls work(0) … work(count - 1), each once, on up to `threads` threads; the first exception by index comes out when all are done. work must touch
/// only what belongs to its index, so the result is the same on any number of threads.
void for_each(std::size_t count, int threads, const std::function<void(std::size_t)>& work);

/// Every scenario by itself, in the order given; options.sink must be null.
std::vector<Result<Prediction>> predict_all(std::span<const document::Document> scenarios, const simulate::Options& options, int threads);

/// Remembers what some ranks did, for a trace that is made when the run is over.
class Recorder : public engine::Sink {
 public:
  explicit Recorder(std::vector<std::uint32_t> ranks);  ///< of the full job
  [[nodiscard]] bool wants(std::uint32_t rank) const override;
  void ran(std::uint32_t rank, std::uint32_t stream, std::uint32_t instruction, SimTime launched, SimTime started, SimTime ended) override;
  void memory(std::uint32_t rank, SimTime at, std::uint32_t kind, std::int64_t bytes) override;
  /// Repeats everything, in order.
  void replay(engine::Sink& sink) const;
  [[nodiscard]] const std::vector<std::uint32_t>& ranks() const { return ranks_; }

 private:
  struct Record {
    bool memory = false;
    std::uint32_t rank = 0, stream = 0, instruction = 0;  ///< memory: stream is the kind
    SimTime launched = 0, started = 0, ended = 0;         ///< memory: launched is when, started the bytes
  };
  std::vector<std::uint32_t> ranks_;
  std::vector<Record> records_;
};

}  // namespace orrery::search
