#pragma once
// An Input made flat before the run: what is the same for all ranks of a program, and who meets whom. Nothing here changes during a run.
#include <span>
#include <vector>

#include "orrery/engine/input.hpp"

namespace orrery::engine {

/// A device instruction and where the host stands when it has issued it.
struct Code {
  std::uint64_t launches = 0;  ///< issued by the host up to and including this one
  std::uint32_t index = 0, wait = kNone, record = kNone;
  Op op = Op::kSegment;
};
/// A host instruction at which the host may stop. What never stops it (memory, work) is added to the cost of the step before.
struct HostStep {
  SimTime cost = 0, lead = 0;
  std::uint64_t launches = 0;  ///< up to and including this one
  std::uint32_t event = kNone; ///< kSync
  std::uint32_t item = 0;      ///< index into Program::host
  std::uint8_t stream = 0;
  bool sync = false;
};
/// Where an event is waited for or recorded.
struct Place {
  std::uint32_t stream = kNone, instruction = 0;
};
struct StreamTable {
  std::uint32_t begin = 0, count = 0;  ///< Tables::codes
  std::uint32_t ring = 1;              ///< power of two: the most issued and not yet started instructions
};
struct ProgramTable {
  std::uint32_t first_stream = 0, streams = 0;  ///< Tables::streams
  std::uint32_t first_step = 0, steps = 0;      ///< Tables::steps
  std::uint32_t first_event = 0;                ///< Tables::recorder, Tables::waiters_begin
  std::uint32_t first_segment = 0;              ///< running number over all programs
  SimTime before_first_step = 0;
  // The order in which the host passes allocations is the program's, so its peak is too; a rank adds only when.
  std::int64_t peak_bytes = 0;
  std::uint32_t peak_step = kNone;   ///< passed this many steps …
  SimTime peak_offset = 0;           ///< … and this much later
  std::vector<std::int64_t> peak_kinds;
};

struct Tables {
  std::vector<ProgramTable> programs;
  std::vector<StreamTable> streams;
  std::vector<Code> codes;
  std::vector<HostStep> steps;
  std::vector<Place> recorder;                  // by program event
  std::vector<std::uint32_t> waiters_begin;     // by program event, one more at the end
  std::vector<Place> waiters;
  std::uint32_t segments = 0;

  std::vector<std::uint32_t> rank_first_stream; // one more at the end
  std::vector<std::size_t> rank_first_event;    // first 64-bit word of the rank's event bits, one more at the end
  std::vector<std::uint32_t> rank_variant;      // running number of its (program, variant)
  std::uint32_t variants = 0;
  std::vector<std::uint32_t> variant_program, variant_hardware;

  std::vector<std::size_t> group_begin;         // into member_streams, parallel to Group::members
  std::vector<std::uint32_t> member_streams;    // global stream in which the member launches; kNone: it never does
  std::vector<std::uint32_t> sender_stream, receiver_stream;  // by channel
  std::vector<std::uint32_t> pair_begin;        // activities of a channel's pairs, one more at the end; groups come first

  // Usages with passive resources taken out, and only those; before[i] = how many of either stand before usage i.
  std::vector<Usage> binding, passive;
  std::vector<std::uint32_t> binding_before, passive_before;
  std::vector<std::uint32_t> group_first_set;   // running number of a usage set: groups, then channels

  [[nodiscard]] std::span<const Usage> binding_of(UsageRange r) const { return cut(binding, binding_before, r); }
  [[nodiscard]] std::span<const Usage> passive_of(UsageRange r) const { return cut(passive, passive_before, r); }
  [[nodiscard]] std::uint32_t activities() const { return pair_begin.back(); }

 private:
  static std::span<const Usage> cut(const std::vector<Usage>& all, const std::vector<std::uint32_t>& before, UsageRange r) {
    return {all.data() + before[r.begin], all.data() + before[r.end]};
  }
};

Tables make_tables(const Input& input);

}  // namespace orrery::engine
