// What would make a job fit that does not: what each change frees at the worst rank, by the arithmetic of who holds what. Recompute and
// smaller microbatches free at most what activations take; the rest divides by how many more ranks share it.
#include <algorithm>
#include <fmt/format.h>

#include "metrics/parts.hpp"

namespace orrery::metrics {

namespace {
struct Change {
  std::string text;
  double freed = 0;
};

std::string gib(double bytes) { return fmt::format("{:.1f} GiB", bytes / static_cast<double>(kGiB)); }
}  // namespace

std::vector<std::string> fit_advice(const Memory& memory, const Inputs& inputs) {
  const auto bytes = [&](std::string_view kind) {
    for (const auto& [name, value] : memory.by_kind)
      if (name == kind) return static_cast<double>(value);
    return 0.0;
  };
  const double parameters = bytes("parameters"), gradients = bytes("gradients"), optimizer = bytes("optimizer"), activations = bytes("activations");
  const plan::Parallelism& p = inputs.parallelism;
  const double sharers = static_cast<double>(p.dp * p.cp / p.replicas), saved = 1 - 1 / sharers;
  std::vector<Change> changes;
  if (sharers > 1) {
    const std::array<double, 3> by_stage = {optimizer, gradients, parameters};
    double freed = 0;
    for (std::int64_t zero = p.zero; zero < 3; ++zero) {
      freed += by_stage[static_cast<std::size_t>(zero)] * saved;
      changes.push_back({fmt::format("zero {}", zero + 1), freed});
    }
  }
  if (inputs.training.recompute.mode == workload::RecomputeMode::kNone) changes.push_back({"recompute", activations});
  if (inputs.training.micro_batch > 1)
    changes.push_back({"micro_batch 1", activations * (1 - 1 / static_cast<double>(inputs.training.micro_batch))});
  changes.push_back({"twice the tp or pp", (parameters + gradients + optimizer) / 2});

  std::erase_if(changes, [](const Change& c) { return c.freed <= 0; });
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.freed > b.freed; });
  const double missing = static_cast<double>(memory.peak_bytes - memory.capacity_bytes);
  std::vector<std::string> advice;
  for (const Change& c : changes)
    advice.push_back(fmt::format("{} frees up to {}{}", c.text, gib(c.freed), c.freed >= missing ? "" : ", not enough alone"));
  return advice;
}

}  // namespace orrery::metrics
