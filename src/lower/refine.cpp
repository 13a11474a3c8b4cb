// Colour refinement by differences.
//
// The textbook repeats: the new colour of a vertex is its old colour together with the multiset of (edge colour, neighbour's colour) over
// its edges, until no class splits. Written as a hash, the multiset is a sum, s(v) = sum over edges of h(edge) * c(colour of the
// neighbour), in 2 x 64 bits with fixed random-looking h and c: a bilinear form that two different multisets share with a chance of
// about 2^-128 times a small power of two.
//
// A sum changes by what changes. So a round does not add up every edge again: each vertex whose colour is not the one it last sent adds
// h * (c(new) - c(sent)) to its neighbours, and a class splits by the differences its members received. One part of a class may keep the
// old colour and then nothing is sent for its members: those who received nothing, or else the largest part (Hopcroft, "An n log n
// algorithm for minimizing states in a finite automaton", 1971).
//
// Kinds take turns. A turn sends what is new in one kind, and its neighbours split before theirs comes; so where ranks tell groups apart
// and groups resources, each edge is walked once in each direction, and later turns touch only what an asymmetry reaches. Invariant: the
// members of a class have received equal sums, whatever has been sent. When nothing is left to send, that is equitability.
//
// The coarsest equitable partition is unique, so neither the choice of the part that keeps its colour nor the order of vertices can
// show in the outcome. Where to read on: Berkholz, Bonsma, Grohe, "Tight lower and upper bounds for the complexity of canonical colour
// refinement", arXiv:1509.08251.
#include "lower/refine.hpp"

#include <limits>
#include <utility>

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

/// One run of the refinement: colours, what was sent, and what was received since the last split.
class Refinement {
 public:
  Refinement(std::vector<std::uint32_t> colours, const std::vector<std::uint32_t>& first_of_kind)
      : colours_(std::move(colours)),
        class_size_(renumber(colours_), 0),
        sent_(colours_.size(), kUnset),
        is_pending_(colours_.size(), 1),
        received_(colours_.size()),
        is_touched_(colours_.size(), 0),
        kind_of_(colours_.size()),
        pending_(first_of_kind.size() - 1) {
    for (const std::uint32_t c : colours_) ++class_size_[c];
    moved_.resize(class_size_.size(), 0);
    largest_.resize(class_size_.size(), kUnset);
    for (std::uint8_t k = 0; k + std::size_t{1} < first_of_kind.size(); ++k) {
      for (std::uint32_t v = first_of_kind[k]; v < first_of_kind[k + 1]; ++v) {
        kind_of_[v] = k;
        pending_[k].push_back(v);
      }
    }
  }

  std::vector<std::uint32_t> run(const std::vector<std::size_t>& first_arc, const std::vector<Arc>& arcs) {
    for (std::size_t quiet = 0, kind = 0; quiet < pending_.size(); kind = (kind + 1) % pending_.size()) {
      quiet = pending_[kind].empty() ? quiet + 1 : 0;
      send(pending_[kind], first_arc, arcs);
      split();
    }
    renumber(colours_);
    return std::move(colours_);
  }

 private:
  void send(std::vector<std::uint32_t>& pending, const std::vector<std::size_t>& first_arc, const std::vector<Arc>& arcs) {
    for (const std::uint32_t v : pending) {
      is_pending_[v] = 0;
      Sum difference = hash_of(colours_[v]);
      if (sent_[v] != kUnset) {
        const Sum before = hash_of(sent_[v]);
        difference = {difference.low - before.low, difference.high - before.high};
      }
      sent_[v] = colours_[v];
      for (std::size_t i = first_arc[v]; i < first_arc[v + 1]; ++i) {
        const auto [to, label] = arcs[i];
        received_[to].low += label * difference.low;
        received_[to].high += (label ^ kSecondHalf) * difference.high;
        if (is_touched_[to] == 0) {
          is_touched_[to] = 1;
          touched_.push_back(to);
        }
      }
    }
    pending.clear();
  }

  /// Splits classes by what their members received.
  void split() {
    std::vector<Part>& parts = parts_.parts();
    parts_.reset(touched_.size());
    part_of_.clear();
    for (const std::uint32_t v : touched_) {
      const std::uint32_t part = received_[v] == Sum{} ? kUnset : parts_.find_or_add(colours_[v], received_[v]);
      part_of_.push_back(part);
      if (part == kUnset) continue;
      ++parts[part].count;
      ++moved_[colours_[v]];
    }
    for (std::uint32_t p = 0; p < parts.size(); ++p) {
      std::uint32_t& best = largest_[parts[p].colour];
      if (best == kUnset || parts[best].count < parts[p].count) best = p;
    }
    for (std::uint32_t p = 0; p < parts.size(); ++p) {
      Part& part = parts[p];
      if (moved_[part.colour] == class_size_[part.colour] && largest_[part.colour] == p) continue;  // keeps its colour
      part.new_colour = static_cast<std::uint32_t>(class_size_.size());
      class_size_.push_back(part.count);
    }
    for (const Part& part : parts) {
      moved_[part.colour] = 0;
      largest_[part.colour] = kUnset;
      if (part.new_colour != kUnset) class_size_[part.colour] -= part.count;
    }
    moved_.resize(class_size_.size(), 0);
    largest_.resize(class_size_.size(), kUnset);
    for (std::size_t i = 0; i < touched_.size(); ++i) {
      const std::uint32_t v = touched_[i];
      is_touched_[v] = 0;
      received_[v] = {};
      if (part_of_[i] == kUnset || parts[part_of_[i]].new_colour == kUnset) continue;
      colours_[v] = parts[part_of_[i]].new_colour;
      if (is_pending_[v] != 0) continue;
      is_pending_[v] = 1;
      pending_[kind_of_[v]].push_back(v);
    }
    touched_.clear();
  }

  std::vector<std::uint32_t> colours_;
  std::vector<std::uint32_t> class_size_;           // by colour
  std::vector<std::uint32_t> moved_, largest_;      // by colour, while splitting: members that received something, the largest part
  std::vector<std::uint32_t> sent_;                 // the colour that neighbours have been told
  std::vector<std::uint8_t> is_pending_;            // has something to tell
  std::vector<Sum> received_;                       // since the last split
  std::vector<std::uint8_t> is_touched_;
  std::vector<std::uint8_t> kind_of_;
  std::vector<std::vector<std::uint32_t>> pending_; // by kind
  std::vector<std::uint32_t> touched_, part_of_;
  Parts parts_;
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

ColouredGraph::ColouredGraph(std::vector<std::uint32_t> kinds) : first_of_kind_{0} {
  for (const std::uint32_t vertices : kinds) first_of_kind_.push_back(first_of_kind_.back() + vertices);
  colour.assign(first_of_kind_.back(), 0);
}

std::vector<std::uint32_t> ColouredGraph::refine() const {
  const std::size_t vertices = colour.size();
  std::vector<std::size_t> first(vertices + 1, 0);
  for (const Edge& e : edges_) {
    ++first[e.a + 1];
    ++first[e.b + 1];
  }
  for (std::size_t v = 0; v < vertices; ++v) first[v + 1] += first[v];
  std::vector<Arc> arcs(first.back());
  std::vector<std::size_t> place(first.begin(), first.end() - 1);
  for (const Edge& e : edges_) {
    arcs[place[e.a]++] = {e.b, e.label};
    arcs[place[e.b]++] = {e.a, e.label};
  }
  return Refinement(colour, first_of_kind_).run(first, arcs);
}

}  // namespace orrery::lower
