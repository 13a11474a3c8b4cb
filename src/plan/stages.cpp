// Which layers a stage holds.

#include <algorithm>

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
  if (remainder != 0 && uneven == "full") {
    const std::int64_t last = places - (share + 1) * (chunks - 1);
    if (last < 0) return {};
    std::fill(split.begin(), split.end(), share + 1);
    split.back() = last;
  }
  for (std::int64_t i = 0; i < remainder && uneven != "full"; ++i) ++split[static_cast<std::size_t>(uneven == "back" ? chunks - 1 - i : i)];
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

std::string_view to_string(Placement p) {
  constexpr std::array<std::string_view, 3> names = {"looped", "v", "two_way"};
  return names[static_cast<std::size_t>(p)];
}

std::int64_t chunks_per_rank(const Parallelism& p) { return p.placement == Placement::kTwoWay ? 2 : p.vp; }

std::int64_t places(const Parallelism& p) { return p.placement == Placement::kTwoWay ? p.pp : p.pp * p.vp; }

bool upward(Placement placement, std::int64_t chunk) { return placement != Placement::kLooped && chunk == 1; }

std::int64_t place_of(const Parallelism& p, std::int64_t stage, std::int64_t chunk) {
  ORRERY_ASSERT(stage >= 0 && stage < p.pp && chunk >= 0 && chunk < chunks_per_rank(p), "the chunk exists");
  if (!upward(p.placement, chunk)) return chunk * p.pp + stage;
  return places(p) - 1 - stage;
}

namespace {
/// Two-way: both chunks of a rank stand in the one list of stages.
std::int64_t layers_at(const Parallelism& p, std::int64_t place) {
  const std::int64_t entry = p.placement == Placement::kV && place >= p.pp ? p.pp + places(p) - 1 - place : place;
  return p.layers_per_stage[static_cast<std::size_t>(entry)];
}
}  // namespace

Chunk chunk_of(const Parallelism& p, std::int64_t stage, std::int64_t chunk) {
  const std::int64_t place = place_of(p, stage, chunk);
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < place; ++i) before += layers_at(p, i);
  return {.embedding = place == 0, .head = place == places(p) - 1, .layers = layers_at(p, place), .first_layer = before};
}

std::int64_t microbatches(const Parallelism& p, const workload::Training& t) { return t.global_batch / (t.micro_batch * p.dp); }

}  // namespace orrery::plan
