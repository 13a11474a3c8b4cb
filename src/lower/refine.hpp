#pragma once
// Colour refinement: the coarsest equitable partition of a coloured graph.
#include <cstdint>
#include <vector>

namespace orrery::lower {

/// Bijective mix of 64 bits. Source: SplitMix64 finaliser (Steele, Lea, Flood, OOPSLA 2014).
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// An undirected graph with coloured vertices and edges; parallel edges count each. Vertices come in kinds, one after another:
/// refinement goes kind by kind, which saves rounds where edges join different kinds and one kind determines the next.
/// Vertices of different kinds have different colours from the start.
class ColouredGraph {
 public:
  struct Edge {
    std::uint32_t a, b;
    std::uint64_t label;
  };

  /// kinds: how many vertices each has.
  explicit ColouredGraph(std::vector<std::uint32_t> kinds);
  void reserve(std::size_t edges) { edges_.reserve(edges); }
  /// label: a good hash of the edge's colour. Returns the edge's number, ascending.
  std::size_t add(std::uint32_t a, std::uint32_t b, std::uint64_t label) {
    edges_.push_back({a, b, label});
    return edges_.size() - 1;
  }
  /// Another edge beside one that is there: the same as adding it, and cheaper.
  void add_parallel(std::size_t edge, std::uint64_t label) { edges_[edge].label += label; }
  [[nodiscard]] bool joins(std::size_t edge, std::uint32_t a, std::uint32_t b) const { return edges_[edge].a == a && edges_[edge].b == b; }

  std::vector<std::uint32_t> colour;  ///< initial colour of every vertex, dense from 0

  /// The coarsest partition that refines `colour` and in which any two vertices of one class have, for every class and edge colour,
  /// equally many edges of that colour into that class. Classes are numbered by their lowest vertex.
  /// Decided by 128-bit hashes: whoever needs certainty checks the outcome, which costs one pass.
  [[nodiscard]] std::vector<std::uint32_t> refine() const;

 private:
  std::vector<std::uint32_t> first_of_kind_;  // one more at the end
  std::vector<Edge> edges_;
};

/// Numbers classes by their lowest member. Returns the number of classes.
std::uint32_t renumber(std::vector<std::uint32_t>& colour);

}  // namespace orrery::lower
