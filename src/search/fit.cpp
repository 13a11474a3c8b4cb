// Peaks grow with microbatch and sequence, so the largest that fits is found by halving; what a layout refuses counts as too large, and is
// told apart from what memory ends.
#include "orrery/search/fit.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace orrery::search {
namespace {

using document::Override;
using document::Value;

constexpr std::int64_t kLongest = 1 << 20;
constexpr std::int64_t kGrain = 128;  ///< attention kernels work on tiles of so many tokens
constexpr std::size_t kMostPairs = 24;

std::int64_t integer(const Value& v, std::int64_t otherwise) { return v.is_int() ? v.as_int() : otherwise; }

/// Candidates in ascending order; the last that fits, by halving.
void halve(Largest& answer, const std::vector<std::int64_t>& candidates, const Attempt& attempt) {
  std::size_t low = 0, high = candidates.size();  // all below low fit; high and above do not
  bool refused = false;
  answer.smallest = candidates.front();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    const Result<Prediction> p = attempt({{answer.member, fmt::format("{}", candidates[middle])}});
    if (p && p->summary.memory.fits) {
      answer.value = candidates[middle];
      answer.step_s = p->summary.step_s;
      answer.peak_bytes = p->summary.memory.peak_bytes;
      low = middle + 1;
    } else {
      refused = !p;
      high = middle;
    }
  }
  answer.bounded = high == candidates.size() || refused;
}

std::int64_t tokens_per_second(const Prediction& p) { return static_cast<std::int64_t>(p.summary.throughput.tokens_per_s); }

struct Change {
  std::vector<Override> sets;
  std::string member;  ///< two changes of one member exclude each other
};

std::string told(const std::vector<Override>& sets) {
  std::string text;
  for (const Override& o : sets) text += fmt::format("{}{}={}", text.empty() ? "" : " ", o.path, o.value);
  return text;
}

/// What a user turns: each is one member, and leaves what is computed as it is.
std::vector<Change> changes_of(const Value& scenario) {
  std::vector<Change> out;
  const Value& training = scenario.at("training");
  const Value& parallelism = scenario.at("parallelism");
  const auto add = [&](const char* member, const std::string& value) { out.push_back({{{member, value}}, member}); };
  const std::int64_t zero = integer(parallelism.at("zero"), 0), micro = integer(training.at("micro_batch"), 1);
  if (integer(parallelism.at("dp"), 1) * integer(parallelism.at("cp"), 1) > 1) {
    for (std::int64_t z = zero + 1; z <= 3; ++z) add("parallelism.zero", fmt::format("{}", z));
  }
  if (micro > 1) add("training.micro_batch", "1");
  if (micro > 2 && micro % 2 == 0) add("training.micro_batch", fmt::format("{}", micro / 2));
  const Value& recompute = training.at("recompute");
  const std::string mode = recompute.is_string() ? recompute.as_string() : recompute.at("mode").is_string() ? recompute.at("mode").as_string() : "none";
  if (mode == "none") add("training.recompute", "selective");
  if (mode != "full") add("training.recompute", "full");
  if (!training.at("optimizer").is_null() && training.at("optimizer") == Value("adamw")) add("training.optimizer", "adamw_8bit");
  add("training.offload.optimizer", "1");
  if (training.at("offload").at("activations") == Value(0.0)) add("training.offload.activations", "1");
  if (integer(training.at("loss").at("chunks"), 1) == 1) add("training.loss.chunks", "8");
  return out;
}

}  // namespace

Largest largest_micro_batch(const Prediction& stated, const Attempt& attempt) {
  const Value& training = stated.scenario.value.at("training");
  Largest answer;
  answer.member = "training.micro_batch";
  answer.stated = integer(training.at("micro_batch"), 1);
  const std::int64_t dp = std::max<std::int64_t>(1, integer(stated.scenario.value.at("parallelism").at("dp"), 1));
  const std::int64_t share = std::max<std::int64_t>(1, integer(training.at("global_batch"), 1) / dp);
  std::vector<std::int64_t> divisors;
  for (std::int64_t i = 1; i * i <= share; ++i) {
    if (share % i != 0) continue;
    divisors.push_back(i);
    if (i != share / i) divisors.push_back(share / i);
  }
  std::sort(divisors.begin(), divisors.end());
  halve(answer, divisors, attempt);
  return answer;
}

Largest largest_sequence(const Prediction& stated, const Attempt& attempt) {
  const Value& parallelism = stated.scenario.value.at("parallelism");
  Largest answer;
  answer.member = "training.sequence_length";
  answer.stated = integer(stated.scenario.value.at("training").at("sequence_length"), 1);
  const std::int64_t cut = std::lcm(kGrain, 2 * std::max<std::int64_t>(1, integer(parallelism.at("cp"), 1)) * std::max<std::int64_t>(1, integer(parallelism.at("tp"), 1)));
  std::vector<std::int64_t> lengths;
  for (std::int64_t n = cut; n <= kLongest; n += cut) lengths.push_back(n);
  if (lengths.empty()) lengths = {answer.stated};
  halve(answer, lengths, attempt);
  return answer;
}

std::vector<Cure> cures(const Prediction& stated, const Attempt& attempt) {
  const std::vector<Change> changes = changes_of(stated.scenario.value);
  struct Found {
    Cure cure;
    std::int64_t rate = 0;
  };
  std::vector<Found> found;
  std::vector<std::size_t> short_of;  // changes that run and do not suffice alone
  const auto attempt_all = [&](const std::vector<Override>& sets) {
    const Result<Prediction> p = attempt(sets);
    if (!p || !p->summary.memory.fits) return static_cast<bool>(p);
    found.push_back({{told(sets), p->summary.step_s, p->summary.memory.peak_bytes}, tokens_per_second(*p)});
    return false;
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (attempt_all(changes[i].sets)) short_of.push_back(i);
  }
  if (found.empty()) {
    std::size_t pairs = 0;
    for (std::size_t a = 0; a < short_of.size(); ++a) {
      for (std::size_t b = a + 1; b < short_of.size() && pairs < kMostPairs; ++b) {
        const Change &first = changes[short_of[a]], &second = changes[short_of[b]];
        if (first.member == second.member) continue;
        std::vector<Override> sets = first.sets;
        sets.insert(sets.end(), second.sets.begin(), second.sets.end());
        attempt_all(sets);
        ++pairs;
      }
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.rate > b.rate; });
  std::vector<Cure> out;
  for (Found& f : found) out.push_back(std::move(f.cure));
  return out;
}

}  // namespace orrery::search
