#include <algorithm>
#include <numeric>
#include <rapidcheck.h>
#include <set>

#include "catch.h"
#include "orrery/plan/plan.hpp"

using namespace orrery;
using namespace orrery::plan;

namespace {
constexpr std::array<GridAxis, 5> kDefaultOrder = {GridAxis::kTp, GridAxis::kCp, GridAxis::kEp, GridAxis::kDp, GridAxis::kPp};

Parallelism sizes(std::int64_t tp, std::int64_t cp, std::int64_t dp, std::int64_t pp) {
  Parallelism p;
  p.tp = tp;
  p.cp = cp;
  p.dp = dp;
  p.pp = pp;
  return p;
}
Parallelism any_grid() {
  const auto size = [] { return *rc::gen::inRange<std::int64_t>(1, 9); };
  Parallelism p = sizes(size(), size(), size(), size());
  for (std::size_t i = p.order.size() - 1; i > 0; --i) std::swap(p.order[i], p.order[*rc::gen::inRange<std::size_t>(0, i + 1)]);
  return p;
}
}  // namespace

TEST_CASE("in the default order tensor-parallel neighbours are neighbours and stages are farthest apart") {
  const Grid grid(sizes(8, 1, 128, 16));
  CHECK(grid.ranks() == 16384);
  CHECK(grid.coordinates(0) == Coordinates{});
  CHECK(grid.coordinates(7) == Coordinates{.tp = 7});
  CHECK(grid.coordinates(8) == Coordinates{.dp = 1});
  CHECK(grid.coordinates(1024) == Coordinates{.pp = 1});
  CHECK(grid.coordinates(16383) == Coordinates{.tp = 7, .dp = 127, .pp = 15});
}

TEST_CASE("the place of ep in the order moves no rank") {
  Parallelism p = sizes(2, 3, 4, 5);
  const Grid standard(p);
  for (std::size_t place = 0; place < 5; ++place) {
    std::vector<GridAxis> axes = {GridAxis::kTp, GridAxis::kCp, GridAxis::kDp, GridAxis::kPp};
    axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(place), GridAxis::kEp);
    std::copy(axes.begin(), axes.end(), p.order.begin());
    const Grid moved(p);
    for (std::int64_t r = 0; r < standard.ranks(); ++r) REQUIRE(moved.coordinates(r) == standard.coordinates(r));
  }
}

TEST_CASE("experts stand on a second grid of the same ranks: ep neighbours are etp ranks apart, and both grids agree on the stage") {
  Parallelism p = sizes(2, 1, 8, 3);
  p.ep = 4;
  p.etp = 1;
  CHECK(p.expert_dp() == 4);
  const Grid grid(p);
  CHECK(grid.expert_coordinates(0) == ExpertCoordinates{});
  CHECK(grid.expert_coordinates(1) == ExpertCoordinates{.ep = 1});
  CHECK(grid.expert_coordinates(4) == ExpertCoordinates{.expert_dp = 1});
  CHECK(grid.expert_coordinates(16) == ExpertCoordinates{.pp = 1});
  p.etp = 2;
  const Grid split(p);
  CHECK(split.expert_coordinates(2) == ExpertCoordinates{.ep = 1});
  for (std::int64_t r = 0; r < split.ranks(); ++r) {
    REQUIRE(split.rank(split.expert_coordinates(r)) == r);
    REQUIRE(split.expert_coordinates(r).pp == split.coordinates(r).pp);
  }
}

TEST_CASE("rank and coordinates are inverse on every grid and in every order, and the first axis varies fastest") {
  CHECK(rc::check([] {
    const Parallelism p = any_grid();
    const Grid grid(p);
    RC_ASSERT(grid.ranks() == p.tp * p.cp * p.dp * p.pp);
    for (std::int64_t r = 0; r < grid.ranks(); ++r) {
      const Coordinates c = grid.coordinates(r);
      RC_ASSERT((c.tp >= 0 && c.tp < p.tp && c.cp >= 0 && c.cp < p.cp && c.dp >= 0 && c.dp < p.dp && c.pp >= 0 && c.pp < p.pp));
      RC_ASSERT(grid.rank(c) == r);
    }
    const GridAxis first = p.order[0] == GridAxis::kEp ? p.order[1] : p.order[0];
    const Coordinates one = grid.coordinates(std::min<std::int64_t>(1, grid.ranks() - 1));
    const std::int64_t extent = first == GridAxis::kTp ? p.tp : first == GridAxis::kCp ? p.cp : first == GridAxis::kDp ? p.dp : p.pp;
    const std::int64_t moved = first == GridAxis::kTp ? one.tp : first == GridAxis::kCp ? one.cp : first == GridAxis::kDp ? one.dp : one.pp;
    if (extent > 1) RC_ASSERT(moved == 1);
  }));
}

TEST_CASE("another order relabels the same ranks: groups along an axis keep their size and their partners' coordinates") {
  CHECK(rc::check([] {
    Parallelism p = any_grid();
    const Grid shuffled(p);
    p.order = kDefaultOrder;
    const Grid standard(p);
    std::set<std::int64_t> image;
    for (std::int64_t r = 0; r < standard.ranks(); ++r) image.insert(shuffled.rank(standard.coordinates(r)));
    RC_ASSERT(image.size() == static_cast<std::size_t>(standard.ranks()));
    RC_ASSERT(*image.begin() == 0);
    RC_ASSERT(*image.rbegin() == standard.ranks() - 1);
  }));
}

