#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "orrery/program/program.hpp"

// Verification before anything runs. The rules are CUDA's and NCCL's: a stream runs in order; a collective starts when every member has
// issued its k-th on that communicator; a send meets the receive of the same number; the host waits where it synchronises or where its
// run-ahead is used up. Stages stand for all their ranks: tp, cp and dp peers run the same list, so only the pipeline can disagree.
namespace orrery::program {
namespace {

using workload::Axis;

struct Problems {
  std::vector<std::string> texts;
  void add(std::string text) {
    constexpr std::size_t kMost = 20;
    if (texts.size() < kMost) texts.push_back(std::move(text));
  }
};

void check_books(const Role& role, Problems& problems) {
  std::array<std::int64_t, kMemoryKinds> held{};
  std::vector<int> recorded(role.events, 0);
  for (const Item& item : role.items) {
    if (item.record != kNoEvent && item.record < role.events) ++recorded[item.record];
  }
  for (std::size_t e = 0; e < recorded.size(); ++e) {
    if (recorded[e] != 1) problems.add(fmt::format("stage {}: event {} is recorded {} times; every event is recorded once", role.stage, e, recorded[e]));
  }
  for (std::size_t i = 0; i < role.items.size(); ++i) {
    const Item& item = role.items[i];
    if (item.wait != kNoEvent && item.wait >= role.events) {
      problems.add(fmt::format("stage {}: item {} waits for event {}, which does not exist", role.stage, i, item.wait));
    }
    std::int64_t& kind = held[static_cast<std::size_t>(item.memory)];
    if (item.kind == ItemKind::kAllocate) kind += item.bytes;
    if (item.kind == ItemKind::kFree) {
      kind -= item.bytes;
      if (kind < 0) {
        problems.add(fmt::format("stage {}: item {} frees {} bytes of {} that were never allocated", role.stage, i, -kind,
                                 kMemoryKindNames[static_cast<std::size_t>(item.memory)]));
        kind = 0;
      }
    }
  }
  // What a step allocates for itself it frees; states live on.
  const std::int64_t left = held[static_cast<std::size_t>(MemoryKind::kActivations)];
  if (left != 0) problems.add(fmt::format("stage {}: {} bytes of activations are never freed", role.stage, left));
}

/// Variants of a stage do the same things with other ranks, in the same order: so the first stands for all in what follows.
void check_variants(const Program& program, Problems& problems) {
  const auto variants = static_cast<std::size_t>(program.variants());
  if (variants == 1) return;
  const auto device = [](const Role& role) {
    std::vector<const Item*> items;
    for (const Item& item : role.items) {
      if (item.kind == ItemKind::kAllocate || item.kind == ItemKind::kFree || item.kind == ItemKind::kHostWork) continue;
      // A segment that nobody waits for is work, and work may differ.
      if (item.kind == ItemKind::kSegment && item.wait == kNoEvent && item.record == kNoEvent) continue;
      items.push_back(&item);
    }
    return items;
  };
  for (std::size_t r = 0; r < program.roles.size(); ++r) {
    const Role& first = program.roles[r / variants * variants];
    const Role& role = program.roles[r];
    const std::vector<const Item*> expected = device(first), found = device(role);
    const auto alike = [&](const Item* a, const Item* b) {
      if (a->kind != b->kind || a->stream != b->stream || a->wait != b->wait || a->record != b->record) return false;
      if (a->kind == ItemKind::kCollective) {
        // How much a rank copies to and from its own host concerns no other.
        const Request &one = program.requests[a->index], &other = program.requests[b->index];
        return a->index == b->index || (one.axis == other.axis && workload::with_host(one.axis));
      }
      return a->kind != ItemKind::kBatch || first.batches[a->index] == role.batches[b->index];
    };
    const auto [a, b] = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end(), alike);
    if (a == expected.end() && b == found.end()) continue;
    problems.add(fmt::format("stage {}: variants {} and {} part at device item {}; ranks of a stage communicate alike", role.stage, first.variant, role.variant,
                             a - expected.begin()));
  }
}

/// The role that stands for a stage.
const Role& role_at(const Program& program, std::size_t stage) { return program.roles[stage * static_cast<std::size_t>(program.variants())]; }

/// Order lists that cannot run, at the compute instruction that the entry begins with.
void check_schedule(const Program& program, Problems& problems) {
  if (program.roles.empty() || std::all_of(program.roles.begin(), program.roles.end(), [](const Role& r) { return r.order.empty(); })) return;
  std::vector<std::vector<plan::ScheduleEntry>> orders;
  for (std::size_t s = 0; s < static_cast<std::size_t>(program.stages()); ++s) {
    std::vector<plan::ScheduleEntry>& order = orders.emplace_back();
    for (const PlacedEntry& placed : role_at(program, s).order) order.push_back(placed.entry);
  }
  for (const plan::OrderProblem& p : plan::check_orders(program.pipeline, orders)) {
    const std::vector<PlacedEntry>& order = role_at(program, static_cast<std::size_t>(p.stage)).order;
    const auto at = static_cast<std::size_t>(p.entry);
    const std::uint32_t instruction = order.empty() ? 0 : order[std::min(at, order.size() - 1)].instruction;
    problems.add(fmt::format("stage {} stream \"{}\" {}instruction {}: {}", p.stage, to_string(Stream::kCompute), at < order.size() ? "" : "after ", instruction, p.text));
  }
}

/// Counts of sends and receives between neighbours.
void check_traffic(const Program& program, Problems& problems) {
  const auto stages = static_cast<std::size_t>(program.stages());
  const auto list = [&](std::size_t stage, Slot slot) {
    std::vector<std::int64_t> bytes;
    for (const Item& item : role_at(program, stage).items) {
      if (item.kind != ItemKind::kBatch) continue;
      for (const PointToPoint& m : role_at(program, stage).batches[item.index]) {
        if (m.slot == slot) bytes.push_back(m.bytes);
      }
    }
    return bytes;
  };
  for (std::size_t s = 0; s < stages; ++s) {
    for (const auto& [out, kind] : {std::pair{Slot::kForwardOut, "forward"}, std::pair{Slot::kBackwardOut, "backward"}, std::pair{Slot::kUpForwardOut, "upward forward"},
                                    std::pair{Slot::kUpBackwardOut, "upward backward"}}) {
      const std::size_t to = (s + (meets_next(out) ? 1 : stages - 1)) % stages;
      const std::vector<std::int64_t> sent = list(s, out), received = list(to, other_end(out));
      if (sent.size() != received.size()) {
        problems.add(fmt::format("stage {} sends {} {} messages to stage {}, which receives {}", s, sent.size(), kind, to, received.size()));
      } else if (sent != received) {
        problems.add(fmt::format("stage {} and stage {} disagree on the size of a {} message", s, to, kind));
      }
    }
  }
}

/// Whether a group of this axis joins two stages.
bool joins(Axis axis, std::size_t a, std::size_t b, std::size_t stages) {
  if (axis == Axis::kEmbedding) return (a == 0 || a + 1 == stages) && (b == 0 || b + 1 == stages);
  if (axis == Axis::kMirror) return a == b || a + b + 1 == stages;
  return axis == Axis::kModel || axis == Axis::kWorld || axis == Axis::kPp;
}

/// Groups that span stages must see the same sequence from each of their stages.
void check_collectives(const Program& program, Problems& problems) {
  const auto stages = static_cast<std::size_t>(program.stages());
  const auto sequence = [&](std::size_t s, Axis axis) {
    std::vector<std::uint32_t> list;
    for (const Item& item : role_at(program, s).items) {
      if (item.kind == ItemKind::kCollective && program.requests[item.index].axis == axis) list.push_back(item.index);
    }
    return list;
  };
  for (const Axis axis : {Axis::kEmbedding, Axis::kModel, Axis::kWorld, Axis::kPp, Axis::kMirror}) {
    for (std::size_t s = 1; s < stages; ++s) {
      // Against the first stage of its group.
      std::size_t first = 0;
      while (first < s && !joins(axis, first, s, stages)) ++first;
      if (first == s) continue;
      const std::vector<std::uint32_t> expected = sequence(first, axis), found = sequence(s, axis);
      if (found == expected) continue;
      const auto [a, b] = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
      problems.add(fmt::format("stages {} and {} issue different collectives on group {}: they part at number {}", first, s, workload::to_string(axis), a - expected.begin()));
    }
  }
}

/// Runs all stages without clocks. What cannot advance is a cycle.
class DryRun {
 public:
  explicit DryRun(const Program& program) : program_(program), stages_(static_cast<std::size_t>(program.stages())) {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      Stage& st = stages_[s];
      st.recorded.assign(role_at(program, s).events, false);
      st.queue.resize(kStreams);
      st.sent.fill(0);
    }
  }

