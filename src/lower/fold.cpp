// Folding: one rank, one group and one resource stand for all that cannot be told apart.
//
// The graph. Vertices are ranks (coloured by program and variant), activities, that is groups and channels (by kind and first transfer),
// and resources that can bind (by capacity). Edges: rank to group, coloured by the slot; rank to channel, by slot and end; activity to
// resource, by usage set and weight. Colour refinement (refine.cpp) gives its coarsest equitable partition: any two members of a class
// have equally many edges of each colour into each class. The quotient has one vertex per class. Its usages are column sums: on a
// resource of class R, an activity of class A puts the weights of ALL members of A that cross one member of R, because one activity of
// the quotient stands for |A| that are in flight together. Counted by rows, that is (weights of one member of A on R) x |A| / |R|.
//
// Claim. The run of the quotient equals the full run to the bit: in the full run, members of one class are in equal states at every
// instant, and in the quotient the class is in that state.
//
// Proof, by induction over instants, and within one over the engine's phases (finish, free, record, wake, host, launch, start, solve).
//  1. A rank looks at its own host, streams and events, and at the k-th meeting of the group or channel in a slot. Members of a rank
//     class run one program on one variant, and the groups in their slot s are of one class. Two slots of a rank whose groups are
//     different but of one class would share one counter in the quotient; such classes are split until there is none (separate_slots).
//  2. A group starts its k-th when its last member launches its k-th. Its members' classes are the same for every group of the class, and
//     each class has one state, so all groups of the class start together, and so does the quotient's, whose members are the distinct
//     classes. A channel likewise has one class of senders and one of receivers. The two may be one class, as in a ring of equal ranks:
//     then the class meets itself, sends counted apart from receives, as every rank of the ring meets its neighbours. What is in flight
//     is therefore a set of whole classes, each with one transfer, and hence with one usage set, latency, cap and work.
//  3. Rates. Progressive filling keeps a residual per resource and the set of the unfrozen. Suppose that before a round residuals are
//     equal within resource classes and the unfrozen are whole classes. Every member of R carries the same sum of unfrozen weights of
//     every class (columns), so its quotient residual/sum is the same fraction of the same two integers, in the full run and in the
//     quotient. The level, the least of those and of the caps, is the same rational number. Who freezes: those whose cap is the level,
//     whole classes; and those that cross a resource exactly at the level: if one member of A crosses a member of R, all do (rows), and
//     R is at the level as a whole. They freeze at min(cap, floor(level)), one integer for both runs. Residuals fall by sums of
//     weight x rate, equal over R, and the quotient's weight x rate is that sum, taken with one rounded rate: nothing is rounded but
//     the rate, so the sums are equal and the supposition holds for the next round. Caps change none of this. Capacity lost to rounding
//     is lost in both. That only the connected component that changed is solved again matters to neither: the filling of a component
//     depends on nothing outside it.
//  4. Remaining work, finish times and mode changes are functions of one rank's or one activity's integers, equal by 1 to 3.
//
// What is counted. A rank's accounts and memory are its class's. Transfers count |A| for each activity that ends, segments |class|. A
// resource's load is the sum of weight x reference bytes over what crossed it, and its peak the highest sum of weight x rate, rounded
// after the sum: by column sums both are those of one member of the class, and of every member.
//
// Passive resources bind never (free_resources.cpp), so they decide no rate: they are left out of the graph, which would otherwise split
// whatever they tell apart, and classed afterwards by capacity and by the multiset of (activity class, usage set, weight) that crosses
// them. Their columns are equal within a class, which is all that load and peak need; rows may differ.
//
// Multisets are compared by hash while refining. The partition that comes out is verified here without hashes, so the equality does not
// rest on chance. Where to read on: design.md section 2; Grohe, Kersting, Mladenov, Selman, "Dimension reduction via colour refinement",
// arXiv:1307.5697, where the same quotient solves linear programmes.
#include "orrery/lower/fold.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <unordered_map>

#include "lower/incidence.hpp"
#include "lower/quotient.hpp"
#include "lower/refine.hpp"
#include "orrery/base/assert.hpp"

namespace orrery::lower {
namespace {

using engine::kNone;

/// Labels of edges: hashes of what tells one from another.
enum class Edge : std::uint64_t { kMember = 1, kSender = 2, kReceiver = 3 };
constexpr std::uint64_t slot_label(Edge edge, std::size_t slot) { return mix((slot << 2) | static_cast<std::uint64_t>(edge)); }
constexpr std::uint64_t usage_label(std::uint32_t set, std::int64_t weight) { return mix(mix(set) ^ static_cast<std::uint64_t>(weight)); }

/// Dense numbers for tuples, in order of first occurrence.
template <class Key>
class Numbering {
 public:
  std::uint32_t operator()(const Key& key) {
    if (numbers_.empty() || last_->first != key) last_ = numbers_.try_emplace(key, static_cast<std::uint32_t>(numbers_.size())).first;
    return last_->second;
  }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(numbers_.size()); }

