#include "orrery/collective/collective.hpp"

#include <array>

#include "collective/registry.hpp"
#include "orrery/base/assert.hpp"

namespace orrery::collective {

std::string_view to_string(Kind kind) {
  constexpr std::array<std::string_view, 7> names = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "send_recv"};
  return names[static_cast<std::size_t>(kind)];
}
std::string_view to_string(Algorithm algorithm) { return row_of(algorithm).name; }
std::string_view to_string(Protocol protocol) {
  constexpr std::array<std::string_view, 3> names = {"ll", "ll128", "simple"};
  return names[static_cast<std::size_t>(protocol)];
}

std::int64_t ranks_per_node(const Shape& shape) { return (shape.ranks + shape.nodes - 1) / shape.nodes; }

double busbw_factor(Kind kind, std::int64_t ranks) {
  const auto n = static_cast<double>(ranks);
  switch (kind) {
    case Kind::kAllReduce: return 2 * (n - 1) / n;
    case Kind::kAllGather:
    case Kind::kReduceScatter:
    case Kind::kAllToAll: return (n - 1) / n;
    case Kind::kBroadcast:
    case Kind::kReduce:
    case Kind::kSendRecv: return 1;
  }
  return 1;
}

bool possible(Kind kind, Algorithm algorithm, Protocol protocol, const Shape& shape, const Nccl& nccl) {
  return row_of(algorithm).possible(kind, protocol, shape, nccl) && permitted(kind, algorithm, protocol, shape, nccl);
}

Hops hops(Kind kind, Algorithm algorithm, const Shape& shape) {
  if (shape.ranks <= 1) return {};
  return row_of(algorithm).hops(kind, shape);
}

Schedule schedule(Kind kind, Algorithm algorithm, const Shape& shape) {
  ORRERY_ASSERT(shape.ranks <= 512 && shape.ranks % shape.nodes == 0, "a schedule is written out only for small regular shapes");
  if (shape.ranks <= 1) return {};
  return row_of(algorithm).schedule(kind, shape);
}

int footprint_sms(const Choice& choice, const Shape& shape) { return shape.ranks <= 1 ? 0 : choice.channels; }

}  // namespace orrery::collective
