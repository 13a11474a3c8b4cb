// Every pipeline schedule through the program and the engine: what the order lists promise is what the instructions do.
#include <algorithm>
#include <string>
#include <vector>

#include "lower/unit_play.hpp"
#include "plan/schedules/schedules.hpp"
#include "program/jobs.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

constexpr std::int64_t kLayers = 1;

program::Job job_of(const plan::ScheduleRow& row, std::int64_t stages, std::int64_t chunks, std::int64_t microbatches, std::int64_t layers = kLayers) {
  program::Job job = small_job(1, stages, chunks, 1, 0, microbatches);
  plan::Parallelism& p = job.parallelism;
  p.schedule = row.id;
  p.placement = row.placement;
  p.p2p_overlapped = true;
  job.model.layers = stages * chunks * layers;
  p.layers_per_stage.assign(static_cast<std::size_t>(stages * chunks), layers);
  job.stack = {};
  return job;
}

/// The pipes to try: every schedule at its least and one larger number of chunks.
template <class Visit>
void every_pipe(std::int64_t most_stages, std::int64_t most_microbatches, Visit visit) {
  for (const plan::ScheduleRow* row : plan::schedules()) {
    if (row->id == plan::Schedule::kFile) continue;
    for (std::int64_t stages = row->groups ? 2 : 1; stages <= most_stages; ++stages) {
      if (row->placement == plan::Placement::kTwoWay && stages % 2 != 0) continue;
      for (std::int64_t m = std::max<std::int64_t>(1, row->rounds * stages); m <= most_microbatches; ++m) {
        if ((row->placement == plan::Placement::kTwoWay && m % 2 != 0) || (row->groups && m % stages != 0)) continue;
        visit(*row, stages, row->least_chunks, m);
        if (row->most_chunks == 0) visit(*row, stages, std::int64_t{3}, m);
      }
    }
  }
}

void ends_at_its_closed_form(const plan::ScheduleRow& row, std::int64_t stages, std::int64_t chunks, std::int64_t m) {
  CAPTURE(row.name, stages, chunks, m);
  const program::Job job = job_of(row, stages, chunks, m);
  const program::Program built = program::build(job);
  const engine::Result result = unit_play(built, kLayers);
  const std::int64_t work = 3 * m * (row.placement == plan::Placement::kTwoWay ? 1 : chunks);
  const double closed = static_cast<double>(work) / plan::closed_form_efficiency(job.parallelism, m);
  REQUIRE(result.end == static_cast<SimTime>(closed + 0.5) * kUnit);
}

}  // namespace

TEST_CASE("the engine plays every schedule to its closed form, for p up to 8 and m up to 16") { every_pipe(8, 16, ends_at_its_closed_form); }

TEST_CASE("the engine plays every schedule to its closed form, for every p up to 16 and m up to 32", "[slow]") { every_pipe(16, 32, ends_at_its_closed_form); }

namespace {

/// Bytes of a layer that stay from forward to backward, and from input gradients to weight gradients.
struct Kept {
  std::int64_t saved = 0, owed = 0;
};
Kept kept_by(const workload::Layer& layer) {
  Kept k;
  for (const auto& t : layer.saved) {
    k.saved += t.bytes;
    if (t.weight_use >= 0) k.owed += t.bytes;
  }
  for (const auto& t : layer.backward_tensors) {
    const bool by_weights = !t.arrives && std::count(layer.weight_gradient.begin(), layer.weight_gradient.end(), t.alloc_at) > 0;
    if (t.weight_use >= 0 && !by_weights) k.owed += t.bytes;
  }
  return k;
}

/// Activations held just before each entry of a role's list.
std::vector<std::int64_t> held_before_entries(const program::Role& role) {
  std::vector<std::int64_t> held;
  std::int64_t now = 0, fresh = 0;  // fresh: allocated since the last kernel or free
  std::uint32_t issued = 0;
  for (const program::Item& item : role.items) {
    const bool compute = item.stream == program::Stream::kCompute && (item.kind == program::ItemKind::kSegment || item.kind == program::ItemKind::kCollective ||
                                                                      item.kind == program::ItemKind::kBatch || item.kind == program::ItemKind::kWait);
    if (compute) {
      while (held.size() < role.order.size() && role.order[held.size()].instruction == issued) held.push_back(now - fresh);
      ++issued;
      fresh = 0;
    }
    if (item.memory != program::MemoryKind::kActivations) continue;
    if (item.kind == program::ItemKind::kAllocate) {
      now += item.bytes;
      fresh += item.bytes;
    } else if (item.kind == program::ItemKind::kFree) {
      now -= item.bytes;
      fresh = 0;
    }
  }
  return held;
}

}  // namespace

