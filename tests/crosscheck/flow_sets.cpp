#include "crosscheck/flow_sets.hpp"

#include <algorithm>
#include <numeric>

#include "orrery/base/random.hpp"

namespace orrery::test {
namespace {

constexpr std::int64_t kGBps = (std::int64_t{1} << engine::kRateBits) / 1000;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_bits(seed_, "flow set", next_++) % n); }

 private:
  std::uint64_t seed_, next_ = 0;
};

void cap_at_links(FlowSet& set) {
  for (FlowSet::Flow& flow : set.flows) {
    std::int64_t least = engine::kMaxCapacity;
    for (const std::uint32_t l : flow.links) least = std::min(least, set.capacities[l]);
    flow.cap = flow.cap == 0 ? least : std::min(flow.cap, least);
  }
}

/// Links in both directions: host-leaf, leaf-aggregation, aggregation-core.
class FatTree {
 public:
  static constexpr std::uint32_t kRadix = 16, kHosts = 4096;
  explicit FatTree(std::uint64_t seed) : draw_(seed) { set_.capacities.assign(std::size_t{6} * kHosts, 50 * kGBps); }

  void add(std::uint32_t from, std::uint32_t to) {
    if (from == to) return;
    FlowSet::Flow flow;
    flow.bytes = 1'000'000 + std::int64_t{draw_.below(63'000'000)};
    const std::uint32_t leaf_from = from / kRadix, leaf_to = to / kRadix;
    flow.links = {up(0, from), down(0, to)};
    if (leaf_from != leaf_to) {
      const std::uint32_t aggregation = draw_.below(kRadix);
      flow.links.push_back(up(1, leaf_from * kRadix + aggregation));
      flow.links.push_back(down(1, leaf_to * kRadix + aggregation));
      const std::uint32_t pod_from = leaf_from / kRadix, pod_to = leaf_to / kRadix;
      if (pod_from != pod_to) {
        const std::uint32_t core = draw_.below(kRadix);
        flow.links.push_back(up(2, (pod_from * kRadix + aggregation) * kRadix + core));
        flow.links.push_back(down(2, (pod_to * kRadix + aggregation) * kRadix + core));
      }
    }
    set_.flows.push_back(std::move(flow));
  }
  Draw& draw() { return draw_; }
  FlowSet take() {
    cap_at_links(set_);
    return std::move(set_);
  }

 private:
  static std::uint32_t up(std::uint32_t tier, std::uint32_t i) { return 2 * tier * kHosts + i; }
  static std::uint32_t down(std::uint32_t tier, std::uint32_t i) { return (2 * tier + 1) * kHosts + i; }
  Draw draw_;
  FlowSet set_;
};

}  // namespace

FlowSet random_flows(std::uint64_t seed, std::uint32_t links, std::uint32_t flows) {
  Draw draw(seed);
  FlowSet set;
  for (std::uint32_t l = 0; l < links; ++l) set.capacities.push_back(kGBps * (5 + draw.below(95)) + draw.below(1000));
  std::vector<std::uint32_t> order(links);
  std::iota(order.begin(), order.end(), 0);
  for (std::uint32_t f = 0; f < flows; ++f) {
    FlowSet::Flow flow;
    const std::uint32_t hops = 2 + draw.below(std::min<std::uint32_t>(5, links - 1));
    for (std::uint32_t h = 0; h < hops; ++h) {
      std::swap(order[h], order[h + draw.below(links - h)]);
      flow.links.push_back(order[h]);
    }
    if (f % 3 == 0) flow.cap = kGBps * (1 + draw.below(20));
    flow.bytes = 1'000'000 + std::int64_t{draw.below(1'000'000'000)};
    set.flows.push_back(std::move(flow));
  }
  cap_at_links(set);
  return set;
}

FlowSet fat_tree_random(std::uint64_t seed, std::uint32_t flows) {
  FatTree tree(seed);
  for (std::uint32_t f = 0; f < flows; ++f) {
    const std::uint32_t from = tree.draw().below(FatTree::kHosts);
    tree.add(from, (from + 1 + tree.draw().below(FatTree::kHosts - 1)) % FatTree::kHosts);
  }
  return tree.take();
}

FlowSet fat_tree_permutation(std::uint64_t seed) {
  FatTree tree(seed);
  std::vector<std::uint32_t> to(FatTree::kHosts);
  std::iota(to.begin(), to.end(), 0);
  for (std::uint32_t i = FatTree::kHosts - 1; i > 0; --i) std::swap(to[i], to[tree.draw().below(i + 1)]);
  for (std::uint32_t h = 0; h < FatTree::kHosts; ++h) tree.add(h, to[h]);
  return tree.take();
}

engine::Input flow_input(const FlowSet& set) {
  engine::Input in;
  for (const std::int64_t c : set.capacities) in.resources.push_back({c, 1, false});
  in.ranks.resize(2);
  in.programs.resize(2);
  for (std::uint32_t r = 0; r < 2; ++r) {
    in.ranks[r].program = in.ranks[r].lowest = r;
    in.programs[r].batches.resize(1);
    in.programs[r].streams = {{}, {{engine::Op::kBatch, 0, engine::kNone, engine::kNone}}};
    in.programs[r].host = {{engine::HostOp::kIssue, 1, 0, 1, engine::kNone, 0, 0, 0}};
  }
  for (std::uint32_t f = 0; f < set.flows.size(); ++f) {
    const FlowSet::Flow& flow = set.flows[f];
    const auto begin = static_cast<std::uint32_t>(in.usages.size());
    for (const std::uint32_t l : flow.links) in.usages.push_back({l, std::int64_t{1} << engine::kWeightBits});
    in.channels.push_back({0, 1, {begin, static_cast<std::uint32_t>(in.usages.size())}, f, f, 1});
    engine::Transfer transfer;
    transfer.cap = flow.cap;
    transfer.work = int128{flow.bytes} << engine::kRateBits;
    transfer.reference_bytes = flow.bytes;
    in.transfers.push_back(transfer);
    for (std::uint32_t r = 0; r < 2; ++r) {
      in.ranks[r].channels.push_back(f);
      in.programs[r].batches[0].push_back({r == 0, f, 0});
    }
  }
  return in;
}

std::vector<double> finish_times(const engine::Result& result) {
  std::vector<double> seconds;
  for (const engine::TransferResult& t : result.transfers) seconds.push_back(static_cast<double>(t.time_ps) / kPicosecondsPerSecond);
  return seconds;
}

}  // namespace orrery::test
