#include "speeds.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "orrery/base/random.hpp"

namespace orrery::simulate {

Result<std::vector<lower::RankSpeed>> read_speeds(const document::Value& events, std::int64_t ranks, std::uint64_t seed, const std::string& file) {
  std::map<std::int64_t, double> speed;
  Diagnostics problems;
  if (!events.is_array()) return std::vector<lower::RankSpeed>{};
  for (std::size_t i = 0; i < events.items().size(); ++i) {
    const document::Value& event = events.items()[i];
    const std::string& kind = event.at("kind").as_string();
    if (kind == "slow_gpu") {
      const std::int64_t rank = event.at("rank").as_int();
      if (rank < 0 || rank >= ranks) {
        problems.push_back({file, fmt::format("/events/{}/rank", i), fmt::format("there is no rank {}; the job has ranks 0 to {}", rank, ranks - 1)});
        continue;
      }
      const auto [at, added] = speed.emplace(rank, 1.0);
      at->second *= event.at("speed").as_double();
    } else if (kind == "speed_spread") {
      const double cv = event.at("cv").as_double();
      for (std::int64_t r = 0; r < ranks; ++r) {
        // Truncated at three deviations: chips outside that are sorted out (modelling 10.1).
        const double z = std::clamp(random_normal(seed, "speed_spread", static_cast<std::uint64_t>(r)), -3.0, 3.0);
        const auto [at, added] = speed.emplace(r, 1.0);
        at->second *= std::max(0.05, std::round((1 + cv * z) * 1000) / 1000);
      }
    }
  }
  if (!problems.empty()) return fail(std::move(problems));
  std::vector<lower::RankSpeed> out;
  for (const auto& [rank, s] : speed) {
    if (s != 1.0) out.push_back({rank, s});
  }
  return out;
}

}  // namespace orrery::simulate
