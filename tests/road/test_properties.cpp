// Laws that every step obeys, on random small jobs: no operation beats its roofline, rates and times scale together, names of ranks do
// not matter, books balance.
#include <rapidcheck.h>

#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "longest_chain.hpp"
#include "road.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

simulate::Outcome outcome_of(const Overrides& overrides, bool fold = false) {
  auto scenario = document::load_scenario_text(kSmallJob, "job.json", ORRERY_SOURCE_DIR, overrides);
  if (!scenario) RC_LOG() << problems(scenario.error());
  RC_PRE(scenario.has_value());
  simulate::Options options;
  options.fold = fold;
  auto played = simulate::simulate(*scenario, options);
  if (!played) RC_LOG() << problems(played.error());
  RC_PRE(played.has_value());
  return std::move(*played);
}

/// A random layout of the small job on one or two nodes that the plan accepts.
Overrides random_job() {
  const int tp = 1 << *rc::gen::inRange(0, 4);
  const int pp = 1 << *rc::gen::inRange(0, 3);
  const int dp = 1 << *rc::gen::inRange(0, tp * pp > 8 ? 1 : tp * pp > 4 ? 2 : 3);
  const int gpus = tp * pp * dp;
  const int vp = pp > 1 && *rc::gen::inRange(0, 2) == 1 ? 2 : 1;
  Overrides all = {{"parallelism.tp", std::to_string(tp)},
                   {"parallelism.pp", std::to_string(pp)},
                   {"parallelism.vp", std::to_string(vp)},
                   {"cluster.nodes", std::to_string((gpus + 7) / 8)},
                   {"cluster.gpus", std::to_string(gpus)},
                   {"training.global_batch", std::to_string(dp * pp * 2)},
                   {"parallelism.zero", std::to_string(*rc::gen::inRange(0, pp > 1 ? 3 : 4))},
                   {"training.recompute", *rc::gen::element<std::string>("none", "selective", "full")},
                   {"training.precision", *rc::gen::element<std::string>("bf16", "fp8", "fp16", "tf32")},
                   {"cluster.node", *rc::gen::element<std::string>("dgx-h100", "dgx-a100-80gb", "dgx-b200")},
                   {"cluster.fabric", *rc::gen::element<std::string>("infiniband-ndr-rail", "roce-400g")},
                   {"stack", *rc::gen::element<std::string>("generic", "megatron-core", "torchtitan")}};
  std::string told;
  for (const auto& o : all) told += o.path + "=" + o.value + " ";
  RC_LOG() << told;
  return all;
}

engine::Result play(const engine::Input& input, const engine::SegmentTimes& times, engine::Sink* sink = nullptr) {
  engine::Options options;
  options.sink = sink;
  auto played = engine::run(input, times, options);
  RC_ASSERT(std::holds_alternative<engine::Result>(played));
  return std::move(std::get<engine::Result>(played));
}

/// Another's durations, divided and rounded up.
class Divided : public engine::SegmentTimes {
 public:
  Divided(const engine::SegmentTimes& times, SimTime by) : times_(times), by_(by) {}
  SimTime duration(std::uint32_t program, std::uint32_t segment, std::uint32_t variant, std::int32_t sms, std::int64_t hbm) const override {
    return ceil_div(times_.duration(program, segment, variant, sms, hbm), by_);
  }

 private:
  const engine::SegmentTimes& times_;
  SimTime by_;
};

/// The same work without latencies and without a host, all rates multiplied. Footprints stay: they name modes.
engine::Input without_latencies(engine::Input input, std::int64_t rate) {
  input.run_ahead = std::numeric_limits<std::uint32_t>::max();  // so that the host waits for nothing but what it says
  for (engine::Resource& r : input.resources) r.capacity *= rate;
  for (engine::Transfer& t : input.transfers) {
    t.latency = 0;
    t.cap *= rate;
  }
  for (engine::Program& p : input.programs) {
    for (engine::HostInstruction& h : p.host) h.cost = h.lead = 0;
    for (engine::Segment& s : p.segments) s.wave = ceil_div(s.wave, rate);
  }
  return input;
}

/// Rank r of the input becomes rank place[r].
engine::Input relabelled(const engine::Input& input, const std::vector<std::uint32_t>& place) {
  engine::Input out = input;
  for (std::size_t r = 0; r < place.size(); ++r) {
    out.ranks[place[r]] = input.ranks[r];
    out.ranks[place[r]].lowest = place[r];
  }
  for (engine::Group& g : out.groups) {
    for (std::uint32_t& member : g.members) member = place[member];
    std::sort(g.members.begin(), g.members.end());
  }
  for (engine::Channel& c : out.channels) {
    c.sender = place[c.sender];
    c.receiver = place[c.receiver];
  }
  return out;
}

