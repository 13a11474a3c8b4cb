// The solution after a few flows have come or gone, from the one before: only what changes is looked at.
//
// Local form of the problem. Let λ_r be the level at which resource r is full (never: infinite), ℓ_f = min(cap_f, λ_r over the resources
// of f) the level of a flow, and m_fr the same minimum without r: what f could get if it were not for r. Then progressive filling gives
//   λ_r = Φ_r(m_.r):  the level at which r alone would be full, its flows freezing at ⌊m_fr⌋ when the level reaches m_fr.
// Φ_r = L depends only on the flows with m < L, whose rates are taken off, and on the others being at L or above. Filling is a solution of
// these equations, and the only one. Take two sets of λ and the lowest level L at which they differ, λ_r = L < λ'_r say, where λ_r =
// Φ_r(m). All flows below L are alike in both, the rest are at L or above in both, so Φ_r(m') = L too: λ'_r breaks its equation. Freezing at
// rounded rates changes nothing in this: every step is exact.
//
// Repair. Resources whose λ_r is not Φ_r are queued by min(λ_r, Φ_r). Let k be the lowest in the queue. By the same argument everything below
// k is already as in the solution; a resource with Φ_r = k is full at k in the solution; one with λ_r = k is not. So taking λ_r := Φ_r for
// all at k never spoils what is below, k never falls, no resource stands twice at one k, and what is never queued is never looked at. It is what
// LPA* and Ramalingam and Reps do for shortest paths, here for an equation that is not monotone. Levels that rise may do so in several
// steps; a repair that takes more work than filling would is given up, and filled.
// Read on: Ramalingam and Reps, J. Algorithms 21 (1996) 267; Koenig, Likhachev and Furcy, Artificial Intelligence 155 (2004) 93.
#include <algorithm>

#include "engine/maxmin_state.hpp"

namespace orrery::engine {

/// Φ_r. Flows may be taken off in any order as long as each is below the level of that moment: the level only rises.
Share MaxMin::State::limit_of(std::uint32_t r) {
  const ResourceState& resource = resources[r];
  if (!resource.binding) return {};
  Share level(resource.capacity, resource.load);
  std::int64_t weight = resource.load;
  while (true) {
    int128 residual = resource.capacity;
    std::int64_t left = resource.load;
    for (std::uint32_t n = resource.head; n != kNone; n = nodes[n].next) {
      ++work;
      const FlowState& flow = flows[nodes[n].flow];
      const Share& limit = flow.bounds.without(r);
      if (!(limit < level)) continue;
      const std::int64_t rate = flow.bounds.holder == r ? whole(limit.level) : flow.next_rate;
      residual -= int128{nodes[n].weight} * rate;
      left -= nodes[n].weight;
    }
    if (left == 0) return {};
    if (left == weight) return level;
    weight = left;
    level = Share(residual, left);
  }
}

/// Finds Φ of all marked resources, and queues those that are not at it.
void MaxMin::State::queue_marked() {
  for (const std::uint32_t r : marked) {
    ResourceState& resource = resources[r];
    resource.marked = false;
    resource.due = limit_of(r);
    if (resource.due == resource.limit) due_heap.erase(r);
    else due_heap.set(r, std::min(resource.due, resource.limit));
  }
  marked.clear();
}

void MaxMin::State::meet(std::uint32_t f) {
  FlowState& flow = flows[f];
  if (flow.step == step) return;
  flow.step = step;
  flow.before = flow.bounds;
  met.push_back(f);
  reach_flow(f);
}

/// Resource r of the flow went from `previous` to `limit`. All resources are searched only where the second lowest was lost.
void MaxMin::State::move(FlowState& flow, std::uint32_t r) {
  const Share& to = resources[r].limit;
  Bounds& b = flow.bounds;
  if (b.holder == r) {
    if (b.second < to) bound(flow);
    else b.first = to;
  } else if (to < b.first) {
    b.second = b.first;
    b.first = to;
    b.holder = r;
  } else if (!(b.second < to)) {
    b.second = to;
    return;
  } else {
    if (resources[r].previous == b.second) bound(flow);
    return;
  }
  flow.next_rate = whole(b.first.level);
}

/// Marks the resources for which the flow wants something else than before.
void MaxMin::State::tell(const FlowState& flow) {
  const Bounds& was = flow.before;
  const Bounds& is = flow.bounds;
  if (was.holder == is.holder && was.first == is.first && was.second == is.second) return;
  work += flow.count;
  for (std::uint32_t n = flow.begin; n < flow.begin + flow.count; ++n) {
    const std::uint32_t r = nodes[n].resource;
    const ResourceState& resource = resources[r];
    if (!resource.binding || resource.marked) continue;
    const Share& old = was.without(r);
    const Share& now = is.without(r);
    if (!(old < resource.due) && !(now < resource.due)) continue;  // at or above Φ before and after: Φ does not depend on it
    if (!(old == now)) mark(r);
  }
}

/// False, with limits and bounds half done, if it took too much work.
bool MaxMin::State::repair(std::int64_t most_work) {
  ++epoch;
  reached_flows.clear();
  work = 0;
  for (const std::uint32_t f : added) {
    if (!flows[f].present) continue;
    bound(flows[f]);
    reach_flow(f);
  }
  for (const std::uint32_t r : seeds) mark(r);
  queue_marked();
  while (!due_heap.empty()) {
    if (work > most_work) {
      due_heap.clear();
      return false;
    }
    const Share lowest = due_heap.lowest();
    full.clear();
    while (!due_heap.empty() && !(lowest < due_heap.lowest())) full.push_back(due_heap.pop());
    for (const std::uint32_t r : full) {
      resources[r].previous = resources[r].limit;
      resources[r].limit = resources[r].due;
    }
    ++step;
    met.clear();
    for (const std::uint32_t r : full) {
      for (std::uint32_t n = resources[r].head; n != kNone; n = nodes[n].next) {
        ++work;
        meet(nodes[n].flow);
        move(flows[nodes[n].flow], r);
      }
    }
    for (const std::uint32_t f : met) tell(flows[f]);
    queue_marked();
  }
  return true;
}

}  // namespace orrery::engine
