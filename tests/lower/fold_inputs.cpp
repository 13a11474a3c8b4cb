#include "lower/fold_inputs.hpp"

#include <functional>

#include "lower/refine.hpp"  // mix

namespace orrery::test {
namespace {

using engine::HostOp;
using engine::Instruction;
using engine::kNone;
using engine::Op;

constexpr std::int64_t kOne = std::int64_t{1} << engine::kWeightBits;
constexpr std::int64_t kGB = (std::int64_t{1} << engine::kRateBits) / 1000;  // 1 GB/s = 1e-3 byte/ps
constexpr std::int64_t kNvlink = 450 * kGB, kNic = 50 * kGB;

enum Stream : std::uint8_t { kCompute, kTp, kReduce, kGather, kSendDown, kReceiveDown, kSendUp, kReceiveUp, kStreams };
enum Account : std::uint32_t { kKernels = 2, kTpWait, kDpWait, kPpWait, kAccounts };
enum Memory : std::uint8_t { kActivations, kGradients, kMemoryKinds };
// Transfers: relative numbers within a group or channel.
enum Relative : std::uint32_t { kPlain = 0, kHeavy = 1, kActivation = 0, kGradient = 1 };

class ProgramBuilder {
 public:
  ProgramBuilder() { program_.streams.resize(kStreams); }
  std::uint32_t event() { return program_.events++; }
  /// Adds a device instruction and the host's issue of it.
  void add(std::uint8_t stream, Instruction instruction) {
    program_.streams[stream].push_back(instruction);
    const auto n = static_cast<SimTime>(program_.host.size());
    program_.host.push_back({HostOp::kIssue, stream, 0, 1, kNone, 1'500'000 + 1000 * (n % 7), 500'000, 0});
  }
  void wait(std::uint8_t stream, std::uint32_t event) {
    if (event != kNone) add(stream, {Op::kWait, 0, event, kNone});
  }
  void segment(std::uint32_t wait, std::uint32_t record) {
    const auto index = static_cast<std::uint32_t>(program_.segments.size());
    program_.segments.push_back({kKernels, 3'000'000});
    add(kCompute, {Op::kSegment, index, wait, record});
  }
  void collective(std::uint8_t stream, std::uint32_t slot, std::uint32_t transfer, std::uint32_t wait, std::uint32_t record) {
    const auto index = static_cast<std::uint32_t>(program_.collectives.size());
    program_.collectives.push_back({slot, transfer});
    add(stream, {Op::kCollective, index, wait, record});
  }
  void batch(std::uint8_t stream, std::vector<engine::PointToPoint> pairs, std::uint32_t wait, std::uint32_t record) {
    const auto index = static_cast<std::uint32_t>(program_.batches.size());
    program_.batches.push_back(std::move(pairs));
    add(stream, {Op::kBatch, index, wait, record});
  }
  void memory(HostOp op, std::uint8_t kind, std::int64_t bytes) {
    program_.host.push_back({op, 0, kind, 0, kNone, 100'000, 0, bytes});
  }
  void sync(std::uint32_t event) { program_.host.push_back({HostOp::kSync, 0, 0, 0, event, 2'000'000, 0, 0}); }
  engine::Program take() { return std::move(program_); }

 private:
  engine::Program program_;
};

/// Slots of a rank: TP first where there is one, then the DP group that reduces and the one that gathers; channels down-out, down-in, up-out, up-in where there are.
struct Slots {
  std::uint32_t tp = kNone, reduce = kNone, gather = kNone, send_down = kNone, receive_down = kNone, send_up = kNone, receive_up = kNone;
};
Slots slots_of(const Job& job, std::uint32_t stage) {
  Slots s;
  std::uint32_t group = 0, channel = 0;
  if (job.tp > 1) s.tp = group++;
  if (job.dp > 1) s.reduce = group++;
  if (job.dp > 1) s.gather = group++;
  if (stage + 1 < job.pp) s.send_down = channel++;
  if (stage > 0) s.receive_down = channel++;
  if (stage > 0) s.send_up = channel++;
  if (stage + 1 < job.pp) s.receive_up = channel++;
  return s;
}

/// All forwards, then all backwards: segment, TP collective, segment each; receives before and sends after.
engine::Program make_program(const Job& job, std::uint32_t stage) {
  ProgramBuilder p;
  const Slots slots = slots_of(job, stage);
  std::vector<std::uint32_t> gathered;
  if (slots.gather != kNone) {
    for (std::uint32_t b = 0; b < job.buckets; ++b) {
      p.memory(HostOp::kAllocate, kGradients, 1 << 20);
      gathered.push_back(p.event());
      p.collective(kGather, slots.gather, b % 2 == 0 ? kHeavy : kPlain, kNone, gathered.back());
    }
  }
  std::uint32_t sent = kNone;  // batched_p2p: what the next batch sends is ready after this event
  const auto pass = [&](std::uint32_t m, std::uint32_t in, std::uint32_t out, std::uint8_t in_stream, std::uint8_t out_stream, std::uint32_t transfer) {
    const bool batched = job.batched_p2p && in != kNone && out != kNone;
    std::uint32_t arrived = kNone;
    if (in != kNone) {
      arrived = p.event();
      std::vector<engine::PointToPoint> pairs{{false, in, transfer}};
      if (batched && m > 0) pairs.push_back({true, out, transfer});
      p.batch(in_stream, std::move(pairs), batched && m > 0 ? sent : kNone, arrived);
    }
    p.memory(HostOp::kAllocate, kActivations, 3000 + m);
    if (transfer == kActivation && m < gathered.size()) p.wait(kCompute, gathered[m]);
    const std::uint32_t first = p.event(), reduced = p.event(), done = p.event();
    p.segment(arrived, first);
    if (slots.tp != kNone) {
      p.collective(kTp, slots.tp, m % 2 == 0 ? kPlain : kHeavy, first, reduced);
      p.wait(kCompute, reduced);
    }
    p.segment(kNone, done);
    if (out != kNone && (!batched || m + 1 == job.microbatches)) p.batch(batched ? in_stream : out_stream, {{true, out, transfer}}, done, kNone);
    sent = done;
    return done;
  };
  std::uint32_t done = kNone;
  for (std::uint32_t m = 0; m < job.microbatches; ++m) done = pass(m, slots.receive_down, slots.send_down, kReceiveDown, kSendDown, kActivation);
  for (std::uint32_t m = 0; m < job.microbatches; ++m) {
    done = pass(m, slots.receive_up, slots.send_up, kReceiveUp, kSendUp, kGradient);
    p.memory(HostOp::kFree, kActivations, 3000 + m);
    if (slots.reduce != kNone && m + job.buckets >= job.microbatches) p.collective(kReduce, slots.reduce, kPlain, done, kNone);
  }
  p.sync(done);
  p.segment(kNone, kNone);
  return p.take();
}

class InputBuilder {
 public:
  explicit InputBuilder(const Job& job) : job_(job) {}

  engine::Input build() {
    in_.accounts = kAccounts;
    in_.memory_kinds = kMemoryKinds;
    in_.run_ahead = job_.run_ahead;
    make_resources();
    for (std::uint32_t p = 0; p < job_.pp; ++p) in_.programs.push_back(make_program(job_, p));
    for (std::uint32_t r = 0; r < job_.ranks(); ++r) {
      engine::Rank rank;
      rank.program = r / (job_.tp * job_.dp);
      rank.lowest = r;
      in_.ranks.push_back(rank);
    }
    for (const auto& [r, variant] : job_.variants) in_.ranks[r % job_.ranks()].variant = variant;
    if (job_.tp > 1) make_groups(0, job_.tp, [&](std::uint32_t g, std::uint32_t i) { return g * job_.tp + i; });
    for (std::uint32_t axis = 1; axis <= 2 && job_.dp > 1; ++axis) {
      make_groups(axis, job_.dp, [&](std::uint32_t g, std::uint32_t i) { return g % job_.tp + job_.tp * (i + job_.dp * (g / job_.tp)); });
    }
    make_channels();
    return std::move(in_);
  }

 private:
  std::uint32_t node(std::uint32_t r) const { return r / job_.ranks_per_node; }
  std::uint32_t leaf(std::uint32_t r) const { return node(r) / job_.nodes_per_leaf; }
  std::uint32_t nvlink(std::uint32_t r, bool out) const { return 2 * r + (out ? 0 : 1); }
  std::uint32_t nic(std::uint32_t r, bool out) const { return 2 * job_.ranks() + 2 * (r / job_.ranks_per_nic) + (out ? 0 : 1); }
  std::uint32_t uplink(std::uint32_t r, bool out) const { return first_leaf_ + 2 * leaf(r) + (out ? 0 : 1); }

  void make_resources() {
    const std::uint32_t nics = (job_.ranks() + job_.ranks_per_nic - 1) / job_.ranks_per_nic;
    first_leaf_ = 2 * job_.ranks() + 2 * nics;
    in_.resources.assign(std::size_t{2} * job_.ranks(), {kNvlink, 1, false});
    in_.resources.resize(first_leaf_, {kNic, 1, false});
    in_.resources.resize(std::size_t{first_leaf_} + 2 * (leaf(job_.ranks() - 1) + 1), {kNic * job_.leaf_share, 1, false});
    for (const auto& [n, eighths] : job_.degraded_nics) degrade(2 * job_.ranks() + 2 * (n % nics), eighths);
    for (const auto& [l, eighths] : job_.degraded_leaves) degrade(first_leaf_ + 2 * (l % (leaf(job_.ranks() - 1) + 1)), eighths);
  }
  void degrade(std::uint32_t resource, std::uint32_t eighths) {
    for (std::uint32_t r = resource; r < resource + 2; ++r) in_.resources[r].capacity = in_.resources[r].capacity / 8 * eighths;
  }

  void cross(std::uint32_t from, std::uint32_t to, std::int64_t weight) {
    if (node(from) == node(to)) {
      in_.usages.push_back({nvlink(from, true), weight});
      in_.usages.push_back({nvlink(to, false), weight});
      return;
    }
    in_.usages.push_back({nic(from, true), weight});
    in_.usages.push_back({nic(to, false), weight});
    if (leaf(from) == leaf(to)) return;
    in_.usages.push_back({uplink(from, true), weight});
    in_.usages.push_back({uplink(to, false), weight});
  }
  std::uint32_t end() const { return static_cast<std::uint32_t>(in_.usages.size()); }

  std::uint32_t add_transfer(SimTime latency, std::int64_t cap, std::int64_t bytes, std::uint32_t set, std::uint32_t account) {
    engine::Transfer t;
    t.latency = latency;
    t.cap = cap;
    t.work = (int128{bytes} << engine::kRateBits) + 12345;
    t.usage_set = set;
    t.account = account;
    t.reference_bytes = bytes;
    t.sms = static_cast<std::int32_t>(4 + 4 * account);
    t.hbm = cap / 3;
    in_.transfers.push_back(t);
    return static_cast<std::uint32_t>(in_.transfers.size() - 1);
  }

  /// Rings with two usage sets: the plain ring, and one where every hop carries 5/3 as much.
  void make_groups(std::uint32_t axis, std::uint32_t size, const std::function<std::uint32_t(std::uint32_t, std::uint32_t)>& member) {
    const std::uint32_t account = axis == 0 ? kTpWait : kDpWait;
    const std::int64_t cap = job_.ranks_per_node >= size * (axis == 0 ? 1 : job_.tp) ? kNvlink / 2 : kNic / 2;
    const std::uint32_t first = add_transfer(4'000'000, cap, 1'000'003 * (1 + axis), 0, account);
    add_transfer(6'000'001, cap - 1001, 600'011 * (1 + axis), 1, account);
    for (std::uint32_t g = 0; g < job_.ranks() / size; ++g) {
      engine::Group group;
      group.kind = axis;
      group.first_transfer = first;
      for (std::uint32_t i = 0; i < size; ++i) group.members.push_back(member(g, i));
      for (const std::int64_t weight : {kOne, (kOne * 5 + 2) / 3}) {
        const std::uint32_t begin = end();
        for (std::uint32_t i = 0; i < size; ++i) cross(group.members[i], group.members[(i + 1) % size], weight);
        group.usage_sets.push_back({begin, end()});
      }
      for (const std::uint32_t r : group.members) in_.ranks[r].groups.push_back(static_cast<std::uint32_t>(in_.groups.size()));
      in_.groups.push_back(std::move(group));
    }
  }

  void make_channels() {
    if (job_.pp == 1) return;
    const std::uint32_t first = add_transfer(5'000'000, kNic - 7, 300'007, 0, kPpWait);
    add_transfer(5'500'000, kNic - 9, 310'019, 0, kPpWait);
    const std::uint32_t stride = job_.tp * job_.dp;
    for (std::uint32_t r = 0; r < job_.ranks(); ++r) {
      // The order of slots_of: down-out, down-in, up-out, up-in. Channels are made by their sender, receivers look them up.
      if (r + stride < job_.ranks()) in_.ranks[r].channels.push_back(add_channel(r, r + stride, 0, first));
      if (r >= stride) in_.ranks[r].channels.push_back(in_.ranks[r - stride].channels[0]);
      if (r >= stride) in_.ranks[r].channels.push_back(add_channel(r, r - stride, 1, first));
    }
    for (std::uint32_t r = 0; r + stride < job_.ranks(); ++r) {
      in_.ranks[r].channels.push_back(in_.ranks[r + stride].channels[r + 2 * stride < job_.ranks() ? 2 : 1]);
    }
  }
  std::uint32_t add_channel(std::uint32_t from, std::uint32_t to, std::uint32_t kind, std::uint32_t first) {
    const std::uint32_t begin = end();
    cross(from, to, kOne);
    in_.channels.push_back({from, to, {begin, end()}, first, kind, 1});
    return static_cast<std::uint32_t>(in_.channels.size() - 1);
  }

  const Job& job_;
  engine::Input in_;
  std::uint32_t first_leaf_ = 0;
};

}  // namespace

engine::Input make_input(const Job& job) { return InputBuilder(job).build(); }

SimTime MadeUpTimes::duration(std::uint32_t program, std::uint32_t segment, std::uint32_t variant, std::int32_t sms, std::int64_t hbm) const {
  const auto base = static_cast<SimTime>(20'000'000 + lower::mix(program * 1000 + segment) % 30'000'000);
  return base + base * variant / 5 + base * sms / 132 + base / 16 * (hbm / (100 * kGB));
}

}  // namespace orrery::test
