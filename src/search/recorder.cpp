#include <algorithm>

#include "orrery/search/search.hpp"

namespace orrery::search {

Recorder::Recorder(std::vector<std::uint32_t> ranks) : ranks_(std::move(ranks)) {
  std::sort(ranks_.begin(), ranks_.end());
  ranks_.erase(std::unique(ranks_.begin(), ranks_.end()), ranks_.end());
}

bool Recorder::wants(std::uint32_t rank) const { return std::binary_search(ranks_.begin(), ranks_.end(), rank); }

void Recorder::ran(std::uint32_t rank, std::uint32_t stream, std::uint32_t instruction, SimTime launched, SimTime started, SimTime ended) {
  records_.push_back({false, rank, stream, instruction, launched, started, ended});
}

void Recorder::memory(std::uint32_t rank, SimTime at, std::uint32_t kind, std::int64_t bytes) { records_.push_back({true, rank, kind, 0, at, bytes, 0}); }

void Recorder::replay(engine::Sink& sink) const {
  for (const Record& r : records_) {
    if (r.memory)
      sink.memory(r.rank, r.launched, r.stream, r.started);
    else
      sink.ran(r.rank, r.stream, r.instruction, r.launched, r.started, r.ended);
  }
}

}  // namespace orrery::search