TEST_CASE("memory follows the list: saved tensors from forward to backward, and what weight gradients read until they have run") {
  every_pipe(6, 13, [](const plan::ScheduleRow& row, std::int64_t stages, std::int64_t chunks, std::int64_t m) {
    CAPTURE(row.name, stages, chunks, m);
    const program::Job job = job_of(row, stages, chunks, m);
    const program::Program built = program::build(job);
    REQUIRE(program::verify(built).empty());
    const Kept kept = kept_by(workload::make_layer(workload::LayerKind::kDecoder, job.model, job.training, program::shard_of(job), job.kernels));
    REQUIRE(kept.owed > 0);
    REQUIRE(kept.owed < 2 * kept.saved);
    for (std::int64_t s = 0; s < stages; ++s) {
      bool decoders_only = true;
      for (std::int64_t c = 0; c < plan::chunks_per_rank(job.parallelism); ++c) {
        const plan::Chunk chunk = plan::chunk_of(job.parallelism, s, c);
        decoders_only = decoders_only && !chunk.embedding && !chunk.head;
      }
      if (!decoders_only) continue;
      const program::Role& role = built.roles[static_cast<std::size_t>(s)];
      const std::vector<std::int64_t> held = held_before_entries(role);
      REQUIRE(held.size() == role.order.size());
      std::int64_t expected = 0;
      for (std::size_t k = 0; k < held.size(); ++k) {
        const plan::ScheduleEntry& e = role.order[k].entry;
        if (k == 0 || !role.order[k - 1].entry.with_next) REQUIRE(held[k] == expected);  // the two of a pair begin together
        if (e.pass == plan::Pass::kForward) expected += kept.saved;
        if (e.pass == plan::Pass::kBackward) expected -= kept.saved;
        if (e.pass == plan::Pass::kInput) expected += kept.owed - kept.saved;
        if (e.pass == plan::Pass::kWeight) expected -= kept.owed;
      }
      REQUIRE(expected == 0);
    }
  });
}

TEST_CASE("a list with an entry missing or two swapped is refused by the verifier, naming stage, stream and instruction") {
  every_pipe(4, 8, [](const plan::ScheduleRow& row, std::int64_t stages, std::int64_t chunks, std::int64_t m) {
    CAPTURE(row.name, stages, chunks, m);
    const program::Program good = program::build(job_of(row, stages, chunks, m));
    const auto s = static_cast<std::size_t>(stages / 2);
    const auto& order = good.roles[s].order;
    program::Program missing = good;
    missing.roles[s].order.erase(missing.roles[s].order.begin() + 1);
    const auto without = program::verify(missing);
    REQUIRE_FALSE(without.empty());
    CHECK(without.front().starts_with("stage " + std::to_string(s) + " stream \"compute\" "));
    CHECK(without.front().find("instruction ") != std::string::npos);
    // The first pass that needs its own forward, before that forward.
    program::Program swapped = good;
    auto& list = swapped.roles[s].order;
    std::size_t later = 0;
    while (list[later].entry.pass == plan::Pass::kForward) ++later;
    const auto same = [&](const program::PlacedEntry& e) { return e.entry.microbatch == order[later].entry.microbatch && e.entry.chunk == order[later].entry.chunk; };
    const auto own = std::find_if(list.begin(), list.end(), same);
    std::swap(own->entry, list[later].entry);
    const auto wrong = program::verify(swapped);
    REQUIRE_FALSE(wrong.empty());
    CHECK(wrong.front().starts_with("stage " + std::to_string(s) + " stream \"compute\" instruction " + std::to_string(own->instruction) + ": "));
  });
}
