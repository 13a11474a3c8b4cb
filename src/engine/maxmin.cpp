// Max-min fair rates, kept up to date as flows come and go.
//
// The problem: rates θ_f <= cap_f with Σ_f w_fr θ_f <= C_r on every resource, such that no rate can grow without taking from a smaller one.
// The simple version is solve_dense (maxmin_dense.cpp). What this one adds:
// * Slack resources are left out. If Σ w·cap <= C on a resource, its level is never below the smallest cap of the unfrozen flows on it
//   (residual = C − Σ_frozen w·rate >= Σ_unfrozen w·cap), and equal to it only if all those caps are equal, when those flows freeze at
//   their cap anyway. So a slack resource decides nothing, and only the others ("binding") connect flows.
// * Only components that changed are solved: those reached, over binding resources, from a flow that came and from a resource
//   that lost or gained a flow and was binding before or is now. Rates elsewhere cannot have changed: filling never looks across.
// * Levels only rise (a flow freezes at no more than the level of any resource it crosses), so a heap of levels need not be told of
//   every change: an entry is a lower bound, brought up to date when it comes to the top.
// Read on: Bertsekas and Gallager, Data Networks, section 6.5.2; SimGrid's lmm (selective update).
//// * A few flows that come or go are mended in the solution that stands (maxmin_repair.cpp); many, or a repair that spreads, are filled.
//
// Invariants: maxmin_state.hpp.
#include <algorithm>

#include "engine/maxmin_state.hpp"
#include "orrery/base/assert.hpp"

