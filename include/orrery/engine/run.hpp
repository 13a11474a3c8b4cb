#pragma once
// Playing an input: what comes out, who listens, and what is said when it gets stuck.
#include <string>
#include <variant>
#include <vector>

#include "orrery/engine/input.hpp"

namespace orrery::engine {

/// Integers only; metrics divide once. All times are sums over [0, end] of one rank (one of its class).
struct RankResult {
  std::vector<SimTime> account_ps;           ///< per account; sums to Result::end
  SimTime finish = 0;                        ///< its last instruction's end, the host's list included
  std::int64_t peak_bytes = 0;               ///< of the allocated sum
  SimTime peak_at = 0;
  std::vector<std::int64_t> peak_kind_bytes; ///< per memory kind, at that moment
};
struct TransferResult {
  std::int64_t count = 0;  ///< x multiplicity
  int128 time_ps = 0;      ///< start to end, latency included, x multiplicity
};
struct ResourceResult {
  int128 load = 0;               ///< sum of weight x reference_bytes of the activities that ended, of one resource; bytes = load / 2^24
  std::int64_t peak = 0;         ///< rate units, highest sum of weight x rate / 2^24 (rounded up)
};
struct Result {
  SimTime end = 0;  ///< the last finish of all ranks
  std::vector<RankResult> ranks;
  std::vector<std::vector<int128>> segment_ps;  ///< [program][segment]: time run, over all ranks x multiplicity
  std::vector<TransferResult> transfers;
  std::vector<ResourceResult> resources;
  std::int64_t events = 0;
};

/// Nothing can happen any more and somebody is not finished.
struct Stuck {
  SimTime at = 0;
  std::vector<std::string> waits;  ///< "rank 17 stream 2 instruction 40 waits for rank 3 to launch collective 12 of group 5, since 1.234 ms"
};
struct TooManyEvents {
  std::int64_t limit = 0;
};
/// Something would end later than simulated time reaches.
struct TooLong {
  SimTime at = 0;  ///< when it would have begun
};

/// Receives what ran, for the ranks it asked for. Calls come in order of end time, ties in rank, stream order.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual bool wants(std::uint32_t rank) const = 0;
  /// An instruction with a duration (segment, collective, batch) ran on a stream: launched, started (all members there), ended.
  virtual void ran(std::uint32_t rank, std::uint32_t stream, std::uint32_t instruction, SimTime launched, SimTime started, SimTime ended) = 0;
  /// Memory of a kind after the host passed an allocation or free.
  virtual void memory(std::uint32_t rank, SimTime at, std::uint32_t kind, std::int64_t bytes) = 0;
};

struct Options {
  std::int64_t max_events = INT64_MAX;
  Sink* sink = nullptr;
};

inline constexpr SimTime kLatest = SimTime{1} << 62;  ///< 53 days: what begins before and takes as long again stays in 64 bits

/// Plays to the end. Requires check(input) to be empty.
std::variant<Result, Stuck, TooManyEvents, TooLong> run(const Input& input, const SegmentTimes& times, const Options& options = {});

}  // namespace orrery::engine