/// Bytes that cross all links together if every activity puts on each what its usage says (x 2^24).
int128 load_by_activity(const engine::Input& input, const engine::Result& result) {
  int128 total = 0;
  const auto weights = [&](const engine::UsageRange& range) {
    int128 sum = 0;
    for (std::uint32_t u = range.begin; u < range.end; ++u) sum += input.usages[u].weight;
    return sum;
  };
  // Groups that share transfers put the same on links of their own, so one of them stands for all.
  std::vector<bool> counted(input.transfers.size(), false);
  const auto count = [&](std::uint32_t t, const engine::UsageRange& range) {
    if (counted[t]) return;
    counted[t] = true;
    total += weights(range) * input.transfers[t].reference_bytes * result.transfers[t].count;
  };
  for (const engine::Rank& rank : input.ranks) {
    const engine::Program& p = input.programs[rank.program];
    for (const engine::Collective& c : p.collectives) {
      const engine::Group& g = input.groups[rank.groups[c.group_slot]];
      const std::uint32_t t = g.first_transfer + c.transfer;
      count(t, g.usage_sets.empty() ? engine::UsageRange{} : g.usage_sets[input.transfers[t].usage_set]);
    }
    for (const auto& batch : p.batches) {
      for (const engine::PointToPoint& x : batch) {
        const engine::Channel& c = input.channels[rank.channels[x.channel_slot]];
        count(c.first_transfer + x.transfer, c.usage);
      }
    }
  }
  return total;
}

}  // namespace

TEST_CASE("all rates doubled and no latencies: the step halves, to about one picosecond per event on the critical path") {
  // Durations d become ceil(d/2), so doubled they are d or d + 1: a chain of n of them is at most n longer and never shorter. The critical
  // path is a chain, and none is longer than the longest. Communication that holds SMs and memory bandwidth slows the kernels beside it, so
  // its starts and ends are events of the path of those kernels, where what is left is rounded again. Where activities share links, each
  // of the slower run's rates is rounded down by less than one unit, which doubled rates lose less of: below a picosecond per transfer
  // while rates are above 2^30 units and transfers shorter than a second.
  CHECK(rc::check("rates x 2 = time / 2", [] {
    const simulate::Outcome job = outcome_of(random_job());
    const engine::Input input = without_latencies(job.lowered->input, 1);
    Records records(input);
    const engine::Result slow = play(input, *job.lowered->times, &records);
    const engine::Result fast = play(without_latencies(job.lowered->input, 2), Divided(*job.lowered->times, 2));
    RC_ASSERT(slow.end > 0);
    const std::int64_t chain = longest_chain(input, &records);
    const SimTime apart = 2 * fast.end - slow.end;
    RC_LOG() << slow.end << " " << fast.end << " apart " << apart << " chain " << chain << " events " << slow.events;
    RC_ASSERT(apart >= -chain);
    RC_ASSERT(apart <= chain);
  }));
}

TEST_CASE("all rates doubled where nothing slows what runs beside it: the step is at most one picosecond per duration of its longest chain longer") {
  CHECK(rc::check("rates x 2 = time / 2 without modes", [] {
    simulate::Outcome job = outcome_of(random_job());
    for (engine::Transfer& t : job.lowered->input.transfers) t.sms = 0, t.hbm = 0;
    const engine::Input input = without_latencies(job.lowered->input, 1);
    const engine::Result slow = play(input, *job.lowered->times);
    const engine::Result fast = play(without_latencies(job.lowered->input, 2), Divided(*job.lowered->times, 2));
    const SimTime apart = 2 * fast.end - slow.end;
    RC_LOG() << slow.end << " " << fast.end << " apart " << apart << " events " << slow.events;
    RC_ASSERT(apart >= -longest_chain(input));
    RC_ASSERT(apart <= longest_chain(input));
  }));
}