namespace orrery::engine {
namespace {

/// More of the flows than one in this many are new: filling is quicker than repair.
constexpr std::int64_t kFewest = 8;
/// Node visits that a repair may take for every node there is, before it is filled instead.
constexpr std::int64_t kMostVisits = 2;

// For std::*_heap, which keep the largest on top.
template <typename E>
bool later(const E& a, const E& b) {
  return b.level < a.level;
}

}  // namespace

MaxMin::MaxMin(std::span<const std::int64_t> capacities) : state_(new State) {
  state_->resources.resize(capacities.size());
  for (std::size_t r = 0; r < capacities.size(); ++r) state_->resources[r].capacity = int128{capacities[r]} << kWeightBits;
  state_->touched.reserve(capacities.size());
  state_->reached_resources.reserve(capacities.size());
  state_->full.reserve(capacities.size());
  state_->heap.reserve(capacities.size());
  state_->seeds.reserve(capacities.size());
  state_->marked.reserve(capacities.size());
  state_->due_heap.reserve(capacities.size());
}
MaxMin::~MaxMin() { delete state_; }

void MaxMin::reserve(std::size_t flows, std::size_t usages) {
  State& s = *state_;
  if (s.flows.size() < flows) s.flows.resize(flows);
  s.nodes.reserve(usages);
  s.added.reserve(flows);
  s.reached_flows.reserve(flows);
  s.changed.reserve(flows);
  s.met.reserve(flows);
}

void MaxMin::add(std::uint32_t id, std::int64_t cap, std::span<const Usage> usages) {
  State& s = *state_;
  if (id >= s.flows.size()) s.flows.resize(std::size_t{id} + 1);
  State::FlowState& flow = s.flows[id];
  ORRERY_ASSERT(!flow.present && cap > 0, "a flow is added once, with a cap");
  flow.cap = cap;
  flow.rate = 0;
  flow.present = true;
  flow.count = static_cast<std::uint32_t>(usages.size());
  if (flow.room < flow.count) {  // a flow keeps its nodes; it takes new ones only when it comes back with more usages than ever
    flow.begin = static_cast<std::uint32_t>(s.nodes.size());
    flow.room = flow.count;
    s.nodes.resize(s.nodes.size() + flow.count);
  }
  for (std::uint32_t i = 0; i < flow.count; ++i) {
    const Usage& u = usages[i];
    State::ResourceState& resource = s.resources[u.resource];
    const std::uint32_t n = flow.begin + i;
    s.nodes[n] = State::Node{u.weight, u.resource, id, kNone, resource.head};
    if (resource.head != kNone) s.nodes[resource.head].previous = n;
    resource.head = n;
    resource.demand += int128{u.weight} * cap;
    resource.load += u.weight;
    s.touch(u.resource);
  }
  s.present_nodes += flow.count;
  ++s.present_flows;
  s.added.push_back(id);
}

void MaxMin::remove(std::uint32_t id) {
  State& s = *state_;
  State::FlowState& flow = s.flows[id];
  ORRERY_ASSERT(flow.present, "only a flow that is there can be removed");
  flow.present = false;
  flow.rate = 0;
  s.present_nodes -= flow.count;
  --s.present_flows;
  for (std::uint32_t n = flow.begin; n < flow.begin + flow.count; ++n) {
    const State::Node& node = s.nodes[n];
    State::ResourceState& resource = s.resources[node.resource];
    if (node.previous != kNone) s.nodes[node.previous].next = node.next;
    else resource.head = node.next;
    if (node.next != kNone) s.nodes[node.next].previous = node.previous;
    resource.demand -= int128{node.weight} * flow.cap;
    resource.load -= node.weight;
    s.touch(node.resource);
  }
}

std::int64_t MaxMin::rate(std::uint32_t id) const { return state_->flows[id].rate; }

/// Leaves in `seeds` the touched resources that decide something, or did.
void MaxMin::State::update_binding() {
  seeds.clear();
  for (const std::uint32_t r : touched) {
    ResourceState& resource = resources[r];
    const bool binding = resource.demand > resource.capacity;
    if (binding || resource.binding) seeds.push_back(r);
    resource.binding = binding;
    resource.touched = false;
  }
  touched.clear();
}

/// The two lowest of the cap and the limits.
void MaxMin::State::bound(FlowState& flow) {
  Bounds& b = flow.bounds;
  b = {Share(flow.cap, 1), {}, kNone};
  work += flow.count;
  for (std::uint32_t n = flow.begin; n < flow.begin + flow.count; ++n) {
    const Share& limit = resources[nodes[n].resource].limit;
    if (nodes[n].resource == b.holder || !(limit < b.second)) continue;
    if (limit < b.first) {
      b.second = b.first;
      b.first = limit;
      b.holder = nodes[n].resource;
    } else {
      b.second = limit;
    }
  }
  flow.next_rate = whole(b.first.level);
}

void MaxMin::State::reach() {
  ++epoch;
  reached_flows.clear();
  reached_resources.clear();
  for (const std::uint32_t r : seeds) {
    resources[r].limit = resources[r].due = {};  // for those that do not bind any more: they are not reached
    reach_flows_of(resources[r]);
  }
  for (const std::uint32_t f : added) {
    if (flows[f].present) reach_flow(f);
  }
  for (std::size_t i = 0; i < reached_flows.size(); ++i) {
    const FlowState& flow = flows[reached_flows[i]];
    for (std::uint32_t n = flow.begin; n < flow.begin + flow.count; ++n) {
      ResourceState& resource = resources[nodes[n].resource];
      if (!resource.binding || resource.stamp == epoch) continue;
      resource.stamp = epoch;
      reached_resources.push_back(nodes[n].resource);
      reach_flows_of(resource);
    }
  }
}

void MaxMin::State::freeze(std::uint32_t f, std::int64_t rate) {
  FlowState& flow = flows[f];
  flow.frozen = true;
  flow.next_rate = rate;
  for (std::uint32_t n = flow.begin; n < flow.begin + flow.count; ++n) {
    ResourceState& resource = resources[nodes[n].resource];
    if (!resource.binding) continue;
    resource.residual -= int128{nodes[n].weight} * rate;
    resource.unfrozen -= nodes[n].weight;
  }
}

void MaxMin::State::fill() {
  heap.clear();
  for (const std::uint32_t r : reached_resources) {
    ResourceState& resource = resources[r];
    resource.residual = resource.capacity;
    resource.unfrozen = resource.load;
    resource.limit = {};
    heap.push_back({{resource.residual, resource.unfrozen}, r});
  }
  std::make_heap(heap.begin(), heap.end(), later<Entry>);
  std::sort(reached_flows.begin(), reached_flows.end(),
            [this](std::uint32_t a, std::uint32_t b) { return flows[a].cap != flows[b].cap ? flows[a].cap < flows[b].cap : a < b; });
  std::size_t lowest_cap = 0;
  while (true) {
    while (lowest_cap < reached_flows.size() && flows[reached_flows[lowest_cap]].frozen) ++lowest_cap;
    if (lowest_cap == reached_flows.size()) return;
    Level level{flows[reached_flows[lowest_cap]].cap, 1};
    full.clear();
    while (!heap.empty() && !(level < heap.front().level)) {  // bring up to date whatever may stand at or below the level
      std::pop_heap(heap.begin(), heap.end(), later<Entry>);
      Entry entry = heap.back();
      heap.pop_back();
      const ResourceState& resource = resources[entry.resource];
      if (resource.unfrozen == 0) continue;
      const bool fresh = resource.unfrozen == entry.level.weight && resource.residual == entry.level.residual;
      if (!fresh) {
        entry.level = {resource.residual, resource.unfrozen};
        heap.push_back(entry);
        std::push_heap(heap.begin(), heap.end(), later<Entry>);
        continue;
      }
      level = entry.level;  // the lowest so far: entries come up in rising order
      full.push_back(entry.resource);
    }
    const std::int64_t rate = whole(level);
    for (std::size_t i = lowest_cap; i < reached_flows.size() && flows[reached_flows[i]].cap == rate && Level{rate, 1} == level; ++i) {
      if (!flows[reached_flows[i]].frozen) freeze(reached_flows[i], rate);
    }
    for (const std::uint32_t r : full) resources[r].limit = Share(level.residual, level.weight);
    for (const std::uint32_t r : full) {
      for (std::uint32_t n = resources[r].head; n != kNone; n = nodes[n].next) {
        if (!flows[nodes[n].flow].frozen) freeze(nodes[n].flow, rate);
      }
    }
  }
}

std::span<const std::uint32_t> MaxMin::solve() {
  State& s = *state_;
  s.changed.clear();
  if (s.touched.empty() && s.added.empty()) return {};
  s.update_binding();
  const bool few = static_cast<std::int64_t>(s.added.size()) * kFewest <= s.present_flows;
  if (!few || !s.repair(kMostVisits * s.present_nodes)) {
    s.reach();
    s.fill();
    for (const std::uint32_t r : s.reached_resources) s.resources[r].due = s.resources[r].limit;
    for (const std::uint32_t f : s.reached_flows) s.bound(s.flows[f]);
  }
  s.added.clear();
  for (const std::uint32_t f : s.reached_flows) {
    State::FlowState& flow = s.flows[f];
    if (flow.next_rate == flow.rate) continue;
    flow.rate = flow.next_rate;
    s.changed.push_back(f);
  }
  std::sort(s.changed.begin(), s.changed.end());
  return s.changed;
}

}  // namespace orrery::engine
