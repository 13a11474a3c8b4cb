#include "engine/tables.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/slots.hpp"
#include "orrery/base/assert.hpp"

namespace orrery::engine {
namespace {

void add_host(const Program& program, ProgramTable& table, Tables& t) {
  SimTime since_step = 0;
  std::int64_t sum = 0;
  std::uint64_t launches = 0;
  std::vector<std::int64_t> kinds(table.peak_kinds.size(), 0);
  table.first_step = static_cast<std::uint32_t>(t.steps.size());
  for (std::uint32_t i = 0; i < program.host.size(); ++i) {
    const HostInstruction& h = program.host[i];
    const bool stops = h.op == HostOp::kIssue || h.op == HostOp::kSync;
    if (stops) {
      if (h.op == HostOp::kIssue) launches += h.launches;
      t.steps.push_back({h.cost, h.lead, launches, h.event, i, h.stream, h.op == HostOp::kSync});
      ++table.steps;
      since_step = h.cost;
      continue;
    }
    if (h.op != HostOp::kWork) {
      const std::int64_t change = h.op == HostOp::kAllocate ? h.bytes : -h.bytes;
      sum += change;
      kinds[h.memory_kind] += change;
      if (sum > table.peak_bytes) {
        table.peak_bytes = sum;
        table.peak_step = table.steps;
        table.peak_offset = since_step;
        table.peak_kinds = kinds;
      }
    }
    since_step += h.cost;
    if (table.steps == 0) table.before_first_step += h.cost;
    else t.steps.back().cost += h.cost;
  }
}

/// The most instructions of a stream that can be issued and not started: those in a window of the host's list whose launches after the
/// first are within the run-ahead.
void size_rings(const ProgramTable& table, std::uint32_t run_ahead, Tables& t) {
  std::vector<std::uint32_t> inside(table.streams, 0), most(table.streams, 1);
  std::uint32_t first = table.first_step;
  for (std::uint32_t i = table.first_step; i < table.first_step + table.steps; ++i) {
    const HostStep& step = t.steps[i];
    if (step.sync) continue;
    ++inside[step.stream];
    for (; first < i && (t.steps[first].sync || step.launches - t.steps[first].launches > run_ahead); ++first) {
      if (!t.steps[first].sync) --inside[t.steps[first].stream];
    }
    most[step.stream] = std::max(most[step.stream], inside[step.stream]);
  }
  for (std::uint32_t s = 0; s < table.streams; ++s) t.streams[table.first_stream + s].ring = std::bit_ceil(most[s]);
}

void add_streams(const Program& program, ProgramTable& table, Tables& t) {
  table.first_stream = static_cast<std::uint32_t>(t.streams.size());
  table.streams = static_cast<std::uint32_t>(program.streams.size());
  table.first_event = static_cast<std::uint32_t>(t.recorder.size());
  table.first_segment = t.segments;
  t.segments += static_cast<std::uint32_t>(program.segments.size());
  t.recorder.resize(t.recorder.size() + program.events);
  std::vector<std::pair<std::uint32_t, Place>> waits;
  for (std::uint32_t s = 0; s < table.streams; ++s) {
    const std::vector<Instruction>& stream = program.streams[s];
    t.streams.push_back({static_cast<std::uint32_t>(t.codes.size()), static_cast<std::uint32_t>(stream.size()), 1});
    for (std::uint32_t i = 0; i < stream.size(); ++i) {
      t.codes.push_back({0, stream[i].index, stream[i].wait, stream[i].record, stream[i].op});
      if (stream[i].record != kNone) t.recorder[table.first_event + stream[i].record] = {s, i};
      if (stream[i].wait != kNone) waits.push_back({stream[i].wait, {s, i}});
    }
  }
  std::stable_sort(waits.begin(), waits.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::size_t w = 0;
  for (std::uint32_t e = 0; e < program.events; ++e) {
    t.waiters_begin.push_back(static_cast<std::uint32_t>(t.waiters.size()));
    for (; w < waits.size() && waits[w].first == e; ++w) t.waiters.push_back(waits[w].second);
  }
  std::vector<std::uint32_t> issued(table.streams, 0);
  std::uint64_t launches = 0;
  for (const HostInstruction& h : program.host) {
    if (h.op != HostOp::kIssue) continue;
    launches += h.launches;
    t.codes[t.streams[table.first_stream + h.stream].begin + issued[h.stream]++].launches = launches;
  }
}

void add_ranks(const Input& input, Tables& t) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> variants;
  std::uint32_t streams = 0;
  std::size_t words = 0;
  for (const Rank& rank : input.ranks) {
    t.rank_first_stream.push_back(streams);
    t.rank_first_event.push_back(words);
    streams += t.programs[rank.program].streams;
    words += (std::size_t{input.programs[rank.program].events} + 63) / 64;
    variants.emplace_back(rank.program, rank.variant);
  }
  t.rank_first_stream.push_back(streams);
  t.rank_first_event.push_back(words);
  std::sort(variants.begin(), variants.end());
  variants.erase(std::unique(variants.begin(), variants.end()), variants.end());
  for (const auto& [program, variant] : variants) {
    t.variant_program.push_back(program);
    t.variant_hardware.push_back(variant);
  }
  t.variants = static_cast<std::uint32_t>(variants.size());
  for (const Rank& rank : input.ranks) {
    const auto at = std::lower_bound(variants.begin(), variants.end(), std::pair(rank.program, rank.variant));
    t.rank_variant.push_back(static_cast<std::uint32_t>(at - variants.begin()));
  }
}

void add_meetings(const Input& input, Tables& t) {
  std::size_t members = 0;
  for (const Group& group : input.groups) {
    t.group_begin.push_back(members);
    members += group.members.size();
  }
  t.group_begin.push_back(members);
  t.member_streams.assign(members, kNone);
  t.sender_stream.assign(input.channels.size(), kNone);
  t.receiver_stream.assign(input.channels.size(), kNone);
  std::vector<std::uint32_t> pairs(input.channels.size(), 0);
  std::vector<Slots> slots;
  for (const Program& program : input.programs) slots.push_back(find_slots(program));
  for (std::uint32_t r = 0; r < input.ranks.size(); ++r) {
    const Rank& rank = input.ranks[r];
    const Slots& used = slots[rank.program];
    const std::uint32_t first = t.rank_first_stream[r];
    for (std::size_t slot = 0; slot < rank.groups.size(); ++slot) {
      const std::vector<std::uint32_t>& m = input.groups[rank.groups[slot]].members;
      const auto at = std::lower_bound(m.begin(), m.end(), r);
      if (const SlotUse* use = find_slot(used.groups, slot)) {
        t.member_streams[t.group_begin[rank.groups[slot]] + static_cast<std::size_t>(at - m.begin())] = first + use->stream;
      }
    }
    for (std::size_t slot = 0; slot < rank.channels.size(); ++slot) {
      const std::uint32_t c = rank.channels[slot];
      if (const SlotUse* use = find_slot(used.sends, slot)) {
        t.sender_stream[c] = first + use->stream;
        pairs[c] = std::max(pairs[c], use->most_in_a_batch);
      }
      if (const SlotUse* use = find_slot(used.receives, slot)) t.receiver_stream[c] = first + use->stream;
    }
  }
  std::uint32_t activity = static_cast<std::uint32_t>(input.groups.size());
  for (const std::uint32_t n : pairs) {
    t.pair_begin.push_back(activity);
    activity += n;
  }
  t.pair_begin.push_back(activity);
}

void add_usages(const Input& input, Tables& t) {
  for (const Usage& u : input.usages) {
    t.binding_before.push_back(static_cast<std::uint32_t>(t.binding.size()));
    t.passive_before.push_back(static_cast<std::uint32_t>(t.passive.size()));
    (input.resources[u.resource].passive ? t.passive : t.binding).push_back(u);
  }
  t.binding_before.push_back(static_cast<std::uint32_t>(t.binding.size()));
  t.passive_before.push_back(static_cast<std::uint32_t>(t.passive.size()));
  std::uint32_t set = 0;
  for (const Group& group : input.groups) {
    t.group_first_set.push_back(set);
    set += static_cast<std::uint32_t>(group.usage_sets.size());
  }
  t.group_first_set.push_back(set);
}

}  // namespace

Tables make_tables(const Input& input) {
  Tables t;
  for (const Program& program : input.programs) {
    ProgramTable table;
    table.peak_kinds.assign(input.memory_kinds, 0);
    add_streams(program, table, t);
    add_host(program, table, t);
    size_rings(table, input.run_ahead, t);
    t.programs.push_back(std::move(table));
  }
  t.waiters_begin.push_back(static_cast<std::uint32_t>(t.waiters.size()));
  add_ranks(input, t);
  add_meetings(input, t);
  add_usages(input, t);
  return t;
}

}  // namespace orrery::engine