TEST_CASE("the longest chain of a run counts what follows one another, and not what runs beside it") {
  engine::Input in;
  in.transfers.resize(1);
  in.groups.push_back({{0, 1}, {{}}, 0, 0, 1});
  engine::Program p;
  p.segments.resize(2);
  p.collectives.push_back({0, 0});
  p.events = 1;
  p.streams.resize(2);
  p.streams[0] = {{engine::Op::kSegment, 0, engine::kNone, 0}, {engine::Op::kSegment, 1, engine::kNone, engine::kNone}};
  p.streams[1] = {{engine::Op::kCollective, 0, 0, engine::kNone}};
  for (const std::uint8_t stream : {std::uint8_t{0}, std::uint8_t{0}, std::uint8_t{1}}) {
    engine::HostInstruction issue;
    issue.stream = stream;
    p.host.push_back(issue);
  }
  in.programs = {p, p};
  in.programs[1].streams[0] = {};
  in.programs[1].streams[1][0].wait = engine::kNone;
  in.programs[1].host.erase(in.programs[1].host.begin(), in.programs[1].host.begin() + 2);
  in.ranks = {{0, 0, {0}, {}, 1, 0}, {1, 0, {0}, {}, 1, 1}};
  CHECK(longest_chain(in) == 2);  // segment 0, then segment 1 or the collective
  in.programs[0].streams[1][0].wait = engine::kNone;
  in.programs[0].streams[0].pop_back();
  in.programs[0].host.erase(in.programs[0].host.begin());
  CHECK(longest_chain(in) == 1);  // side by side
}

TEST_CASE("ranks relabelled with their places: nothing changes but the names") {
  CHECK(rc::check("relabel", [] {
    const simulate::Outcome job = outcome_of(random_job());
    const engine::Input& input = job.lowered->input;
    std::vector<std::uint32_t> place(input.ranks.size());
    std::iota(place.begin(), place.end(), 0U);
    for (std::size_t i = place.size(); i > 1; --i) std::swap(place[i - 1], place[*rc::gen::inRange<std::size_t>(0, i)]);
    const engine::Result one = play(input, *job.lowered->times);
    const engine::Result other = play(relabelled(input, place), *job.lowered->times);
    RC_ASSERT(one.end == other.end);
    for (std::size_t r = 0; r < place.size(); ++r) {
      RC_ASSERT(one.ranks[r].finish == other.ranks[place[r]].finish);
      RC_ASSERT(one.ranks[r].account_ps == other.ranks[place[r]].account_ps);
      RC_ASSERT(one.ranks[r].peak_bytes == other.ranks[place[r]].peak_bytes);
    }
    for (std::size_t l = 0; l < input.resources.size(); ++l) RC_ASSERT(one.resources[l].load == other.resources[l].load);
  }));
}

TEST_CASE("an order of the axes that only renames ranks of size one changes nothing") {
  const Overrides base = {{"parallelism.tp", "8"}, {"cluster.nodes", "2"}};
  const search::Prediction usual = predict(kSmallJob, base);
  for (const char* order : {R"(["cp","tp","ep","dp","pp"])", R"(["tp","pp","cp","ep","dp"])", R"(["ep","pp","tp","dp","cp"])"}) {
    Overrides renamed = base;
    renamed.push_back({"parallelism.order", order});
    const search::Prediction other = predict(kSmallJob, renamed);
    INFO(order);
    document::Value a = report_of(usual), b = report_of(other);
    for (const char* member : {"scenario", "defaults_from"}) {
      a.erase(member);
      b.erase(member);
    }
    CHECK(first_difference(document::dump(a), document::dump(b)).empty());
  }
}

