// Colour refinement by differences.
//
// The textbook repeats: the new colour of a vertex is its old colour together with the multiset of (edge colour, neighbour's colour) over
// its edges, until no class splits. Written as a hash, the multiset is a sum, s(v) = sum over edges of h(edge) * c(colour of the
// neighbour), in 2 x 64 bits with fixed random-looking h and c: a bilinear form that two different multisets share with a chance of
// about 2^-128 times a small power of two.
//
// A sum changes by what changes. So a round does not add up every edge again: each vertex v that changed colour in the round before adds
// h * (c(new) - c(old)) to its neighbours, and a class splits by the differences its members received. One part of a class may keep the
// old colour and then nothing is sent for its members: those who received nothing, or else the largest part (Hopcroft, "An n log n
// algorithm for minimizing states in a finite automaton", 1971). The first round, in which everybody is new, costs one pass over the
// edges; on the nearly symmetric inputs of a cluster the later ones touch only what an asymmetry reaches.
//
// The coarsest equitable partition is unique, so neither the choice of the part that keeps its colour nor the order of vertices can
// show in the outcome. Where to read on: Berkholz, Bonsma, Grohe, "Tight lower and upper bounds for the complexity of canonical colour
// refinement", arXiv:1509.08251.
#include "lower/refine.hpp"

#include <limits>

namespace orrery::lower {
namespace {

constexpr std::uint32_t kUnset = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kSecondHalf = 0xd6e8feb86659fd93ULL;  // turns h into the h of the second 64 bits

struct Sum {
  std::uint64_t low = 0, high = 0;
  bool operator==(const Sum&) const = default;
};
Sum hash_of(std::uint32_t colour) { return {mix(2 * std::uint64_t{colour}), mix(2 * std::uint64_t{colour} + 1)}; }

/// Members of one class that received the same difference.
struct Part {
  std::uint32_t colour = 0;
  Sum received;
  std::uint32_t count = 0;
  std::uint32_t new_colour = kUnset;
};

/// Finds the part of (colour, difference), by open addressing over indices into parts().
class Parts {
 public:
  void reset(std::size_t most) {
    std::size_t size = 16;
    while (size < 2 * most) size *= 2;
    slots_.assign(size, kUnset);
    parts_.clear();
  }
  std::uint32_t find_or_add(std::uint32_t colour, Sum received) {
    std::size_t at = (received.low ^ (received.high << 1) ^ (std::uint64_t{colour} * 0x9e3779b97f4a7c15ULL)) >> 7;
    for (;; ++at) {
      at &= slots_.size() - 1;
      if (slots_[at] == kUnset) {
        slots_[at] = static_cast<std::uint32_t>(parts_.size());
        parts_.push_back({colour, received, 0, kUnset});
        return slots_[at];
      }
      const Part& part = parts_[slots_[at]];
      if (part.colour == colour && part.received == received) return slots_[at];
    }
  }
  std::vector<Part>& parts() { return parts_; }

 private:
  std::vector<std::uint32_t> slots_;
  std::vector<Part> parts_;
};

struct Arc {
  std::uint32_t to;
  std::uint64_t label;
};

}  // namespace

std::uint32_t renumber(std::vector<std::uint32_t>& colour) {
  std::vector<std::uint32_t> number;
  std::uint32_t classes = 0;
  for (std::uint32_t& c : colour) {
    if (c >= number.size()) number.resize(std::size_t{c} + 1, kUnset);
    if (number[c] == kUnset) number[c] = classes++;
    c = number[c];
  }
  return classes;
}

std::vector<std::uint32_t> ColouredGraph::refine() const {
  const auto vertices = static_cast<std::uint32_t>(colour.size());
  std::vector<std::size_t> first(std::size_t{vertices} + 1, 0);
  for (const Edge& e : edges_) {
    ++first[e.a + 1];
    ++first[e.b + 1];
  }
  for (std::uint32_t v = 0; v < vertices; ++v) first[v + 1] += first[v];
  std::vector<Arc> arcs(first.back());
  {
    std::vector<std::size_t> place(first.begin(), first.end() - 1);
    for (const Edge& e : edges_) {
      arcs[place[e.a]++] = {e.b, e.label};
      arcs[place[e.b]++] = {e.a, e.label};
    }
  }

  std::vector<std::uint32_t> colours = colour;
  std::vector<std::uint32_t> class_size(renumber(colours), 0);
  for (const std::uint32_t c : colours) ++class_size[c];

  struct Change {
    std::uint32_t vertex;
    Sum difference;  // of the hash of its colour
  };
  std::vector<Change> changed(vertices);
  for (std::uint32_t v = 0; v < vertices; ++v) changed[v] = {v, hash_of(colours[v])};

  std::vector<Sum> received(vertices);
  std::vector<std::uint8_t> is_touched(vertices, 0);
  std::vector<std::uint32_t> touched, part_of;
  std::vector<std::uint32_t> moved(class_size.size(), 0);         // by colour: members that received something
  std::vector<std::uint32_t> largest(class_size.size(), kUnset);  // by colour: its largest part
  Parts parts;

  while (!changed.empty()) {
    for (const Change& change : changed) {
      for (std::size_t i = first[change.vertex]; i < first[change.vertex + 1]; ++i) {
        const auto [to, label] = arcs[i];
        received[to].low += label * change.difference.low;
        received[to].high += (label ^ kSecondHalf) * change.difference.high;
        if (is_touched[to] == 0) {
          is_touched[to] = 1;
          touched.push_back(to);
        }
      }
    }
    parts.reset(touched.size());
    part_of.clear();
    for (const std::uint32_t v : touched) {
      const std::uint32_t part = received[v] == Sum{} ? kUnset : parts.find_or_add(colours[v], received[v]);
      part_of.push_back(part);
      if (part == kUnset) continue;
      ++parts.parts()[part].count;
      ++moved[colours[v]];
    }
    for (std::uint32_t p = 0; p < parts.parts().size(); ++p) {
      const Part& part = parts.parts()[p];
      std::uint32_t& best = largest[part.colour];
      if (best == kUnset || parts.parts()[best].count < part.count) best = p;
    }
    for (std::uint32_t p = 0; p < parts.parts().size(); ++p) {
      Part& part = parts.parts()[p];
      if (moved[part.colour] == class_size[part.colour] && largest[part.colour] == p) continue;  // keeps its colour
      part.new_colour = static_cast<std::uint32_t>(class_size.size());
      class_size.push_back(part.count);
    }
    for (const Part& part : parts.parts()) {
      moved[part.colour] = 0;
      largest[part.colour] = kUnset;
      if (part.new_colour != kUnset) class_size[part.colour] -= part.count;
    }
    moved.resize(class_size.size(), 0);
    largest.resize(class_size.size(), kUnset);

    changed.clear();
    for (std::size_t i = 0; i < touched.size(); ++i) {
      const std::uint32_t v = touched[i];
      is_touched[v] = 0;
      received[v] = {};
      if (part_of[i] == kUnset || parts.parts()[part_of[i]].new_colour == kUnset) continue;
      const Sum before = hash_of(colours[v]);
      colours[v] = parts.parts()[part_of[i]].new_colour;
      const Sum after = hash_of(colours[v]);
      changed.push_back({v, {after.low - before.low, after.high - before.high}});
    }
    touched.clear();
  }
  renumber(colours);
  return colours;
}

}  // namespace orrery::lower
