#pragma once
// A measured sweep of a collective beside its prediction: is the cluster healthy at each size, and if not, what would explain it. Every hypothesis is
// the cluster with one thing changed, predicted by the same road.
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/simulate/collectives.hpp"

namespace orrery::search {

struct MeasuredPoint {
  std::int64_t bytes = 0;  ///< > 0
  double time_us = 0;      ///< > 0
};

enum class Health : std::uint8_t { kHealthy, kDoubtful, kSick };
std::string_view to_string(Health h);

struct ComparedRow {
  std::int64_t bytes = 0;
  double measured_us = 0;
  simulate::CollectiveRow predicted;
  Health health = Health::kHealthy;
  bool stalled = false;  ///< a message at least twice as large took half the time or less: no link explains that
  [[nodiscard]] double ratio() const { return measured_us / (predicted.time.value() * 1e6); }
};

/// Neighbouring sizes in one state.
struct HealthRange {
  std::int64_t first = 0, last = 0;
  Health health = Health::kHealthy;
  double ratio = 1;  ///< geometric mean of measured over predicted
  bool stalled = false;
};

struct Hypothesis {
  std::string name;        ///< stable: "half_the_nics"
  std::string text;        ///< for people
  std::vector<document::Override> change;
  double error = 0;        ///< mean of |ln(measured / predicted under it)|
  double likelihood = 0;   ///< nothing wrong included; with Comparison::unexplained they sum to 1
};

struct Comparison {
  std::vector<ComparedRow> rows;
  std::vector<HealthRange> ranges;
  bool sick = false;                   ///< two sizes in a row are, or the only ones
  std::vector<Hypothesis> hypotheses;  ///< likeliest first; "as_described" is one of them
  double unexplained = 0;              ///< share of what was not tried
};

/// The scenario with overrides on top.
using Variant = std::function<Result<document::Document>(std::span<const document::Override>)>;

/// query: kind, ranks and launches; its sizes are those of points. points: ascending in bytes, at least one. Hypotheses that the cluster cannot have (a quarter of one NIC) are not tried; they are weighed only
/// where the cluster is sick. Diagnostics: the prediction's.
Result<Comparison> compare(simulate::CollectiveQuery query, std::span<const MeasuredPoint> points, const Variant& variant);

}  // namespace orrery::search