TEST_CASE("no kernel and no transfer beats its roofline") {
  CHECK(rc::check("roofline", [] {
    const simulate::Outcome job = outcome_of(random_job());
    const cluster::Gpu& gpu = job.cluster->node().gpu;
    const auto peak = [&](workload::DType type) {
      const auto known = metrics::dense_peak(gpu, type);
      const auto wide = metrics::dense_peak(gpu, workload::DType::kBf16);
      return known ? *known : *wide;  // a type without units of its own runs in the next wider one, which is no faster
    };
    for (std::size_t role = 0; role < job.program->roles.size(); ++role) {
      for (std::size_t s = 0; s < job.program->roles[role].segments.size(); ++s) {
        double at_peak = 0;
        for (const workload::Operation& op : job.program->roles[role].segments[s].operations) {
          double flops_s = 0, bytes_s = 0;
          if (const auto* gemm = std::get_if<workload::Gemm>(&op.work)) {
            flops_s = (gemm->flops() / peak(gemm->in)).value();
            const double elements_in = static_cast<double>(gemm->batch) * (static_cast<double>(gemm->m) * static_cast<double>(gemm->k) + static_cast<double>(gemm->k) * static_cast<double>(gemm->n));
            const double elements_out = static_cast<double>(gemm->batch) * static_cast<double>(gemm->m) * static_cast<double>(gemm->n);
            bytes_s = (elements_in * workload::element_bytes(gemm->in) + elements_out * workload::element_bytes(gemm->out)) / gpu.memory_bandwidth.value();
          } else if (const auto* attention = std::get_if<workload::Attention>(&op.work)) {
            flops_s = (attention->flops() / peak(workload::DType::kBf16)).value();
          } else if (const auto* stream = std::get_if<workload::Stream>(&op.work)) {
            // What a kernel before it wrote may still stand in the L2 cache, so only writes must reach memory.
            bytes_s = static_cast<double>(stream->write_bytes) / gpu.memory_bandwidth.value() * 0.5;
          }
          at_peak += std::max(flops_s, bytes_s);
        }
        RC_LOG() << job.program->roles[role].segments[s].name << " " << at_peak << " " << job.lowered->segments[role][s].total.value();
        RC_ASSERT(job.lowered->segments[role][s].total.value() >= at_peak * (1 - 1e-12));
      }
    }
    const engine::Input& input = job.lowered->input;
    // A reference flow is a share of a message, counted in whole bytes.
    for (const engine::Transfer& t : input.transfers) RC_ASSERT(t.work == 0 || t.work >= static_cast<int128>(t.reference_bytes - 1) << engine::kRateBits);
    const auto within = [&](const engine::UsageRange& range, const engine::Transfer& t) {
      for (std::uint32_t u = range.begin; u < range.end; ++u) {
        const engine::Usage& use = input.usages[u];
        RC_ASSERT(static_cast<int128>(use.weight) * t.cap <= static_cast<int128>(input.resources[use.resource].capacity) << engine::kWeightBits);
        const double nominal = job.cluster->links()[job.lowered->resource_link[use.resource].index()].nominal.value() / 1e12 * 0x1p40;
        RC_ASSERT(static_cast<double>(input.resources[use.resource].capacity) <= nominal * (1 + 1e-6) + 2);
      }
    };
    for (const engine::Rank& rank : input.ranks) {
      for (const engine::Collective& c : input.programs[rank.program].collectives) {
        const engine::Group& g = input.groups[rank.groups[c.group_slot]];
        const engine::Transfer& t = input.transfers[g.first_transfer + c.transfer];
        if (!g.usage_sets.empty()) within(g.usage_sets[t.usage_set], t);
      }
    }
  }));
}

TEST_CASE("a lone activity never slows when its link speeds up") {
  CHECK(rc::check("faster link, same activity", [] {
    Overrides slow = random_job();
    Overrides fast = slow;
    const int nvlink = *rc::gen::inRange(50, 300), nic = *rc::gen::inRange(50, 300);
    for (const auto& [all, factor] : {std::pair{&slow, 1}, std::pair{&fast, *rc::gen::inRange(1, 5)}}) {
      all->push_back({"cluster.node.gpu.scale_up_gb_per_s", std::to_string(nvlink * factor)});
      all->push_back({"cluster.node.scale_up_gb_per_s", std::to_string(nvlink * factor)});
      all->push_back({"cluster.node.nic_gbit_per_s", std::to_string(nic * factor)});
    }
    const simulate::Outcome a = outcome_of(slow), b = outcome_of(fast);
    RC_ASSERT(a.lowered->input.transfers.size() == b.lowered->input.transfers.size());
    const auto alone = [](const engine::Transfer& t) { return t.latency + (t.cap > 0 ? static_cast<SimTime>((t.work + t.cap - 1) / t.cap) : 0); };
    for (std::size_t t = 0; t < a.lowered->input.transfers.size(); ++t) {
      const lower::TransferRow &x = a.lowered->rows[a.lowered->transfer_row[t]], &y = b.lowered->rows[b.lowered->transfer_row[t]];
      RC_ASSERT(x.bytes == y.bytes);
      // NCCL estimates with tables of its own, and may choose what is slower on these links.
      if (x.choice.algorithm != y.choice.algorithm || x.choice.protocol != y.choice.protocol || x.choice.channels != y.choice.channels) continue;
      RC_LOG() << t << " " << x.bytes << " " << alone(a.lowered->input.transfers[t]) << " " << alone(b.lowered->input.transfers[t]);
      RC_ASSERT(alone(b.lowered->input.transfers[t]) <= alone(a.lowered->input.transfers[t]) + 1);
    }
  }));
}

