// Order lists judged by themselves: whether they can run, and how long they take where every pass takes a unit.
//
// An entry starts when its stage has reached it and its input is there: a forward pass needs the place before, a backward one the place
// after and its own forward, weight gradients their input gradients. Messages between two stages travel one kind on one channel, so the
// receiver takes them in the sender's order. Lists that are played to their end never wait for one another.
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <tuple>
#include <utility>

#include "orrery/base/assert.hpp"
#include "orrery/plan/plan.hpp"

namespace orrery::plan {

namespace {

using Orders = std::vector<std::vector<ScheduleEntry>>;

std::string name(const ScheduleEntry& e) { return fmt::format("{} of microbatch {} through chunk {}", to_string(e.pass), e.microbatch, e.chunk); }

struct Way {
  const PipelineShape& shape;
  [[nodiscard]] std::int64_t places() const { return shape.placement == Placement::kTwoWay ? shape.stages : shape.stages * shape.chunks; }
  [[nodiscard]] std::int64_t place(std::int64_t stage, std::int64_t chunk) const {
    return upward(shape.placement, chunk) ? places() - 1 - stage : chunk * shape.stages + stage;
  }
  /// The stage that runs a place, for microbatches of a chunk (two-way: the chunk is the direction).
  [[nodiscard]] std::int64_t stage(std::int64_t place, std::int64_t chunk) const {
    switch (shape.placement) {
      case Placement::kLooped: break;
      case Placement::kV: return place < shape.stages ? place : places() - 1 - place;
      case Placement::kTwoWay: return chunk == 0 ? place : places() - 1 - place;
    }
    return place % shape.stages;
  }
  /// The microbatches that pass a chunk.
  [[nodiscard]] std::int64_t first(std::int64_t chunk) const { return shape.placement == Placement::kTwoWay ? chunk * (shape.microbatches / 2) : 0; }
  [[nodiscard]] std::int64_t end(std::int64_t chunk) const {
    return shape.placement == Placement::kTwoWay && chunk == 0 ? shape.microbatches / 2 : shape.microbatches;
  }
};

class Judge {
 public:
  Judge(const PipelineShape& shape, const Orders& orders) : way_{shape}, orders_(orders) {}

  std::vector<OrderProblem> run() {
    for (std::size_t s = 0; s < orders_.size(); ++s) passes(s);
    if (problems_.empty()) messages();
    return found();
  }
  [[nodiscard]] std::vector<OrderProblem> found() { return std::move(problems_); }
  void add(std::size_t stage, std::size_t entry, std::string text) {
    constexpr std::size_t kMost = 20;
    if (problems_.size() < kMost) problems_.push_back({static_cast<std::int64_t>(stage), static_cast<std::int64_t>(entry), std::move(text)});
  }

