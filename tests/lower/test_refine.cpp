#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "catch.h"
#include "lower/refine.hpp"

namespace orrery::lower {
namespace {

struct TestEdge {
  std::uint32_t a, b;
  std::uint64_t label;
};

/// The textbook, with real multisets instead of hashes.
std::vector<std::uint32_t> refine_by_multisets(std::vector<std::uint32_t> colour, const std::vector<TestEdge>& edges) {
  std::uint32_t classes = renumber(colour);
  for (;;) {
    std::vector<std::vector<std::pair<std::uint64_t, std::uint32_t>>> seen(colour.size());
    for (const TestEdge& e : edges) {
      seen[e.a].emplace_back(e.label, colour[e.b]);
      seen[e.b].emplace_back(e.label, colour[e.a]);
    }
    std::map<std::pair<std::uint32_t, std::vector<std::pair<std::uint64_t, std::uint32_t>>>, std::uint32_t> numbers;
    std::vector<std::uint32_t> next;
    for (std::size_t v = 0; v < colour.size(); ++v) {
      std::sort(seen[v].begin(), seen[v].end());
      next.push_back(numbers.try_emplace({colour[v], seen[v]}, static_cast<std::uint32_t>(numbers.size())).first->second);
    }
    colour = next;
    const std::uint32_t now = renumber(colour);
    if (now == classes) return colour;
    classes = now;
  }
}

/// In one kind, or in two of which the second begins at vertex `second`.
std::vector<std::uint32_t> refine(const std::vector<std::uint32_t>& colour, const std::vector<TestEdge>& edges, std::uint32_t second = 0) {
  ColouredGraph graph({second, static_cast<std::uint32_t>(colour.size()) - second});
  graph.colour = colour;
  for (const TestEdge& e : edges) graph.add(e.a, e.b, mix(e.label));
  return graph.refine();
}

TEST_CASE("refinement by differences gives the classes of the textbook's multisets") {
  REQUIRE(rc::check("random graphs", [] {
    const auto vertices = *rc::gen::inRange<std::uint32_t>(1, 24);
    auto colour = *rc::gen::container<std::vector<std::uint32_t>>(vertices, rc::gen::inRange<std::uint32_t>(0, 3));
    const auto vertex = rc::gen::inRange<std::uint32_t>(0, vertices);
    const auto edges = *rc::gen::container<std::vector<TestEdge>>(rc::gen::map(
        rc::gen::tuple(vertex, vertex, rc::gen::inRange<std::uint64_t>(0, 2)),
        [](const auto& t) { return TestEdge{std::get<0>(t), std::get<1>(t), std::get<2>(t)}; }));
    const auto second = *rc::gen::inRange<std::uint32_t>(0, vertices);
    for (std::uint32_t v = second; v < vertices; ++v) colour[v] += 3;
    RC_ASSERT(refine(colour, edges, second) == refine_by_multisets(colour, edges));
  }));
}

TEST_CASE("a cycle of equal vertices is one class and a path folds at its middle") {
  std::vector<TestEdge> path;
  for (std::uint32_t v = 0; v < 6; ++v) path.push_back({v, v + 1, 0});
  std::vector<TestEdge> cycle = path;
  cycle.push_back({6, 0, 0});
  const std::vector<std::uint32_t> equal(7, 0);
  CHECK(refine(equal, cycle) == std::vector<std::uint32_t>(7, 0));
  CHECK(refine(equal, path) == std::vector<std::uint32_t>{0, 1, 2, 3, 2, 1, 0});
}

TEST_CASE("parallel edges count each and edge colours tell neighbours apart") {
  CHECK(refine({0, 0, 1, 1}, {{0, 2, 7}, {0, 2, 7}, {1, 3, 7}}) == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(refine({0, 0, 1, 1}, {{0, 2, 7}, {1, 3, 8}}) == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(refine({0, 0, 1, 1}, {{0, 2, 7}, {1, 3, 7}}) == std::vector<std::uint32_t>{0, 0, 1, 1});
}

TEST_CASE("vertices without edges keep their colours, numbered by first occurrence") {
  CHECK(refine({4, 2, 4, 0}, {}) == std::vector<std::uint32_t>{0, 1, 0, 2});
}

}  // namespace
}  // namespace orrery::lower
