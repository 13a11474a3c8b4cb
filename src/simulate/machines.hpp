#pragma once
// The cluster part of a resolved scenario, read and built.
#include <cstdint>
#include <memory>
#include <optional>

#include "orrery/calibration/network.hpp"
#include "orrery/cluster/cluster.hpp"
#include "orrery/collective/collective.hpp"
#include "orrery/document/document.hpp"

namespace orrery::simulate {

struct Parts {
  cluster::Node node;
  std::optional<cluster::Fabric> fabric;
  std::vector<cluster::LinkEvent> links;
  cluster::Placement placement;
  std::int64_t nodes = 0, gpus = 0;      ///< gpus: of the job
  std::optional<std::int64_t> used;      ///< GPUs of each node that are used; null: all
};

/// Reads node, fabric and link events, and how many GPUs the job uses. All problems at once.
Result<Parts> read_parts(const document::Value& scenario, const std::string& file);

/// What the fabric's technology does where nothing was measured on it.
calibration::Network network_of(const Parts& parts, const cluster::Cluster& cluster);

/// NCCL's settings of the cluster over the version that the stack brings.
Result<collective::Nccl> read_nccl(const document::Value& scenario, int stack_version, const std::string& file);

/// The resource graph. Refuses a job that leaves its scale-up domain where no fabric joins them.
Result<std::unique_ptr<cluster::Cluster>> build_cluster(const Parts& parts, std::uint64_t seed, const std::string& file);

}  // namespace orrery::simulate