TEST_CASE("a step is no shorter than the kernels of any rank, nor than work over capacity of any resource") {
  CHECK(rc::check("lower bounds", [] {
    const simulate::Outcome job = outcome_of(random_job());
    const engine::Input& input = job.lowered->input;
    for (const engine::Rank& rank : input.ranks) {
      SimTime kernels = 0;
      for (const engine::Instruction& i : input.programs[rank.program].streams[0]) {
        if (i.op == engine::Op::kSegment) kernels += job.lowered->times->duration(rank.program, i.index, rank.variant, 0, 0);
      }
      RC_ASSERT(job.result.end >= kernels);
    }
    for (std::size_t l = 0; l < input.resources.size(); ++l) {
      RC_ASSERT(job.result.resources[l].load << (engine::kRateBits - engine::kWeightBits) <= static_cast<int128>(input.resources[l].capacity) * job.result.end);
    }
  }));
}

TEST_CASE("books balance: what activities send is what links carry, times sum to the step, kinds of memory to the peak") {
  CHECK(rc::check("books", [] {
    const simulate::Outcome job = outcome_of(random_job());
    int128 carried = 0;
    for (const engine::ResourceResult& r : job.result.resources) carried += r.load;
    RC_ASSERT(carried == load_by_activity(job.lowered->input, job.result));
    for (const engine::RankResult& r : job.result.ranks) {
      RC_ASSERT(std::accumulate(r.account_ps.begin(), r.account_ps.end(), SimTime{0}) == job.result.end);
      RC_ASSERT(std::accumulate(r.peak_kind_bytes.begin(), r.peak_kind_bytes.end(), std::int64_t{0}) == r.peak_bytes);
    }
    const metrics::Summary s = search::summarise(job).summary;
    const metrics::Breakdown& b = s.breakdown;
    const double sum = b.compute_s + b.optimizer_s + b.bubble_s + b.other_s + std::accumulate(b.exposed_comm_s.begin(), b.exposed_comm_s.end(), 0.0);
    RC_ASSERT(std::abs(sum - s.step_s) <= 1e-12 * s.step_s * 10);
    std::int64_t kinds = 0;
    for (const auto& [kind, bytes] : s.memory.by_kind) kinds += bytes;
    RC_ASSERT(kinds == s.memory.peak_bytes);
  }));
}

TEST_CASE("inside a domain without reduction in the switch, ports carry what ring and tree send: 2(n-1) of an all-reduce, (n-1) of a gather or scatter") {
  for (const char* tp : {"2", "4", "8"}) {
    for (const char* zero : {"0", "1", "2"}) {
      const Overrides overrides = {{"parallelism.tp", tp}, {"parallelism.zero", zero}, {"cluster.node.nvswitch_generation", "2"}};
      INFO("tp " << tp << " zero " << zero);
      auto scenario = document::load_scenario_text(kSmallJob, "job.json", ORRERY_SOURCE_DIR, overrides);
      REQUIRE(scenario.has_value());
      simulate::Options options;
      options.fold = false;
      const auto job = simulate::simulate(*scenario, options);
      REQUIRE(job.has_value());
      double carried = 0, sent = 0;
      for (std::size_t l = 0; l < job->result.resources.size(); ++l) {
        const cluster::Link& link = job->cluster->links()[job->lowered->resource_link[l].index()];
        if (link.kind == cluster::LinkKind::kScaleUp && !link.inbound) carried += static_cast<double>(job->result.resources[l].load) / 0x1p24;
      }
      for (std::size_t t = 0; t < job->result.transfers.size(); ++t) {
        const lower::TransferRow& row = job->lowered->rows[job->lowered->transfer_row[t]];
        const double passes = row.kind == workload::CommKind::kAllReduce ? 2.0 : 1.0;
        sent += static_cast<double>(job->result.transfers[t].count) * passes * static_cast<double>(row.ranks - 1) * static_cast<double>(row.bytes);
      }
      CHECK(carried > 0);
      CHECK(carried == Approx(sent).epsilon(1e-5));
    }
  }
}

TEST_CASE("the same scenario twice gives the same bytes") {
  CHECK(rc::check("again", [] {
    const Overrides overrides = random_job();
    const auto one = try_predict(kSmallJob, overrides), other = try_predict(kSmallJob, overrides);
    RC_ASSERT(one.has_value() == other.has_value());
    RC_PRE(one.has_value());
    RC_ASSERT(first_difference(bytes_of(*one), bytes_of(*other)).empty());
  }));
}