 private:
  /// Every pass once, and after what it needs of its own stage.
  void passes(std::size_t s) {
    const PipelineShape& shape = way_.shape;
    enum Seen : std::uint8_t { kNothing = 0, kForward = 1, kWhole = 2, kInput = 4, kWeight = 8 };
    std::vector<std::uint8_t> seen(static_cast<std::size_t>(shape.chunks * shape.microbatches), kNothing);
    const auto at = [&](std::int64_t chunk, std::int64_t microbatch) { return static_cast<std::size_t>(chunk * shape.microbatches + microbatch); };
    for (std::size_t k = 0; k < orders_[s].size(); ++k) {
      const ScheduleEntry& e = orders_[s][k];
      if (e.chunk < 0 || e.chunk >= shape.chunks || e.microbatch < way_.first(e.chunk) || e.microbatch >= way_.end(e.chunk)) {
        add(s, k, fmt::format("{} is no pass of this stage", name(e)));
        continue;
      }
      std::uint8_t& done = seen[at(e.chunk, e.microbatch)];
      static constexpr std::array<std::uint8_t, 4> kMark = {kForward, kWhole, kInput, kWeight};
      const std::uint8_t mark = kMark[static_cast<std::size_t>(e.pass)];
      if ((done & mark) != 0) {
        add(s, k, fmt::format("{} comes a second time", name(e)));
      } else if (e.pass != Pass::kForward && (done & kForward) == 0) {
        add(s, k, fmt::format("{} comes before its forward", name(e)));
      } else if (e.pass == Pass::kWeight && (done & kInput) == 0) {
        add(s, k, fmt::format("{} comes before its input gradients", name(e)));
      } else if ((e.pass == Pass::kInput && (done & kWhole) != 0) || (e.pass == Pass::kBackward && (done & kInput) != 0)) {
        add(s, k, fmt::format("{} comes a second time, whole and in halves", name(e)));
      }
      const bool is_forward = e.pass == Pass::kForward;
      if (e.with_next && (k + 1 == orders_[s].size() || e.pass == Pass::kWeight || orders_[s][k + 1].pass == Pass::kWeight ||
                          is_forward == (orders_[s][k + 1].pass == Pass::kForward) || orders_[s][k + 1].with_next)) {
        add(s, k, fmt::format("{} is no pair with the next entry; a pair is one forward and one backward pass", name(e)));
      }
      done = static_cast<std::uint8_t>(done | mark);
    }
    for (std::int64_t c = 0; c < shape.chunks; ++c)
      for (std::int64_t m = way_.first(c); m < way_.end(c); ++m) {
        const std::uint8_t done = seen[at(c, m)];
        const auto missing = [&](Pass pass) {
          add(s, orders_[s].size(), fmt::format("{} is missing", name({pass, static_cast<std::int32_t>(m), static_cast<std::int32_t>(c)})));
        };
        if ((done & kForward) == 0) missing(Pass::kForward);
        if ((done & (kWhole | kInput)) == 0) missing(Pass::kBackward);
        if ((done & kInput) != 0 && (done & kWeight) == 0) missing(Pass::kWeight);
      }
  }

  /// Sender and receiver of a channel agree on the order of its messages.
  void messages() {
    struct Message {
      std::int64_t place = 0, microbatch = 0;  ///< of the pass that takes it
      std::size_t entry = 0;
      bool operator==(const Message& other) const { return place == other.place && microbatch == other.microbatch; }
    };
    using Channel = std::tuple<std::size_t, bool, bool>;  // receiving stage, forward, upward
    std::map<Channel, std::vector<Message>> sent, taken;
    for (std::size_t s = 0; s < orders_.size(); ++s)
      for (std::size_t k = 0; k < orders_[s].size(); ++k) {
        const ScheduleEntry& e = orders_[s][k];
        if (e.pass == Pass::kWeight) continue;
        const bool is_forward = e.pass == Pass::kForward, up = upward(way_.shape.placement, e.chunk);
        const std::int64_t place = way_.place(static_cast<std::int64_t>(s), e.chunk), step = is_forward ? 1 : -1;
        const auto elsewhere = [&](std::int64_t other) {
          return other >= 0 && other < way_.places() && way_.stage(other, e.chunk) != static_cast<std::int64_t>(s);
        };
        if (elsewhere(place - step)) taken[{s, is_forward, up}].push_back({place, e.microbatch, k});
        if (elsewhere(place + step)) sent[{static_cast<std::size_t>(way_.stage(place + step, e.chunk)), is_forward, up}].push_back({place + step, e.microbatch, k});
      }
    for (const auto& [channel, wanted] : taken) {
      const std::vector<Message>& coming = sent[channel];
      const auto [want, come] = std::mismatch(wanted.begin(), wanted.end(), coming.begin(), coming.end());
      if (want == wanted.end()) continue;
      const std::size_t stage = std::get<0>(channel);
      add(stage, want->entry, fmt::format("{} takes what is sent as microbatch {} of place {}: messages arrive in the order in which they are sent", name(orders_[stage][want->entry]),
                                          come->microbatch, come->place));
    }
  }

