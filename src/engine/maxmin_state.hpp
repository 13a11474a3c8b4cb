#pragma once
// What the incremental solver keeps. See maxmin.cpp for the whole and maxmin_repair.cpp for what the limits are for.
//
// Invariants between calls of solve(): (1) the nodes of a flow are contiguous and in the list of their resource; (2) demand_r = Σ w·cap and
// load_r = Σ w over that list; (3) binding_r is demand_r > C_r; (4) limit_r is the level at which r is full in the solution, never if it is
// not full or not binding, and due_r = limit_r; (5) first_f and second_f are the two lowest of cap_f and the limits of the resources of f,
// holder_f is where first_f comes from, kNone for the cap; (6) next_rate_f = rate_f = ⌊first_f⌋, the rates of solve_dense.
#include <cstdint>
#include <vector>

#include "engine/level.hpp"
#include "engine/share_heap.hpp"
#include "orrery/engine/maxmin.hpp"

namespace orrery::engine {

struct MaxMin::State {
  struct Node {
    std::int64_t weight = 0;
    std::uint32_t resource = 0, flow = 0;
    std::uint32_t previous = kNone, next = kNone;  // on the resource
  };
  struct ResourceState {
    int128 capacity = 0;  // rate x weight units
    int128 demand = 0;
    int128 residual = 0;  // while filling
    Share limit;
    Share due;       // while repairing: the limit as the flows now want it
    Share previous;  // while repairing: the limit before the present step
    std::int64_t load = 0;
    std::int64_t unfrozen = 0;  // weights, while filling
    std::uint32_t head = kNone;
    std::uint32_t stamp = 0;  // solve() in which it was reached
    bool binding = false;
    bool touched = false;
    bool marked = false;  // while repairing: due is to be found again
  };
  struct Bounds {
    Share first, second;
    std::uint32_t holder = kNone;
    /// What the flow could get if it were not for this resource.
    [[nodiscard]] const Share& without(std::uint32_t r) const { return holder == r ? second : first; }
  };
  struct FlowState {
    Bounds bounds;
    Bounds before;  // while repairing: before the present step
    std::int64_t cap = 0, rate = 0, next_rate = 0;
    std::uint32_t begin = 0, count = 0, room = 0;  // nodes
    std::uint32_t stamp = 0;
    std::uint32_t step = 0;  // of a repair, in which it was last met
    bool present = false;
    bool frozen = false;
  };
  struct Entry {
    Level level;
    std::uint32_t resource = 0;
  };

  std::vector<Node> nodes;
  std::vector<ResourceState> resources;
  std::vector<FlowState> flows;
  std::vector<std::uint32_t> touched, added;
  std::vector<std::uint32_t> reached_flows, reached_resources, full, changed;
  std::vector<std::uint32_t> marked, met, seeds;
  std::vector<Entry> heap;
  ShareHeap due_heap;
  std::int64_t present_nodes = 0, present_flows = 0;
  std::int64_t work = 0;  // node visits of a repair
  std::uint32_t epoch = 0, step = 0;

  void touch(std::uint32_t r) {
    if (resources[r].touched) return;
    resources[r].touched = true;
    touched.push_back(r);
  }
  void reach_flow(std::uint32_t f) {
    FlowState& flow = flows[f];
    if (flow.stamp == epoch) return;
    flow.stamp = epoch;
    flow.frozen = false;
    reached_flows.push_back(f);
  }
  void reach_flows_of(const ResourceState& resource) {
    for (std::uint32_t n = resource.head; n != kNone; n = nodes[n].next) reach_flow(nodes[n].flow);
  }
  void mark(std::uint32_t r) {
    if (resources[r].marked) return;
    resources[r].marked = true;
    marked.push_back(r);
  }
  void update_binding();
  void bound(FlowState& flow);

  // From nothing: maxmin.cpp.
  void reach();
  void fill();
  void freeze(std::uint32_t f, std::int64_t rate);

  // From the last solution: maxmin_repair.cpp.
  bool repair(std::int64_t most_work);
  Share limit_of(std::uint32_t r);
  void queue_marked();
  void meet(std::uint32_t f);
  void move(FlowState& flow, std::uint32_t r);
  void tell(const FlowState& flow);
};

}  // namespace orrery::engine
