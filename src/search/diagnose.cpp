// Health by size. A prediction without a measurement of the same cluster is within 2x for nearly every size (median error under 20 %), and launch
// latency differs by more between hosts and launchers, and up to 16 MiB releases of NCCL differ by two: so twice as slow is sick, two and a half times up to
// there, three and a half where latency is all there is; for two sizes in a row of the median of three neighbours, so that a spike is none.
// Likelihood. Each hypothesis h predicts every size; its error e_h is the mean of |ln(measured / predicted)|, each capped so that a stall at one size
// does not decide. The right hypothesis errs too: the model is off by 17 % at the median and by 60 % at one point in ten on systems that it was not
// calibrated on (docs/collectives.md), a mean |ln| of kScatter; and sizes err together, since what is off is the floor, the middle or the plateau: a
// sweep is kIndependent measurements, whatever its number of sizes. weight_h = exp(-n e_h / kScatter), Laplace's law. What nobody thought of is weighed
// as a hypothesis that errs by kUnexplained: a factor of two. Hypotheses that predict what the healthy cluster predicts explain nothing and are left out.
#include "orrery/search/diagnose.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "hypotheses.hpp"
#include "orrery/base/assert.hpp"

namespace orrery::search {
namespace {

constexpr double kSickTransfer = 2.0, kSickMiddle = 2.5, kSickLatency = 3.5, kDoubtful = 1.5;
constexpr std::int64_t kLatencyBound = kMiB;    ///< below, hosts and launchers decide as much as links
constexpr std::int64_t kReleaseBound = 16 * kMiB;  ///< up to here one release of NCCL is twice as slow as the next (B200, 2.28 and 2.29)
constexpr double kCap = 3.0;                   ///< a factor of e^3 = 20
constexpr double kScatter = 0.25, kIndependent = 3;
const double kUnexplained = std::log(2.0);

Health judge(double ratio, std::int64_t bytes) {
  if (ratio >= (bytes > kReleaseBound ? kSickTransfer : bytes >= kLatencyBound ? kSickMiddle : kSickLatency)) return Health::kSick;
  return ratio >= kDoubtful ? Health::kDoubtful : Health::kHealthy;
}

double error_of(std::span<const MeasuredPoint> points, const std::vector<simulate::CollectiveRow>& rows) {
  double sum = 0;
  for (std::size_t i = 0; i < points.size(); ++i) sum += std::min(kCap, std::abs(std::log(points[i].time_us / (rows[i].time.value() * 1e6))));
  return sum / static_cast<double>(points.size());
}

/// Whether the hypothesis says anything else than the cluster as described does.
bool differs(const std::vector<simulate::CollectiveRow>& a, const std::vector<simulate::CollectiveRow>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::abs(std::log(a[i].time.value() / b[i].time.value())) > 0.02) return true;
  }
  return false;
}

/// From one size on the time jumps and stays: another algorithm or protocol was taken there, and this network serves it badly. Each side is given its
/// own factor, so it is charged for the two that it takes beyond what a hypothesis of one cause takes.
std::optional<Hypothesis> switched(std::span<const MeasuredPoint> points, const std::vector<simulate::CollectiveRow>& rows) {
  constexpr double kJump = 1.4, kTwoFactors = 0.25;  // ln 4
  const std::size_t n = points.size();
  const auto log_ratio = [&](std::size_t i) { return std::log(points[i].time_us / (rows[i].time.value() * 1e6)); };
  const auto mean = [&](std::size_t first, std::size_t last) {
    double sum = 0;
    for (std::size_t i = first; i < last; ++i) sum += log_ratio(i);
    return sum / static_cast<double>(last - first);
  };
  std::optional<Hypothesis> best;
  for (std::size_t at = 2; at + 2 <= n; ++at) {
    const double before = mean(0, at), after = mean(at, n);
    if (log_ratio(at) - log_ratio(at - 1) < kJump || after - before < kJump / 2) continue;
    double error = kTwoFactors;
    for (std::size_t i = 0; i < n; ++i) error += std::min(kCap, std::abs(log_ratio(i) - (i < at ? before : after))) / static_cast<double>(n);
    if (best && best->error <= error) continue;
    best = Hypothesis{"choice_switch", fmt::format("from {} bytes on NCCL or its tuner takes another algorithm or protocol, {:.0f}x slower here (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING names it; a ring under Simple is usual)",
                                                   points[at].bytes, std::exp(after - before)), {}, error, 0};
  }
  return best;
}

