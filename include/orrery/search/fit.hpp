#pragma once
// What fits: the largest microbatch and sequence that do, and what makes a job fit that does not. Every answer is a prediction of its own.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "orrery/search/search.hpp"

namespace orrery::search {

/// A scenario with more overrides, loaded and predicted.
using Attempt = std::function<Result<Prediction>(const std::vector<document::Override>& more)>;

/// The largest value of a member that fits, all else equal.
struct Largest {
  std::string member;                  ///< "training.micro_batch"
  std::int64_t stated = 0;             ///< what the scenario has
  std::optional<std::int64_t> value;   ///< none: not even the smallest fits
  std::int64_t smallest = 0;           ///< that was tried
  bool bounded = false;                ///< the next larger one is refused, or is none: not memory that ends it
  double step_s = 0;
  std::int64_t peak_bytes = 0;
};

/// Of training.micro_batch: divisors of the sequences that a data-parallel rank has in a step.
Largest largest_micro_batch(const Prediction& stated, const Attempt& attempt);
/// Of training.sequence_length: multiples of 128 that tensor, sequence and context parallelism can cut, up to 2^20 tokens.
Largest largest_sequence(const Prediction& stated, const Attempt& attempt);

/// A change with which the job fits.
struct Cure {
  std::string change;  ///< "training.recompute=selective"
  double step_s = 0;
  std::int64_t peak_bytes = 0;
};
/// Single changes to a job that does not fit, then pairs of them, with which it does: cheapest first, by tokens a second.
std::vector<Cure> cures(const Prediction& stated, const Attempt& attempt);

}  // namespace orrery::search
