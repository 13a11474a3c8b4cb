#pragma once
// Which GPU every rank of the job has.
#include <cstdint>
#include <string>
#include <vector>

#include "orrery/base/result.hpp"
#include "orrery/document/value.hpp"

namespace orrery::cluster {

/// By rank: node x GPUs used of a node + GPU. Empty: rank r has GPU r ("packed", Slurm's block).
struct Placement {
  std::vector<std::int64_t> gpu_of_rank;
};

/// "packed"; "spread": one rank a node in turn (Slurm's cyclic); {"plane": n}: n ranks a node in turn (Slurm's plane=n); {"nodes": [...]}: packed
/// over the nodes in that order (a hostlist); {"ranks": [[node, GPU], ...]}: each rank by name (a rank file). Refuses nodes and GPUs that
/// are not there, and two ranks on one GPU.
Result<Placement> read_placement(const document::Value& placement, std::int64_t ranks, std::int64_t nodes, std::int64_t gpus_per_node, const std::string& file,
                                 const std::string& pointer);

}  // namespace orrery::cluster