TEST_CASE("layers split evenly, with places for embedding and head where they count") {
  CHECK(split_layers(96, 8, false, false, "refuse") == std::vector<std::int64_t>(8, 12));
  CHECK(split_layers(96, 7, false, false, "refuse").empty());
  CHECK(split_layers(7, 3, false, false, "front") == std::vector<std::int64_t>{3, 2, 2});
  CHECK(split_layers(7, 3, false, false, "back") == std::vector<std::int64_t>{2, 2, 3});
  CHECK(split_layers(8, 3, false, false, "back") == std::vector<std::int64_t>{2, 3, 3});
  // Llama-3 405B: 126 = 16 x 8 - 2, so with 128 chunks the first and the last hold no layer beside embedding and head.
  const auto llama = split_layers(126, 128, true, true, "refuse");
  REQUIRE(llama.size() == 128);
  CHECK(llama.front() == 0);
  CHECK(llama.back() == 0);
  CHECK(std::count(llama.begin(), llama.end(), 1) == 126);
  CHECK(split_layers(126, 16, true, true, "refuse") == std::vector<std::int64_t>{7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7});
  CHECK(split_layers(10, 1, true, true, "refuse") == std::vector<std::int64_t>{10});
}

TEST_CASE("every split holds every layer and is even to one place") {
  CHECK(rc::check([] {
    const std::int64_t layers = *rc::gen::inRange<std::int64_t>(1, 200);
    const bool embedding = *rc::gen::arbitrary<bool>(), head = *rc::gen::arbitrary<bool>();
    const std::int64_t places = layers + (embedding ? 1 : 0) + (head ? 1 : 0);
    const std::int64_t chunks = *rc::gen::inRange<std::int64_t>(1, places + 1);
    for (const char* uneven : {"front", "back"}) {
      auto split = split_layers(layers, chunks, embedding, head, uneven);
      std::int64_t sum = 0;
      for (std::int64_t n : split) {
        RC_ASSERT(n >= 0);
        sum += n;
      }
      RC_ASSERT(sum == layers);
      if (embedding) ++split.front();
      if (head) ++split.back();
      const auto [least, most] = std::minmax_element(split.begin(), split.end());
      RC_ASSERT(*most - *least <= 1);
      RC_ASSERT(std::is_sorted(split.begin(), split.end(), [&](auto a, auto b) { return uneven[0] == 'f' ? a > b : a < b; }));
    }
  }));
}

TEST_CASE("chunk c of stage s is entry c*pp + s; the first holds the embedding, the last the head") {
  Parallelism p;
  p.pp = 2;
  p.vp = 2;
  p.layers_per_stage = {1, 2, 3, 4};
  CHECK(chunk_of(p, 0, 0).embedding);
  CHECK_FALSE(chunk_of(p, 1, 0).embedding);
  CHECK_FALSE(chunk_of(p, 0, 1).embedding);
  CHECK(chunk_of(p, 1, 1).head);
  CHECK_FALSE(chunk_of(p, 0, 1).head);
  CHECK(chunk_of(p, 1, 0).layers == 2);
  CHECK(chunk_of(p, 0, 1).layers == 3);
}

TEST_CASE("stages of equal cost hold what nanotron's published runs say their first stage holds") {
  // 28 layers of hidden 3072, ffn 8192, 32 heads of 96 and a head over 131072 words, which costs as much as 3.6 layers. The runs print 2.21 G,
  // 1.31 G and 856 M parameters on a first stage of 2, 4 and 8: 16, 8 and 4 layers of 113.2 M beside an embedding of 403 M.
  const double h = 3072, layer = h * (4 * 32 * 96.0 + 3 * 8192), head = h * 131072;
  const auto split = [&](std::int64_t stages) { return split_layers_by_cost(28, stages, layer, head); };
  CHECK(split(1) == std::vector<std::int64_t>{28});
  CHECK(split(2) == std::vector<std::int64_t>{16, 12});
  CHECK(split(4) == std::vector<std::int64_t>{8, 8, 8, 4});
  CHECK(split(8) == std::vector<std::int64_t>{4, 4, 4, 4, 4, 4, 4, 0});
}

TEST_CASE("stages of equal cost hold all layers, and none more than its share and one") {
  CHECK(rc::check("by cost", [] {
    const std::int64_t layers = *rc::gen::inRange(1, 130), stages = *rc::gen::inRange(1, 20);
    const double head = *rc::gen::inRange(0, 200) / 10.0;
    const auto split = split_layers_by_cost(layers, stages, 1, head);
    RC_ASSERT(std::accumulate(split.begin(), split.end(), std::int64_t{0}) == layers);
    const double share = (static_cast<double>(layers) + head) / static_cast<double>(stages);
    for (std::size_t i = 0; i + 1 < split.size(); ++i) RC_ASSERT(static_cast<double>(split[i]) <= share + 1);
  }));
}