  Way way_;
  const Orders& orders_;
  std::vector<OrderProblem> problems_;
};

class Play {
 public:
  Play(const PipelineShape& shape, const Orders& orders)
      : way_{shape}, orders_(orders), free_(orders.size(), 0), next_(orders.size(), 0),
        ends_(static_cast<std::size_t>(3 * way_.places() * shape.microbatches), kNever) {}

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < orders_.size(); ++s)
        while (step(s)) moved = true;
    }
  }
  [[nodiscard]] std::int64_t makespan() const { return *std::max_element(free_.begin(), free_.end()); }
  /// Stages that have not ended, each with the entry that waits.
  void stuck(Judge& judge) const {
    for (std::size_t s = 0; s < orders_.size(); ++s) {
      if (next_[s] == orders_[s].size()) continue;
      const ScheduleEntry* waits = &orders_[s][next_[s]];
      std::size_t entry = next_[s];
      if (waits->with_next && start(s, *waits) != kNever) waits = &orders_[s][++entry];
      const std::int64_t place = way_.place(static_cast<std::int64_t>(s), waits->chunk);
      const std::int64_t from = way_.stage(waits->pass == Pass::kForward ? place - 1 : place + 1, waits->chunk);
      judge.add(s, entry, fmt::format("{} waits for stage {}, whose list comes to that pass only after waiting for this one", name(*waits), from));
    }
  }

 private:
  static constexpr std::int64_t kNever = -1;
  [[nodiscard]] std::size_t at(std::int64_t kind, std::int64_t place, std::int64_t microbatch) const {
    return static_cast<std::size_t>((kind * way_.places() + place) * way_.shape.microbatches + microbatch);
  }
  [[nodiscard]] std::int64_t end(std::int64_t kind, std::int64_t place, std::int64_t microbatch) const { return ends_[at(kind, place, microbatch)]; }
  /// When an entry's input is there, kNever while it is not.
  [[nodiscard]] std::int64_t start(std::size_t s, const ScheduleEntry& e) const {
    const std::int64_t place = way_.place(static_cast<std::int64_t>(s), e.chunk);
    if (e.pass == Pass::kWeight) return end(1, place, e.microbatch);
    if (e.pass == Pass::kForward) return place == 0 ? 0 : end(0, place - 1, e.microbatch);
    const std::int64_t own = end(0, place, e.microbatch);
    if (own == kNever || place + 1 == way_.places()) return own;
    const std::int64_t other = end(1, place + 1, e.microbatch);
    return other == kNever ? kNever : std::max(own, other);
  }
  bool step(std::size_t s) {
    if (next_[s] == orders_[s].size()) return false;
    const std::size_t first = next_[s], last = first + (orders_[s][first].with_next ? 1 : 0);
    std::int64_t begin = free_[s], length = 0;
    for (std::size_t k = first; k <= last; ++k) {
      const std::int64_t ready = start(s, orders_[s][k]);
      if (ready == kNever) return false;
      begin = std::max(begin, ready);
      length += orders_[s][k].pass == Pass::kBackward ? 2 : 1;
    }
    free_[s] = begin + length;
    for (std::size_t k = first; k <= last; ++k) {
      const ScheduleEntry& e = orders_[s][k];
      ends_[at(e.pass == Pass::kForward ? 0 : e.pass == Pass::kWeight ? 2 : 1, way_.place(static_cast<std::int64_t>(s), e.chunk), e.microbatch)] = free_[s];
    }
    next_[s] = last + 1;
    return true;
  }

  Way way_;
  const Orders& orders_;
  std::vector<std::int64_t> free_;
  std::vector<std::size_t> next_;
  std::vector<std::int64_t> ends_;  ///< by kind (forward, backward or input gradients, weight gradients), place, microbatch
};

}  // namespace

PipelineShape shape_of(const Parallelism& p, std::int64_t microbatches) { return {p.pp, chunks_per_rank(p), microbatches, p.placement}; }

std::vector<OrderProblem> check_orders(const PipelineShape& shape, const Orders& orders) {
  ORRERY_ASSERT(static_cast<std::int64_t>(orders.size()) == shape.stages, "every stage has its list");
  Judge judge(shape, orders);
  std::vector<OrderProblem> problems = judge.run();
  if (!problems.empty()) return problems;
  Play play(shape, orders);
  play.run();
  Judge waits(shape, orders);
  play.stuck(waits);
  return waits.found();
}

std::int64_t unit_makespan(const PipelineShape& shape, const Orders& orders) {
  Play play(shape, orders);
  play.run();
  return play.makespan();
}

}  // namespace orrery::plan
