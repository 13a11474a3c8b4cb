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
// In the first turn of a kind all of its vertices send, over all of their edges: a walk down the list of edges does that, where later
// turns look edges up by vertex. A symmetric job is over after the first turns, and that table is never made.
//
// The coarsest equitable partition is unique, so neither the choice of the part that keeps its colour nor the order of vertices can
// show in the outcome. Where to read on: Berkholz, Bonsma, Grohe, "Tight lower and upper bounds for the complexity of canonical colour
// refinement", arXiv:1509.08251.
#include "lower/refine.hpp"

#include <algorithm>
#include <limits>
#include <span>
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

/// Edges by vertex, each from both of its ends.
class Arcs {
 public:
  Arcs(std::size_t vertices, const std::vector<ColouredGraph::Edge>& edges) : first_(vertices + 1, 0) {
    for (const ColouredGraph::Edge& e : edges) {
      ++first_[e.a + 1];
      ++first_[e.b + 1];
    }
    for (std::size_t v = 0; v < vertices; ++v) first_[v + 1] += first_[v];
    arcs_.resize(first_.back());
    std::vector<std::size_t> place(first_.begin(), first_.end() - 1);
    for (const ColouredGraph::Edge& e : edges) {
      arcs_[place[e.a]++] = {e.b, e.label};
      arcs_[place[e.b]++] = {e.a, e.label};
    }
  }
  [[nodiscard]] std::span<const Arc> of(std::uint32_t v) const { return std::span(arcs_).subspan(first_[v], first_[v + 1] - first_[v]); }

 private:
  std::vector<std::size_t> first_;  // by vertex, one more at the end
  std::vector<Arc> arcs_;
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
        first_of_kind_(first_of_kind),
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

  std::vector<std::uint32_t> run(const std::vector<ColouredGraph::Edge>& edges) {
    for (std::uint8_t kind = 0; kind < pending_.size(); ++kind) {
      send_all(kind, edges);
      split();
    }
    const auto nothing_left = [&] { return std::all_of(pending_.begin(), pending_.end(), [](const auto& list) { return list.empty(); }); };
    if (!nothing_left()) {
      const Arcs arcs(colours_.size(), edges);
      for (std::size_t kind = 0; !nothing_left(); kind = (kind + 1) % pending_.size()) {
        send(pending_[kind], arcs);
        split();
      }
    }
    renumber(colours_);
    return std::move(colours_);
  }

 private:
  void receive(std::uint32_t v, std::uint64_t label, const Sum& difference) {
    received_[v].low += label * difference.low;
    received_[v].high += (label ^ kSecondHalf) * difference.high;
    if (is_touched_[v] != 0) return;
    is_touched_[v] = 1;
    touched_.push_back(v);
  }

  /// The first turn of a kind: nothing was sent before, and all vertices have something to say.
  void send_all(std::uint8_t kind, const std::vector<ColouredGraph::Edge>& edges) {
    std::vector<Sum> hash(class_size_.size());
    for (std::uint32_t c = 0; c < hash.size(); ++c) hash[c] = hash_of(c);
    for (const std::uint32_t v : pending_[kind]) {
      is_pending_[v] = 0;
      sent_[v] = colours_[v];
    }
    pending_[kind].clear();
    const std::uint32_t first = first_of_kind_[kind], count = first_of_kind_[kind + std::size_t{1}] - first;
    for (const ColouredGraph::Edge& e : edges) {
      if (e.a - first < count) receive(e.b, e.label, hash[colours_[e.a]]);
      if (e.b - first < count) receive(e.a, e.label, hash[colours_[e.b]]);
    }
  }

  void send(std::vector<std::uint32_t>& pending, const Arcs& arcs) {
    for (const std::uint32_t v : pending) {
      is_pending_[v] = 0;
      const Sum now = hash_of(colours_[v]), before = hash_of(sent_[v]);
      const Sum difference{now.low - before.low, now.high - before.high};
      sent_[v] = colours_[v];
      for (const auto& [to, label] : arcs.of(v)) receive(to, label, difference);
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
  const std::vector<std::uint32_t>& first_of_kind_; // one more at the end
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

std::vector<std::uint32_t> ColouredGraph::refine() const { return Refinement(colour, first_of_kind_).run(edges_); }

}  // namespace orrery::lower
