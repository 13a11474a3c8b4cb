#pragma once
// What NCCL's topology search would find: channels and speed of each channel, inside a domain and between domains.
#include "orrery/collective/collective.hpp"

namespace orrery::collective {

struct Graph {
  int channels = 1;
  double intra = 0, inter = 0;  ///< GB/s per channel, nominal as NCCL counts
};
Graph graph(Algorithm algorithm, const Shape& shape);

}  // namespace orrery::collective
