// Which layers a stage holds.
#include <numeric>

#include "orrery/base/assert.hpp"
#include "orrery/plan/plan.hpp"

namespace orrery::plan {

std::vector<std::int64_t> split_layers(std::int64_t layers, std::int64_t chunks, bool account_for_embedding, bool account_for_loss,
                                       std::string_view uneven) {
  const std::int64_t places = layers + (account_for_embedding ? 1 : 0) + (account_for_loss ? 1 : 0);
  ORRERY_ASSERT(chunks >= 1 && chunks <= places, "every chunk gets a place, so the embedding and the head find one");
  const std::int64_t share = places / chunks, remainder = places % chunks;
  if (remainder != 0 && uneven == "refuse") return {};
  std::vector<std::int64_t> split(static_cast<std::size_t>(chunks), share);
  for (std::int64_t i = 0; i < remainder; ++i) ++split[static_cast<std::size_t>(uneven == "back" ? chunks - 1 - i : i)];
  if (account_for_embedding) --split.front();
  if (account_for_loss) --split.back();
  return split;
}

std::vector<std::int64_t> split_layers_by_cost(std::int64_t layers, std::int64_t stages, double layer_cost, double head_cost) {
  ORRERY_ASSERT(layers >= 1 && stages >= 1 && layer_cost > 0, "a model has layers and they cost something");
  const double total = static_cast<double>(layers) * layer_cost + head_cost;
  std::vector<std::int64_t> split(static_cast<std::size_t>(stages), 0);
  std::size_t stage = 0;
  for (std::int64_t layer = 1; layer <= layers; ++layer) {
    ++split[stage];
    const bool full = static_cast<double>(layer) * layer_cost > total * static_cast<double>(stage + 1) / static_cast<double>(stages);
    if (full && stage + 1 < split.size()) ++stage;
  }
  return split;
}

Chunk chunk_of(const Parallelism& p, std::int64_t stage, std::int64_t chunk) {
  ORRERY_ASSERT(stage >= 0 && stage < p.pp && chunk >= 0 && chunk < p.vp, "the chunk exists");
  const std::int64_t place = chunk * p.pp + stage;
  const auto at = static_cast<std::size_t>(place);
  const std::int64_t before = std::accumulate(p.layers_per_stage.begin(), p.layers_per_stage.begin() + place, std::int64_t{0});
  return {.embedding = place == 0, .head = place == p.pp * p.vp - 1, .layers = p.layers_per_stage[at], .first_layer = before};
}

std::int64_t microbatches(const Parallelism& p, const workload::Training& t) { return t.global_batch / (t.micro_batch * p.dp); }

}  // namespace orrery::plan