  void run(Problems& problems) {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t s = 0; s < stages_.size(); ++s) moved = advance(s) || moved;
    }
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const Role& role = role_at(program_, s);
      for (std::size_t q = 0; q < kStreams; ++q) {
        const Stage& st = stages_[s];
        if (st.head[q] < st.queue[q].size()) {
          problems.add(fmt::format("stage {} stream \"{}\" instruction {} can never run: a cycle of waits", s, to_string(static_cast<Stream>(q)), st.head[q]));
        }
      }
      if (stages_[s].host < role.items.size()) problems.add(fmt::format("stage {}: the host can never pass item {}", s, stages_[s].host));
    }
  }

 private:
  struct Stage {
    std::size_t host = 0;
    std::vector<std::vector<std::uint32_t>> queue;  // items issued to each stream
    std::array<std::size_t, kStreams> head{};
    std::vector<bool> recorded;
    std::array<std::int64_t, kSlots> sent{};          // batches that have launched, per slot
    std::map<std::uint32_t, std::int64_t> launched;   // collectives launched per axis
    std::array<bool, kStreams> in_flight{};
    std::array<std::array<std::int64_t, kSlots>, kStreams> number{};  // of the batch in flight, per slot
    std::array<std::int64_t, kStreams> collective{};
  };

  bool advance(std::size_t s) {
    Stage& st = stages_[s];
    const Role& role = role_at(program_, s);
    bool moved = false;
    while (st.host < role.items.size()) {
      const Item& item = role.items[st.host];
      const bool device = item.kind == ItemKind::kSegment || item.kind == ItemKind::kCollective || item.kind == ItemKind::kBatch || item.kind == ItemKind::kWait;
      if (item.kind == ItemKind::kHostSync && !st.recorded[item.wait]) break;
      if (device) {
        if (st.host > oldest_unstarted(s) + program_.run_ahead) break;
        st.queue[static_cast<std::size_t>(item.stream)].push_back(static_cast<std::uint32_t>(st.host));
      }
      ++st.host;
      moved = true;
    }
    for (std::size_t q = 0; q < kStreams; ++q) {
      while (st.head[q] < st.queue[q].size() && step(s, q)) moved = true;
    }
    return moved;
  }

  [[nodiscard]] std::size_t oldest_unstarted(std::size_t s) const {
    const Stage& st = stages_[s];
    std::size_t oldest = st.host;
    for (std::size_t q = 0; q < kStreams; ++q) {
      const std::size_t h = st.head[q] + (st.in_flight[q] ? 1 : 0);
      if (h < st.queue[q].size()) oldest = std::min<std::size_t>(oldest, st.queue[q][h]);
    }
    return oldest;
  }

  bool step(std::size_t s, std::size_t q) {
    Stage& st = stages_[s];
    const Role& role = role_at(program_, s);
    const Item& item = role.items[st.queue[q][st.head[q]]];
    if (!st.in_flight[q]) {
      if (item.wait != kNoEvent && !st.recorded[item.wait]) return false;
      st.in_flight[q] = true;
      if (item.kind == ItemKind::kBatch) {
        for (const PointToPoint& m : role.batches[item.index]) st.number[q][static_cast<std::size_t>(m.slot)] = ++st.sent[static_cast<std::size_t>(m.slot)];
      }
      if (item.kind == ItemKind::kCollective) st.collective[q] = ++st.launched[static_cast<std::uint32_t>(program_.requests[item.index].axis)];
      return true;
    }
    if (!peers_launched(s, q, item)) return false;
    if (item.record != kNoEvent) st.recorded[item.record] = true;
    st.in_flight[q] = false;
    ++st.head[q];
    return true;
  }

  [[nodiscard]] bool peers_launched(std::size_t s, std::size_t q, const Item& item) const {
    const Stage& st = stages_[s];
    const std::size_t n = stages_.size();
    if (item.kind == ItemKind::kBatch) {
      for (const PointToPoint& m : role_at(program_, s).batches[item.index]) {
        const Stage& peer = stages_[(s + (meets_next(m.slot) ? 1 : n - 1)) % n];
        if (peer.sent[static_cast<std::size_t>(other_end(m.slot))] < st.number[q][static_cast<std::size_t>(m.slot)]) return false;
      }
    }
    if (item.kind == ItemKind::kCollective) {
      const Axis axis = program_.requests[item.index].axis;
      for (std::size_t other = 0; other < n; ++other) {
        if (!joins(axis, s, other, n)) continue;
        const auto found = stages_[other].launched.find(static_cast<std::uint32_t>(axis));
        if (found == stages_[other].launched.end() || found->second < st.collective[q]) return false;
      }
    }
    return true;
  }

  const Program& program_;
  std::vector<Stage> stages_;
};

}  // namespace

std::vector<std::string> verify(const Program& program) {
  Problems problems;
  for (const Role& role : program.roles) check_books(role, problems);
  check_variants(program, problems);
  check_schedule(program, problems);
  check_traffic(program, problems);
  check_collectives(program, problems);
  if (problems.texts.empty()) DryRun(program).run(problems);
  return problems.texts;
}

}  // namespace orrery::program