void mark_stalls(std::vector<ComparedRow>& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = i + 1; j < rows.size(); ++j) {
      if (rows[j].bytes >= 2 * rows[i].bytes && 2 * rows[j].measured_us <= rows[i].measured_us && rows[i].health != Health::kHealthy) rows[i].stalled = true;
    }
  }
}

std::vector<HealthRange> ranges_of(const std::vector<ComparedRow>& rows) {
  std::vector<HealthRange> out;
  double logs = 0, count = 0;
  for (const ComparedRow& row : rows) {
    if (out.empty() || out.back().health != row.health || out.back().stalled != row.stalled) {
      out.push_back({row.bytes, row.bytes, row.health, 1, row.stalled});
      logs = count = 0;
    }
    logs += std::log(row.ratio());
    ++count;
    out.back().last = row.bytes;
    out.back().ratio = std::exp(logs / count);
  }
  return out;
}

bool is_sick(const std::vector<ComparedRow>& rows) {
  const std::size_t n = rows.size();
  const auto sick = [&](std::size_t i) {
    if (i == 0 || i + 1 >= n) return rows[i].health == Health::kSick;
    std::array<double, 3> near = {rows[i - 1].ratio(), rows[i].ratio(), rows[i + 1].ratio()};
    std::sort(near.begin(), near.end());
    return judge(near[1], rows[i].bytes) == Health::kSick;
  };
  if (n == 1) return sick(0);
  for (std::size_t i = 0; i + 1 < n; ++i) {
    if (sick(i) && sick(i + 1)) return true;
  }
  return false;
}

}  // namespace

std::string_view to_string(Health h) { return h == Health::kHealthy ? "healthy" : h == Health::kDoubtful ? "doubtful" : "sick"; }

Result<Comparison> compare(simulate::CollectiveQuery query, std::span<const MeasuredPoint> points, const Variant& variant) {
  ORRERY_ASSERT(!points.empty(), "a comparison needs a measurement");
  query.bytes.clear();
  for (const MeasuredPoint& p : points) query.bytes.push_back(p.bytes);
  const auto described = variant({});
  if (!described) return fail(described.error());
  const auto healthy = simulate::collectives(*described, query);
  if (!healthy) return fail(healthy.error());

  Comparison out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    ComparedRow row{points[i].bytes, points[i].time_us, (*healthy)[i]};
    row.health = judge(row.ratio(), row.bytes);
    out.rows.push_back(std::move(row));
  }
  mark_stalls(out.rows);
  out.ranges = ranges_of(out.rows);
  out.sick = is_sick(out.rows);
  if (!out.sick) return out;

  for (Hypothesis& h : hypotheses(described->value, query.ranks)) {
    if (h.change.empty()) {
      h.error = error_of(points, *healthy);
    } else {
      const auto changed = variant(h.change);
      if (!changed) continue;
      const auto rows = simulate::collectives(*changed, query);
      if (!rows || !differs(*rows, *healthy)) continue;
      h.error = error_of(points, *rows);
    }
    out.hypotheses.push_back(std::move(h));
  }
  if (auto jump = switched(points, *healthy)) out.hypotheses.push_back(std::move(*jump));
  std::stable_sort(out.hypotheses.begin(), out.hypotheses.end(), [](const Hypothesis& a, const Hypothesis& b) { return a.error < b.error; });
  const double counted = std::min(kIndependent, static_cast<double>(points.size())), least = out.hypotheses.front().error;
  const auto weight = [&](double error) { return std::exp(-counted * (error - least) / kScatter); };
  double sum = out.unexplained = weight(kUnexplained);
  for (Hypothesis& h : out.hypotheses) sum += h.likelihood = weight(h.error);
  for (Hypothesis& h : out.hypotheses) h.likelihood /= sum;
  out.unexplained /= sum;
  return out;
}

}  // namespace orrery::search