 private:
  std::map<Key, std::uint32_t> numbers_;
  typename std::map<Key, std::uint32_t>::iterator last_;  // neighbours are mostly alike
};

/// Vertices are numbered ranks, activities, resources.
struct Vertices {
  explicit Vertices(const engine::Input& full)
      : ranks(static_cast<std::uint32_t>(full.ranks.size())),
        groups(static_cast<std::uint32_t>(full.groups.size())),
        channels(static_cast<std::uint32_t>(full.channels.size())),
        resources(static_cast<std::uint32_t>(full.resources.size())) {}
  std::uint32_t ranks, groups, channels, resources;
  [[nodiscard]] std::uint32_t activity(std::uint32_t a) const { return ranks + a; }
  [[nodiscard]] std::uint32_t channel(std::uint32_t c) const { return ranks + groups + c; }
  [[nodiscard]] std::uint32_t resource(std::uint32_t r) const { return ranks + groups + channels + r; }
  [[nodiscard]] std::uint32_t all() const { return ranks + groups + channels + resources; }
};

void colour_vertices(const engine::Input& full, const Vertices& at, std::vector<std::uint32_t>& colour) {
  Numbering<std::tuple<std::uint32_t, std::uint32_t>> ranks;
  Numbering<std::tuple<std::uint32_t, std::uint32_t, std::size_t>> groups;
  Numbering<std::tuple<std::uint32_t, std::uint32_t>> channels;
  Numbering<std::tuple<std::int64_t, bool>> resources;
  for (std::uint32_t r = 0; r < at.ranks; ++r) {
    ORRERY_ASSERT(full.ranks[r].multiplicity == 1, "a folded input cannot be folded again");
    colour[r] = ranks({full.ranks[r].program, full.ranks[r].variant});
  }
  std::uint32_t base = ranks.size();
  for (std::uint32_t g = 0; g < at.groups; ++g) {
    const engine::Group& group = full.groups[g];
    colour[at.activity(g)] = base + groups({group.kind, group.first_transfer, group.usage_sets.size()});
  }
  base += groups.size();
  for (std::uint32_t c = 0; c < at.channels; ++c) {
    colour[at.channel(c)] = base + channels({full.channels[c].kind, full.channels[c].first_transfer});
  }
  base += channels.size();
  for (std::uint32_t r = 0; r < at.resources; ++r) {
    colour[at.resource(r)] = base + resources({full.resources[r].capacity, full.resources[r].passive});
  }
}

/// Usage sets of a group mostly go over the same resources in the same order, so an edge of a later set finds its parallel by counting.
void add_usages(const engine::Input& full, const Incidence& incidence, const Vertices& at, std::uint32_t a, ColouredGraph& graph) {
  std::size_t begin = 0, end = 0;  // edges of the activity's first set
  for (std::uint32_t set = 0; set < incidence.sets(a); ++set) {
    std::size_t parallel = begin;
    std::int64_t weight = 0;  // of the usage before: neighbours are mostly alike
    std::uint64_t label = 0;
    for (const engine::Usage& usage : incidence.row(a, set)) {
      if (full.resources[usage.resource].passive) continue;
      if (usage.weight != weight) {
        weight = usage.weight;
        label = usage_label(set, weight);
      }
      if (parallel < end && graph.joins(parallel, at.activity(a), at.resource(usage.resource))) {
        graph.add_parallel(parallel++, label);
        continue;
      }
      const std::size_t edge = graph.add(at.activity(a), at.resource(usage.resource), label);
      if (set > 0) continue;
      if (end == 0) begin = edge;
      end = edge + 1;
    }
  }
}

ColouredGraph make_graph(const engine::Input& full, const Incidence& incidence, const Vertices& at) {
  ColouredGraph graph({at.ranks, at.groups + at.channels, at.resources});
  graph.reserve(full.usages.size() / 2 + std::size_t{4} * at.channels + std::size_t{4} * at.ranks);
  colour_vertices(full, at, graph.colour);
  for (std::uint32_t r = 0; r < at.ranks; ++r) {
    const engine::Rank& rank = full.ranks[r];
    for (std::size_t slot = 0; slot < rank.groups.size(); ++slot) {
      if (rank.groups[slot] != kNone) graph.add(r, at.activity(rank.groups[slot]), slot_label(Edge::kMember, slot));
    }
    for (std::size_t slot = 0; slot < rank.channels.size(); ++slot) {
      const std::uint32_t c = rank.channels[slot];
      if (c == kNone) continue;
      if (full.channels[c].sender == r) graph.add(r, at.channel(c), slot_label(Edge::kSender, slot));
      if (full.channels[c].receiver == r) graph.add(r, at.channel(c), slot_label(Edge::kReceiver, slot));
    }
  }
  for (std::uint32_t a = 0; a < incidence.activities(); ++a) add_usages(full, incidence, at, a, graph);
  return graph;
}

/// Splits group classes that a rank meets in two slots with different groups (point 1 of the proof): by the slot of the lowest member,
/// or into single groups where that is the same for all. Returns whether anything was split.
bool separate_slots(const engine::Input& full, const Vertices& at, std::vector<std::uint32_t>& colour) {
  const std::uint32_t classes = *std::max_element(colour.begin(), colour.end()) + 1;
  std::vector<std::uint32_t> met(classes, kNone), met_by(classes, kNone);  // by class: the group met, and by which rank
  std::vector<bool> torn(classes, false);
  bool any = false;
  for (std::uint32_t r = 0; r < at.ranks; ++r) {
    for (const std::uint32_t g : full.ranks[r].groups) {
      if (g == kNone) continue;
      const std::uint32_t c = colour[at.activity(g)];
      if (met_by[c] == r && met[c] != g) any = torn[c] = true;
      met_by[c] = r;
      met[c] = g;
    }
  }
  if (!any) return false;
  std::vector<std::uint32_t> slot_of(at.groups, 0);
  std::vector<std::uint32_t> first_slot(classes, kNone);
  std::vector<bool> differ(classes, false);
  for (std::uint32_t g = 0; g < at.groups; ++g) {
    const std::uint32_t c = colour[at.activity(g)];
    if (!torn[c]) continue;
    const auto& slots = full.ranks[full.groups[g].members.front()].groups;
    slot_of[g] = static_cast<std::uint32_t>(std::find(slots.begin(), slots.end(), g) - slots.begin());
    if (first_slot[c] == kNone) first_slot[c] = slot_of[g];
    if (first_slot[c] != slot_of[g]) differ[c] = true;
  }
  Numbering<std::tuple<std::uint32_t, std::uint32_t>> parts;
  for (std::uint32_t g = 0; g < at.groups; ++g) {
    std::uint32_t& c = colour[at.activity(g)];
    if (torn[c]) c = classes + parts({c, differ[c] ? slot_of[g] : g});
  }
  return true;
}

/// Classes of passive resources: capacity and what crosses them, by class. Other resources keep their colour.
void class_passive(const engine::Input& full, const Incidence& incidence, const Vertices& at, std::vector<std::uint32_t>& colour) {
  struct Hash {
    std::size_t operator()(const std::array<std::uint64_t, 3>& key) const { return key[0] ^ mix(key[2]); }
  };
  std::unordered_map<std::array<std::uint64_t, 3>, std::uint32_t, Hash> numbers;
  std::uint32_t next = at.all();
  for (std::uint32_t r = 0; r < at.resources; ++r) {
    if (!full.resources[r].passive) continue;
    std::array<std::uint64_t, 3> key{0, 0, static_cast<std::uint64_t>(full.resources[r].capacity)};
    for (const Crossing& crossing : incidence.column(r)) {
      const std::uint64_t of_class = mix(colour[at.activity(crossing.activity)]);
      const std::uint64_t label = usage_label(crossing.set, crossing.weight);
      key[0] += mix(of_class ^ label);
      key[1] += mix(mix(of_class) + label);
    }
    const auto [found, is_new] = numbers.try_emplace(key, next);
    if (is_new) ++next;
    colour[at.resource(r)] = found->second;
  }
}

Partition slice(const std::vector<std::uint32_t>& colour, std::uint32_t begin, std::uint32_t count) {
  Partition part;
  part.of.assign(colour.begin() + begin, colour.begin() + begin + count);
  part.lowest.reserve(renumber(part.of));
  for (std::uint32_t i = 0; i < count; ++i) {
    if (part.of[i] == part.lowest.size()) part.lowest.push_back(i);
  }
  return part;
}

}  // namespace

Folded fold(const engine::Input& full) {
  const Vertices at(full);
  Incidence incidence(full);
  incidence.make_columns();
  Classes classes;
  {
    ColouredGraph graph = make_graph(full, incidence, at);
    std::vector<std::uint32_t> colour = graph.refine();
    while (separate_slots(full, at, colour)) {
      graph.colour = colour;
      colour = graph.refine();
    }
    class_passive(full, incidence, at, colour);
    classes.ranks = slice(colour, 0, at.ranks);
    classes.groups = slice(colour, at.activity(0), at.groups);
    classes.channels = slice(colour, at.channel(0), at.channels);
    classes.resources = slice(colour, at.resource(0), at.resources);
  }
  Folded folded{make_quotient(full, incidence, classes), {}, {}};
  verify_quotient(full, incidence, classes, folded.input);
  folded.rank_class = std::move(classes.ranks.of);
  folded.resource_class = std::move(classes.resources.of);
  return folded;
}

}  // namespace orrery::lower
