// Chrome's trace event format (Perfetto documents it as "JSON trace format"): "X" is a slice with a start and a duration in microseconds,
// "C" a counter, "s" and "f" the ends of an arrow that binds to the slices around them, "M" names a process or thread.
#include "orrery/report/trace.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

#include "orrery/document/value.hpp"

namespace orrery::report {

namespace {

/// Picoseconds as microseconds, exactly: a double would lose them after 2.5 hours, and shortest forms would differ in length.
std::string us(SimTime t) { return fmt::format("{}.{:06}", t / 1'000'000, t % 1'000'000); }
std::string quoted(const std::string& s) { return document::dump(document::Value(s), -1); }

bool is_device(const program::Item& item) {
  switch (item.kind) {
    case program::ItemKind::kSegment:
    case program::ItemKind::kCollective:
    case program::ItemKind::kBatch:
    case program::ItemKind::kWait: return true;
    case program::ItemKind::kAllocate:
    case program::ItemKind::kFree:
    case program::ItemKind::kHostWork:
    case program::ItemKind::kHostSync: break;
  }
  return false;
}

std::string stream_name(std::uint32_t stream) {
  return stream < program::kStreams ? program::to_string(static_cast<program::Stream>(stream)) : fmt::format("stream {}", stream);
}

}  // namespace

ChromeTrace::ChromeTrace(const engine::Input& input, const metrics::Inputs& inputs, const program::Program& program, std::vector<std::uint32_t> ranks)
    : input_(input), inputs_(inputs), program_(program), ranks_(std::move(ranks)) {
  std::sort(ranks_.begin(), ranks_.end());
  ranks_.erase(std::unique(ranks_.begin(), ranks_.end()), ranks_.end());
  for (std::uint32_t rank : ranks_) {
    const std::uint32_t role = input_.ranks[rank].program;
    if (items_.count(role) != 0 || role >= program_.roles.size()) continue;
    auto& streams = items_[role];
    streams.resize(program::kStreams);
    for (const program::Item& item : program_.roles[role].items)
      if (is_device(item)) streams[static_cast<std::size_t>(item.stream)].push_back(&item);
  }
}

bool ChromeTrace::wants(std::uint32_t rank) const { return std::binary_search(ranks_.begin(), ranks_.end(), rank); }

std::string ChromeTrace::label(std::uint32_t rank, std::uint32_t stream, std::uint32_t instruction) const {
  const engine::Rank& r = input_.ranks[rank];
  const engine::Program& p = input_.programs[r.program];
  const engine::Instruction& i = p.streams[stream][instruction];
  const auto transfer = [&](std::uint32_t t) { return inputs_.transfers[t]; };
  switch (i.op) {
    case engine::Op::kSegment:
      return r.program < program_.roles.size() && i.index < program_.roles[r.program].segments.size() ? program_.roles[r.program].segments[i.index].name
                                                                                                     : fmt::format("segment {}", i.index);
    case engine::Op::kCollective: {
      const engine::Collective& c = p.collectives[i.index];
      const metrics::TransferInfo& t = transfer(input_.groups[r.groups[c.group_slot]].first_transfer + c.transfer);
      return fmt::format("{} {}", collective::to_string(t.kind), workload::to_string(t.axis));
    }
    case engine::Op::kBatch: {
      std::string name;
      for (const engine::PointToPoint& m : p.batches[i.index]) name += fmt::format("{}{}", name.empty() ? "" : " + ", m.send ? "send" : "receive");
      return name;
    }
    case engine::Op::kRecord: return "record";
    case engine::Op::kWait: break;
  }
  return "wait";
}

void ChromeTrace::ran(std::uint32_t rank, std::uint32_t stream, std::uint32_t instruction, SimTime launched, SimTime started, SimTime ended) {
  const engine::Rank& r = input_.ranks[rank];
  const engine::Instruction& i = input_.programs[r.program].streams[stream][instruction];
  std::string args;
  const auto add = [&](std::string_view name, const std::string& value) { args += fmt::format("{}\"{}\":{}", args.empty() ? "" : ",", name, value); };
  if (const auto found = items_.find(r.program); found != items_.end() && stream < found->second.size() && instruction < found->second[stream].size()) {
    const program::Item& item = *found->second[stream][instruction];
    if (item.microbatch >= 0) add("microbatch", fmt::format("{}", item.microbatch));
    if (item.chunk >= 0) add("chunk", fmt::format("{}", item.chunk));
  }
  if (started > launched) add("waited_us", us(started - launched));
  event(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"args":{{{}}}}})", r.lowest, stream, us(started), us(ended - started),
                    quoted(label(rank, stream, instruction)), args));
  if (i.op == engine::Op::kBatch) arrows(rank, stream, i, started, ended);
}

void ChromeTrace::arrows(std::uint32_t rank, std::uint32_t stream, const engine::Instruction& instruction, SimTime started, SimTime ended) {
  const engine::Rank& r = input_.ranks[rank];
  for (const engine::PointToPoint& m : input_.programs[r.program].batches[instruction.index]) {
    Flow& flow = flows_[r.channels[m.channel_slot]];
    (m.send ? flow.sends : flow.receives).push_back({rank, stream, m.send ? started : ended});
  }
}

void ChromeTrace::memory(std::uint32_t rank, SimTime at, std::uint32_t kind, std::int64_t bytes) {
  auto& held = held_[rank];
  held.resize(inputs_.memory_kinds.size());
  held[kind] = bytes;
  std::string args;
  for (std::size_t k = 0; k < held.size(); ++k) args += fmt::format("{}{}:{}", args.empty() ? "" : ",", quoted(inputs_.memory_kinds[k]), held[k]);
  event(fmt::format(R"({{"ph":"C","pid":{},"ts":{},"name":"memory","args":{{{}}}}})", input_.ranks[rank].lowest, us(at), args));
}

std::string ChromeTrace::json() {
  std::int64_t arrow = 0;
  for (const auto& [channel, flow] : flows_) {
    for (std::size_t k = 0; k < std::min(flow.sends.size(), flow.receives.size()); ++k) {
      const End &from = flow.sends[k], &to = flow.receives[k];
      event(fmt::format(R"({{"ph":"s","id":{},"pid":{},"tid":{},"ts":{},"name":"p2p","cat":"p2p"}})", arrow, input_.ranks[from.rank].lowest, from.stream, us(from.at)));
      event(fmt::format(R"({{"ph":"f","bp":"e","id":{},"pid":{},"tid":{},"ts":{},"name":"p2p","cat":"p2p"}})", arrow, input_.ranks[to.rank].lowest, to.stream, us(to.at)));
      ++arrow;
    }
  }
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (std::uint32_t rank : ranks_) {
    const engine::Rank& r = input_.ranks[rank];
    const std::string name = r.multiplicity > 1 ? fmt::format("rank {} (and {} alike)", r.lowest, r.multiplicity - 1) : fmt::format("rank {}", r.lowest);
    out += fmt::format("{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":{}}}}},\n", r.lowest, quoted(name));
    out += fmt::format("{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_sort_index\",\"args\":{{\"sort_index\":{}}}}},\n", r.lowest, r.lowest);
    for (std::uint32_t s = 0; s < input_.programs[r.program].streams.size(); ++s)
      if (!input_.programs[r.program].streams[s].empty())
        out += fmt::format("{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":{}}}}},\n", r.lowest, s, quoted(stream_name(s)));
  }
  for (const std::string& line : events_) out += line + ",\n";
  out += "{\"ph\":\"M\",\"pid\":0,\"name\":\"trace_end\",\"args\":{}}\n]}\n";
  return out;
}

}  // namespace orrery::report
